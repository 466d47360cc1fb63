"""Tasks 2, 3, 5, 6, 7 and 8: the questions about the common world.

In all of them a question springs from one of the last statements, drawn uniformly among those that
can carry one; while there is none, the story goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from dnclab.tasks.babi.format import Story
from dnclab.tasks.babi.stories.telling import WINDOW, Telling, in_pairs
from dnclab.tasks.babi.stories.words import GIVERS, NUMBERS, PEOPLE, ROOMS, chance, other
from dnclab.tasks.babi.stories.world import GIVING, THERE, Event, World, sentence

Ask = Callable[[Random, Telling, World, Sequence[Event]], None]
"""Asks about the world and the events told so far, if there is something to ask about."""


def common_story(
    rng: Random,
    ask: Ask,
    people: tuple[str, ...] = PEOPLE,
    giving: float = 0,
    got_there: float = 1,
) -> Story:
    """A story of the common world with one task's questions."""
    telling, world, told = Telling(), World(rng, people, giving), list[Event]()

    def tell_pair() -> None:
        for _ in range(2):
            event = world.step(len(telling.lines) + 1)
            telling.tell(sentence(rng, event, got_there))
            told.append(event)

    return in_pairs(telling, tell_pair, lambda: ask(rng, telling, world, told))


def last_with(thing: str, told: Sequence[Event]) -> int:
    """Index of the last event with a thing."""
    return next(index for index in reversed(range(len(told))) if told[index].thing == thing)


def last_move(person: str, told: Sequence[Event]) -> Event | None:
    """A person's last move, if he has moved."""
    moves = (event for event in reversed(told) if event.person == person and event.act == "move")
    return next(moves, None)


# --- task 2 --------------------------------------------------------------------------------------


def two_supporting_facts(rng: Random) -> Story:
    """``Where is the milk?``"""
    return common_story(rng, ask_where_thing_is)


def how_it_came_there(thing: str, told: Sequence[Event]) -> tuple[int, int] | None:
    """The last event with a thing and the move that tells its room: lines that decide its place.

    A holder must have moved since he got it; who dropped it must have moved before.
    """
    index = last_with(thing, told)
    event = told[index]
    move = last_move(event.person, told[index:] if event.act == "get" else told[:index])
    return (event.number, move.number) if move else None


def ask_where_thing_is(rng: Random, telling: Telling, world: World, told: Sequence[Event]) -> None:
    """A thing of a recent get or drop, if the reader can know where it is."""
    things = [event.thing for event in told[-WINDOW:] if event.thing]
    known = [(thing, lines) for thing in things if (lines := how_it_came_there(thing, told))]
    if known:
        thing, lines = rng.choice(known)
        telling.ask(f"Where is the {thing}?", world.place(thing), lines)


# --- task 3 --------------------------------------------------------------------------------------

STOP = 0.25
"""Task 3 walks back along a thing's way, stopping at each room with this probability (fitted)."""


def three_supporting_facts(rng: Random) -> Story:
    """``Where was the apple before the bathroom?``"""
    return common_story(rng, ask_where_thing_was, got_there=THERE)


def way_of(thing: str, told: Sequence[Event]) -> tuple[Event, list[Event]]:
    """The last event with a thing, and the moves on which its last holder carried it."""
    end = last_with(thing, told)
    event = told[end]
    start = end if event.act == "get" else last_with(thing, told[:end])
    carried = told[start:] if event.act == "get" else told[start:end]
    return event, [each for each in carried if each.act == "move" and each.person == event.person]


def ask_where_thing_was(rng: Random, telling: Telling, world: World, told: Sequence[Event]) -> None:
    """A thing of a recent get or drop that was carried through two rooms or more.

    The later a room, the likelier it is asked about; where it was entered twice, the last visit
    is meant.
    """
    things = [event.thing for event in told[-WINDOW:] if event.thing]
    carried = [thing for thing in things if len(way_of(thing, told)[1]) >= 2]
    if not carried:
        return
    thing = rng.choice(carried)
    event, way = way_of(thing, told)
    back = [(1 - STOP) ** steps for steps in range(len(way) - 1)]
    (drawn,) = rng.choices(way[:0:-1], back)
    visit = max(index for index, move in enumerate(way) if move.room == drawn.room)
    there, before = way[visit], way[visit - 1]
    support = (event.number, there.number, before.number)
    telling.ask(f"Where was the {thing} before the {there.room}?", before.room, support)


# --- task 5 --------------------------------------------------------------------------------------


def three_arg_relations(rng: Random) -> Story:
    """``What did Fred give to Bill?``"""
    return common_story(rng, ask_about_give, people=GIVERS, giving=GIVING)


def ask_about_give(rng: Random, telling: Telling, world: World, told: Sequence[Event]) -> None:
    """The last give of a thing that was given recently.

    The files ask for the thing even if the same two have handed over another one since (22 of
    their 11,000 questions, which nothing in the text decides). Here another form is drawn then.
    """
    recent = [event for event in told[-WINDOW:] if event.act == "give"]
    if not recent:
        return
    gives = [event for event in told if event.act == "give"]
    give = gives[last_with(rng.choice(recent).thing, gives)]
    pair = (give.person, give.receiver)
    later = [each for each in gives if each.number > give.number]
    ambiguous = pair in [(each.person, each.receiver) for each in later]
    forms = [
        (f"What did {give.person} give to {give.receiver}?", give.thing),
        (f"Who gave the {give.thing}?", give.person),
        (f"Who gave the {give.thing} to {give.receiver}?", give.person),
        (f"Who received the {give.thing}?", give.receiver),
        (f"Who did {give.person} give the {give.thing} to?", give.receiver),
    ]
    ((text, answer),) = rng.choices(forms, (0 if ambiguous else 2, 1, 1, 1, 1))
    telling.ask(text, answer, (give.number,))


# --- task 6 --------------------------------------------------------------------------------------


def yes_no_questions(rng: Random) -> Story:
    """``Is John in the kitchen?``"""
    return common_story(rng, ask_whether_in)


def ask_whether_in(rng: Random, telling: Telling, world: World, told: Sequence[Event]) -> None:
    """Someone who moved recently: his room or, as often, another one."""
    movers = [event.person for event in told[-WINDOW:] if event.act == "move"]
    if not movers:
        return
    person = rng.choice(movers)
    line = max(event.number for event in told if (event.act, event.person) == ("move", person))
    if chance(rng, 0.5):
        telling.ask(f"Is {person} in the {world.room[person]}?", "yes", (line,))
    else:
        elsewhere = other(rng, ROOMS, world.room[person])
        telling.ask(f"Is {person} in the {elsewhere}?", "no", (line,))


# --- tasks 7 and 8 -------------------------------------------------------------------------------


def counting(rng: Random) -> Story:
    """``How many objects is Mary carrying?``"""
    return common_story(rng, ask_how_many, giving=GIVING)


def lists_sets(rng: Random) -> Story:
    """``What is John carrying?``"""
    return common_story(rng, ask_what_is_carried)


def recent_actor(rng: Random, told: Sequence[Event]) -> str | None:
    """Someone who got, dropped or gave a thing recently; who was only given one does not count."""
    actors = [event.person for event in told[-WINDOW:] if event.thing]
    return rng.choice(actors) if actors else None


def changes_of(person: str, told: Sequence[Event]) -> list[Event]:
    """Every event that changed what a person holds."""
    return [event for event in told if event.thing and person in (event.person, event.receiver)]


def ask_how_many(rng: Random, telling: Telling, world: World, told: Sequence[Event]) -> None:
    """How many things a recent actor holds; supported by all that changed it."""
    person = recent_actor(rng, told)
    if person:
        lines = [event.number for event in changes_of(person, told)]
        number = NUMBERS[len(world.held(person))]
        telling.ask(f"How many objects is {person} carrying?", number, lines)


def ask_what_is_carried(rng: Random, telling: Telling, world: World, told: Sequence[Event]) -> None:
    """What a recent actor holds, in the order in which he first took each thing."""
    person = recent_actor(rng, told)
    if person:
        changes = changes_of(person, told)
        in_order = list(dict.fromkeys(event.thing for event in changes))
        held = [thing for thing in in_order if world.holder.get(thing) == person]
        lines = [event.number for thing in in_order for event in changes if event.thing == thing]
        telling.ask(f"What is {person} carrying?", held or "nothing", lines)
