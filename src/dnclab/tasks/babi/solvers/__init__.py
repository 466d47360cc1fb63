"""bAbI answered from the text alone: what a question asks, and the lines that decide it.

Each task has a function that is given the statements before a question and the question, and
returns the answer with the numbers of its supporting lines. None of them knows anything of the
generator, and they are proven on the real files: they give the answer of 219,978 of the 220,000
questions of en-10k. The other 22 stand in task 5 and are ambiguous in the data (``A gave another
object to the same person later``). So an error that a model leaves elsewhere is the model's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dnclab.tasks.babi.format import Line, Story
from dnclab.tasks.babi.solvers import carrying, places, relations
from dnclab.tasks.babi.solvers.reading import Solution, Statement

__all__ = ["Solution", "Statement", "questions", "solve", "support_is_valid"]

SOLVERS: dict[int, Callable[[Sequence[Statement], str], Solution]] = {
    1: places.where_is_person,
    2: carrying.where_is_object,
    3: carrying.where_was_object,
    4: relations.which_room,
    5: carrying.who_gave_what,
    6: carrying.is_person_in,
    7: carrying.how_many_objects,
    8: carrying.which_objects,
    9: places.is_person_in,
    10: places.is_person_in,
    11: places.where_is_pronoun,
    12: places.where_is_person,
    13: places.where_is_pronoun,
    14: places.where_was_person,
    15: relations.afraid_of_what,
    16: relations.which_colour,
    17: relations.lies_there,
    18: relations.fits_inside,
    19: relations.which_way,
    20: relations.motive,
}
"""The function of each task."""


def solve(task: int, story: Sequence[Line], question: int) -> Solution:
    """Answer and supporting lines of the question on line ``question`` (counted from 1).

    Nothing is looked at but the statements before that line and the question's own text.
    """
    return SOLVERS[task](statements_before(story, question), story[question - 1].text)


def statements_before(story: Sequence[Line], question: int) -> list[Statement]:
    """What is told before the question on a line."""
    return [
        Statement(number, line.text)
        for number, line in enumerate(story[: question - 1], start=1)
        if not line.answer
    ]


def support_is_valid(task: int, story: Sequence[Line], question: int) -> bool:
    """Whether the supporting lines given with a question are such that its answer follows.

    They must be the solver's own, but in task 18: there several chains of two facts can decide
    a question, and any of them will do.
    """
    asked = story[question - 1]
    if task != 18:
        return solve(task, story, question).support == asked.support
    given = [one for one in statements_before(story, question) if one.number in asked.support]
    return Solution(asked.answer, asked.support) in relations.chains(given, asked.text)


def questions(story: Story) -> list[int]:
    """Line numbers of a story's questions."""
    return [number for number, line in enumerate(story, start=1) if line.answer]
