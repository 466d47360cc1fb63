"""What the paper claims, and whether runs say so: a pure function from results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dnclab.reports.comparisons import (
    BEST_ERROR,
    ENOUGH,
    FINAL_ERROR,
    MEAN_LOSS,
    SIGNIFICANT,
    Comparison,
    compare,
    figures_of,
    pairs,
)
from dnclab.reports.results import Results, RunResult
from dnclab.reports.statistics import holm, mean_interval, median_interval

Verdict = Literal["holds", "does not hold", "not enough runs"]

BABI_STEPS = 500_000
"""The paper compares bAbI after so many; runs that are not so far decide nothing."""

NOT_SIZES = {"folder", "group_lengths"}
"""Settings of a task that leave what is learnt as it is."""

FASTER = 3.0
"""How much sooner the paper's variants get to where the DNC ends."""

Labels = Mapping[str, Sequence[RunResult]]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper."""

    number: int
    text: str
    verdict: Verdict
    numbers: str
    """What it was judged by, each part with its own verdict."""


@dataclass(frozen=True)
class Check:
    """A part of a claim."""

    text: str
    holds: bool | None
    """None: there are not enough runs."""


def judge(results: Results) -> list[Claim]:
    """The paper's five claims. One holds if all its parts do, and fails if any does.

    Runs of a task in other sizes than the paper's decide nothing.
    """
    results = replace(results, runs=tuple(run for run in results.runs if _papers_sizes(run)))
    copies = results.of_task("repeat-copy")
    return [
        _claim(
            1,
            "DNC does not solve the large repeat copy; DNC-DS and DNC-MDS do, to zero error, and "
            "converge 3 times faster",
            [
                *_solving(copies),
                *(_sooner(copies, label) for label in ("DNC-DS", "DNC-MDS")),
            ],
        ),
        _claim(
            2,
            "masking speeds up associative recall, sharpness slows it, δ=0 slows it",
            _recall(results.of_task("associative-recall")),
        ),
        _claim(
            3,
            "the read mask of DNC-M on key-value retrieval switches with the side that is asked, "
            "nearly complementary",
            _masks(results.of_task("key-value").get("DNC-M", ())),
        ),
        _claim(
            4,
            "without S the forward distribution blurs and the model reads by content; with S it "
            "stays sharp and the model reads by links",
            _links(copies),
        ),
        _claim(
            5,
            "on bAbI M and D help, S costs about 1.5 points",
            _babi(results.of_task("babi")),
        ),
    ]


def _papers_sizes(run: RunResult) -> bool:
    return set(run.config["task"]["sizes"]) <= NOT_SIZES


def _claim(number: int, text: str, checks: Iterable[Check]) -> Claim:
    checks = list(checks)
    said = {True: "yes", False: "no", None: "not enough runs"}
    numbers = "; ".join(f"{check.text}: {said[check.holds]}" for check in checks)
    verdict: Verdict = "holds"
    if any(check.holds is False for check in checks):
        verdict = "does not hold"
    elif not checks or any(check.holds is None for check in checks):
        verdict = "not enough runs"
    return Claim(number, text, verdict, numbers)


# --- repeat copy ---------------------------------------------------------------------------------


def _solving(labels: Labels) -> list[Check]:
    """Who solves it: most seeds, and for those that should, to zero error."""
    checks = []
    for label, should in (("DNC", False), ("DNC-DS", True), ("DNC-MDS", True)):
        runs = labels.get(label, ())
        solved = sum(run.solved_at is not None for run in runs)
        text = f"{label} {'solves' if should else 'does not solve'} it ({solved} of {len(runs)}"
        holds = None
        if len(runs) >= ENOUGH:
            error = median_interval(figures_of(runs, BEST_ERROR)).value
            text += f" seeds, median best bit error {error:.2g}, {runs[0].steps:,} iterations"
            most = solved > len(runs) / 2
            holds = (most and error == 0) if should else not most
        checks.append(Check(text + ")", holds))
    return checks


def _sooner(labels: Labels, label: str) -> Check:
    """How much sooner its mean loss is where that of the DNC ends."""
    ours, theirs = mean_curve(labels.get("DNC", ())), mean_curve(labels.get(label, ()))
    text = f"{label} is {FASTER:g} times sooner where DNC ends"
    if min(len(labels.get(name, ())) for name in ("DNC", label)) < ENOUGH or not ours or not theirs:
        return Check(text, None)
    last = [loss for _, loss in ours[-max(len(ours) // 10, 1) :]]
    level = 1.05 * sum(last) / len(last)
    reached = [
        next((step for step, loss in curve if loss <= level), None) for curve in (ours, theirs)
    ]
    text += f" (mean loss {level:.3g}: {_steps(reached[0])} against {_steps(reached[1])})"
    if reached[0] is None or reached[1] is None:
        return Check(text, False)
    return Check(text, reached[0] >= FASTER * reached[1])


def _steps(step: int | None) -> str:
    return "never" if step is None else f"{step:,} iterations"


def mean_curve(runs: Sequence[RunResult]) -> list[tuple[int, float]]:
    """Steps and the mean training loss of the runs, as far as all of them have one."""
    if not runs:
        return []
    points = zip(runs[0].curve_steps, *(run.curve for run in runs), strict=False)
    found = []
    for step, *losses in points:
        finite = [loss for loss in losses if loss is not None]
        if len(finite) == len(losses):
            found.append((step, sum(finite) / len(finite)))
    return found


# --- associative recall --------------------------------------------------------------------------

SPEEDS = {
    "M": (-1, "masking speeds it up"),
    "S": (1, "sharpness slows it"),
    "δ=0": (1, "δ=0 slows it"),
}
"""In which direction each change should move the mean training loss."""


def _recall(labels: Labels) -> list[Check]:
    """Each part by every pair of variants that there is; p is raised for their number."""
    made = [
        compare(labels, first, second, MEAN_LOSS, change)
        for change, first, second in pairs(list(labels))
        if change in SPEEDS
    ]
    enough = [comparison for comparison in made if comparison is not None and comparison.enough]
    adjusted = holm([comparison.probability for comparison in enough])
    checks = []
    for change, (direction, text) in SPEEDS.items():
        own = [(c, p) for c, p in zip(enough, adjusted, strict=True) if c.change == change]
        said = ", ".join(_said(comparison, p) for comparison, p in own)
        holds = all(_moved(comparison, p, direction) for comparison, p in own) if own else None
        checks.append(Check(f"{text} ({said})" if own else text, holds))
    return checks


def _said(comparison: Comparison, probability: float) -> str:
    """``DNC 80.1, DNC-M 40.2, p=0.0021, 12 and 12 seeds``"""
    (ours, theirs), (first, second) = comparison.medians, comparison.seeds
    return (
        f"{comparison.first} {ours:.3g}, {comparison.second} {theirs:.3g}, p={probability:.2g}, "
        f"{first} and {second} seeds"
    )


def _moved(comparison: Comparison, probability: float, direction: int) -> bool:
    """Whether the second is greater (1) or less (-1) than the first, by more than chance."""
    ours, theirs = comparison.medians
    return probability < SIGNIFICANT and (theirs - ours) * direction > 0


# --- key-value retrieval -------------------------------------------------------------------------


def _masks(runs: Sequence[RunResult]) -> list[Check]:
    """Do the masks of the two phases differ more than within a phase, and are they opposites?"""
    texts = ("the mask switches", "the two masks complement each other")
    between = figures_of(runs, "mask_overlap")
    within = figures_of(runs, "mask_overlap_same")
    correlations = figures_of(runs, "mask_correlation")
    if min(len(between), len(within), len(correlations)) < ENOUGH:
        return [Check(text, None) for text in texts]
    ours, theirs = mean_interval(between), mean_interval(within)
    correlation = mean_interval(correlations)
    return [
        Check(
            f"{texts[0]} (overlap {ours.value:.2f} [{ours.low:.2f}, {ours.high:.2f}] between the "
            f"phases, {theirs.value:.2f} [{theirs.low:.2f}, {theirs.high:.2f}] within, "
            f"{len(between)} seeds)",
            ours.high < theirs.low,
        ),
        Check(
            f"{texts[1]} (correlation {correlation.value:.2f} [{correlation.low:.2f}, "
            f"{correlation.high:.2f}])",
            correlation.high < 0,
        ),
    ]


# --- links ---------------------------------------------------------------------------------------

SHARPENED = {
    "forward_entropy": (-1, "S makes the forward distribution sharper"),
    "forward_peak": (1, "S raises its peak"),
    "link_reads": (1, "S makes the model read by links"),
}


def _links(labels: Labels) -> list[Check]:
    """DNC-D against DNC-DS, as in the paper."""
    made = {name: compare(labels, "DNC-D", "DNC-DS", name, "S") for name in SHARPENED}
    enough = {name: c for name, c in made.items() if c is not None and c.enough}
    adjusted = dict(zip(enough, holm([c.probability for c in enough.values()]), strict=True))
    checks = []
    for name, (direction, text) in SHARPENED.items():
        if name in enough:
            own, p = enough[name], adjusted[name]
            checks.append(Check(f"{text} ({_said(own, p)})", _moved(own, p, direction)))
        else:
            checks.append(Check(text, None))
    text = "without S most reading is by content, with S by links"
    if "link_reads" in enough:
        without, with_it = enough["link_reads"].medians
        return [*checks, Check(text, without < 0.5 < with_it)]
    return [*checks, Check(text, None)]


# --- bAbI ----------------------------------------------------------------------------------------

COST_OF_SHARPNESS = 0.015
"""Of the mean error, by the paper."""


def _babi(labels: Labels) -> list[Check]:
    """By the mean error after the paper's number of iterations."""
    far = {label: [run for run in runs if run.step >= BABI_STEPS] for label, runs in labels.items()}
    checks = [
        _helps("M helps", compare(far, "DNC-DS", "DNC-MDS", FINAL_ERROR, "M")),
        _helps("D helps", compare(far, "DNC-MS", "DNC-MDS", FINAL_ERROR, "D")),
    ]
    text = "S costs about 1.5 points"
    ours, theirs = (figures_of(far.get(label, ()), FINAL_ERROR) for label in ("DNC-MD", "DNC-MDS"))
    if min(len(ours), len(theirs)) < ENOUGH:
        checks.append(Check(text, None))
    else:
        cost = mean_interval(theirs).value - mean_interval(ours).value
        near = 0 < cost < 2 * COST_OF_SHARPNESS
        checks.append(Check(f"{text} ({100 * cost:.1f})", near))
    steps = max((run.step for runs in labels.values() for run in runs), default=0)
    if steps < BABI_STEPS and steps:
        checks.append(Check(f"{BABI_STEPS:,} iterations (the longest run has {steps:,})", None))
    return checks


def _helps(text: str, comparison: Comparison | None) -> Check:
    if comparison is None or not comparison.enough:
        return Check(text, None)
    said = _said(comparison, comparison.probability)
    return Check(f"{text} ({said})", _moved(comparison, comparison.probability, -1))
