"""Intervals and tests against cases by hand, and against counting out every labelling."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dnclab.reports.statistics import (
    holm,
    mean_interval,
    median_interval,
    rank_sum_test,
    share_interval,
)


def test_the_rank_sum_test_by_hand() -> None:
    assert rank_sum_test([1, 2, 3], [4, 5, 6]) == 2 / 20  # of 20 labellings two are as extreme
    assert rank_sum_test([1, 2, 3, 4], [5, 6, 7, 8]) == 2 / 70
    # Ranks 1, 4 | 2, 3: the sum is the mean, so every labelling is as extreme.
    assert rank_sum_test([1, 4], [2, 3]) == 1
    # Ranks 1 and 3: sums of two of 1..5 are 3 4 5 5 6 6 7 7 8 9, mean 6; 4 and 8 are 2 away.
    assert rank_sum_test([1, 3], [2, 4, 5]) == 4 / 10
    assert rank_sum_test([5, 5], [5, 5, 5]) == 1


def test_of_zeros_and_ones_it_is_fishers_exact_test() -> None:
    """The tea-tasting table 3 1 / 1 3 has p = 34/70; 4 0 / 0 4 has 2/70."""
    assert rank_sum_test([1, 1, 1, 0], [0, 0, 0, 1]) == pytest.approx(34 / 70)
    assert rank_sum_test([1, 1, 1, 1], [0, 0, 0, 0]) == pytest.approx(2 / 70)


def test_who_never_gets_there_is_the_last() -> None:
    late = [math.inf] * 4
    assert rank_sum_test([10, 20, 30, 40], late) == rank_sum_test([1, 2, 3, 4], [9, 9, 9, 9])
    assert rank_sum_test(late, late) == 1


small = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=5)


@given(small, small)
def test_it_counts_every_labelling(first: list[float], second: list[float]) -> None:
    values = np.array(first + second)
    ranks = [(values < value).sum() + ((values == value).sum() + 1) / 2 for value in values]
    mean = len(first) * (len(values) + 1) / 2
    distance = abs(sum(ranks[: len(first)]) - mean)
    labellings = list(combinations(ranks, len(first)))
    extreme = [c for c in labellings if abs(sum(c) - mean) >= distance - 1e-9]
    assert rank_sum_test(first, second) == pytest.approx(len(extreme) / len(labellings))
    assert rank_sum_test(first, second) == pytest.approx(rank_sum_test(second, first))


def test_twelve_seeds_against_twelve_are_exact_and_quick() -> None:
    assert rank_sum_test(range(12), range(12, 24)) == 2 / math.comb(24, 12)


def test_intervals_by_hand() -> None:
    """Of two values, a quarter of all samples is all low and a quarter all high."""
    interval = mean_interval([2.0, 4.0])
    assert (interval.value, interval.low, interval.high, interval.count) == (3.0, 2.0, 4.0, 2)
    alone = median_interval([7.0])
    assert (alone.value, alone.low, alone.high) == (7.0, 7.0, 7.0)
    assert mean_interval([5.0, 1.0, 3.0]) == mean_interval([1.0, 3.0, 5.0])


def test_a_mean_interval_is_as_wide_as_theory_says() -> None:
    values = np.random.default_rng(5).normal(size=200)
    interval = mean_interval(values.tolist())
    half = 1.96 * values.std() / math.sqrt(200)
    assert interval.low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_medians_may_be_infinite() -> None:
    assert median_interval([1.0, 2.0, math.inf]).value == 2.0
    assert median_interval([1.0, 2.0, math.inf]).high == math.inf
    assert median_interval([1.0, math.inf]).value == math.inf
    assert median_interval([math.inf] * 3).low == math.inf
    assert median_interval([1.0, 2.0, 3.0, 10.0]).value == 2.5


def test_shares_by_hand() -> None:
    """Wilson's interval for 0 of 10 ends at z²/(n + z²) = 3.8415/13.8415."""
    none = share_interval(0, 10)
    assert none.value == 0
    assert none.low == pytest.approx(0, abs=1e-12)
    assert none.high == pytest.approx(3.841459 / 13.841459, rel=1e-6)
    every = share_interval(10, 10)
    assert every.low == pytest.approx(1 - none.high)
    assert every.high == pytest.approx(1)
    half = share_interval(5, 10)
    assert half.value == 0.5
    assert half.high - 0.5 == pytest.approx(0.5 - half.low)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize("values", [[], [1.0, math.nan]])
def test_nothing_and_nan_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="values: expected numbers"):
        mean_interval(values)
    with pytest.raises(ValueError, match="first: expected numbers"):
        rank_sum_test(values, [1.0])
    with pytest.raises(ValueError, match="successes"):
        share_interval(3, 2)
