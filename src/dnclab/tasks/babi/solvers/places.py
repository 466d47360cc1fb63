"""Tasks 1, 9 to 14: who is where, told plainly, denied, in pairs, by pronoun or out of order."""

from __future__ import annotations

from collections.abc import Sequence

from dnclab.tasks.babi.solvers.reading import Solution, Statement, last, words_of

TIMES = (("yesterday",), ("this", "morning"), ("this", "afternoon"), ("this", "evening"))


def naming(person: str, statements: Sequence[Statement]) -> list[Statement]:
    """The statements that name a person."""
    return [statement for statement in statements if person in words_of(statement.text)]


def where_is_person(statements: Sequence[Statement], question: str) -> Solution:
    """Tasks 1 and 12, ``Where is Mary?``: the room of the last line that names her."""
    line = last(naming(words_of(question)[2], statements))
    return Solution((words_of(line.text)[-1],), (line.number,))


def where_is_pronoun(statements: Sequence[Statement], question: str) -> Solution:
    """Tasks 11 and 13: the room of the pronoun's line, the next after the last that names him."""
    line = last(naming(words_of(question)[2], statements))
    next_line = statements[statements.index(line) + 1]
    return Solution((words_of(next_line.text)[-1],), (line.number, next_line.number))


def is_person_in(statements: Sequence[Statement], question: str) -> Solution:
    """Tasks 9 and 10, ``Is Bill in the park?``: yes, no or maybe, by the last line on Bill.

    ``either`` is a maybe for both rooms, even where they are one and the same, as in the files.
    """
    person, room = words_of(question)[1], words_of(question)[4]
    line = last(naming(person, statements))
    words = words_of(line.text)
    if "either" in words:
        answer = "maybe" if room in (words[5], words[8]) else "no"
    else:
        denied = "not" in words or "no" in words
        answer = "yes" if room == words[-1] and not denied else "no"
    return Solution((answer,), (line.number,))


def read_time(words: tuple[str, ...]) -> tuple[int, str, str]:
    """Time, person and room of ``Yesterday Bill went ...`` or ``Bill went ... yesterday``."""
    lower = tuple(word.lower() for word in words)
    for time, name in enumerate(TIMES):
        if lower[: len(name)] == name:
            return time, words[len(name)], words[-1]
        if lower[-len(name) :] == name:
            return time, words[0], words[-1 - len(name)]
    raise ValueError(f"no time in {' '.join(words)!r}")


def where_was_person(statements: Sequence[Statement], question: str) -> Solution:
    """Task 14, ``Where was Julie before the school?``: by time, and by her last visit there."""
    person, room = words_of(question)[2], words_of(question)[5]
    read = [(*read_time(words_of(text)), number) for number, text in statements]
    moves = sorted(move for move in read if move[1] == person)
    visit = last([place for place, move in enumerate(moves) if move[2] == room and place])
    there, before = moves[visit], moves[visit - 1]
    return Solution((before[2],), (there[3], before[3]))
