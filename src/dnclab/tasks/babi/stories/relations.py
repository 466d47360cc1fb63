"""Tasks 4, 17, 18 and 19: rooms and shapes that lie beside each other, boxes inside each other."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from dnclab.tasks.babi.format import Story
from dnclab.tasks.babi.stories.telling import QUESTIONS, Telling
from dnclab.tasks.babi.stories.words import (
    COMPASS,
    CONTAINERS,
    OPPOSITE,
    ROOMS,
    SHAPES,
    SIDES,
    SMALL_THINGS,
    chance,
)


class Link(NamedTuple):
    """``The subject is <direction> of the object.``"""

    subject: str
    direction: str
    object: str

    def turned(self) -> Link:
        """The same, said of the other one."""
        return Link(self.object, OPPOSITE[self.direction], self.subject)


def said_of(name: str, links: Sequence[Link], subject: bool) -> list[Link]:
    """Those links that touch ``name``, turned so that it is the subject, or else the object."""
    found = [link for link in links if name in (link.subject, link.object)]
    return [link if (link.subject == name) == subject else link.turned() for link in found]


def each_once(
    rng: Random, names: Sequence[str], links: Sequence[Link], subject: bool
) -> list[Link]:
    """All links in random order, seen from a name that is drawn first, then one of its links.

    So a name with several links has this side of them less often than a name with one.
    """
    told: list[Link] = []
    while len(told) < len(links):
        link = rng.choice(said_of(rng.choice(names), links, subject))
        if link not in told and link.turned() not in told:
            told.append(link)
    return told


# --- task 4 --------------------------------------------------------------------------------------


def two_arg_relations(rng: Random) -> Story:
    """``The office is north of the kitchen.`` ``What is the kitchen south of?``"""
    telling = Telling()
    rooms = rng.sample(ROOMS, 3)
    direction = rng.choice(("east", "north"))
    links = [Link(rooms[1], direction, rooms[0]), Link(rooms[2], direction, rooms[1])]
    told = each_once(rng, rooms, links, subject=True)
    for link in told:
        telling.tell(f"The {link.subject} is {link.direction} of the {link.object}.")
    line = rng.randrange(2)
    room, way, known = told[line]
    if chance(rng, 0.5):
        question = f"What is {way} of the {known}?"
    else:
        question = f"What is the {known} {OPPOSITE[way]} of?"
    telling.ask(question, room, (line + 1,))
    return telling.story()


# --- task 17 -------------------------------------------------------------------------------------


def positional_reasoning(rng: Random) -> Story:
    """``The triangle is above the red square.`` ... ``Is the triangle below the red sphere?``

    Three things in a chain: the questions are about its ends, which are never told together.
    """
    telling = Telling()
    start, middle, end = shapes = rng.sample(SHAPES, 3)
    first = rng.choice(list(SIDES))
    second = rng.choice([side for side in SIDES if side != OPPOSITE[first]])
    links = [Link(middle, first, start), Link(end, second, middle)]
    line: dict[str, int] = {}
    for link in each_once(rng, shapes, links, subject=False):
        number = telling.tell(f"The {link.subject} is {link.direction} the {link.object}.")
        line[link.object if link.subject == middle else link.subject] = number
    for _ in range(8):
        asked, known = rng.sample((start, end), 2)
        steps = (first, second) if asked == end else (OPPOSITE[first], OPPOSITE[second])
        truth = chance(rng, 0.5)
        side = rng.choice([side for side in SIDES if (side in steps) == truth])
        answer = "yes" if truth else "no"
        telling.ask(f"Is the {asked} {side} the {known}?", answer, (line[asked], line[known]))
    return telling.story()


# --- task 18 -------------------------------------------------------------------------------------

FAILURE = 0.003
"""How often the files break off before a question of task 18 and tell more first (fitted)."""


class Fact(NamedTuple):
    """A line that tells which of two things is the smaller."""

    line: int
    small: str
    big: str
    kind: bool
    """A hidden coin: only if it agrees do two lines on the same two things count as one fact.

    The words do not show it; it is known from which of the two lines the files give as support.
    """

    def same_as(self, other: Fact) -> bool:
        """Whether the two lines count as one fact."""
        return self[1:] == other[1:]


def size_reasoning(rng: Random) -> Story:
    """``The box fits inside the chest.`` ... ``Is the chest bigger than the chocolate?``"""
    telling = Telling()
    sizes = (*SMALL_THINGS, *rng.sample(CONTAINERS, len(CONTAINERS)))
    facts: list[Fact] = []
    chains: list[tuple[Fact, Fact]] = []
    left = QUESTIONS
    while left:
        if not chains or chance(rng, FAILURE):
            facts += [tell_size(rng, telling, sizes) for _ in range(5)]
            chains = chains_of(facts)
            left = QUESTIONS
        else:
            ask_size(rng, telling, *rng.choice(chains))
            left -= 1
    return telling.story()


def tell_size(rng: Random, telling: Telling, sizes: Sequence[str]) -> Fact:
    """One of all pairs, as ``fits inside`` or as ``bigger than``; it may have been told before."""
    small, big = sorted(rng.sample(sizes, 2), key=sizes.index)
    if chance(rng, 0.5):
        line = telling.tell(f"The {small} fits inside the {big}.")
    else:
        line = telling.tell(f"The {big} is bigger than the {small}.")
    return Fact(line, small, big, kind=chance(rng, 0.5))


def chains_of(facts: Sequence[Fact]) -> list[tuple[Fact, Fact]]:
    """What can be asked: for each fact and each of its things, the first other fact on that thing.

    The two must form a chain: the thing is the bigger one here and the smaller one there. A fact
    that was told again counts as the later one. Strange, but it holds for all 11,000 questions of
    the files: they ask about such pairs alone.
    """
    chains = []
    for each in facts:
        fact = [other for other in facts if other.same_as(each)][-1]
        others = [other for other in facts if other.line != fact.line]
        below = [other for other in others if fact.small in (other.small, other.big)]
        above = [other for other in others if fact.big in (other.small, other.big)]
        if below and below[0].big == fact.small:
            chains.append((fact, below[0]))
        if above and above[0].small == fact.big:
            chains.append((fact, above[0]))
    return chains


def ask_size(rng: Random, telling: Telling, fact: Fact, first: Fact) -> None:
    """The ends of a chain: in their right order if ``fact`` is its upper one, else exchanged."""
    upper = fact.small == first.big
    answer = "yes" if upper else "no"
    small, big = (first.small, fact.big) if upper else (first.big, fact.small)
    support = (fact.line, first.line)
    if chance(rng, 0.5):
        telling.ask(f"Does the {small} fit in the {big}?", answer, support)
    else:
        telling.ask(f"Is the {big} bigger than the {small}?", answer, support)


# --- task 19 -------------------------------------------------------------------------------------


def path_finding(rng: Random) -> Story:
    """``The office is east of the hallway.`` ... ``How do you go from the office to the garden?``

    A path of three rooms, and three more rooms that hang on it. Only a room's own links exclude
    each other: the six need not fit on a map.
    """
    telling = Telling()
    rooms = rng.sample(ROOMS, 6)
    start, middle, goal, *others = rooms
    first = rng.choice(list(COMPASS))
    second = rng.choice([way for way in COMPASS if way != OPPOSITE[first]])
    links = [Link(middle, first, start), Link(goal, second, middle)]
    for room in others:
        links.append(Link(room, *free_side(rng, (start, middle, goal), links)))
    told = each_once(rng, rooms, links, subject=True)
    for link in told:
        telling.tell(f"The {link.subject} is {link.direction} of the {link.object}.")
    line = {frozenset((link.subject, link.object)): 1 + told.index(link) for link in told}
    support = (line[frozenset((start, middle))], line[frozenset((middle, goal))])
    question = f"How do you go from the {start} to the {goal}?"
    telling.ask(question, (first[0], second[0]), support)
    return telling.story()


def free_side(rng: Random, path: Sequence[str], links: Sequence[Link]) -> tuple[str, str]:
    """A direction and a room of the path to which nothing lies in that direction yet."""
    while True:
        room, way = rng.choice(path), rng.choice(list(COMPASS))
        if way not in [link.direction for link in said_of(room, links, subject=False)]:
            return way, room
