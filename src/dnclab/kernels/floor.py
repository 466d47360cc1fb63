"""What no program can undercut: the arithmetic of a step, at the processor's own speed."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from dnclab.kernels.compiled import kernel
from dnclab.kernels.problem import Array, Problem
from dnclab.kernels.room import aligned_empty
from dnclab.kernels.simd import fill, fused, lanes_of, load, pointer, store


def operations(problem: Problem) -> tuple[int, int]:
    """Additions and multiplications of one step of one sample: forwards, and back.

    On the way back M and L are had again too. Vectors over cells are counted by their look, as
    so many operations for an exponential.
    """
    x, y, h = problem.inputs, problem.outputs, problem.hidden
    n, w, r = problem.cells, problem.word, problem.heads
    gates = 8 if problem.lstm else 2
    products = gates * h * (x + r * w + h) + 2 * problem.interface * h + 2 * y * (h + r * w)
    forwards = products + n * w * (6 * r + 12) + n * n * (4 * r + 4) + n * (60 * r + 80)
    back = 2 * products + n * w * (12 * r + 22) + n * n * (8 * r + 9) + n * (60 * r + 80)
    return forwards, back + 4 * n * n + 6 * n * w


@kernel
def _multiply_and_add(repeats: int, numbers: Array) -> None:
    p = pointer(numbers)
    a0 = load(p, 0)
    a1, a2, a3, a4, a5, a6, a7 = a0, a0, a0, a0, a0, a0, a0
    b0, b1, b2, b3, b4, b5, b6, b7 = a0, a0, a0, a0, a0, a0, a0, a0
    x, y = fill(p, 0.999), fill(p, 0.001)
    for _ in range(repeats):
        a0, a1, a2, a3 = fused(a0, x, y), fused(a1, x, y), fused(a2, x, y), fused(a3, x, y)
        a4, a5, a6, a7 = fused(a4, x, y), fused(a5, x, y), fused(a6, x, y), fused(a7, x, y)
        b0, b1, b2, b3 = fused(b0, x, y), fused(b1, x, y), fused(b2, x, y), fused(b3, x, y)
        b4, b5, b6, b7 = fused(b4, x, y), fused(b5, x, y), fused(b6, x, y), fused(b7, x, y)
    a0 = (a0 + a1) + (a2 + a3) + ((a4 + a5) + (a6 + a7))
    store(p, 0, a0 + (b0 + b1) + (b2 + b3) + ((b4 + b5) + (b6 + b7)))


def peak(dtype: np.dtype[Any], repeats: int = 200_000) -> float:
    """Additions and multiplications a second on one core, measured: the best of several tries."""
    [numbers] = aligned_empty(dtype, (lanes_of(dtype),))
    numbers[:] = 1
    _multiply_and_add(1, numbers)
    best = float("inf")
    for _ in range(9):
        start = time.perf_counter()
        _multiply_and_add(repeats, numbers)
        best = min(best, time.perf_counter() - start)
    return 2 * 16 * lanes_of(dtype) * repeats / best
