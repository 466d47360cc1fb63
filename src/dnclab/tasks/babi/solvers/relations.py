"""Tasks 4 and 15 to 20: relations between rooms, animals, shapes, boxes, and people's motives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from dnclab.tasks.babi.solvers.reading import Solution, Statement, first, last, words_of

OPPOSITE = {"north": "south", "south": "north", "east": "west", "west": "east"}
SINGULAR = {"mice": "mouse", "cats": "cat", "sheep": "sheep", "wolves": "wolf"}
STEPS = {"above": (0, 1), "below": (0, -1), "to the left of": (-1, 0), "to the right of": (1, 0)}
DESTINATION = {"hungry": "kitchen", "thirsty": "kitchen", "bored": "garden", "tired": "bedroom"}

Link = tuple[str, str, str]
"""Room X, direction D, room Y of ``The X is D of the Y.``"""


@cache
def read_link(text: str) -> tuple[Link, Link]:
    """``The X is D of the Y.``, as it is told and as seen from Y."""
    _, subject, _, direction, _, _, object_ = words_of(text)
    return (subject, direction, object_), (object_, OPPOSITE[direction], subject)


def which_room(statements: Sequence[Statement], question: str) -> Solution:
    """Task 4: ``What is north of the garden?`` and ``What is the garden south of?`` are one."""
    words = words_of(question)
    if words[2] == "the":
        room, direction = words[3], OPPOSITE[words[4]]
    else:
        room, direction = words[5], words[2]
    return first(
        Solution((subject,), (number,))
        for number, text in statements
        for subject, told, object_ in read_link(text)
        if (told, object_) == (direction, room)
    )


def afraid_of_what(statements: Sequence[Statement], question: str) -> Solution:
    """Task 15, ``What is emily afraid of?``: what her animal fears."""
    person = words_of(question)[2].capitalize()
    own = first(one for one in statements if words_of(one.text)[0] == person)
    animal = words_of(own.text)[-1]
    for number, text in statements:
        words = words_of(text)
        if "afraid" in words and SINGULAR[words[0].lower()] == animal:
            return Solution((SINGULAR[words[-1]],), (own.number, number))
    return first(())


def which_colour(statements: Sequence[Statement], question: str) -> Solution:
    """Task 16, ``What color is Lily?``: that of the mate whose animal was told last.

    A mate is another with the same animal. The rule counts: mates can differ in colour.
    """
    asked = words_of(question)[3]
    animals = {words_of(s.text)[0]: s for s in statements if words_of(s.text)[2] == "a"}
    colours = {words_of(s.text)[0]: s for s in statements if words_of(s.text)[2] != "a"}
    own = animals.pop(asked)
    # A dictionary keeps the order of the story, so the last mate is the last that was told.
    animal = words_of(own.text)[-1]
    mate = last([who for who, told in animals.items() if words_of(told.text)[-1] == animal])
    colour = colours[mate]
    support = (own.number, animals[mate].number, colour.number)
    return Solution((words_of(colour.text)[-1],), support)


@cache
def read_position(sentence: str) -> tuple[str, str, str]:
    """X, D and Y of ``X is D the Y`` or ``X D the Y``, where X and D have several words."""
    for direction in STEPS:
        subject, found, object_ = sentence.partition(f" {direction} the ")
        if found:
            return subject.removesuffix(" is"), direction, object_
    raise ValueError(f"no direction in {sentence!r}")


def lies_there(statements: Sequence[Statement], question: str) -> Solution:
    """Task 17, ``Is the red square below the triangle?``: both lie beside a third thing."""
    asked, direction, other = read_position(question.removeprefix("Is the ").removesuffix("?"))
    positions: dict[str, tuple[int, int, int]] = {}
    for number, text in statements:
        x, told, y = read_position(text.removeprefix("The ").removesuffix("."))
        right, up = STEPS[told]
        # Seen from the third thing: x lies by that step from y, and y by its opposite from x.
        if x in (asked, other):
            positions[x] = (right, up, number)
        else:
            positions[y] = (-right, -up, number)
    right = positions[asked][0] - positions[other][0]
    up = positions[asked][1] - positions[other][1]
    step = STEPS[direction]
    answer = "yes" if right * step[0] + up * step[1] > 0 else "no"
    return Solution((answer,), (positions[asked][2], positions[other][2]))


@cache
def read_sizes(sentence: str) -> tuple[str, str]:
    """The smaller and the bigger thing that a statement or a question of task 18 claims."""
    sentence = sentence.rstrip(".?")
    for start in ("The ", "Does the ", "Is the "):
        sentence = sentence.removeprefix(start)
    for between in (" fits inside the ", " fit in the "):
        small, found, big = sentence.partition(between)
        if found:
            return small, big
    big, found, small = sentence.partition(" bigger than the ")
    if found:
        return small, big.removesuffix(" is")
    raise ValueError(f"no sizes in {sentence!r}")


def chains(statements: Sequence[Statement], question: str) -> list[Solution]:
    """Every pair of facts, small < middle and middle < big, that decides a question of task 18.

    A yes is supported by the upper fact first, a no by the lower one.
    """
    small, big = read_sizes(question)
    facts = [(number, *read_sizes(text)) for number, text in statements]
    found = []
    for lower, low, middle in facts:
        for upper, below, high in facts:
            if below == middle and (low, high) == (small, big):
                found.append(Solution(("yes",), (upper, lower)))
            if below == middle and (low, high) == (big, small):
                found.append(Solution(("no",), (lower, upper)))
    return found


def fits_inside(statements: Sequence[Statement], question: str) -> Solution:
    """Task 18, ``Does the box fit in the chocolate?``, ``Is the chest bigger than the box?``"""
    return first(chains(statements, question))


def which_way(statements: Sequence[Statement], question: str) -> Solution:
    """Task 19, ``How do you go from the bathroom to the hallway?``: by the room between them."""
    words = words_of(question)
    start, goal = words[6], words[9]
    links = [(number, *link) for number, text in statements for link in read_link(text)]
    for number, middle, direction, room in links:
        if room == start:
            for next_number, end, next_direction, between in links:
                if (between, end) == (middle, goal):
                    answer = (direction[0], next_direction[0])
                    return Solution(answer, (number, next_number))
    return first(())


def motive(statements: Sequence[Statement], question: str) -> Solution:
    """Task 20: the motive for ``Why did yann ...?``, its room for ``Where will yann go?``"""
    words = words_of(question)
    person = words[2].capitalize()
    told = first(one for one in statements if words_of(one.text)[:2] == (person, "is"))
    reason = words_of(told.text)[2]
    return Solution((DESTINATION[reason] if words[0] == "Where" else reason,), (told.number,))
