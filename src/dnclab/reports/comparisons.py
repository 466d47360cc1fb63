"""Figures of runs by label, and labels compared over seeds. Plain data in, plain data out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from dnclab.reports.results import RunResult
from dnclab.reports.statistics import median_interval, rank_sum_test

ENOUGH = 4
"""Seeds of each label from which on a rank test can say anything at 5%: 2 / 70 is its least p."""

SIGNIFICANT = 0.05

UNTIL_SOLVED = "iterations until solved"
MEAN_LOSS = "mean training loss"
BEST_ERROR = "best error"
FINAL_ERROR = "final error"

COMPARED = {
    "M": (UNTIL_SOLVED, MEAN_LOSS, FINAL_ERROR),
    "D": (UNTIL_SOLVED, MEAN_LOSS, FINAL_ERROR, "freed_content"),
    "S": (UNTIL_SOLVED, MEAN_LOSS, FINAL_ERROR, "forward_entropy", "forward_peak", "link_reads"),
    "δ=0": (UNTIL_SOLVED, MEAN_LOSS, FINAL_ERROR),
}
"""What each change should change; the mean loss of a run is small if it converges early."""


def figure_of(run: RunResult, name: str) -> float | None:
    """A figure of a run, None if it has none; never solved is infinitely late."""
    if name == UNTIL_SOLVED:
        if run.error_name is None:
            return None
        return math.inf if run.solved_at is None else float(run.solved_at)
    if name == MEAN_LOSS:
        finite = [loss for loss in run.curve if loss is not None]
        return math.fsum(finite) / len(finite) if finite else None
    if name == BEST_ERROR:
        return None if run.error_name is None else run.best(run.error_name)
    if name == FINAL_ERROR:
        return None if run.error_name is None else run.final(run.error_name)
    return run.measures.get(name)


def figures_of(runs: Sequence[RunResult], name: str) -> list[float]:
    """A figure of all runs that have it."""
    found = (figure_of(run, name) for run in runs)
    return [value for value in found if value is not None]


@dataclass(frozen=True)
class Comparison:
    """A figure of two labels over their seeds."""

    change: str
    """What the second has and the first has not."""
    figure: str
    first: str
    second: str
    seeds: tuple[int, int]
    medians: tuple[float, float]
    probability: float
    """Of the exact two-sided rank test."""

    @property
    def enough(self) -> bool:
        """Whether there are seeds enough to tell."""
        return min(self.seeds) >= ENOUGH


def compare(
    labels: Mapping[str, Sequence[RunResult]], first: str, second: str, figure: str, change: str
) -> Comparison | None:
    """Two labels compared; None if either has no such figure."""
    ours = figures_of(labels.get(first, ()), figure)
    theirs = figures_of(labels.get(second, ()), figure)
    if not ours or not theirs:
        return None
    return Comparison(
        change=change,
        figure=figure,
        first=first,
        second=second,
        seeds=(len(ours), len(theirs)),
        medians=(median_interval(ours).value, median_interval(theirs).value),
        probability=rank_sum_test(ours, theirs),
    )


def all_comparisons(labels: Mapping[str, Sequence[RunResult]]) -> list[Comparison]:
    """Every pair of labels that differ in one change, in every figure that it should change."""
    made = [
        compare(labels, first, second, figure, change)
        for change, first, second in pairs(list(labels))
        for figure in COMPARED[change]
    ]
    return [comparison for comparison in made if comparison is not None]


def pairs(labels: Sequence[str]) -> list[tuple[str, str, str]]:
    """Pairs of labels that differ in one change: the change, without it, with it."""
    found = [
        (change, first, second)
        for first, second in permutations(labels, 2)
        if (change := _change(first, second)) in COMPARED
    ]
    return sorted(found, key=lambda pair: list(COMPARED).index(pair[0]))


def _change(first: str, second: str) -> str:
    """What the second label has and the first has not, if that is all that they differ in."""
    (plain, _, ours), (other, _, theirs) = first.partition(", "), second.partition(", ")
    if plain == other:
        return theirs if not ours else ""
    had, has = (set(name.removeprefix("DNC").removeprefix("-")) for name in (plain, other))
    return "".join(has - had) if had < has and ours == theirs else ""
