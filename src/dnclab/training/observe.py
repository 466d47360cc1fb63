"""Trained models looked into: all that happened inside them on held-out sequences, as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dnclab.model import DNC
from dnclab.reports.recordings import Phase
from dnclab.runs import RunError
from dnclab.tasks.babi import task as babi
from dnclab.tasks.babi.encoding import IGNORE
from dnclab.tasks.bitmap import BitmapBatch, evaluation_set
from dnclab.tasks.key_value import KeyValue
from dnclab.tasks.repeat_copy import RepeatCopy
from dnclab.training.tasks import Babi, Bitmaps, Trainable, WordModel

LONGEST = 200
"""Stories of more steps are passed over: the links of one take steps · N² numbers."""

Numbers = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Observation:
    """A batch and what a model did with it: T steps, B samples."""

    batch: Any
    answers: Numbers
    """Whether an answer is due [T B]."""
    trace: Mapping[str, Numbers]
    """The quantities of :class:`~dnclab.state.Trace` by name [T B ...]; those of the variant."""


def can_observe(task: Trainable, model: nn.Module) -> bool:
    """Whether it is known how to look into a model of a task."""
    if isinstance(task, Bitmaps):
        return isinstance(model, DNC)
    return isinstance(task, Babi) and isinstance(model, WordModel)


def observations(task: Trainable, model: nn.Module, count: int) -> Iterator[Observation]:
    """What a model does with so many held-out batches of bits, or with so many test stories."""
    if isinstance(task, Bitmaps) and isinstance(model, DNC):
        for batch in evaluation_set(task.task, count):
            yield observe_bits(model, batch)
    elif isinstance(task, Babi) and isinstance(model, WordModel):
        for story in _stories(task, count):
            yield observe_words(model, story)
    else:
        raise RunError(
            f"{type(task).__name__}: only tasks on rows of bits and bAbI can be looked into"
        )


def observe_bits(model: DNC, batch: BitmapBatch) -> Observation:
    """What a model does with rows of bits."""
    answers = batch.answers[:, None].expand(-1, batch.inputs.shape[1])
    return Observation(batch, answers.numpy(), _trace(model, batch.inputs))


def observe_words(model: WordModel, batch: babi.BabiBatch) -> Observation:
    """What a model does with stories."""
    with torch.no_grad():
        embedded = model.embedding(batch.inputs)
    return Observation(batch, (batch.targets != IGNORE).numpy(), _trace(model.dnc, embedded))


def _trace(model: DNC, inputs: Tensor) -> dict[str, Numbers]:
    with torch.no_grad():
        trace = model.trace(inputs)
    return {n: v.numpy() for n, v in trace._asdict().items() if isinstance(v, Tensor)}


def _stories(task: Babi, count: int) -> Iterator[babi.BabiBatch]:
    """Test stories one at a time, of all tasks in turn, as far as they are short enough."""
    stories = task.test
    short = np.isin(stories.tasks, task.tasks) & (stories.lengths <= LONGEST)
    of_task = {number: np.flatnonzero(short & (stories.tasks == number)) for number in task.tasks}
    turn = 0
    while count > 0:
        places = [found[turn] for found in of_task.values() if turn < len(found)]
        if not places:
            return
        for place in places[:count]:
            yield babi.gather(stories, np.array([place]))
        count -= len(places)
        turn += 1


def phases(task: Trainable, answers: Numbers) -> tuple[Phase, ...]:
    """How a sequence of bits is divided; `answers` [T] tells where one is due.

    Key-value retrieval as in the paper: in, q1, q2; the rows of flags belong to none.
    """
    spans = answer_spans(answers)
    if not isinstance(task, Bitmaps) or not spans:
        return ()
    if isinstance(task.task, KeyValue):
        asked = [Phase(f"q{place}", *span) for place, span in enumerate(spans, start=1)]
        return (Phase("in", 0, spans[0][0] - 1), *asked)
    said = "repeat" if isinstance(task.task, RepeatCopy) else "answer"
    divided, begin = [], 0
    for place, (start, stop) in enumerate(spans, start=1):
        number = f" {place}" if len(spans) > 1 else ""
        divided += [Phase(f"read{number}", begin, start), Phase(f"{said}{number}", start, stop)]
        begin = stop
    return tuple(phase for phase in divided if phase.start < phase.stop)


def answer_spans(answers: Numbers) -> list[tuple[int, int]]:
    """The stretches of steps at which an answer is due: start <= t < stop."""
    padded = np.concatenate([[False], answers.astype(bool), [False]])
    changes = np.flatnonzero(padded[1:] != padded[:-1]).tolist()
    return list(pairwise(changes))[::2]
