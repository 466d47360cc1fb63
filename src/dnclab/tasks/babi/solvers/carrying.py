"""Tasks 2, 3, 5, 6, 7, 8: people who move about, take objects, leave them and hand them on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from dnclab.tasks.babi.solvers.reading import Solution, Statement, last, words_of

GETTING = ("picked", "got", "grabbed", "took")
DROPPING = ("left", "discarded", "dropped", "put")
COUNTED = ("none", "one", "two", "three")


class Event(NamedTuple):
    """Who did what: ``move`` into a room, ``get`` or ``drop`` an object, ``give`` it to someone."""

    act: str
    person: str
    room: str = ""
    object: str = ""
    receiver: str = ""


class Told(NamedTuple):
    """An event and the number of the line that tells it."""

    number: int
    event: Event


@cache
def read_event(text: str) -> Event:
    """The event of a sentence. ``there`` at its end says nothing that is not known."""
    words = words_of(text)
    person, verb = words[:2]
    if words[-3:-1] == ("to", "the"):
        return Event("move", person, room=words[-1])
    thing = words[words.index("the") + 1]
    if words[-2] == "to":
        return Event("give", person, object=thing, receiver=words[-1])
    if verb in GETTING:
        return Event("get", person, object=thing)
    if verb in DROPPING:
        return Event("drop", person, object=thing)
    raise ValueError(f"not a sentence of tasks 2, 3 and 5 to 8: {text!r}")


def read_events(statements: Sequence[Statement]) -> list[Told]:
    """Every statement's event."""
    return [Told(number, read_event(text)) for number, text in statements]


def moves_of(person: str, told: Sequence[Told]) -> list[Told]:
    """A person's moves, in time order."""
    return [one for one in told if one.event.act == "move" and one.event.person == person]


def moves_with(thing: str, told: Sequence[Told]) -> tuple[Told, list[Told]]:
    """The last get or drop of an object, and the moves of its last holder that brought it about.

    A dropped object stays where it is: what its holder did later does not count.
    """
    final = last([one for one in told if one.event.object == thing])
    until = [one for one in told if final.event.act == "get" or one.number < final.number]
    return final, moves_of(final.event.person, until)


def where_is_object(statements: Sequence[Statement], question: str) -> Solution:
    """Task 2, ``Where is the milk?``: where its last holder went before he dropped it, or is."""
    final, moves = moves_with(words_of(question)[3], read_events(statements))
    move = last(moves)
    return Solution((move.event.room,), (final.number, move.number))


def where_was_object(statements: Sequence[Statement], question: str) -> Solution:
    """Task 3, ``Where was the apple before the bathroom?``, meaning its last visit there."""
    thing, room = words_of(question)[3], words_of(question)[6]
    final, moves = moves_with(thing, read_events(statements))
    visit = last([place for place, move in enumerate(moves) if move.event.room == room and place])
    there, before = moves[visit], moves[visit - 1]
    return Solution((before.event.room,), (final.number, there.number, before.number))


def who_gave_what(statements: Sequence[Statement], question: str) -> Solution:
    """Task 5: the last give with the asked object, or else with the asked giver and receiver.

    ``What did A give to B?`` is ambiguous where A gave B two objects; then the later one counts.
    """
    words = words_of(question)
    gives = [one for one in read_events(statements) if one.event.act == "give"]
    if words[0] == "What":
        giver, receiver = words[2], words[5]
        give = last([g for g in gives if (g.event.person, g.event.receiver) == (giver, receiver)])
        return Solution((give.event.object,), (give.number,))
    thing = words[words.index("the") + 1]
    give = last([g for g in gives if g.event.object == thing])
    who = give.event.person if words[1] == "gave" else give.event.receiver
    return Solution((who,), (give.number,))


def is_person_in(statements: Sequence[Statement], question: str) -> Solution:
    """Task 6, ``Is John in the kitchen?``: by his last move."""
    words = words_of(question)
    move = last(moves_of(words[1], read_events(statements)))
    return Solution(("yes" if move.event.room == words[4] else "no",), (move.number,))


def changes_of_hands(person: str, told: Sequence[Told]) -> list[tuple[int, str, bool]]:
    """Every line that changes what a person holds: number, object, and whether he has it now."""
    return [
        (number, event.object, event.act == "get" or event.receiver == person)
        for number, event in told
        if event.act != "move" and person in (event.person, event.receiver)
    ]


def how_many_objects(statements: Sequence[Statement], question: str) -> Solution:
    """Task 7, ``How many objects is Mary carrying?``, gifts included."""
    changes = changes_of_hands(words_of(question)[4], read_events(statements))
    held = {thing: now for _, thing, now in changes}
    return Solution((COUNTED[sum(held.values())],), tuple(number for number, _, _ in changes))


def which_objects(statements: Sequence[Statement], question: str) -> Solution:
    """Task 8, ``What is John carrying?``: in the order in which he first took each object."""
    changes = changes_of_hands(words_of(question)[2], read_events(statements))
    held = {thing: now for _, thing, now in changes}
    answer = tuple(thing for thing, now in held.items() if now) or ("nothing",)
    support = tuple(number for thing in held for number, what, _ in changes if what == thing)
    return Solution(answer, support)
