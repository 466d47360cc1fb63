"""What the solvers share: a statement, a solution, and the words of a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple, TypeVar

Item = TypeVar("Item")


class Statement(NamedTuple):
    """A sentence that tells something, with its number in the story."""

    number: int
    text: str


class Solution(NamedTuple):
    """What a solver gives: the words of the answer, and the lines that it follows from."""

    answer: tuple[str, ...]
    support: tuple[int, ...]


class UnanswerableError(Exception):
    """The statements do not decide the question."""


@cache
def words_of(text: str) -> tuple[str, ...]:
    """The words of a sentence in their own case, without the stop at its end."""
    return tuple(text.rstrip(".?").split())


def last(found: Sequence[Item]) -> Item:
    """The last of what was found, which must not be nothing."""
    if not found:
        raise UnanswerableError("no statement tells it")
    return found[-1]


def first(found: Iterable[Item]) -> Item:
    """The first of what was found, which must not be nothing."""
    for item in found:
        return item
    raise UnanswerableError("no statement tells it")
