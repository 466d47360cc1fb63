"""bAbI stories made here: all 20 tasks, in the form and with the statistics of v1.2 (en-10k).

How each task is told and asked was worked out from the public files; ``docs/babi-generated.md``
puts the two side by side. With seed 1 the first story of task 7 begins so; behind a question
stand its answer and the lines that it follows from::

    1 Sandra grabbed the football there.
    2 Sandra discarded the football.
    3 How many objects is Sandra carrying?    none    1 2
    4 Mary travelled to the hallway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random

from dnclab.tasks.babi.format import SPLITS, TASK_NAMES, Story, file_name, write_story
from dnclab.tasks.babi.stories import carrying, places, relations, traits

__all__ = ["generate_stories", "generate_story", "write_files"]

GENERATORS: dict[int, Callable[[Random], Story]] = {
    1: places.single_supporting_fact,
    2: carrying.two_supporting_facts,
    3: carrying.three_supporting_facts,
    4: relations.two_arg_relations,
    5: carrying.three_arg_relations,
    6: carrying.yes_no_questions,
    7: carrying.counting,
    8: carrying.lists_sets,
    9: places.simple_negation,
    10: places.indefinite_knowledge,
    11: places.basic_coreference,
    12: places.conjunction,
    13: places.compound_coreference,
    14: places.time_reasoning,
    15: traits.basic_deduction,
    16: traits.basic_induction,
    17: relations.positional_reasoning,
    18: relations.size_reasoning,
    19: relations.path_finding,
    20: traits.agents_motivations,
}
"""The function of each task."""

TRAIN_STORIES_PER_TEST_STORY = 10
"""As in the files, which hold 10,000 and 1,000 questions."""


def generate_story(task: int, rng: Random) -> Story:
    """One story of a task."""
    return GENERATORS[task](rng)


def generate_stories(task: int, count: int, seed: int, split: str = "train") -> Iterator[Story]:
    """That many stories of a task. The same seed gives the same stories, and more go on from them.

    Every task and split has a random stream of its own, so each can be made without the others.
    """
    # A string is hashed to a seed the same way on every machine and in every process.
    rng = Random(f"bAbI seed {seed} task {task} {split}")
    for _ in range(count):
        yield generate_story(task, rng)


def write_files(
    folder: Path, seed: int, stories_per_task: int, tasks: Iterable[int] = TASK_NAMES
) -> list[Path]:
    """Write ``en-10k/qa1_single-supporting-fact_train.txt`` and so on below ``folder``.

    A train file holds ``stories_per_task`` stories, a test file a tenth of that and at least one.
    A file has its name only when it is complete. Returns the files written.
    """
    (folder / "en-10k").mkdir(parents=True, exist_ok=True)
    counts = {
        "train": stories_per_task,
        "test": max(1, stories_per_task // TRAIN_STORIES_PER_TEST_STORY),
    }
    written = []
    for task in tasks:
        for split in SPLITS:
            path = folder / "en-10k" / file_name(task, split)
            stories = generate_stories(task, counts[split], seed, split)
            write_whole(path, (write_story(story, task) for story in stories))
            written.append(path)
    return written


def write_whole(path: Path, texts: Iterable[str]) -> None:
    """Write a file under a temporary name, then give it its own."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="ascii", newline="\n") as file:
        file.writelines(texts)
    partial.replace(path)
