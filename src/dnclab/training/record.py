"""Recordings: what a model does with one held-out sequence.

The format is defined in :mod:`dnclab.reports.recordings`. Runs of the same task and sizes are
recorded with the same sequence, whatever their variant and seed.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from dnclab.model import DNC
from dnclab.reports.recordings import (
    LINKS_BYTES,
    Numbers,
    Recording,
)
from dnclab.tasks.babi.encoding import IGNORE
from dnclab.tasks.bitmap import BitmapBatch, evaluation_set
from dnclab.training import observe
from dnclab.training.config import RunConfig
from dnclab.training.loop import numerics
from dnclab.training.observe import Observation
from dnclab.training.tasks import Babi, Bitmaps, Trainable

LOOKED_AT = 16
"""Held-out batches of which the longest is recorded that has at most MOST_STEPS."""

MOST_STEPS = 200

RECORDED = (
    "memory", "usage", "write_weighting", "read_weightings", "read_modes", "forwards", "backwards",
    "read_contents", "allocation", "write_content", "write_gate", "allocation_gate", "free_gates",
    "read_strengths", "write_strength", "write_mask", "read_masks", "forward_sharpness",
    "backward_sharpness", "links",
)  # fmt: skip
"""Quantities of a trace that are kept."""

SINGLE = ("write_gate", "allocation_gate", "write_strength")
"""Those with an axis of one number, which is left out."""


def make_recording(config: RunConfig, task: Trainable, model: nn.Module, step: int) -> Recording:
    """What a model does with the sequence that is recorded of its task."""
    with numerics(config.course.threads):
        if isinstance(task, Bitmaps) and isinstance(model, DNC):
            seen = observe.observe_bits(model, _sequence(task))
        else:
            seen = next(observe.observations(task, model, 1))
    answers = seen.answers[:, 0]
    cells, word_size = seen.trace["memory"].shape[-2:]
    words = None
    arrays = _said(seen)
    if isinstance(task, Babi):
        words, arrays = _words(task, seen), {}
    for name in RECORDED:
        if name in seen.trace:
            array = seen.trace[name][:, 0]
            arrays[name] = array[..., 0] if name in SINGLE else array
    if arrays["links"].size > LINKS_BYTES:
        del arrays["links"]
    return Recording(
        task=config.task.name,
        variant=config.model.variant,
        seed=config.course.seed,
        step=step,
        cells=cells,
        word_size=word_size,
        read_heads=seen.trace["read_weightings"].shape[2],
        answers=tuple(answers.tolist()),
        phases=observe.phases(task, answers),
        words=words,
        arrays=arrays,
    )


def _sequence(task: Bitmaps) -> BitmapBatch:
    """A held-out sequence that is long, but not too long to be looked at."""
    batches = list(evaluation_set(task.task, LOOKED_AT))
    short = [batch for batch in batches if len(batch.inputs) <= MOST_STEPS] or batches[:1]
    chosen = max(short, key=lambda batch: len(batch.inputs))
    return task.part(chosen, slice(None), slice(1))


def _said(seen: Observation) -> dict[str, Numbers]:
    """Bits read, asked for and given."""
    if not isinstance(seen.batch, BitmapBatch):
        return {}
    said = torch.sigmoid(torch.from_numpy(seen.trace["output"][:, 0])).numpy()
    return {
        "input": (seen.batch.inputs[:, 0].numpy() > 0).astype(np.float32),
        "target": seen.batch.targets[:, 0].numpy(),
        "output": said,
    }


def _words(task: Babi, seen: Observation) -> dict[str, tuple[str | None, ...]]:
    """Words read, asked for and given."""
    words = task.vocabulary
    asked = seen.batch.targets[:, 0].tolist()
    return {
        "input": tuple(words[place] for place in seen.batch.inputs[:, 0].tolist()),
        "target": tuple(None if place == IGNORE else words[place] for place in asked),
        "output": tuple(words[place] for place in seen.trace["output"][:, 0].argmax(-1).tolist()),
    }
