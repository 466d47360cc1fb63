"""Products of a matrix with lanes, and the gradients of such matrices.

A matrix is packed by blocks of eight rows, column by column within a block: the eight numbers that
meet the same lanes lie side by side. Rows that fill the last block are zero.
"""

from __future__ import annotations

from typing import Any

from dnclab.kernels.compiled import inner
from dnclab.kernels.simd import fill, fused, get, load, put, put_totals, spread, store

ROWS = 8
"""Rows in a block: as many sums as a processor needs under way to be busy."""

COLUMNS = 2
"""Columns of a gradient that are summed together, in blocks of eight rows."""


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
    block: int = ROWS,
) -> None:
    """Put a matrix, or its transpose, into a place of one packed by blocks of so many rows."""
    row, last = first_row, first_row + rows
    while row < last:
        start = row // block * block
        end = min(start + block, last)
        for j in range(columns):
            place = start * all_columns + (first_column + j) * block + row - start
            source = (row - first_row) * row_apart + j * column_apart
            for i in range(end - row):
                put(packed, place + i, get(matrix, source + i * row_apart))
        row = end


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
    """result[j, i] = Σ left[i] right[j] over steps and lanes; rows and columns in whole tiles.

    A tile is high and narrow: what is right comes from the second cache again for each row of
    tiles, what is left stays in the first.
    """
    for i in range(0, rows, ROWS):
        for j in range(0, columns, COLUMNS):
            a0 = fill(left, 0.0)
            a1, a2, a3, a4, a5, a6, a7 = a0, a0, a0, a0, a0, a0, a0
            b0, b1, b2, b3, b4, b5, b6, b7 = a0, a0, a0, a0, a0, a0, a0, a0
            p, q = i, j
            for _ in range(steps):
                x, y = load(right, q), load(right, q + 1)
                z = load(left, p)
                a0, b0 = fused(z, x, a0), fused(z, y, b0)
                z = load(left, p + 1)
                a1, b1 = fused(z, x, a1), fused(z, y, b1)
                z = load(left, p + 2)
                a2, b2 = fused(z, x, a2), fused(z, y, b2)
                z = load(left, p + 3)
                a3, b3 = fused(z, x, a3), fused(z, y, b3)
                z = load(left, p + 4)
                a4, b4 = fused(z, x, a4), fused(z, y, b4)
                z = load(left, p + 5)
                a5, b5 = fused(z, x, a5), fused(z, y, b5)
                z = load(left, p + 6)
                a6, b6 = fused(z, x, a6), fused(z, y, b6)
                z = load(left, p + 7)
                a7, b7 = fused(z, x, a7), fused(z, y, b7)
                p += left_apart
                q += right_apart
            place = j * rows + i
            put_totals(result, place, a0, a1, a2, a3, a4, a5, a6, a7)
            put_totals(result, place + rows, b0, b1, b2, b3, b4, b5, b6, b7)
