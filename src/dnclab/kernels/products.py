"""Products of a matrix with lanes, and the gradients of such matrices.

A matrix is packed by blocks of eight rows, column by column within a block: the eight numbers that
meet the same lanes lie side by side. Rows that fill the last block are zero.
"""

from __future__ import annotations

from typing import Any

from dnclab.kernels.compiled import inner
from dnclab.kernels.simd import fill, fused, get, load, put, spread, store, total

ROWS = 8
"""Rows in a block: as many sums as a processor needs under way to be busy."""

TILE = 4
"""Rows and columns of a gradient that are summed together."""


@inner
def pack(
    matrix: Any,
    rows: int,
    columns: int,
    row_apart: int,
    column_apart: int,
    packed: Any,
    first_row: int,
    first_column: int,
    all_columns: int,
) -> None:
    """Put a matrix, or its transpose, into a place of a packed one."""
    for i in range(rows):
        row = first_row + i
        begin = (row // ROWS) * ROWS * all_columns + row % ROWS
        for j in range(columns):
            number = get(matrix, i * row_apart + j * column_apart)
            put(packed, begin + (first_column + j) * ROWS, number)


@inner
def multiply(packed: Any, rows: int, columns: int, vector: Any, result: Any, add: bool) -> None:
    """result[i] = Σ_j matrix[i, j] vector[j], added to what is there if asked."""
    for row in range(0, rows, ROWS):
        a0 = fill(result, 0.0)
        a1, a2, a3, a4, a5, a6, a7 = a0, a0, a0, a0, a0, a0, a0
        if add:
            a0, a1 = load(result, row), load(result, row + 1)
            a2, a3 = load(result, row + 2), load(result, row + 3)
            a4, a5 = load(result, row + 4), load(result, row + 5)
            a6, a7 = load(result, row + 6), load(result, row + 7)
        place = row * columns
        for j in range(columns):
            v = load(vector, j)
            a0 = fused(spread(packed, place), v, a0)
            a1 = fused(spread(packed, place + 1), v, a1)
            a2 = fused(spread(packed, place + 2), v, a2)
            a3 = fused(spread(packed, place + 3), v, a3)
            a4 = fused(spread(packed, place + 4), v, a4)
            a5 = fused(spread(packed, place + 5), v, a5)
            a6 = fused(spread(packed, place + 6), v, a6)
            a7 = fused(spread(packed, place + 7), v, a7)
            place += ROWS
        store(result, row, a0)
        store(result, row + 1, a1)
        store(result, row + 2, a2)
        store(result, row + 3, a3)
        store(result, row + 4, a4)
        store(result, row + 5, a5)
        store(result, row + 6, a6)
        store(result, row + 7, a7)


@inner
def sum_outer(
    steps: int,
    left: Any,
    left_apart: int,
    rows: int,
    right: Any,
    right_apart: int,
    columns: int,
    result: Any,
) -> None:
    """result[i, j] = Σ left[i] right[j] over steps and lanes; rows and columns in whole tiles."""
    for i in range(0, rows, TILE):
        for j in range(0, columns, TILE):
            a00 = fill(left, 0.0)
            a01, a02, a03, a10, a11, a12, a13 = a00, a00, a00, a00, a00, a00, a00
            a20, a21, a22, a23, a30, a31, a32, a33 = a00, a00, a00, a00, a00, a00, a00, a00
            p, q = i, j
            for _ in range(steps):
                r0, r1, r2, r3 = (
                    load(right, q),
                    load(right, q + 1),
                    load(right, q + 2),
                    load(right, q + 3),
                )
                x = load(left, p)
                a00, a01, a02, a03 = (
                    fused(x, r0, a00),
                    fused(x, r1, a01),
                    fused(x, r2, a02),
                    fused(x, r3, a03),
                )
                x = load(left, p + 1)
                a10, a11, a12, a13 = (
                    fused(x, r0, a10),
                    fused(x, r1, a11),
                    fused(x, r2, a12),
                    fused(x, r3, a13),
                )
                x = load(left, p + 2)
                a20, a21, a22, a23 = (
                    fused(x, r0, a20),
                    fused(x, r1, a21),
                    fused(x, r2, a22),
                    fused(x, r3, a23),
                )
                x = load(left, p + 3)
                a30, a31, a32, a33 = (
                    fused(x, r0, a30),
                    fused(x, r1, a31),
                    fused(x, r2, a32),
                    fused(x, r3, a33),
                )
                p += left_apart
                q += right_apart
            place = i * columns + j
            _put_four(result, place, a00, a01, a02, a03)
            _put_four(result, place + columns, a10, a11, a12, a13)
            _put_four(result, place + 2 * columns, a20, a21, a22, a23)
            _put_four(result, place + 3 * columns, a30, a31, a32, a33)


@inner
def _put_four(result: Any, place: int, a: Any, b: Any, c: Any, d: Any) -> None:
    put(result, place, total(a))
    put(result, place + 1, total(b))
    put(result, place + 2, total(c))
    put(result, place + 3, total(d))
