"""Products of a matrix with the vectors of one sample, its rows in the lanes.

A matrix is packed by blocks of four times as many rows as lanes hold, column by column within a
block: one after the other its columns meet a number of the vector in all lanes. Each number of a
result is one sum in the order of the columns (or two, of even and of odd ones), however many
vectors there are: the same bits in any company.
"""

from __future__ import annotations

from typing import Any

from dnclab.kernels.compiled import inner
from dnclab.kernels.simd import (
    fill,
    fused,
    get,
    lane_count,
    load_at,
    put,
    skip,
    spread,
    store,
    store_at,
)

BLOCK_LANES = 4
"""Lanes of rows in a block."""

TILE_ROWS, TILE_LANES = 8, 2
"""A tile of a gradient that is summed at once."""


@inner
def add_product(packed: Any, rows: int, columns: int, vector: Any, result: Any) -> None:
    """result[i] += Σ_j matrix[i, j] vector[j]; whole blocks of rows, an even number of columns."""
    lanes = lane_count(result)
    block = BLOCK_LANES * lanes
    place = 0
    for row in range(0, rows, block):
        a0, a1 = load_at(result, row), load_at(result, row + lanes)
        a2, a3 = load_at(result, row + 2 * lanes), load_at(result, row + 3 * lanes)
        b0 = fill(result, 0.0)
        b1, b2, b3 = b0, b0, b0
        for j in range(0, columns, 2):
            v, u = spread(vector, j), spread(vector, j + 1)
            a0 = fused(load_at(packed, place), v, a0)
            a1 = fused(load_at(packed, place + lanes), v, a1)
            a2 = fused(load_at(packed, place + 2 * lanes), v, a2)
            a3 = fused(load_at(packed, place + 3 * lanes), v, a3)
            b0 = fused(load_at(packed, place + 4 * lanes), u, b0)
            b1 = fused(load_at(packed, place + 5 * lanes), u, b1)
            b2 = fused(load_at(packed, place + 6 * lanes), u, b2)
            b3 = fused(load_at(packed, place + 7 * lanes), u, b3)
            place += 2 * block
        store_at(result, row, a0 + b0)
        store_at(result, row + lanes, a1 + b1)
        store_at(result, row + 2 * lanes, a2 + b2)
        store_at(result, row + 3 * lanes, a3 + b3)


@inner
def _product_of_four(
    packed: Any, columns: int, start: Any, vectors: Any, apart: int, results: Any,
    results_apart: int,
) -> None:  # fmt: skip
    """A block of rows times four vectors."""
    lanes = lane_count(results)
    a0, a1 = load_at(start, 0), load_at(start, lanes)
    a2, a3 = load_at(start, 2 * lanes), load_at(start, 3 * lanes)
    b0, b1, b2, b3 = a0, a1, a2, a3
    c0, c1, c2, c3 = a0, a1, a2, a3
    d0, d1, d2, d3 = a0, a1, a2, a3
    place = 0
    for j in range(columns):
        m0, m1 = load_at(packed, place), load_at(packed, place + lanes)
        m2, m3 = load_at(packed, place + 2 * lanes), load_at(packed, place + 3 * lanes)
        v = spread(vectors, j)
        a0, a1, a2, a3 = fused(m0, v, a0), fused(m1, v, a1), fused(m2, v, a2), fused(m3, v, a3)
        v = spread(vectors, j + apart)
        b0, b1, b2, b3 = fused(m0, v, b0), fused(m1, v, b1), fused(m2, v, b2), fused(m3, v, b3)
        v = spread(vectors, j + 2 * apart)
        c0, c1, c2, c3 = fused(m0, v, c0), fused(m1, v, c1), fused(m2, v, c2), fused(m3, v, c3)
        v = spread(vectors, j + 3 * apart)
        d0, d1, d2, d3 = fused(m0, v, d0), fused(m1, v, d1), fused(m2, v, d2), fused(m3, v, d3)
        place += 4 * lanes
    _store_four(results, a0, a1, a2, a3)
    _store_four(skip(results, results_apart), b0, b1, b2, b3)
    _store_four(skip(results, 2 * results_apart), c0, c1, c2, c3)
    _store_four(skip(results, 3 * results_apart), d0, d1, d2, d3)


@inner
def _store_four(target: Any, a: Any, b: Any, c: Any, d: Any) -> None:
    lanes = lane_count(target)
    store_at(target, 0, a)
    store_at(target, lanes, b)
    store_at(target, 2 * lanes, c)
    store_at(target, 3 * lanes, d)


@inner
def _product_of_one(packed: Any, columns: int, start: Any, vector: Any, result: Any) -> None:
    """A block of rows times one vector."""
    lanes = lane_count(result)
    a0, a1 = load_at(start, 0), load_at(start, lanes)
    a2, a3 = load_at(start, 2 * lanes), load_at(start, 3 * lanes)
    place = 0
    for j in range(columns):
        v = spread(vector, j)
        a0 = fused(load_at(packed, place), v, a0)
        a1 = fused(load_at(packed, place + lanes), v, a1)
        a2 = fused(load_at(packed, place + 2 * lanes), v, a2)
        a3 = fused(load_at(packed, place + 3 * lanes), v, a3)
        place += 4 * lanes
    _store_four(result, a0, a1, a2, a3)


@inner
def products(
    packed: Any, rows: int, columns: int, start: Any, count: int, vectors: Any, apart: int,
    results: Any, results_apart: int,
) -> None:  # fmt: skip
    """results[k, i] = start[i] + Σ_j matrix[i, j] vectors[k, j]; whole blocks of rows."""
    block = BLOCK_LANES * lane_count(results)
    fours = count - count % 4
    for row in range(0, rows, block):
        own, begin = skip(packed, row * columns), skip(start, row)
        for k in range(0, fours, 4):
            _product_of_four(
                own, columns, begin, skip(vectors, k * apart), apart,
                skip(results, k * results_apart + row), results_apart,
            )  # fmt: skip
        for k in range(fours, count):
            _product_of_one(
                own, columns, begin, skip(vectors, k * apart),
                skip(results, k * results_apart + row),
            )  # fmt: skip


@inner
def _add_tile(
    count: int, left: Any, left_apart: int, right: Any, right_apart: int, result: Any,
    result_apart: int,
) -> None:  # fmt: skip
    """result[i, j] += Σ_k left[k, i] right[k, j], eight rows of two lanes."""
    lanes = lane_count(result)
    a0 = fill(result, 0.0)
    a1, a2, a3, a4, a5, a6, a7 = a0, a0, a0, a0, a0, a0, a0
    b0, b1, b2, b3, b4, b5, b6, b7 = a0, a0, a0, a0, a0, a0, a0, a0
    p, q = 0, 0
    for _ in range(count):
        x, y = load_at(right, q), load_at(right, q + lanes)
        z = spread(left, p)
        a0, b0 = fused(z, x, a0), fused(z, y, b0)
        z = spread(left, p + 1)
        a1, b1 = fused(z, x, a1), fused(z, y, b1)
        z = spread(left, p + 2)
        a2, b2 = fused(z, x, a2), fused(z, y, b2)
        z = spread(left, p + 3)
        a3, b3 = fused(z, x, a3), fused(z, y, b3)
        z = spread(left, p + 4)
        a4, b4 = fused(z, x, a4), fused(z, y, b4)
        z = spread(left, p + 5)
        a5, b5 = fused(z, x, a5), fused(z, y, b5)
        z = spread(left, p + 6)
        a6, b6 = fused(z, x, a6), fused(z, y, b6)
        z = spread(left, p + 7)
        a7, b7 = fused(z, x, a7), fused(z, y, b7)
        p += left_apart
        q += right_apart
    _add_pair(result, a0, b0)
    _add_pair(skip(result, result_apart), a1, b1)
    _add_pair(skip(result, 2 * result_apart), a2, b2)
    _add_pair(skip(result, 3 * result_apart), a3, b3)
    _add_pair(skip(result, 4 * result_apart), a4, b4)
    _add_pair(skip(result, 5 * result_apart), a5, b5)
    _add_pair(skip(result, 6 * result_apart), a6, b6)
    _add_pair(skip(result, 7 * result_apart), a7, b7)


@inner
def _add_pair(target: Any, a: Any, b: Any) -> None:
    lanes = lane_count(target)
    store_at(target, 0, load_at(target, 0) + a)
    store_at(target, lanes, load_at(target, lanes) + b)


@inner
def add_outer(
    count: int, left: Any, left_apart: int, first: int, last: int, right: Any, right_apart: int,
    columns: int, result: Any, result_apart: int, tile: Any,
) -> None:  # fmt: skip
    """result[i, j] += Σ_k left[k, i] right[k, j] for the rows i from first to last.

    Left and right may be read beyond their ends by a tile. A tile that does not fit into the result
    is summed in `tile` first.
    """
    lanes = lane_count(result)
    width = TILE_LANES * lanes
    for i in range(first, last, TILE_ROWS):
        for j in range(0, columns, width):
            if i + TILE_ROWS <= last and j + width <= columns:
                _add_tile(
                    count, skip(left, i), left_apart, skip(right, j), right_apart,
                    skip(result, i * result_apart + j), result_apart,
                )  # fmt: skip
                continue
            for number in range(TILE_ROWS * TILE_LANES):
                store(tile, number, fill(tile, 0.0))
            _add_tile(count, skip(left, i), left_apart, skip(right, j), right_apart, tile, width)
            for row in range(min(TILE_ROWS, last - i)):
                for column in range(min(width, columns - j)):
                    place = (i + row) * result_apart + j + column
                    put(result, place, get(result, place) + get(tile, row * width + column))
