"""Tasks 1 and 9 to 14: who is where, told plainly, denied, in pairs, by pronoun or by time."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from dnclab.tasks.babi.format import Story
from dnclab.tasks.babi.stories.telling import QUESTIONS, WINDOW, Telling, in_pairs
from dnclab.tasks.babi.stories.words import (
    PEOPLE,
    PRONOUNS,
    ROOMS,
    THEN,
    TIMES,
    TOWN_ROOMS,
    TOWNSPEOPLE,
    chance,
    moves,
    other,
)


def hidden_rooms(rng: Random) -> dict[str, str]:
    """Where everyone is before the story starts."""
    return {person: rng.choice(ROOMS) for person in PEOPLE}


# --- task 1 --------------------------------------------------------------------------------------


def single_supporting_fact(rng: Random) -> Story:
    """``Mary moved to the bathroom.`` ``Where is Mary?``"""
    telling, room = Telling(), hidden_rooms(rng)
    movers: list[str] = []
    line: dict[str, int] = {}

    def tell_pair() -> None:
        for _ in range(2):
            person = rng.choice(PEOPLE)
            room[person] = other(rng, ROOMS, room[person])
            line[person] = telling.tell(f"{moves(rng, person, room[person])}.")
            movers.append(person)

    def ask() -> None:
        person = rng.choice(movers[-WINDOW:])
        telling.ask(f"Where is {person}?", room[person], (line[person],))

    return in_pairs(telling, tell_pair, ask)


# --- tasks 9 and 10 ------------------------------------------------------------------------------


class Claim(NamedTuple):
    """What the last line on a person says."""

    line: int
    rooms: tuple[str, ...]
    """The one room where the person is, or is not; or the two where he may be."""
    denied: bool = False


def simple_negation(rng: Random) -> Story:
    """``Daniel is not in the hallway.`` ``Is Daniel in the hallway?``

    Every line is a move to a new room; a denial names the room that was left.
    """
    telling, room = Telling(), hidden_rooms(rng)
    people: list[str] = []
    claims: dict[str, Claim] = {}

    def tell_pair() -> None:
        for _ in range(2):
            person = rng.choice(PEOPLE)
            left, room[person] = room[person], other(rng, ROOMS, room[person])
            (form,) = rng.choices(("moved", "is", "is no longer", "is not"), (4, 2, 1, 1))
            denied = form in ("is no longer", "is not")
            named = left if denied else room[person]
            text = (
                moves(rng, person, named) if form == "moved" else f"{person} {form} in the {named}"
            )
            claims[person] = Claim(telling.tell(f"{text}."), (named,), denied)
            people.append(person)

    def ask() -> None:
        person = rng.choice(people[-WINDOW:])
        line, (named,), denied = claims[person]
        if denied:
            asked, answer = named, "no"
        elif chance(rng, 0.5):
            asked, answer = room[person], "yes"
        else:
            asked, answer = other(rng, ROOMS, room[person]), "no"
        telling.ask(f"Is {person} in the {asked}?", answer, (line,))

    return in_pairs(telling, tell_pair, ask)


def indefinite_knowledge(rng: Random) -> Story:
    """``Bill is either in the office or the kitchen.`` ``Is Bill in the office?``

    One of the two rooms is right, the other is drawn from all six: so one ``either`` in six names
    the same room twice, as in the files.
    """
    telling = Telling()
    room = {person: rng.choice(TOWN_ROOMS) for person in TOWNSPEOPLE}
    people: list[str] = []
    claims: dict[str, Claim] = {}

    def tell_pair() -> None:
        for _ in range(2):
            person = rng.choice(TOWNSPEOPLE)
            room[person] = other(rng, TOWN_ROOMS, room[person])
            (form,) = rng.choices(("moved", "is", "either"), (2, 1, 1))
            named: tuple[str, ...] = (room[person],)
            if form == "moved":
                text = moves(rng, person, room[person])
            elif form == "is":
                text = f"{person} is in the {room[person]}"
            else:
                two = [room[person], rng.choice(TOWN_ROOMS)]
                rng.shuffle(two)
                named = tuple(two)
                text = f"{person} is either in the {two[0]} or the {two[1]}"
            claims[person] = Claim(telling.tell(f"{text}."), named)
            people.append(person)

    def ask() -> None:
        person = rng.choice(people[-WINDOW:])
        line, named, _ = claims[person]
        asked = room[person] if chance(rng, 0.5) else other(rng, TOWN_ROOMS, room[person])
        known = "yes" if len(named) == 1 else "maybe"
        answer = known if asked in named else "no"
        telling.ask(f"Is {person} in the {asked}?", answer, (line,))

    return in_pairs(telling, tell_pair, ask)


# --- tasks 11, 12 and 13 -------------------------------------------------------------------------


def basic_coreference(rng: Random) -> Story:
    """``Mary went to the office.`` ``After that she moved to the garden.`` ``Where is Mary?``"""
    telling, room = Telling(), hidden_rooms(rng)
    people: list[str] = []
    lines: dict[str, tuple[int, int]] = {}

    def tell_pair() -> None:
        person = rng.choice(PEOPLE)
        first = other(rng, ROOMS, room[person])
        room[person] = other(rng, ROOMS, first)
        named = telling.tell(f"{moves(rng, person, first)}.")
        pronoun = f"{rng.choice(THEN)} {PRONOUNS[person]}"
        lines[person] = (named, telling.tell(f"{moves(rng, pronoun, room[person])}."))
        people.extend((person, person))

    def ask() -> None:
        person = rng.choice(people[-WINDOW:])
        telling.ask(f"Where is {person}?", room[person], lines[person])

    return in_pairs(telling, tell_pair, ask)


def two_people(rng: Random, room: dict[str, str]) -> tuple[list[str], str]:
    """Two people and a room where neither of them is."""
    while True:
        pair, goal = rng.sample(PEOPLE, 2), rng.choice(ROOMS)
        if goal not in (room[pair[0]], room[pair[1]]):
            return pair, goal


def conjunction(rng: Random) -> Story:
    """``Mary and Daniel went to the office.`` ``Where is Daniel?``"""
    telling, room = Telling(), hidden_rooms(rng)
    people: list[str] = []
    line: dict[str, int] = {}

    def tell_pair() -> None:
        for _ in range(2):
            pair, goal = two_people(rng, room)
            number = telling.tell(f"{moves(rng, ' and '.join(pair), goal)}.")
            people.extend(pair)
            for person in pair:
                room[person], line[person] = goal, number

    def ask() -> None:
        person = rng.choice(people[-WINDOW:])
        telling.ask(f"Where is {person}?", room[person], (line[person],))

    return in_pairs(telling, tell_pair, ask)


def compound_coreference(rng: Random) -> Story:
    """``John and Mary went to the office.`` ``Then they moved to the garden.``"""
    telling, room = Telling(), hidden_rooms(rng)
    people: list[str] = []
    lines: dict[str, tuple[int, int]] = {}

    def tell_pair() -> None:
        pair, first = two_people(rng, room)
        goal = other(rng, ROOMS, first)
        named = telling.tell(f"{moves(rng, ' and '.join(pair), first)}.")
        they = telling.tell(f"{moves(rng, f'{rng.choice(THEN)} they', goal)}.")
        people.extend(pair + pair)
        for person in pair:
            room[person], lines[person] = goal, (named, they)

    def ask() -> None:
        person = rng.choice(people[-WINDOW:])
        telling.ask(f"Where is {person}?", room[person], lines[person])

    return in_pairs(telling, tell_pair, ask)


# --- task 14 -------------------------------------------------------------------------------------


class Move(NamedTuple):
    """A person's move in time: the ``time``-th of his moves."""

    person: str
    room: str
    time: int


def next_move(rng: Random, moved: list[Move]) -> Move:
    """Somebody's next move, while he has times left for it."""
    made = {person: [each for each in moved if each.person == person] for person in TOWNSPEOPLE}
    person = rng.choice([person for person in TOWNSPEOPLE if len(made[person]) < len(TIMES)])
    rooms = [room for room in TOWN_ROOMS if not made[person] or room != made[person][-1].room]
    return Move(person, rng.choice(rooms), len(made[person]))


def with_time(rng: Random, move: Move) -> str:
    """The move in words, with its time first or last."""
    text, time = moves(rng, move.person, move.room), TIMES[move.time]
    return f"{time.capitalize()} {text}." if chance(rng, 0.5) else f"{text} {time}."


def never_in_place(rng: Random, block: list[Move]) -> None:
    """Shuffle so that no item keeps its place (Sattolo): two items are always exchanged."""
    for place in reversed(range(1, len(block))):
        drawn = rng.randrange(place)
        block[place], block[drawn] = block[drawn], block[place]


def time_reasoning(rng: Random) -> Story:
    """``Bill went to the park yesterday.`` ... ``Where was Bill before the school?``

    What happens between two questions is told out of order.
    """
    telling = Telling()
    moved: list[Move] = []
    line: dict[Move, int] = {}
    while telling.asked < QUESTIONS:
        block: list[Move] = []
        later: list[Move] = []
        while not later:
            for _ in range(2):
                block.append(next_move(rng, [*moved, *block]))
            later = [move for move in [*moved, *block][-WINDOW:] if move.time > 0]
        moved += block
        never_in_place(rng, block)
        for move in block:
            line[move] = telling.tell(with_time(rng, move))
        drawn = rng.choice(later)
        own = [move for move in moved if move.person == drawn.person]
        there = [move for move in own if move.room == drawn.room][-1]
        before = own[there.time - 1]
        question = f"Where was {drawn.person} before the {drawn.room}?"
        telling.ask(question, before.room, (line[there], line[before]))
    return telling.story()
