"""Squashing the interface, and its adjoint, for either layout.

An entry of the interface is `apart` numbers from the next: as many as lanes hold where a sample
lies in each lane, 1 where the entries of one sample lie side by side. Sections are worked on in
their order, and whole lanes are written: what is written beyond the end of a section is written
again by the next one, and behind the last there is room for it.
"""

from __future__ import annotations

from typing import Any

from dnclab.kernels.compiled import inner
from dnclab.kernels.problem import Problem
from dnclab.kernels.records import Parts
from dnclab.kernels.simd import (
    exp,
    fill,
    fused,
    lane_count,
    load_at,
    magnitude,
    oneplus,
    sigmoid,
    store_at,
    where_less,
    where_not_above,
)


@inner
def _clamped(x: Any, limit: Any) -> Any:
    """max(-limit, min(limit, x))    [I1]"""
    x = where_less(x, limit * -1.0, limit * -1.0, x)
    return where_less(limit, x, limit, x)


@inner
def _clamp(apart: int, limit: Any, raw: Any, squashed: Any, begin: int, end: int) -> None:
    for i in range(begin * apart, end * apart, lane_count(raw)):
        store_at(squashed, i, _clamped(load_at(raw, i), limit))


@inner
def _sigmoids(apart: int, limit: Any, raw: Any, squashed: Any, begin: int, end: int) -> None:
    for i in range(begin * apart, end * apart, lane_count(raw)):
        store_at(squashed, i, sigmoid(_clamped(load_at(raw, i), limit)))


@inner
def _onepluses(
    apart: int, limit: Any, raw: Any, squashed: Any, begin: int, end: int, shift: int
) -> None:
    for i in range(begin * apart, end * apart, lane_count(raw)):
        store_at(squashed, i, oneplus(_clamped(load_at(raw, i - shift * apart), limit)))


@inner
def _modes(apart: int, limit: Any, raw: Any, squashed: Any, begin: int) -> None:
    """softmax over three."""
    i = begin * apart
    first = _clamped(load_at(raw, i), limit)
    second = _clamped(load_at(raw, i + apart), limit)
    third = _clamped(load_at(raw, i + 2 * apart), limit)
    top = where_less(first, second, second, first)
    top = where_less(top, third, third, top)
    first, second, third = exp(first - top), exp(second - top), exp(third - top)
    share = fill(raw, 1.0) / (first + second + third)
    store_at(squashed, i, first * share)
    store_at(squashed, i + apart, second * share)
    store_at(squashed, i + 2 * apart, third * share)


@inner
def squash(problem: Problem, parts: Parts, apart: int, raw: Any, squashed: Any) -> None:
    """The interface from raw numbers    [I1, I3, I4, I5]"""
    limit = fill(raw, problem.clip)
    _clamp(apart, limit, raw, squashed, parts.read_keys, parts.read_strengths)
    _onepluses(apart, limit, raw, squashed, parts.read_strengths, parts.write_key, 0)
    _clamp(apart, limit, raw, squashed, parts.write_key, parts.write_strength)
    _onepluses(apart, limit, raw, squashed, parts.write_strength, parts.erase, 0)
    _sigmoids(apart, limit, raw, squashed, parts.erase, parts.write_vector)
    _clamp(apart, limit, raw, squashed, parts.write_vector, parts.free_gates)
    _sigmoids(apart, limit, raw, squashed, parts.free_gates, parts.read_modes)
    for head in range(problem.heads):
        _modes(apart, limit, raw, squashed, parts.read_modes + 3 * head)
    lanes, begin, end = lane_count(raw), parts.write_mask * apart, parts.sharpness * apart
    if problem.mask:
        span, least = 1.0 - problem.mask_min, problem.mask_min
        for i in range(begin, end, lanes):
            store_at(squashed, i, sigmoid(_clamped(load_at(raw, i), limit)) * span + least)
    else:
        for i in range(begin, end, lanes):
            store_at(squashed, i, fill(raw, 1.0))
    if problem.sharpen:
        shift = parts.sharpness - parts.raw_sharpness
        _onepluses(apart, limit, raw, squashed, parts.sharpness, parts.size, shift)


# --- the way back --------------------------------------------------------------------------------


@inner
def _inside(limit: Any, raw: Any, i: int, value: Any, alive: Any) -> Any:
    """No gradient where the clamp holds, nor after the end of a sample."""
    zero = fill(raw, 0.0)
    value = where_not_above(magnitude(load_at(raw, i)), limit, value, zero)
    return where_less(zero, alive, value, zero)


@inner
def _linear_back(
    apart: int, limit: Any, alive: Any, raw: Any, d: Any, d_raw: Any, begin: int, end: int
) -> None:
    for i in range(begin * apart, end * apart, lane_count(raw)):
        store_at(d_raw, i, _inside(limit, raw, i, load_at(d, i), alive))


@inner
def _sigmoids_back(
    apart: int, limit: Any, alive: Any, raw: Any, squashed: Any, d: Any, d_raw: Any, begin: int,
    end: int,
) -> None:  # fmt: skip
    for i in range(begin * apart, end * apart, lane_count(raw)):
        y = load_at(squashed, i)
        slope = y * (fill(raw, 1.0) - y)
        store_at(d_raw, i, _inside(limit, raw, i, load_at(d, i) * slope, alive))


@inner
def _onepluses_back(
    apart: int, limit: Any, alive: Any, raw: Any, d: Any, d_raw: Any, begin: int, end: int,
    shift: int,
) -> None:  # fmt: skip
    for i in range(begin * apart, end * apart, lane_count(raw)):
        place = i - shift * apart
        slope = sigmoid(_clamped(load_at(raw, place), limit))
        store_at(d_raw, place, _inside(limit, raw, place, load_at(d, i) * slope, alive))


@inner
def squash_back(
    problem: Problem, parts: Parts, apart: int, alive: Any, raw: Any, squashed: Any, d: Any,
    d_raw: Any,
) -> None:  # fmt: skip
    """From the adjoint of the squashed interface to that of ξ_t; 0 where `alive` is 0."""
    limit = fill(raw, problem.clip)
    _linear_back(apart, limit, alive, raw, d, d_raw, parts.read_keys, parts.read_strengths)
    _onepluses_back(apart, limit, alive, raw, d, d_raw, parts.read_strengths, parts.write_key, 0)
    _linear_back(apart, limit, alive, raw, d, d_raw, parts.write_key, parts.write_strength)
    _onepluses_back(apart, limit, alive, raw, d, d_raw, parts.write_strength, parts.erase, 0)
    _sigmoids_back(apart, limit, alive, raw, squashed, d, d_raw, parts.erase, parts.write_vector)
    _linear_back(apart, limit, alive, raw, d, d_raw, parts.write_vector, parts.free_gates)
    _sigmoids_back(apart, limit, alive, raw, squashed, d, d_raw, parts.free_gates, parts.read_modes)
    for head in range(problem.heads):
        modes = (parts.read_modes + 3 * head) * apart
        mean = fill(raw, 0.0)
        for i in range(modes, modes + 3 * apart, apart):
            mean = fused(load_at(squashed, i), load_at(d, i), mean)
        for i in range(modes, modes + 3 * apart, apart):
            value = load_at(squashed, i) * (load_at(d, i) - mean)
            store_at(d_raw, i, _inside(limit, raw, i, value, alive))
    if problem.mask:
        # m = σ (1 - δ) + δ, so that σ' (1 - δ) = (m - δ) (1 - m) / (1 - δ)
        scale, least = 1.0 / (1.0 - problem.mask_min), problem.mask_min
        for i in range(parts.write_mask * apart, parts.sharpness * apart, lane_count(raw)):
            m = load_at(squashed, i)
            slope = (m - least) * (fill(raw, 1.0) - m) * scale
            store_at(d_raw, i, _inside(limit, raw, i, load_at(d, i) * slope, alive))
    if problem.sharpen:
        shift = parts.sharpness - parts.raw_sharpness
        _onepluses_back(apart, limit, alive, raw, d, d_raw, parts.sharpness, parts.size, shift)
