"""Tasks 15, 16 and 20: what someone is and what follows from it."""

from __future__ import annotations

from random import Random

from dnclab.tasks.babi.format import Story
from dnclab.tasks.babi.stories.telling import Telling
from dnclab.tasks.babi.stories.words import (
    ANIMALS,
    COLOURED,
    COLOURS,
    FEARFUL,
    GOT,
    MOTIVATED,
    MOTIVES,
    PLURALS,
    moves,
    other,
)

# --- task 15 -------------------------------------------------------------------------------------


def basic_deduction(rng: Random) -> Story:
    """``Mice are afraid of cats.`` ``Emily is a mouse.`` ``What is emily afraid of?``

    A person's animal is told only when its fear has been.
    """
    telling = Telling()
    animals = tuple(PLURALS)
    fear = {animal: other(rng, animals, animal) for animal in animals}
    fear_line: dict[str, int] = {}
    animal_of: dict[str, str] = {}
    person_line: dict[str, int] = {}
    while len(fear_line) + len(person_line) < len(animals) + len(FEARFUL):
        person, animal = rng.choice(FEARFUL), rng.choice(animals)
        if animal not in fear_line:
            text = f"{PLURALS[animal].capitalize()} are afraid of {PLURALS[fear[animal]]}."
            fear_line[animal] = telling.tell(text)
        elif person not in person_line:
            animal_of[person] = animal
            person_line[person] = telling.tell(f"{person} is a {animal}.")
    for _ in range(4):
        person = rng.choice(FEARFUL)
        animal = animal_of[person]
        support = (person_line[person], fear_line[animal])
        telling.ask(f"What is {person.lower()} afraid of?", fear[animal], support)
    return telling.story()


# --- task 16 -------------------------------------------------------------------------------------

MATES = (1, 3, 4)
"""How many others can have the asked person's animal; the files hold neither 0 nor 2."""


def basic_induction(rng: Random) -> Story:
    """``Lily is a frog.`` ``Lily is gray.`` ``Greg is a frog.`` ``What color is Greg?``

    Not every frog has the same colour, since an animal's colour is drawn anew with each "is a". The
    answer is the colour told for the mate whose animal was told last.
    """
    while True:
        animal_of = {person: rng.choice(ANIMALS) for person in COLOURED}
        story = induction_with(rng, animal_of)
        if story:
            return story


def induction_with(rng: Random, animal_of: dict[str, str]) -> Story | None:
    """Such a story with given animals, unless the wrong number of mates comes out."""
    telling = Telling()
    colour_of_animal: dict[str, str] = {}
    animal_line: dict[str, int] = {}
    colour_of: dict[str, str] = {}
    colour_line: dict[str, int] = {}
    while len(colour_of) < len(COLOURED) - 1 or len(animal_line) < len(COLOURED):
        person = rng.choice([person for person in COLOURED if person not in colour_of])
        animal = animal_of[person]
        if person not in animal_line:
            colour_of_animal[animal] = rng.choice(COLOURS)
            animal_line[person] = telling.tell(f"{person} is a {animal}.")
        else:
            colour_of[person] = colour_of_animal[animal]
            colour_line[person] = telling.tell(f"{person} is {colour_of[person]}.")
    (asked,) = (person for person in COLOURED if person not in colour_of)
    mates = [person for person in colour_of if animal_of[person] == animal_of[asked]]
    if len(mates) not in MATES:
        return None
    mate = max(mates, key=animal_line.__getitem__)
    support = (animal_line[asked], animal_line[mate], colour_line[mate])
    telling.ask(f"What color is {asked}?", colour_of[mate], support)
    return telling.story()


# --- task 20 -------------------------------------------------------------------------------------


def agents_motivations(rng: Random) -> Story:
    """``Yann is bored.`` ``Where will yann go?``, then why he went there and took what he took.

    Each person goes through three acts, but a thing can be taken once only.
    """
    telling = Telling()
    motive_of = {person: rng.choice(list(MOTIVES)) for person in MOTIVATED}
    acts_done = dict.fromkeys(MOTIVATED, 0)
    motive_line: dict[str, int] = {}
    taken: list[str] = []

    def able(person: str) -> bool:
        thing = MOTIVES[motive_of[person]][1]
        return acts_done[person] < 2 or (acts_done[person] == 2 and thing not in taken)

    while ready := [person for person in MOTIVATED if able(person)]:
        person = rng.choice(ready)
        motive, name = motive_of[person], person.lower()
        room, thing = MOTIVES[motive]
        if acts_done[person] == 0:
            motive_line[person] = telling.tell(f"{person} is {motive}.")
            question, answer = f"Where will {name} go?", room
        elif acts_done[person] == 1:
            telling.tell(f"{moves(rng, person, room)}.")
            question, answer = f"Why did {name} go to the {room}?", motive
        else:
            telling.tell(f"{person} {rng.choice(GOT)} the {thing} there.")
            taken.append(thing)
            question, answer = f"Why did {name} get the {thing}?", motive
        telling.ask(question, answer, (motive_line[person],))
        acts_done[person] += 1
    return telling.story()
