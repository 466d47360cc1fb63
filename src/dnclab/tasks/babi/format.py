"""The form of a bAbI story: what a line is, and how it is written into a file.

A file holds stories one after the other; a line is ``ID text``, and ID 1 starts a story::

    1 Mary moved to the bathroom.
    2 John went to the hallway.
    3 Where is Mary? <tab>bathroom<tab>1
"""

from __future__ import annotations

from dataclasses import dataclass

TASK_NAMES = {
    1: "single-supporting-fact",
    2: "two-supporting-facts",
    3: "three-supporting-facts",
    4: "two-arg-relations",
    5: "three-arg-relations",
    6: "yes-no-questions",
    7: "counting",
    8: "lists-sets",
    9: "simple-negation",
    10: "indefinite-knowledge",
    11: "basic-coreference",
    12: "conjunction",
    13: "compound-coreference",
    14: "time-reasoning",
    15: "basic-deduction",
    16: "basic-induction",
    17: "positional-reasoning",
    18: "size-reasoning",
    19: "path-finding",
    20: "agents-motivations",
}
"""Number and name of each task, as in the names of the files."""

SPLITS = ("train", "test")
"""The parts of the data set."""

SPACE_BEFORE_ANSWER = frozenset({1, 2, 3, *range(5, 15)})
"""Tasks whose files have a space between the question mark and the tab."""


@dataclass(frozen=True)
class Line:
    """A sentence of a story. Its ID is its position in the story, from 1."""

    text: str
    """The sentence with its full stop or question mark."""
    answer: tuple[str, ...] = ()
    """The words of the answer; empty for a statement."""
    support: tuple[int, ...] = ()
    """IDs of the lines that the answer follows from, in the order of the files."""


Story = tuple[Line, ...]


def file_name(task: int, split: str) -> str:
    """``qa1_single-supporting-fact_train.txt``"""
    return f"qa{task}_{TASK_NAMES[task]}_{split}.txt"


def write_story(story: Story, task: int) -> str:
    """The lines of a story as they stand in a file, each with its newline."""
    space = " " if task in SPACE_BEFORE_ANSWER else ""
    written = []
    for number, line in enumerate(story, start=1):
        if line.answer:
            support = " ".join(str(supporting) for supporting in line.support)
            written.append(f"{number} {line.text}{space}\t{','.join(line.answer)}\t{support}\n")
        else:
            written.append(f"{number} {line.text}\n")
    return "".join(written)
