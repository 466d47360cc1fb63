"""Reading bAbI files: every story of a file, or one error that names the file and the line.

The published files are clean (ASCII, LF, single spaces), so anything else means that a file was
damaged or is not bAbI, and is refused rather than repaired.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from dnclab.tasks.babi.format import TASK_NAMES, Line, Story, file_name

ALL_TASKS = tuple(TASK_NAMES)
"""The numbers of the tasks, 1 to 20."""

EDITIONS = ("en-10k", "en")
"""10,000 or 1,000 training questions a task; the test files of both are the same."""

TOP_FOLDER = "tasks_1-20_v1-2"
"""The folder in which the published archive keeps everything."""

_WORD = r"[A-Za-z0-9][A-Za-z0-9'-]*"
_STATEMENT = re.compile(rf"{_WORD}(?: {_WORD})*\.")
_NUMBER = r"[1-9][0-9]{0,5}"
_QUESTION = re.compile(
    rf"({_WORD}(?: {_WORD})*\?) ?\t({_WORD}(?:,{_WORD})*)\t({_NUMBER}(?: {_NUMBER})*)"
)


class BabiFormatError(ValueError):
    """A file that is missing or not in the bAbI format; the message says where and what."""


def parse_stories(source: str | bytes, name: str) -> list[Story]:
    """All stories of a file's content; ``name`` stands for the file in error messages.

    Equal sentences of a file share one ``Line``: a file of 10,000 questions repeats a few
    hundred sentences, so nearly every line costs one look into a dictionary.
    """
    stories: list[Story] = []
    story: list[Line] = []
    known: dict[str, Line] = {}
    for number, written in enumerate(_lines_of(source, name), start=1):
        identifier, _, sentence = written.partition(" ")
        if identifier == "1" and story:
            stories.append(tuple(story))
            story = []
        if identifier != str(len(story) + 1):
            raise _error(name, number, _expected_identifier(story), written)
        line = known.get(sentence)
        if line is None:
            line = known[sentence] = _parse_sentence(sentence, name, number)
        if line.support and max(line.support) > len(story):
            expected = f"supporting IDs of earlier lines of the story (1 to {len(story)})"
            raise _error(name, number, expected, " ".join(map(str, line.support)))
        story.append(line)
    stories.append(tuple(story))
    return stories


def read_file(path: Path) -> list[Story]:
    """All stories of one file."""
    return parse_stories(read_bytes(path), str(path))


def read_bytes(path: Path) -> bytes:
    """The content of a file; one that cannot be read is a ``BabiFormatError``."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise BabiFormatError(f"{path}: expected a bAbI file, there is none") from error
    except OSError as error:
        raise BabiFormatError(f"{path}: cannot be read: {error.strerror}") from error


def check_tasks(tasks: Iterable[int]) -> tuple[int, ...]:
    """The numbers of tasks, if they are such."""
    tasks = tuple(tasks)
    if not tasks or not set(tasks) <= set(ALL_TASKS):
        raise ValueError(f"tasks: expected some of 1 to 20, got {tasks}")
    return tasks


def read_folder(
    folder: str | Path, split: str, tasks: Iterable[int] = ALL_TASKS
) -> dict[int, list[Story]]:
    """The stories of each task in a folder that holds the files of one edition."""
    names = {task: file_name(task, split) for task in check_tasks(tasks)}
    return {task: read_file(Path(folder) / name) for task, name in names.items()}


def find_edition(folder: str | Path, edition: str = "en-10k") -> Path:
    """The folder with the files of an edition: the given one, or one below it.

    A folder with the files themselves is taken as it is, since generated ones have no editions.
    """
    if edition not in EDITIONS:
        raise ValueError(f"edition: expected one of {', '.join(EDITIONS)}, got {edition!r}")
    folder = Path(folder).expanduser()
    for candidate in (folder / edition, folder / TOP_FOLDER / edition, folder):
        if any(candidate.glob("qa*_*_train.txt")):
            return candidate
    raise BabiFormatError(f"{folder}: expected bAbI files or a folder {edition} with them")


def _lines_of(source: str | bytes, name: str) -> list[str]:
    text = source.decode("latin-1") if isinstance(source, bytes) else source
    if not text.isascii():
        foreign = next(place for place, letter in enumerate(text) if not letter.isascii())
        number = text.count("\n", 0, foreign) + 1
        raise BabiFormatError(
            f"{name}, line {number}: expected ASCII only, got {source[foreign : foreign + 1]!r}"
        )
    if not text:
        raise BabiFormatError(f"{name}: expected stories, got an empty file")
    if "\r" in text:
        number = text.count("\n", 0, text.index("\r")) + 1
        raise BabiFormatError(f"{name}, line {number}: expected LF line ends, got a CR")
    lines = text.split("\n")
    if lines.pop():
        number = len(lines) + 1
        raise BabiFormatError(f"{name}, line {number}: expected a newline at the end of the file")
    return lines


def _parse_sentence(sentence: str, name: str, number: int) -> Line:
    if _STATEMENT.fullmatch(sentence):
        return Line(sentence)
    question = _QUESTION.fullmatch(sentence)
    if question is None:
        raise _error(name, number, _expected_sentence(sentence), sentence)
    text, answer, support = question.groups()
    return Line(text, tuple(answer.split(",")), tuple(map(int, support.split(" "))))


def _expected_identifier(story: list[Line]) -> str:
    if not story:
        return "ID 1, the first line of a story"
    return f"ID {len(story) + 1}, the next line of the story, or ID 1, a new story"


def _expected_sentence(sentence: str) -> str:
    if "?" in sentence and "\t" not in sentence:
        return "an answer and supporting IDs after the question, each after a tab"
    if "?" in sentence or "\t" in sentence:
        return "'words?', tab, answer words joined by ',', tab, supporting IDs joined by a space"
    return "words with one space between them and a '.' at the end"


def _error(name: str, number: int, expected: str, got: str) -> BabiFormatError:
    shown = got if len(got) <= 80 else got[:77] + "..."
    return BabiFormatError(f"{name}, line {number}: expected {expected}, got {shown!r}")
