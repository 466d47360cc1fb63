"""What a few seeds say: intervals and tests that are right for small samples.

Medians and times may be infinite: a run that did not get there counts as later than all others.
Random numbers are raw ones of Philox, so that the same values give the same interval anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
"""Of intervals; tests are read at 1 - CONFIDENCE."""

RESAMPLES = 4000
"""Samples drawn for a bootstrap interval."""

NORMAL_QUANTILE = 1.959963984540054
"""Of a normal distribution, the central 95% lie within so many standard deviations."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A figure and where it may lie."""

    value: float
    low: float
    high: float
    count: int
    """Values that it is from."""


def mean_interval(values: Sequence[float]) -> Interval:
    """The mean with its bootstrap interval."""
    return _bootstrap(values, lambda samples: samples.mean(axis=-1))


def median_interval(values: Sequence[float]) -> Interval:
    """The median with its bootstrap interval; values may be infinite."""
    return _bootstrap(values, _median)


def _median(samples: Floats) -> Floats:
    """The middle value or the mean of the two in the middle, infinity with the others."""
    ordered = np.sort(samples, axis=-1)
    count = ordered.shape[-1]
    middle: Floats = (ordered[..., (count - 1) // 2] + ordered[..., count // 2]) / 2
    return middle


def _bootstrap(values: Sequence[float], figure: Callable[[Floats], Any]) -> Interval:
    """The percentiles of a figure over samples drawn from the values, with replacement."""
    _check_values("values", values)
    given = np.sort(np.asarray(values, dtype=np.float64))  # the order of seeds says nothing
    count = len(given)
    source = np.random.Philox(key=np.zeros(2, dtype=np.uint64))
    raw = source.random_raw(RESAMPLES * count)
    places = (raw % np.uint64(count)).astype(np.int64).reshape(RESAMPLES, count)
    figures = np.sort(figure(given[places]))
    tail = (1 - CONFIDENCE) / 2
    low = figures[math.floor(tail * RESAMPLES)]
    high = figures[math.ceil((1 - tail) * RESAMPLES) - 1]
    return Interval(float(figure(given)), float(low), float(high), count)


def share_interval(successes: int, count: int) -> Interval:
    """A share with Wilson's interval: the bootstrap of 12 of 12 would know no doubt."""
    if not 0 <= successes <= count or count == 0:
        raise ValueError(f"successes: expected 0 to a count above 0, got {successes} of {count}")
    share, z = successes / count, NORMAL_QUANTILE
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    spread = math.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    spread *= z / (1 + z**2 / count)
    low, high = max(centre - spread, 0.0), min(centre + spread, 1.0)
    return Interval(share, low, high, count)


def rank_sum_test(first: Sequence[float], second: Sequence[float]) -> float:
    """The two-sided p of the exact Wilcoxon-Mann-Whitney test; ties share their mean rank.

    How likely, if labels were drawn at random, is a rank sum as far from its mean as this one: all
    ways to label are counted, none is approximated. On 0 and 1 it is Fisher's exact test.
    """
    _check_values("first", first)
    _check_values("second", second)
    doubled = _doubled_ranks([*first, *second])
    chosen = len(first)
    ways = _subset_sums(doubled, chosen)
    mean = sum(doubled) * chosen / len(doubled)
    distance = abs(sum(doubled[:chosen]) - mean)
    extreme = sum(n for total, n in ways.items() if abs(total - mean) >= distance - 1e-9)
    return extreme / math.comb(len(doubled), chosen)


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Twice the mean rank of each value, which is whole."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    ranks = [0] * len(values)
    begin = 0
    for _, group in groupby(order, key=lambda place: values[place]):
        tied = list(group)
        for place in tied:
            ranks[place] = 2 * begin + len(tied) + 1
        begin += len(tied)
    return ranks


def _subset_sums(numbers: Sequence[int], size: int) -> dict[int, int]:
    """For each possible sum of `size` of the numbers, in how many ways it comes about."""
    ways: list[dict[int, int]] = [{0: 1}, *({} for _ in range(size))]
    for number in numbers:
        for taken in range(size, 0, -1):
            for total, count in ways[taken - 1].items():
                ways[taken][total + number] = ways[taken].get(total + number, 0) + count
    return ways[size]


def holm(probabilities: Sequence[float]) -> list[float]:
    """The p of several tests, raised so that one false finding among all stays as unlikely."""
    order = sorted(range(len(probabilities)), key=lambda place: probabilities[place])
    adjusted, largest = [0.0] * len(order), 0.0
    for done, place in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - done) * probabilities[place]))
        adjusted[place] = largest
    return adjusted


def _check_values(name: str, values: Sequence[float]) -> None:
    if not len(values) or any(math.isnan(value) for value in values):
        raise ValueError(f"{name}: expected numbers, at least one, got {list(values)}")
