"""The paper's experiments, part by part: the sweep, then what is kept of it, figures and tables."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from dnclab.config import VARIANTS
from dnclab.reports.render import render
from dnclab.reports.results import collect, save_results
from dnclab.training.plan import Group, make_plan
from dnclab.training.sweep import Ended, sweep

PAPER_SEEDS = 12
"""The paper's number for a model; for bAbI it names none."""

SWEEPS_NAME = "sweeps"
RESULTS_FOLDER = "results"


@dataclass(frozen=True)
class Part:
    """A part of the paper."""

    preset: str
    """What is trained; parts of one preset share their runs."""
    groups: tuple[Group, ...]
    shows: str
    """What it is for."""
    unfinished: bool = False
    """Whether runs that have not finished are shown too."""


def _groups(*variants: str) -> tuple[Group, ...]:
    return tuple(Group(variant) for variant in variants)


PARTS = {
    "copy": Part("repeat-copy", _groups(*VARIANTS), "claim 1: de-allocation and sharpness"),
    "links": Part("repeat-copy", _groups("dnc-d", "dnc-ds"), "claim 4: sharp links are used"),
    "key-value": Part("key-value", _groups("dnc-m", "dnc"), "claim 3: the mask switches"),
    "recall": Part(
        "associative-recall",
        (
            *_groups("dnc", "dnc-m", "dnc-ds", "dnc-md", "dnc-mds"),
            Group("dnc-md", ("model.mask_min=0",), "-delta0"),
        ),
        "claim 2: masking, sharpness, δ",
    ),
    "babi": Part(
        "babi",
        _groups("dnc-md", "dnc", "dnc-mds", "dnc-ms", "dnc-ds"),
        "claim 5, Table 1",
        unfinished=True,
    ),
}
"""By name, in the order in which ``all`` spends its budget. The paper's text does not say which
models its figure of associative recall shows: these cover all it says about them."""


def reproduce(
    names: Sequence[str],
    folder: Path,
    *,
    seeds: int = PAPER_SEEDS,
    settings: Sequence[str] = (),
    jobs: int = 1,
    budget: float | None = None,
    results: Path | None = None,
    stream: TextIO | None = None,
    command: str = "",
) -> dict[str, Ended]:
    """Train what the parts need as far as the budget goes, then draw all that there is."""
    begun = time.monotonic()
    results = folder / RESULTS_FOLDER if results is None else results
    ended: dict[str, Ended] = {}
    for name in names:
        part = PARTS[name]
        plan = make_plan(part.preset, part.groups, range(seeds), settings=settings, command=command)
        place = folder / SWEEPS_NAME / part.preset
        left = None if budget is None else max(budget - (time.monotonic() - begun), 0.0)
        ended[name] = sweep(
            place,
            plan,
            jobs=jobs,
            budget=left,
            stream=stream,
            only_plan=any(other.reason == "interrupted" for other in ended.values()),
        )
        kept = collect(
            [place / run.name for run in plan.runs], unfinished=part.unfinished, command=command
        )
        save_results(results / name, kept)
    render(results)
    return ended
