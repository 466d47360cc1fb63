"""How a story is told: its lines, and the rhythm of statements in pairs and five questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dnclab.tasks.babi.format import Line, Story

WINDOW = 5
"""A question springs from one of that many last facts; so the recent is asked about.

A statement is one fact, but one about two people is two: first of the first named, then of the
other.
"""

QUESTIONS = 5
"""Questions of a story that is told in pairs, and of task 18."""


class Telling:
    """A story while it is told. Each line's number is its place, counted from 1."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.asked = 0

    def tell(self, text: str) -> int:
        """Add a statement; its line number."""
        self.lines.append(Line(text))
        return len(self.lines)

    def ask(self, text: str, answer: str | Sequence[str], support: Sequence[int]) -> None:
        """Add a question with its answer, one word or several, and its supporting lines."""
        words = (answer,) if isinstance(answer, str) else tuple(answer)
        self.lines.append(Line(text, words, tuple(support)))
        self.asked += 1

    def story(self) -> Story:
        """What has been told."""
        return tuple(self.lines)


def in_pairs(telling: Telling, tell_pair: Callable[[], None], ask: Callable[[], None]) -> Story:
    """Two statements, then a question if ``ask`` finds one, until the last question.

    So the statements before a question are always even in number.
    """
    while telling.asked < QUESTIONS:
        tell_pair()
        ask()
    return telling.story()
