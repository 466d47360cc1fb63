"""What the paper shows by eye, measured: how a trained model addresses its memory.

T steps, B samples, R read heads, N cells, W word size. Each figure is a mean over the steps of
held-out sequences at which an answer is due, so for repeat copy over the repeats:

    forward_entropy        of the forward distribution, from 0 (one cell) to 1 (all cells alike)
    forward_peak           its largest number
    forward_entropy_first, forward_entropy_last     the same in the first and in the last answer of
                           a sequence that has several: does it blur with time?
    link_reads             weight of the read modes forward and backward together
    freed_content          weight that look-ups by content give to cells freed before: aliasing
    freed_cells            share of the cells that were used and freed
    mask_overlap           of the mean read masks in the two phases of questions of key-value
                           retrieval: 1 the same, 0 nothing in common
    mask_correlation       of the two, over the word: -1 if they complement each other
    mask_overlap_same      the overlap of every other question within a phase, to compare with

Those that have no meaning for a task or a variant are absent, and so is what never happened: a
model that frees nothing has no freed_content.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from torch import nn

from dnclab.reports.recordings import RECORDING_NAME, Phase, save_recording
from dnclab.reports.results import write_measures
from dnclab.training import observe, session
from dnclab.training.config import RunConfig
from dnclab.training.loop import numerics
from dnclab.training.observe import Numbers, Observation
from dnclab.training.record import make_recording
from dnclab.training.tasks import Trainable

BATCHES = 4
"""Held-out batches that are looked at; as many times the tasks of bAbI, a story each."""

USED = 0.5
"""A cell counts as used once its usage was above this."""

FREED = 0.1
"""A used cell counts as freed while its usage is below this."""

EPSILON = 1e-6
"""As in the model's sharpening: where nothing was written, all cells are alike."""


def measure(folder: Path) -> dict[str, float]:
    """Take the measures of a run's best model, write them and a recording into its folder.

    Of a task of the user's own nothing is known that could be measured: its measures are none.
    """
    config, task, model, step = session.load(folder)
    values: dict[str, float] = {}
    if observe.can_observe(task, model):
        save_recording(folder / RECORDING_NAME, make_recording(config, task, model, step))
        values = measures(config, task, model)
    write_measures(folder, step, values)
    return values


def measures(config: RunConfig, task: Trainable, model: nn.Module) -> dict[str, float]:
    """The measures of a model by name, the means over all held-out sequences that are looked at."""
    count = BATCHES * len(getattr(task, "tasks", (1,)))
    found: dict[str, list[Numbers]] = defaultdict(list)
    masks: dict[str, list[Numbers]] = defaultdict(list)
    with numerics(config.course.threads):
        for seen in observe.observations(task, model, count):
            for name, values in of_addressing(seen).items():
                found[name].append(values.ravel())
            divided = observe.phases(task, seen.answers[:, 0])
            if "read_masks" in seen.trace and [p.name for p in divided] == ["in", "q1", "q2"]:
                opened = (seen.trace["read_masks"] - config.model.mask_min) / (
                    1 - config.model.mask_min
                )
                for name, values in masks_of(opened, divided[1:]).items():
                    masks[name].append(values)
    means = {name: np.concatenate(parts) for name, parts in found.items()}
    taken = {name: float(values.mean()) for name, values in means.items() if len(values)}
    return taken | of_masks({name: np.concatenate(parts) for name, parts in masks.items()})


def of_addressing(seen: Observation) -> dict[str, Numbers]:
    """Numbers by measure, one or more for each sample and step with an answer."""
    trace, due = seen.trace, seen.answers
    freed = freed_cells(trace["usage"], trace["write_weighting"])
    weight = (trace["read_contents"] * freed[:, :, None]).sum(-1)  # [T B R]
    modes, entropy = trace["read_modes"], entropy_share(trace["forwards"])
    values = {
        "forward_entropy": entropy[due],
        "forward_peak": trace["forwards"].max(-1)[due],
        "link_reads": (modes[..., 0] + modes[..., 2])[due],
        "freed_content": weight[due & freed.any(-1)],
        "freed_cells": freed.mean(-1)[due],
    }
    spans = observe.answer_spans(due[:, 0]) if due.shape[1] and (due == due[:, :1]).all() else []
    if len(spans) > 1:
        values["forward_entropy_first"] = entropy[slice(*spans[0])]
        values["forward_entropy_last"] = entropy[slice(*spans[-1])]
    return values


def entropy_share(weightings: Numbers) -> Numbers:
    """The entropy of weightings [... N] as a share of the largest that N cells can have."""
    cells = weightings.shape[-1]
    lifted = weightings.astype(np.float64) + EPSILON
    shares = lifted / lifted.sum(-1, keepdims=True)
    entropy: Numbers = -(shares * np.log(shares)).sum(-1) / np.log(max(cells, 2))
    return entropy


def freed_cells(usage: Numbers, write_weighting: Numbers) -> Numbers:
    """The cells [T B N] that were used and are free again; those being written are not."""
    kept = usage + write_weighting - usage * write_weighting
    freed: Numbers = (np.maximum.accumulate(kept, axis=0) > USED) & (kept < FREED)
    return freed


def masks_of(opened: Numbers, asked: Iterable[Phase]) -> dict[str, Numbers]:
    """The masks [T B R W] of each phase of questions, and of every other question of the first."""
    first, second = (opened[phase.start : phase.stop] for phase in asked)
    parts = {"q1": first, "q2": second, "even": first[::2], "odd": first[1::2]}
    return {name: part.reshape(-1, *part.shape[2:]) for name, part in parts.items()}


def of_masks(masks: Mapping[str, Numbers]) -> dict[str, float]:
    """What the masks [questions R W] of the phases have in common."""
    if not masks:
        return {}
    mean = {name: part.mean(0) for name, part in masks.items()}
    values = {
        "mask_overlap": overlap(mean["q1"], mean["q2"]),
        "mask_overlap_same": overlap(mean["even"], mean["odd"]),
    }
    ours, theirs = (mean[name] - mean[name].mean(-1, keepdims=True) for name in ("q1", "q2"))
    spread = np.sqrt((ours**2).sum(-1) * (theirs**2).sum(-1))
    if (spread > 0).all():
        values["mask_correlation"] = float(((ours * theirs).sum(-1) / spread).mean())
    return values


def overlap(first: Numbers, second: Numbers) -> float:
    """What two masks of 0 to 1 have in common: the lesser of each pair over the greater."""
    return float(np.minimum(first, second).sum() / max(np.maximum(first, second).sum(), EPSILON))
