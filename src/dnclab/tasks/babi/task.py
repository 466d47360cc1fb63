"""The bAbI task: batches of stories, loss and metrics.

One story of a batch, as the model sees it (``-`` is the blank, three think steps)::

    inputs   mary went to the kitchen . where is mary ? -  -  -  -
    targets                                                   kitchen
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from dnclab.tasks.babi.encoding import BLANK, IGNORE, EncodedStories, Positions
from dnclab.tasks.babi.reader import ALL_TASKS, check_tasks
from dnclab.tasks.stream import BatchStream, check_seed, random_source

SOLVED_ERROR = 0.05
"""The error at and below which a task counts as solved."""

POOL_BATCHES = 64
"""Batches whose stories are drawn together."""


@dataclass(frozen=True, kw_only=True)
class BatchConfig:
    """How batches are drawn."""

    batch_size: int = 2
    """Stories a batch."""
    tasks: tuple[int, ...] = ALL_TASKS
    """The tasks to draw from; the vocabulary does not depend on them."""
    group_lengths: bool = False
    """Whether the stories of a batch are of like lengths, which saves padding.

    The same stories come within every 64 batches; only their order changes.
    """
    seed: int = 0
    """Of the stories drawn."""

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size: expected 1 or more, got {self.batch_size}")
        check_tasks(self.tasks)
        check_seed(self.seed)


PAPER = BatchConfig()
"""Joint training on the 20 tasks as in the paper: 2 stories a batch, all equally likely."""


class BabiBatch(NamedTuple):
    """Stories side by side, time first; T is the longest story's steps, B the stories."""

    inputs: Tensor
    """Ids to read [T B], blank after the end of a story."""
    targets: Tensor
    """Ids to answer [T B]; ``IGNORE`` where nothing is asked."""
    lengths: Tensor
    """Steps of each story [B]."""
    tasks: Tensor
    """The number of each story's task [B]."""


class BabiTask(BatchStream[BabiBatch]):
    """Batches of stories drawn at random with replacement, all stories equally likely."""

    def __init__(self, stories: EncodedStories, config: BatchConfig = PAPER) -> None:
        absent = sorted(set(config.tasks) - set(stories.tasks.tolist()))
        if absent:
            raise ValueError(f"tasks: expected tasks that have stories, got {absent}")
        super().__init__()
        self.config = config
        self._stories = stories
        self._chosen = np.flatnonzero(np.isin(stories.tasks, config.tasks))
        self._checksum = zlib.crc32(stories.offsets.data, zlib.crc32(stories.tokens.data))

    def numbered_batch(self, number: int) -> BabiBatch:
        """The batch of a number, from 0, whatever was drawn before."""
        pool, place = divmod(number, POOL_BATCHES)
        size = self.config.batch_size
        raw = random_source(self.config.seed, pool).random_raw(POOL_BATCHES * (size + 1))
        drawn = self._chosen[raw[POOL_BATCHES:] % len(self._chosen)]
        if self.config.group_lengths:
            drawn = drawn[np.argsort(self._stories.lengths[drawn], kind="stable")]
            place = np.argsort(raw[:POOL_BATCHES], kind="stable")[place]
        return gather(self._stories, drawn[size * place : size * (place + 1)])

    def identity(self) -> dict[str, Any]:
        """How batches are drawn, and a checksum of the stories."""
        config = asdict(self.config) | {"tasks": list(self.config.tasks)}
        return {"config": config, "stories": self._checksum}


def gather(stories: EncodedStories, chosen: Positions) -> BabiBatch:
    """The chosen stories, padded to the longest of them."""
    starts = stories.offsets[chosen]
    lengths = stories.offsets[chosen + 1] - starts
    steps = np.arange(lengths.max())[:, None]
    inside = steps < lengths
    places = np.where(inside, starts + steps, 0)
    inputs = np.where(inside, stories.tokens[places], BLANK).astype(np.int64)
    targets = np.where(inside, stories.targets[places], IGNORE).astype(np.int64)
    arrays = (inputs, targets, lengths, stories.tasks[chosen])
    return BabiBatch(*(torch.from_numpy(array) for array in arrays))


def every_story(
    stories: EncodedStories, batch_size: int, tasks: Iterable[int] = ALL_TASKS
) -> Iterator[BabiBatch]:
    """Each story of the tasks once, for evaluation; those of like lengths together."""
    if batch_size < 1:
        raise ValueError(f"batch_size: expected 1 or more, got {batch_size}")
    chosen = np.flatnonzero(np.isin(stories.tasks, check_tasks(tasks)))
    chosen = chosen[np.argsort(stories.lengths[chosen], kind="stable")]
    for start in range(0, len(chosen), batch_size):
        yield gather(stories, chosen[start : start + batch_size])


def answer_loss(logits: Tensor, batch: BabiBatch) -> Tensor:
    """Cross entropy of logits [T B V], summed over the answers, averaged over the batch."""
    _check_logits(logits, batch)
    total = functional.cross_entropy(
        logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORE, reduction="sum"
    )
    return total / batch.targets.shape[1]


@dataclass(frozen=True)
class AnswerCounts:
    """Answers, by task; counts of several batches add up."""

    wrong: tuple[int, ...]
    """Wrong answer words of tasks 1 to 20."""
    asked: tuple[int, ...]
    """All answer words of tasks 1 to 20."""

    def __add__(self, other: AnswerCounts) -> AnswerCounts:
        return AnswerCounts(
            tuple(a + b for a, b in zip(self.wrong, other.wrong, strict=True)),
            tuple(a + b for a, b in zip(self.asked, other.asked, strict=True)),
        )


NO_ANSWERS = AnswerCounts((0,) * len(ALL_TASKS), (0,) * len(ALL_TASKS))
"""Where adding up begins."""


def count_answers(logits: Tensor, batch: BabiBatch) -> AnswerCounts:
    """How many answers logits [T B V] get wrong, the likeliest word being the answer."""
    _check_logits(logits, batch)
    asked = batch.targets != IGNORE
    wrong = asked & (logits.argmax(-1) != batch.targets)
    counts = torch.zeros(2, len(ALL_TASKS) + 1, dtype=torch.int64, device=logits.device)
    counts.index_add_(1, batch.tasks, torch.stack([wrong.sum(0), asked.sum(0)]))
    wrong_by_task, asked_by_task = counts[:, 1:].tolist()
    return AnswerCounts(tuple(wrong_by_task), tuple(asked_by_task))


@dataclass(frozen=True)
class BabiScore:
    """The figures that papers report."""

    errors: dict[int, float]
    """Wrong answer words / answer words, of each task that was asked."""
    mean_error: float
    """The mean of the tasks' errors."""
    solved: int
    """Tasks with an error of at most 5%."""


def score(counts: AnswerCounts) -> BabiScore:
    """Errors by task, their mean, and how many tasks are solved."""
    rows = zip(ALL_TASKS, counts.wrong, counts.asked, strict=True)
    errors = {task: wrong / asked for task, wrong, asked in rows if asked}
    if not errors:
        raise ValueError("counts: expected answers to at least one question, got none")
    solved = sum(error <= SOLVED_ERROR for error in errors.values())
    return BabiScore(errors, sum(errors.values()) / len(errors), solved)


def _check_logits(logits: Tensor, batch: BabiBatch) -> None:
    if logits.dim() != 3 or logits.shape[:2] != batch.targets.shape:
        raise ValueError(
            f"logits: expected shape [{batch.targets.shape[0]}, {batch.targets.shape[1]}, words], "
            f"got {list(logits.shape)}"
        )
