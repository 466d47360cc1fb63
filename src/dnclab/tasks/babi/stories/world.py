"""The common world of tasks 2, 3, 5, 6, 7 and 8: people who move and carry things about."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from dnclab.tasks.babi.stories.words import (
    DROPPED,
    GAVE,
    GOT,
    ROOMS,
    THINGS,
    chance,
    moves,
)

ACTS = ("move", "get", "drop", "give")
GIVING = 3.75
"""Weight of a give where people give at all, fitted to the files; a get and a drop have 1."""
NOBODY = ""
THERE = 0.2
"""How often a sentence that may end in ``there`` does."""


class Event(NamedTuple):
    """What one statement tells, with the number of its line."""

    number: int
    act: str
    person: str
    room: str
    """Where the person is after it."""
    thing: str = ""
    receiver: str = ""
    """Who holds the thing after it: the person himself who got it, nobody if he dropped it."""


class World:
    """Who is where and who holds what. The reader is told none of it at the start."""

    def __init__(self, rng: Random, people: tuple[str, ...], giving: float) -> None:
        self.rng = rng
        self.people = people
        # A mover draws one of six rooms, and one in six is the room where he already is.
        self.weights = (5 / 6, 1, 1, giving)
        self.room = {person: rng.choice(ROOMS) for person in people}
        self.lying = {thing: rng.choice(ROOMS) for thing in THINGS}
        self.holder: dict[str, str] = {}

    def held(self, person: str) -> list[str]:
        """What a person holds."""
        return [thing for thing in THINGS if self.holder.get(thing) == person]

    def place(self, thing: str) -> str:
        """The room where a thing is, held or lying."""
        return self.room[self.holder[thing]] if thing in self.holder else self.lying[thing]

    def step(self, number: int) -> Event:
        """The next event. Person and act are drawn together until the act is possible.

        Hence people who can do more act more often.
        """
        while True:
            person = self.rng.choice(self.people)
            (act,) = self.rng.choices(ACTS, self.weights)
            if act == "move":
                return self.move(number, person)
            things, receivers = self.possible(act, person)
            if things and receivers:
                thing, receiver = self.rng.choice(things), self.rng.choice(receivers)
                return self.hand_over(number, act, person, thing, receiver)

    def possible(self, act: str, person: str) -> tuple[list[str], list[str]]:
        """The things that a person can get, drop or give now, and who can hold them after it."""
        here = self.room[person]
        if act == "get":
            return [thing for thing, room in self.lying.items() if room == here], [person]
        if act == "drop":
            return self.held(person), [NOBODY]
        near = [each for each in self.people if each != person and self.room[each] == here]
        return self.held(person), near

    def move(self, number: int, person: str) -> Event:
        """A person goes to a room where he is not."""
        here = self.room[person]
        self.room[person] = self.rng.choice([room for room in ROOMS if room != here])
        return Event(number, "move", person, self.room[person])

    def hand_over(self, number: int, act: str, person: str, thing: str, receiver: str) -> Event:
        """A thing passes to its receiver, or lies in the room where it was dropped."""
        room = self.room[person]
        self.lying.pop(thing, None)
        self.holder.pop(thing, None)
        if act == "drop":
            self.lying[thing] = room
        else:
            self.holder[thing] = receiver
        return Event(number, act, person, room, thing, receiver)


def sentence(rng: Random, event: Event, got_there: float) -> str:
    """The event in words. ``got_there`` is how often a get ends in ``there``."""
    _, act, person, room, thing, receiver = event
    if act == "move":
        return f"{moves(rng, person, room)}."
    if act == "give":
        return f"{person} {rng.choice(GAVE)} the {thing} to {receiver}."
    verb, probability = (GOT, got_there) if act == "get" else (DROPPED, THERE)
    there = " there" if chance(rng, probability) else ""
    return f"{person} {rng.choice(verb)} the {thing}{there}."
