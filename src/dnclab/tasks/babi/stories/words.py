"""The words of the bAbI stories, as they stand in the files of v1.2."""

from __future__ import annotations

from random import Random

ROOMS = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")
TOWN_ROOMS = ("bedroom", "cinema", "kitchen", "office", "park", "school")
"""Tasks 10 and 14."""

PEOPLE = ("Daniel", "John", "Mary", "Sandra")
PRONOUNS = {"Daniel": "he", "John": "he", "Mary": "she", "Sandra": "she"}
GIVERS = ("Bill", "Fred", "Jeff", "Mary")
"""Task 5."""
TOWNSPEOPLE = ("Bill", "Fred", "Julie", "Mary")
"""Tasks 10 and 14."""
FEARFUL = ("Emily", "Gertrude", "Jessica", "Winona")
"""Task 15."""
COLOURED = ("Bernhard", "Brian", "Greg", "Julius", "Lily")
"""Task 16."""
MOTIVATED = ("Antoine", "Jason", "Sumit", "Yann")
"""Task 20."""

THINGS = ("apple", "football", "milk")

MOVED = ("went to", "journeyed to", "travelled to", "went back to", "moved to")
GOT = ("picked up", "got", "grabbed", "took")
DROPPED = ("left", "discarded", "dropped", "put down")
GAVE = ("passed", "gave", "handed")
THEN = ("After that", "Afterwards", "Following that", "Then")
TIMES = ("yesterday", "this morning", "this afternoon", "this evening")
NUMBERS = ("none", "one", "two", "three")

PLURALS = {"mouse": "mice", "cat": "cats", "sheep": "sheep", "wolf": "wolves"}
"""The animals of task 15."""
ANIMALS = ("frog", "lion", "rhino", "swan")
COLOURS = ("gray", "green", "white", "yellow")
SHAPES = (
    "triangle",
    "pink rectangle",
    "red sphere",
    "blue square",
    "yellow square",
    "red square",
)
SMALL_THINGS = ("chocolate", "box of chocolates")
"""Task 18, the smaller first; every container is bigger than both."""
CONTAINERS = ("box", "chest", "container", "suitcase")
MOTIVES = {
    "hungry": ("kitchen", "apple"),
    "thirsty": ("kitchen", "milk"),
    "bored": ("garden", "football"),
    "tired": ("bedroom", "pajamas"),
}
"""Task 20: where a motive leads, and what is taken there."""

COMPASS = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}
SIDES = {"above": (0, 1), "below": (0, -1), "to the left of": (-1, 0), "to the right of": (1, 0)}
OPPOSITE = {
    "north": "south",
    "south": "north",
    "east": "west",
    "west": "east",
    "above": "below",
    "below": "above",
    "to the left of": "to the right of",
    "to the right of": "to the left of",
}


def chance(rng: Random, probability: float) -> bool:
    """True with that probability."""
    return rng.random() < probability


def other(rng: Random, words: tuple[str, ...], word: str) -> str:
    """One of the words, but not that one."""
    return rng.choice([each for each in words if each != word])


def moves(rng: Random, who: str, room: str) -> str:
    """``Mary went back to the kitchen``, without the full stop: a time may follow."""
    return f"{who} {rng.choice(MOVED)} the {room}"
