"""Lanes one by one: each function beside NumPy's in float64, at its ends, and with NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dnclab.kernels import simd
from dnclab.kernels.compiled import inner

DTYPES: list[np.dtype[Any]] = [np.dtype(np.float32), np.dtype(np.float64)]


@inner
def _each(function: Any, source: Any, target: Any) -> None:
    p, q = simd.pointer(source), simd.pointer(target)
    for i in range(source.size // simd.lane_count(p)):
        simd.store(q, i, function(simd.load(p, i)))


def apply(function: Any, values: Any, dtype: np.dtype[Any]) -> Any:
    """A function of lanes, to any number of values."""
    lanes = simd.lanes_of(dtype)
    values = np.asarray(values, dtype)
    padded = np.zeros(-(-values.size // lanes) * lanes, dtype)
    padded[: values.size] = values
    result = np.zeros_like(padded)
    _each(function, padded, result)
    return result[: values.size]


@inner
def _exp(x: Any) -> Any:
    return simd.exp(x)


@inner
def _log(x: Any) -> Any:
    return simd.log(x)


@inner
def _sigmoid(x: Any) -> Any:
    return simd.sigmoid(x)


@inner
def _tanh(x: Any) -> Any:
    return simd.tanh(x)


@inner
def _oneplus(x: Any) -> Any:
    return simd.oneplus(x)


FUNCTIONS: dict[str, tuple[Any, Callable[[Any], Any], float, float]] = {
    "exp": (_exp, np.exp, -80, 80),
    "log": (_log, lambda x: np.log(np.exp(x)), -80, 80),
    "sigmoid": (_sigmoid, lambda x: 1 / (1 + np.exp(-x)), -80, 80),
    "tanh": (_tanh, np.tanh, -30, 30),
    "oneplus": (_oneplus, lambda x: 1 + np.logaddexp(0, x), -80, 80),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_to_a_few_units_in_the_last_place(name: str, dtype: np.dtype[Any]) -> None:
    function, right, low, high = FUNCTIONS[name]
    x = np.concatenate(
        [np.linspace(low, high, 4001), np.linspace(-1, 1, 4001), [0.0, 1e-30, -1e-30]]
    ).astype(dtype)
    given = np.exp(x) if name == "log" else x
    exact = np.log(given.astype(np.longdouble)) if name == "log" else right(x.astype(np.longdouble))
    found = apply(function, given, dtype)
    units = np.abs(found - exact) / np.spacing(np.abs(exact).astype(dtype) + np.finfo(dtype).tiny)
    assert units.max() < 5, x[units.argmax()]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_ends_of_the_range(dtype: np.dtype[Any]) -> None:
    largest = np.finfo(dtype).max
    assert apply(_sigmoid, [-largest, -1e4, 1e4, largest], dtype)[[2, 3]].tolist() == [1, 1]
    assert (apply(_sigmoid, [-largest, -1e4], dtype) < 1e-30).all()
    assert apply(_tanh, [-largest, -1e4, 1e4, largest], dtype).tolist() == [-1, -1, 1, 1]
    assert apply(_oneplus, [-1e4, 1e4], dtype).tolist() == [1, 10001]
    assert apply(_log, [0.0, 1.0], dtype).tolist() == [-np.inf, 0]
    assert apply(_exp, [0.0], dtype).tolist() == [1]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_nan_in_nan_out_and_in_no_other_lane(name: str, dtype: np.dtype[Any]) -> None:
    values = np.full(simd.lanes_of(dtype), 0.5)
    values[3 % len(values)] = np.nan
    found = apply(FUNCTIONS[name][0], values, dtype)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(values))


@inner
def _chosen(source: Any, target: Any) -> None:
    p, q = simd.pointer(source), simd.pointer(target)
    a, b = simd.load(p, 0), simd.load(p, 1)
    one, zero = simd.fill(p, 1.0), simd.fill(p, 0.0)
    simd.store(q, 0, simd.where_less(a, b, one, zero))
    simd.store(q, 1, simd.where_not_above(a, b, one, zero))
    simd.store(q, 2, simd.magnitude(a) - b / 2 + 1)
    simd.store(q, 3, simd.fused(a, b, a))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_comparisons_and_arithmetic(dtype: np.dtype[Any]) -> None:
    lanes = simd.lanes_of(dtype)
    left = np.resize(np.array([1, -2, 3, np.nan, 2], dtype), lanes)
    right = np.resize(np.array([2, -2, 1, 1], dtype), lanes)
    result = np.zeros((4, lanes), dtype)
    _chosen(np.concatenate([left, right]), result)
    np.testing.assert_array_equal(result[0], left < right)
    np.testing.assert_array_equal(result[1], left <= right)
    np.testing.assert_array_equal(result[2], np.abs(left) - right / 2 + 1)
    np.testing.assert_array_equal(result[3], left * right + left)


@inner
def _sums(source: Any, target: Any) -> None:
    p, q = simd.pointer(source), simd.pointer(target)
    a, b, c, d = simd.load(p, 0), simd.load(p, 1), simd.load(p, 2), simd.load(p, 3)
    e, f, g, h = simd.load(p, 4), simd.load(p, 5), simd.load(p, 6), simd.load(p, 7)
    simd.put_totals(q, 2, a, b, c, d, e, f, g, h)
    simd.put(q, 0, simd.total(a))
    simd.put(q, 10, simd.greatest(d))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sums_over_lanes(dtype: np.dtype[Any]) -> None:
    numbers = np.arange(8 * simd.lanes_of(dtype), dtype=dtype).reshape(8, -1) ** 2
    result = np.full(11, -1, dtype)
    _sums(numbers, result)
    assert result[0] == numbers[0].sum()
    np.testing.assert_array_equal(result[2:10], numbers.sum(axis=1))
    assert result[1] == -1
    assert result[10] == numbers[3].max()


@inner
def _memory(source: Any, target: Any) -> None:
    p, q = simd.pointer(source), simd.pointer(target)
    simd.store(q, 0, simd.spread(p, 5))
    simd.store_at(q, simd.lane_count(p) + 1, simd.load_at(p, 3))
    simd.put(q, simd.lane_count(p), simd.get(simd.skip(p, 2), 0))
    simd.store(simd.advance(q, 3), 0, simd.lane_numbers(p))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_reading_and_writing(dtype: np.dtype[Any]) -> None:
    lanes = simd.lanes_of(dtype)
    source = np.arange(4 * lanes, dtype=dtype) + 10
    target = np.zeros(4 * lanes, dtype)
    _memory(source, target)
    expected = np.zeros(4 * lanes, dtype)
    expected[:lanes] = source[5]
    expected[lanes] = source[2]
    expected[lanes + 1 : 2 * lanes + 1] = source[3 : 3 + lanes]
    expected[3 * lanes :] = np.arange(lanes)
    np.testing.assert_array_equal(target, expected)
