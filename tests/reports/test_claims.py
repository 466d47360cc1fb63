"""Claims judged on invented runs: each verdict, and the numbers that it rests on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from made_up import run_result

from dnclab.reports.claims import Claim, judge, mean_curve
from dnclab.reports.comparisons import all_comparisons, pairs
from dnclab.reports.results import Results, RunResult

STEPS = 500_000
SMALLER = {"name": "repeat-copy", "sizes": {"max_repeats": 2}}


def judged(number: int, runs: Iterable[RunResult]) -> Claim:
    [claim] = [claim for claim in judge(Results(tuple(runs))) if claim.number == number]
    return claim


def copies(
    variant: str, solved: int, *, seeds: int = 6, sooner: bool = True, zero: float = 0.0
) -> list[RunResult]:
    """Runs of repeat copy; those that solve it fall to 0 at once, or late."""
    return [
        run_result(
            variant=variant,
            seed=seed,
            errors=(0.4, zero if seed < solved else 0.3),
            curve=(50.0,) * (1 if sooner else 9) + (1.0,) * (9 if sooner else 1)
            if seed < solved
            else tuple(100.0 - 6 * n for n in range(10)),
        )
        for seed in range(seeds)
    ]


def test_nothing_is_judged_from_nothing() -> None:
    claims = judge(Results())
    assert [claim.number for claim in claims] == [1, 2, 3, 4, 5]
    assert {claim.verdict for claim in claims} == {"not enough runs"}


def test_repeat_copy() -> None:
    ours, theirs = copies("dnc", 0), copies("dnc-ds", 6)
    assert judged(1, [*ours, *theirs]).verdict == "not enough runs"  # no DNC-MDS
    both = [*ours, *theirs, *copies("dnc-mds", 4)]
    claim = judged(1, both)
    assert claim.verdict == "holds"
    assert "DNC-DS solves it (6 of 6 seeds, median best bit error 0, 1,000 iterations): yes" in (
        claim.numbers
    )
    assert "(mean loss 48.3: 1,000 iterations against 200 iterations): yes" in claim.numbers
    assert judged(1, [*copies("dnc", 6), *theirs, *copies("dnc-mds", 6)]).verdict == "does not hold"
    assert judged(1, [*ours, *theirs, *copies("dnc-mds", 2)]).verdict == "does not hold"
    # Solved, but not to zero error.
    claim = judged(1, [*ours, *theirs, *copies("dnc-mds", 6, zero=0.0005)])
    assert claim.verdict == "does not hold"
    claim = judged(1, [*ours, *theirs, *copies("dnc-mds", 6, sooner=False)])
    assert claim.verdict == "does not hold"
    assert "1,000 iterations against 1,000 iterations): no" in claim.numbers
    assert judged(1, [*ours[:3], *theirs, *both[-6:]]).verdict == "not enough runs"
    smaller = [replace(run, config={**run.config, "task": SMALLER}) for run in both]
    assert judged(1, smaller).verdict == "not enough runs"


def recalls(variant: str, loss: float, *, seeds: int = 6, delta: float = 0.1) -> list[RunResult]:
    return [
        run_result(
            "associative-recall", variant, seed, curve=(loss + seed / 50,), mask_min=delta
        )
        for seed in range(seeds)
    ]  # fmt: skip


def test_associative_recall() -> None:
    runs = [*recalls("dnc", 9), *recalls("dnc-m", 5), *recalls("dnc-ms", 6)]
    assert judged(2, runs).verdict == "not enough runs"  # δ=0 is missing
    runs += recalls("dnc-m", 7, delta=0.0)
    claim = judged(2, runs)
    assert claim.verdict == "holds"
    # Six against six: the least p is 2 / 924; three pairs are told apart.
    assert "masking speeds it up (DNC 9.05, DNC-M 5.05, p=0.0065, 6 and 6 seeds): yes" in (
        claim.numbers
    )
    assert "DNC-M, δ=0 7.05" in claim.numbers
    assert judged(2, [*runs, *recalls("dnc-s", 4)]).verdict == "does not hold"  # no slower with S
    overlapping = [*recalls("dnc", 9), *recalls("dnc-m", 9.01)]
    assert "masking speeds it up" in judged(2, overlapping).numbers
    assert judged(2, overlapping).verdict == "does not hold"


def masked(between: float, within: float, correlation: float, seeds: int = 5) -> list[RunResult]:
    return [
        run_result(
            "key-value",
            "dnc-m",
            seed,
            measures={
                "mask_overlap": between + seed / 100,
                "mask_overlap_same": within,
                "mask_correlation": correlation + seed / 100,
            },
        )
        for seed in range(seeds)
    ]


def test_masks() -> None:
    claim = judged(3, masked(0.2, 0.9, -0.8))
    assert claim.verdict == "holds"
    assert "overlap 0.22 [0.21, 0.23] between the phases, 0.90 [0.90, 0.90] within" in claim.numbers
    assert judged(3, masked(0.2, 0.9, 0.1)).verdict == "does not hold"
    assert judged(3, masked(0.9, 0.9, -0.8)).verdict == "does not hold"
    assert judged(3, masked(0.2, 0.9, -0.8, seeds=3)).verdict == "not enough runs"


def linked(variant: str, entropy: float, peak: float, links: float) -> list[RunResult]:
    measures = [
        {
            "forward_entropy": entropy + seed / 100,
            "forward_peak": peak + seed / 100,
            "link_reads": links + seed / 100,
        }
        for seed in range(5)
    ]
    return [run_result(variant=variant, seed=n, measures=own) for n, own in enumerate(measures)]


def test_links() -> None:
    blurred, sharp = linked("dnc-d", 0.6, 0.3, 0.1), linked("dnc-ds", 0.1, 0.9, 0.8)
    claim = judged(4, [*blurred, *sharp])
    assert claim.verdict == "holds"
    assert "S raises its peak (DNC-D 0.32, DNC-DS 0.92, p=0.024, 5 and 5 seeds): yes" in (
        claim.numbers
    )
    assert judged(4, [*blurred, *linked("dnc-ds", 0.1, 0.9, 0.3)]).verdict == "does not hold"
    assert judged(4, [*sharp, *blurred[:3]]).verdict == "not enough runs"


def stories(variant: str, error: float, *, steps: int = STEPS) -> list[RunResult]:
    return [
        run_result("babi", variant, seed, errors=(error + seed / 1000,), error_name="error",
                   steps=steps, curve=(1.0,))
        for seed in range(5)
    ]  # fmt: skip


def test_babi() -> None:
    papers = {"dnc-md": 0.095, "dnc-mds": 0.110, "dnc-ms": 0.105, "dnc-ds": 0.153}
    runs = [run for variant, error in papers.items() for run in stories(variant, error)]
    claim = judged(5, runs)  # by the paper's own numbers D does not help DNC-MS
    assert claim.verdict == "does not hold"
    assert "S costs about 1.5 points (1.5): yes" in claim.numbers
    better = [run for run in runs if run.label != "DNC-MS"]
    assert judged(5, [*better, *stories("dnc-ms", 0.13)]).verdict == "holds"
    early = [run for variant, error in papers.items() for run in stories(variant, error, steps=100)]
    claim = judged(5, early)
    assert claim.verdict == "not enough runs"
    assert "500,000 iterations (the longest run has 100)" in claim.numbers


def test_pairs_differ_in_one_change() -> None:
    labels = ["DNC", "DNC-D", "DNC-DS", "DNC-MDS", "DNC-MDS, δ=0"]
    assert pairs(labels) == [
        ("M", "DNC-DS", "DNC-MDS"),
        ("D", "DNC", "DNC-D"),
        ("S", "DNC-D", "DNC-DS"),
        ("δ=0", "DNC-MDS", "DNC-MDS, δ=0"),
    ]


def test_never_solved_is_later_than_all_others() -> None:
    labels = {
        "DNC": [run_result(seed=n, errors=(0.5, 0.5)) for n in range(4)],
        "DNC-D": [run_result(variant="dnc-d", seed=n, errors=(0.5, 0.0)) for n in range(4)],
    }
    made = {own.figure: own for own in all_comparisons(labels)}
    assert made["iterations until solved"].medians == (float("inf"), 1000.0)
    assert made["iterations until solved"].probability == 2 / 70
    assert "freed_content" not in made  # nobody has measured it


def test_a_mean_curve_ends_where_a_run_has_no_number() -> None:
    runs = [run_result(curve=(4.0, 2.0, 1.0, 1.0)), run_result(seed=1, curve=(2.0, 2.0, None, 1.0))]
    assert mean_curve(runs) == [(250, 3.0), (500, 2.0), (1000, 1.0)]
    assert mean_curve([]) == []
