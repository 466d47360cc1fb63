"""What a folder of bAbI files holds, as a table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dnclab.tasks.babi.format import SPLITS, TASK_NAMES, Story
from dnclab.tasks.babi.reader import find_edition, read_folder

COLUMNS = ("task", "name", "train stories", "questions", "test stories", "questions")


@dataclass(frozen=True)
class Count:
    """Stories and questions of one file."""

    stories: int
    questions: int


def count_folder(folder: str | Path, edition: str = "en-10k") -> dict[str, dict[int, Count]]:
    """Read all files of a folder and count: ``count["train"][1].stories``."""
    found = find_edition(folder, edition)
    return {
        split: {task: _count(stories) for task, stories in read_folder(found, split).items()}
        for split in SPLITS
    }


def table(counts: dict[str, dict[int, Count]]) -> str:
    """A line per task and one for all of them, in columns."""
    rows = [
        (str(task), name, *_cells([counts[split][task] for split in SPLITS]))
        for task, name in TASK_NAMES.items()
    ]
    totals = [_total(list(counts[split].values())) for split in SPLITS]
    rows = [COLUMNS, *rows, ("all", "", *_cells(totals))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths) for row in rows)


def _count(stories: list[Story]) -> Count:
    return Count(len(stories), sum(bool(line.answer) for story in stories for line in story))


def _total(counts: list[Count]) -> Count:
    return Count(sum(count.stories for count in counts), sum(count.questions for count in counts))


def _cells(counts: list[Count]) -> list[str]:
    return [f"{number:,}" for count in counts for number in (count.stories, count.questions)]


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    number, name, *cells = (
        text.ljust(width) if place == 1 else text.rjust(width)
        for place, (text, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join((number, name, *cells))
