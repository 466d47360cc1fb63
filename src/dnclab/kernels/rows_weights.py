"""The gradients of the weights in the rows layout: sums over samples and steps.

Each number of a gradient is summed in the order of the samples and their steps, whoever sums it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from dnclab.kernels.compiled import inner, kernel
from dnclab.kernels.problem import Array, Lengths, Problem, Weights
from dnclab.kernels.room import aligned_empty
from dnclab.kernels.rows_memory import copy, zero_all
from dnclab.kernels.rows_plan import Plan, Tape, move
from dnclab.kernels.rows_products import TILE_LANES, TILE_ROWS, add_outer
from dnclab.kernels.simd import fill, get, lane_count, load_at, pointer, put, skip, store_at
from dnclab.kernels.threads import run_all

OUTER_STEPS = 64
"""Steps whose part in the gradients of the weights is summed at once."""

OUTER_ROWS = 128
"""Rows of such a gradient that are a job."""

GATES, CONTROLS, OUTPUTS = range(3)
"""Which weights: those to gates, to ξ, to y."""


@inner
def _copy_rows(
    count: int, source: Any, source_apart: int, columns: int, target: Any, apart: int
) -> None:
    """Rows into ones that are padded with zeros; the source is not read beyond its end."""
    lanes = lane_count(target)
    whole = columns - columns % lanes
    for k in range(count):
        row, new = skip(source, k * source_apart), skip(target, k * apart)
        copy(whole, row, new)
        zero_all(apart - whole, skip(new, whole))
        move(row, whole, columns - whole, new, whole)


@inner
def _add_rows(
    count: int, source: Any, apart: int, first: int, last: int, target: Any, tile: Any
) -> None:
    """target[i] += Σ_k source[k, i]"""
    lanes = lane_count(target)
    for i in range(first, last, lanes):
        sums = fill(target, 0.0)
        for k in range(count):
            sums = sums + load_at(source, k * apart + i)
        store_at(tile, 0, sums)
        for lane in range(min(lanes, last - i)):
            put(target, i + lane, get(target, i + lane) + get(tile, lane))


@kernel
def _sum_gradients(
    kind: int,
    gate: int,
    first: int,
    last: int,
    problem: Problem,
    plan: Plan,
    lengths: Lengths,
    inputs: Array,
    states: Array,
    d_outputs: Array,
    d_gates_kept: Array,
    d_controls_kept: Array,
    gradients: Weights,
    room: Array,
) -> None:
    """Rows first to last of one kind of weights: sums over samples and steps, in their order."""
    x, y, h, lanes = problem.inputs, problem.outputs, problem.hidden, plan.lanes
    reads = problem.heads * problem.word
    samples, longest = d_gates_kept.shape[0], d_gates_kept.shape[1]
    slots = states.shape[1]
    tile = pointer(room)
    copied = skip(tile, TILE_ROWS * TILE_LANES * lanes)
    for sample in range(samples):
        length = int(lengths[sample])
        for t in range(0, length, OUTER_STEPS):
            count = min(OUTER_STEPS, length - t)
            before = skip(pointer(states), (sample * slots + t) * plan.state)
            after = skip(before, plan.state)
            place = t * samples + sample
            if kind == GATES:
                apart = plan.input_copy
                _copy_rows(count, skip(pointer(inputs), place * x), samples * x, x, copied, apart)
                left = skip(pointer(d_gates_kept), (sample * longest + t) * plan.gates)
                left = skip(left, gate * plan.unit)
                seen = plan.seen
                target = skip(pointer(gradients.gates), gate * h * seen)
                add_outer(
                    count, left, plan.gates, first, last, copied, apart, x, target, seen, tile
                )
                add_outer(
                    count, left, plan.gates, first, last, before, plan.state, reads,
                    skip(target, x), seen, tile,
                )  # fmt: skip
                if problem.lstm:
                    add_outer(
                        count, left, plan.gates, first, last, skip(before, plan.reads), plan.state,
                        h, skip(target, x + reads), seen, tile,
                    )  # fmt: skip
                bias = skip(pointer(gradients.gates_bias), gate * h)
                _add_rows(count, left, plan.gates, first, last, bias, tile)
            elif kind == CONTROLS:
                apart = plan.control_rows + lanes
                left = skip(pointer(d_controls_kept), (sample * longest + t) * apart)
                add_outer(
                    count, left, apart, first, last, skip(after, plan.reads), plan.state, h,
                    pointer(gradients.interface), h, tile,
                )  # fmt: skip
                bias = pointer(gradients.interface_bias)
                _add_rows(count, left, apart, first, last, bias, tile)
            else:
                apart = plan.output_rows
                _copy_rows(
                    count, skip(pointer(d_outputs), place * y), samples * y, y, copied, apart
                )
                add_outer(
                    count, copied, apart, first, last, after, plan.state, reads,
                    pointer(gradients.read_output), reads, tile,
                )  # fmt: skip
                add_outer(
                    count, copied, apart, first, last, skip(after, plan.reads), plan.state, h,
                    pointer(gradients.output), h, tile,
                )  # fmt: skip
                bias = pointer(gradients.output_bias)
                _add_rows(count, copied, apart, first, last, bias, tile)


def gradients(
    problem: Problem,
    plan: Plan,
    weights: Weights,
    tape: Tape,
    d_outputs: Array,
    d_gates: Array,
    d_controls: Array,
    threads: int,
) -> Weights:
    """From the adjoints of what products gave [B, T, ...]."""
    summed = Weights(*(np.zeros_like(of) for of in weights))
    kinds = [(GATES, gate, problem.hidden) for gate in range(4 if problem.lstm else 1)]
    kinds += [(CONTROLS, 0, problem.interface), (OUTPUTS, 0, problem.outputs)]

    def job(kind: int, gate: int, first: int, rows: int) -> None:
        widest = max(plan.input_copy, plan.output_rows)
        [room] = aligned_empty(
            d_outputs.dtype, (TILE_ROWS * TILE_LANES * plan.lanes + OUTER_STEPS * widest,)
        )
        _sum_gradients(
            kind, gate, first, min(first + OUTER_ROWS, rows), problem, plan, tape.lengths,
            tape.inputs, tape.states, d_outputs, d_gates, d_controls, summed, room,
        )  # fmt: skip

    run_all(
        [
            partial(job, kind, gate, first, rows)
            for kind, gate, rows in kinds
            for first in range(0, rows, OUTER_ROWS)
        ],
        threads,
    )
    return summed
