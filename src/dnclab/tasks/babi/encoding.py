"""bAbI stories as numbers, and the cache that spares reading the text again.

A story with all its questions is one sequence. After a question mark come the blank steps in
which the model thinks, and one blank for each word of the answer, which is the target there::

    words    mary went to the kitchen . where is mary ? -  -  -  -        think_steps = 3
    targets                                                      kitchen

Words are in lower case; ``.`` and ``?`` are words; id 0 is the blank, the others follow in sorted
order, so that ids depend on the training files alone. Nothing is pickled.
"""

from __future__ import annotations

import json
import os
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dnclab.tasks.babi.checksums import digest, published
from dnclab.tasks.babi.format import SPLITS, Line, Story, file_name
from dnclab.tasks.babi.install import (
    BabiInstallError,
    cache_folder,
    installed_folder,
)
from dnclab.tasks.babi.reader import (
    ALL_TASKS,
    BabiFormatError,
    check_tasks,
    find_edition,
    parse_stories,
    read_bytes,
)

BLANK = 0
"""The id of the blank token."""

BLANK_WORD = "-"
"""How the blank token is written; no word of a file begins with a hyphen."""

IGNORE = -100
"""The target where nothing is asked; what ``torch``'s cross entropy ignores."""

CACHE_VERSION = 1
"""Raised whenever the same files and options give other arrays."""

Ids = NDArray[np.int16]
Positions = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class EncodingOptions:
    """What may differ in the encoding."""

    think_steps: int = 3
    """Blank steps between a question mark and the first word of the answer."""
    joined_answers: bool = False
    """Whether an answer of several words is one word of the vocabulary, as ``n,w``.

    The paper asks for the words one by one. Memory networks and their successors pick one answer
    among the classes seen in training; errors are then counted per question.
    """

    def __post_init__(self) -> None:
        if self.think_steps < 0:
            raise ValueError(f"think_steps: expected 0 or more, got {self.think_steps}")


@dataclass(frozen=True, eq=False)
class EncodedStories:
    """Stories one after the other in flat arrays."""

    tokens: Ids
    """What the model reads, one id a step."""
    targets: Ids
    """What it must answer in that step, or ``IGNORE``."""
    offsets: Positions
    """Where each story starts in ``tokens`` and ``targets``, and where the last one ends."""
    tasks: Positions
    """The number of each story's task."""

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.targets) or len(self.tasks) != len(self) or len(self) < 1:
            raise ValueError(
                f"arrays: expected as many targets as tokens and one task a story, got "
                f"{len(self.tokens)} tokens, {len(self.targets)} targets, "
                f"{len(self)} stories, {len(self.tasks)} tasks"
            )
        if self.offsets[0] != 0 or self.offsets[-1] != len(self.tokens) or self.lengths.min() < 1:
            raise ValueError("offsets: expected to rise from 0 to the number of tokens")
        for array in (self.tokens, self.targets, self.offsets, self.tasks):
            array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Positions:
        """Steps of each story."""
        return np.diff(self.offsets)


@dataclass(frozen=True, eq=False)
class BabiData:
    """An encoded data set."""

    vocabulary: tuple[str, ...]
    """The word of each id."""
    train: EncodedStories
    test: EncodedStories
    options: EncodingOptions
    key: str
    """Stands for the source files and the options: equal keys, equal arrays."""
    published: bool
    """Whether every source file has the checksum of the published one."""


def load_installed(
    edition: str = "en-10k",
    options: EncodingOptions | None = None,
    *,
    cache: str | Path | None = None,
) -> BabiData:
    """The published data of the cache; refused where they are absent or damaged."""
    folder = installed_folder(cache) / edition
    if not folder.is_dir():
        raise BabiInstallError(
            f"{folder}: bAbI is not installed there; install it by `dnclab data babi --download` "
            "or `dnclab data babi --from PATH`"
        )
    data = load_folder(folder, edition, options, cache=cache)
    if not data.published:
        raise BabiInstallError(f"{folder}: a file differs from the published one; install it again")
    return data


def load_folder(
    folder: str | Path,
    edition: str = "en-10k",
    options: EncodingOptions | None = None,
    *,
    tasks: Iterable[int] = ALL_TASKS,
    cache: str | Path | None = None,
) -> BabiData:
    """The data of any folder of bAbI files, generated ones too; ``published`` tells which.

    The vocabulary is that of the training files of ``tasks``.
    """
    options = options or EncodingOptions()
    tasks = check_tasks(tasks)
    folder = find_edition(folder, edition)
    names = [file_name(task, split) for split in SPLITS for task in tasks]
    contents = {name: read_bytes(folder / name) for name in names}
    digests = {name: digest(content) for name, content in contents.items()}
    key = _key(digests, options)
    path = cache_folder(cache) / "babi" / "encoded" / f"{key[:32]}.npz"
    is_published = all(
        published().get(f"{edition}/{name}") == sha256 for name, sha256 in digests.items()
    )
    arrays = _read_cache(path, key)
    if arrays is None:
        stories = {
            split: {
                task: parse_stories(contents[file_name(task, split)], _path(folder, task, split))
                for task in tasks
            }
            for split in SPLITS
        }
        arrays = _encode_splits(stories, folder, options)
        _write_cache(path, key, arrays)
    words, train, test = arrays
    return BabiData(words, train, test, options, key, is_published)


def make_vocabulary(stories: Iterable[Story], options: EncodingOptions) -> tuple[str, ...]:
    """The blank and then every word of the stories in sorted order."""
    lines = {line for story in stories for line in story}
    words = {word for line in lines for word in (*split_text(line), *split_answer(line, options))}
    return (BLANK_WORD, *sorted(words))


def split_text(line: Line) -> list[str]:
    """``Mary went home.`` → ``mary went home .``"""
    return [*line.text[:-1].lower().split(" "), line.text[-1]]


def split_answer(line: Line, options: EncodingOptions) -> list[str]:
    """The words to be answered, none for a statement."""
    words = [word.lower() for word in line.answer]
    return [",".join(words)] if words and options.joined_answers else words


def encode_stories(
    stories: Mapping[int, Iterable[Story]],
    vocabulary: tuple[str, ...],
    options: EncodingOptions,
    names: Mapping[int, str] | None = None,
) -> EncodedStories:
    """The stories of each task as arrays; ``names`` are the tasks' files, for error messages."""
    ids = {word: number for number, word in enumerate(vocabulary)}
    known: dict[Line, tuple[bytes, bytes]] = {}
    tokens: list[bytes] = []
    targets: list[bytes] = []
    lengths: list[int] = []
    tasks: list[int] = []
    for task, its_stories in stories.items():
        for story in its_stories:
            length = 0
            for line in story:
                encoded = known.get(line)
                if encoded is None:
                    name = names[task] if names else f"task {task}"
                    encoded = known[line] = _encode_line(line, ids, options, name)
                tokens.append(encoded[0])
                targets.append(encoded[1])
                length += len(encoded[0])
            lengths.append(length // np.dtype(np.int16).itemsize)
            tasks.append(task)
    return EncodedStories(
        tokens=np.frombuffer(b"".join(tokens), np.int16),
        targets=np.frombuffer(b"".join(targets), np.int16),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        tasks=np.array(tasks, np.int64),
    )


def _encode_line(
    line: Line, ids: Mapping[str, int], options: EncodingOptions, name: str
) -> tuple[bytes, bytes]:
    words = split_text(line)
    answer = split_answer(line, options)
    for word in (*words, *answer):
        if word not in ids:
            raise BabiFormatError(f"{name}: expected words of the training files, got {word!r}")
    thinking = options.think_steps if answer else 0
    tokens = [ids[word] for word in words] + [BLANK] * (thinking + len(answer))
    targets = [IGNORE] * (len(words) + thinking) + [ids[word] for word in answer]
    return np.array(tokens, np.int16).tobytes(), np.array(targets, np.int16).tobytes()


_Arrays = tuple[tuple[str, ...], EncodedStories, EncodedStories]


def _encode_splits(
    stories: Mapping[str, Mapping[int, list[Story]]], folder: Path, options: EncodingOptions
) -> _Arrays:
    vocabulary = make_vocabulary(
        (story for its_stories in stories["train"].values() for story in its_stories), options
    )
    if len(vocabulary) > np.iinfo(np.int16).max:
        raise BabiFormatError(f"{folder}: expected a few hundred words, got {len(vocabulary):,}")
    train, test = (
        encode_stories(
            stories[split],
            vocabulary,
            options,
            {task: _path(folder, task, split) for task in stories[split]},
        )
        for split in SPLITS
    )
    return vocabulary, train, test


def _path(folder: Path, task: int, split: str) -> str:
    return str(folder / file_name(task, split))


def _key(digests: Mapping[str, str], options: EncodingOptions) -> str:
    identity = {"version": CACHE_VERSION, "options": asdict(options), "files": digests}
    return digest(json.dumps(identity, sort_keys=True).encode("ascii"))


_FIELDS = ("tokens", "targets", "offsets", "tasks")


def _read_cache(path: Path, key: str) -> _Arrays | None:
    """The arrays of a key; none if they are not there, or not whole, or another key's."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            if stored["key"].item() != key:
                return None
            train, test = (
                EncodedStories(*(stored[f"{split}_{field}"] for field in _FIELDS))
                for split in SPLITS
            )
            return tuple(json.loads(stored["vocabulary"].item())), train, test
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _write_cache(path: Path, key: str, arrays: _Arrays) -> None:
    words, *splits = arrays
    content: dict[str, Any] = {"key": np.array(key), "vocabulary": np.array(json.dumps(words))}
    for split, encoded in zip(SPLITS, splits, strict=True):
        content |= {f"{split}_{field}": getattr(encoded, field) for field in _FIELDS}
    unfinished = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            np.savez(unfinished, **content)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        warnings.warn(f"{path}: the encoded stories could not be kept: {error}", stacklevel=3)
