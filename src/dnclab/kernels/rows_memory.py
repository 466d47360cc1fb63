"""The memory's equations for one sample, its cells in the lanes: forwards.

Vectors over cells are `padded` numbers long, whole lanes of them and a multiple of eight; what
pads is 0 and stays 0. The memory is kept turned, M_tᵀ [words, padded]: a row is a word of every
cell, and rows of zeros fill the last block of eight words. Of the links a row is a cell's,
L_t [padded, padded]. Everything is given by a pointer; sizes count numbers. The tags are those of
``docs/equations.md``.
"""

from __future__ import annotations

import math
from typing import Any

from dnclab.kernels.compiled import inner
from dnclab.kernels.interface import squash
from dnclab.kernels.problem import Problem
from dnclab.kernels.records import (
    CONTENT,
    EPSILON,
    LENGTH,
    PER_HEAD,
    PRECEDING,
    SIMILARITY,
    WEIGHTING,
    Parts,
    Places,
    Scratch,
)
from dnclab.kernels.simd import (
    exp,
    fill,
    fused,
    get,
    greatest,
    lane_count,
    lane_numbers,
    load_at,
    log,
    put,
    put_totals,
    skip,
    spread,
    sqrt,
    store_at,
    total,
    where_less,
)

BLOCK = 8
"""Rows of the links, and words, that are worked on together."""

WORDS = 4
"""Words that are worked on together where there is more to do with each."""


@inner
def zero_all(count: int, target: Any) -> None:
    """Fill whole lanes with zeros."""
    zero = fill(target, 0.0)
    for i in range(0, count, lane_count(target)):
        store_at(target, i, zero)


@inner
def copy(count: int, source: Any, target: Any) -> None:
    """Whole lanes."""
    for i in range(0, count, lane_count(target)):
        store_at(target, i, load_at(source, i))


@inner
def first_of(p: Any, begin: int, count: int, value: Any) -> Any:
    """`value` in the lanes that hold numbers before the `count`-th, 0 in the others."""
    return where_less(lane_numbers(p) + begin, fill(p, count), value, fill(p, 0.0))


# --- look-up by content --------------------------------------------------------------------------


@inner
def prepare_key(word: int, words: int, key: Any, mask: Any, scaled: Any, squares: Any) -> Any:
    """k m² and m² of each component, 0 behind the last; the masked key's length."""
    lanes = lane_count(key)
    sums = fill(key, 0.0)
    for w in range(0, words, lanes):
        m = first_of(key, w, word, load_at(mask, w))
        k = first_of(key, w, word, load_at(key, w))
        square = m * m
        x = k * square
        store_at(squares, w, square)
        store_at(scaled, w, x)
        sums = fused(k, x, sums)
    return sqrt(fill(key, total(sums)))


@inner
def look_up(
    cells: int,
    padded: int,
    word: int,
    words: int,
    memory: Any,
    key: Any,
    mask: Any,
    strength: Any,
    scaled: Any,
    squares: Any,
    content: Any,
    similarity: Any,
    length: Any,
) -> None:
    """C = softmax(β D), D = k·M[n] / (|k| |M[n]| + ε), both masked    [C1, C2, C3]"""
    lanes = lane_count(key)
    zero = fill(key, 0.0)
    key_length = prepare_key(word, words, key, mask, scaled, squares)
    zero_all(padded, similarity)
    zero_all(padded, length)
    for w in range(0, words, WORDS):
        x0, x1, x2, x3 = (
            spread(scaled, w), spread(scaled, w + 1), spread(scaled, w + 2), spread(scaled, w + 3)
        )  # fmt: skip
        z0, z1, z2, z3 = (
            spread(squares, w), spread(squares, w + 1), spread(squares, w + 2),
            spread(squares, w + 3),
        )  # fmt: skip
        row = skip(memory, w * padded)
        for n in range(0, padded, lanes):
            m0, m1 = load_at(row, n), load_at(row, n + padded)
            m2, m3 = load_at(row, n + 2 * padded), load_at(row, n + 3 * padded)
            q = fused(m1, x1, fused(m0, x0, load_at(similarity, n)))
            store_at(similarity, n, fused(m3, x3, fused(m2, x2, q)))
            s = fused(m1 * m1, z1, fused(m0 * m0, z0, load_at(length, n)))
            store_at(length, n, fused(m3 * m3, z3, fused(m2 * m2, z2, s)))
    top = fill(key, -2.0)  # below any similarity
    for n in range(0, padded, lanes):
        size = sqrt(load_at(length, n))
        store_at(length, n, size)
        d = load_at(similarity, n) / (key_length * size + EPSILON)
        store_at(similarity, n, d)
        d = where_less(lane_numbers(key) + n, fill(key, cells), d, top)
        top = where_less(top, d, d, top)
    top = fill(key, greatest(top))
    sums = zero
    for n in range(0, padded, lanes):
        e = exp(strength * (load_at(similarity, n) - top))
        e = first_of(key, n, cells, e)
        store_at(content, n, e)
        sums = sums + e
    _scale(padded, content, sums)


@inner
def _scale(padded: int, distribution: Any, sums: Any) -> None:
    share = fill(distribution, 1.0) / fill(distribution, total(sums))
    for n in range(0, padded, lane_count(distribution)):
        store_at(distribution, n, load_at(distribution, n) * share)


# --- which cells are free ------------------------------------------------------------------------


@inner
def retain(padded: int, heads: int, free_gates: Any, heads_before: Any, retained: Any) -> None:
    """ψ_t = ∏_i (1 - f_t^i w_{t-1}^{r,i})    [U1]"""
    one = fill(retained, 1.0)
    for n in range(0, padded, lane_count(retained)):
        kept = one
        for head in range(heads):
            weighting = load_at(heads_before, (head * PER_HEAD + WEIGHTING) * padded + n)
            kept = kept * (one - spread(free_gates, head) * weighting)
        store_at(retained, n, kept)


@inner
def use(
    padded: int, usage_before: Any, written: Any, retained: Any, usage: Any, taken: Any
) -> None:
    """u_t = (u_{t-1} + w_{t-1}^w (1 - u_{t-1})) ψ_t; x = ε + (1 - ε) u_t    [U2]"""
    one = fill(usage, 1.0)
    for n in range(0, padded, lane_count(usage)):
        u = load_at(usage_before, n)
        u = fused(load_at(written, n), one - u, u) * load_at(retained, n)
        store_at(usage, n, u)
        store_at(taken, n, u * (1.0 - EPSILON) + EPSILON)


@inner
def _of_lower_index(taken: Any, x: Any, begin: int, end: int, product: Any) -> Any:
    """Cells that come first unless they are fuller than x."""
    one = fill(taken, 1.0)
    p0, p1, p2, p3 = product, one, one, one
    whole = begin + (end - begin) // 4 * 4
    for m in range(begin, whole, 4):
        y0, y1, y2, y3 = (
            spread(taken, m), spread(taken, m + 1), spread(taken, m + 2), spread(taken, m + 3)
        )  # fmt: skip
        p0, p1 = p0 * where_less(x, y0, one, y0), p1 * where_less(x, y1, one, y1)
        p2, p3 = p2 * where_less(x, y2, one, y2), p3 * where_less(x, y3, one, y3)
    for m in range(whole, end):
        y = spread(taken, m)
        p0 = p0 * where_less(x, y, one, y)
    return (p0 * p1) * (p2 * p3)


@inner
def _of_higher_index(taken: Any, x: Any, begin: int, end: int, product: Any) -> Any:
    """Cells that come first only if they are freer than x."""
    one = fill(taken, 1.0)
    p0, p1, p2, p3 = product, one, one, one
    whole = begin + (end - begin) // 4 * 4
    for m in range(begin, whole, 4):
        y0, y1, y2, y3 = (
            spread(taken, m), spread(taken, m + 1), spread(taken, m + 2), spread(taken, m + 3)
        )  # fmt: skip
        p0, p1 = p0 * where_less(y0, x, y0, one), p1 * where_less(y1, x, y1, one)
        p2, p3 = p2 * where_less(y2, x, y2, one), p3 * where_less(y3, x, y3, one)
    for m in range(whole, end):
        y = spread(taken, m)
        p0 = p0 * where_less(y, x, y, one)
    return (p0 * p1) * (p2 * p3)


@inner
def products_before(cells: int, padded: int, taken: Any, before: Any) -> None:
    """∏ x[m] over the cells m that are freer than n, or equal and of lower index    [U3]"""
    lanes = lane_count(taken)
    one = fill(taken, 1.0)
    for n in range(0, padded, lanes):
        x = load_at(taken, n)
        product = _of_lower_index(taken, x, 0, min(n, cells), one)
        for m in range(n, min(n + lanes, cells)):
            y = spread(taken, m)
            lower, higher = where_less(x, y, one, y), where_less(y, x, y, one)
            product = product * where_less(fill(taken, m - n), lane_numbers(taken), lower, higher)
        store_at(before, n, _of_higher_index(taken, x, min(n + lanes, cells), cells, product))


# --- writing -------------------------------------------------------------------------------------


@inner
def write(
    padded: int,
    word: int,
    dealloc: bool,
    source: Any,
    target: Any,
    weighting: Any,
    retained: Any,
    erase: Any,
    vector: Any,
) -> None:
    """M_t = ψ M_{t-1} ⊙ (1 - w eᵀ) + w vᵀ, ψ with D only    [D1, W2]"""
    one = fill(weighting, 1.0)
    for w in range(word):
        e, v, row = spread(erase, w), spread(vector, w), w * padded
        for n in range(0, padded, lane_count(weighting)):
            kept = load_at(retained, n) if dealloc else one
            m = kept * load_at(source, row + n)
            change = fused(m * -1.0, e, v)
            store_at(target, row + n, fused(load_at(weighting, n), change, m))


# --- the order of writing ------------------------------------------------------------------------


@inner
def relink_block(
    padded: int, i: int, source: Any, target: Any, weighting: Any, precedence: Any
) -> None:
    """Rows i to i + 8 of L_t[i,j] = (1 - w[i] - w[j]) L_{t-1}[i,j] + w[i] p_{t-1}[j], zero
    diagonal    [L1]
    """
    for first in range(i, i + BLOCK, 4):
        w0, w1 = spread(weighting, first), spread(weighting, first + 1)
        w2, w3 = spread(weighting, first + 2), spread(weighting, first + 3)
        one = fill(weighting, 1.0)
        c0, c1, c2, c3 = one - w0, one - w1, one - w2, one - w3
        old, new = skip(source, first * padded), skip(target, first * padded)
        for j in range(0, padded, lane_count(weighting)):
            w, p = load_at(weighting, j), load_at(precedence, j)
            store_at(new, j, fused(c0 - w, load_at(old, j), w0 * p))
            store_at(new, j + padded, fused(c1 - w, load_at(old, j + padded), w1 * p))
            store_at(new, j + 2 * padded, fused(c2 - w, load_at(old, j + 2 * padded), w2 * p))
            store_at(new, j + 3 * padded, fused(c3 - w, load_at(old, j + 3 * padded), w3 * p))
    clear_diagonal(padded, i, target)


@inner
def clear_diagonal(padded: int, i: int, matrix: Any) -> None:
    """Of eight rows."""
    for k in range(i, i + BLOCK):
        put(matrix, k * padded + k, 0.0)


@inner
def relink(
    cells: int, padded: int, source: Any, target: Any, weighting: Any, precedence: Any
) -> None:
    """L_t from L_{t-1}    [L1]"""
    for i in range(0, cells, BLOCK):
        relink_block(padded, i, source, target, weighting, precedence)


@inner
def _follow_block(
    padded: int, rows: Any, i: int, reads: Any, following: Any, preceding: Any
) -> None:
    """What eight rows of L_t give to a head    [L3, L4]"""
    q0, q1, q2, q3 = (
        spread(reads, i),
        spread(reads, i + 1),
        spread(reads, i + 2),
        spread(reads, i + 3),
    )
    q4, q5, q6, q7 = (
        spread(reads, i + 4), spread(reads, i + 5), spread(reads, i + 6), spread(reads, i + 7)
    )  # fmt: skip
    s0 = fill(reads, 0.0)
    s1, s2, s3, s4, s5, s6, s7 = s0, s0, s0, s0, s0, s0, s0
    for j in range(0, padded, lane_count(reads)):
        r, b = load_at(reads, j), load_at(preceding, j)
        x, y = load_at(rows, j), load_at(rows, j + padded)
        s0, s1 = fused(x, r, s0), fused(y, r, s1)
        b = fused(y, q1, fused(x, q0, b))
        x, y = load_at(rows, j + 2 * padded), load_at(rows, j + 3 * padded)
        s2, s3 = fused(x, r, s2), fused(y, r, s3)
        b = fused(y, q3, fused(x, q2, b))
        x, y = load_at(rows, j + 4 * padded), load_at(rows, j + 5 * padded)
        s4, s5 = fused(x, r, s4), fused(y, r, s5)
        b = fused(y, q5, fused(x, q4, b))
        x, y = load_at(rows, j + 6 * padded), load_at(rows, j + 7 * padded)
        s6, s7 = fused(x, r, s6), fused(y, r, s7)
        store_at(preceding, j, fused(y, q7, fused(x, q6, b)))
    put_totals(following, i, s0, s1, s2, s3, s4, s5, s6, s7)


@inner
def link_and_follow(
    first: int,
    last: int,
    padded: int,
    heads: int,
    links: Any,
    weighting: Any,
    precedence: Any,
    heads_before: Any,
    heads_now: Any,
    preceding: Any,
    preceding_apart: int,
) -> None:
    """Rows first to last of L_t in place, and what they give to L_t w_{t-1}^{r,i} and, one head
    `preceding_apart` numbers from the next, to L_tᵀ w_{t-1}^{r,i}    [L1, L3, L4]
    """
    apart = PER_HEAD * padded
    reads = skip(heads_before, WEIGHTING * padded)
    for head in range(heads):
        zero_all(padded, skip(preceding, head * preceding_apart))
    for i in range(first, last, BLOCK):
        relink_block(padded, i, links, links, weighting, precedence)
        rows = skip(links, i * padded)
        for head in range(heads):
            _follow_block(
                padded, rows, i, skip(reads, head * apart), skip(heads_now, head * apart),
                skip(preceding, head * preceding_apart),
            )  # fmt: skip


@inner
def precede(padded: int, weighting: Any, precedence_before: Any, precedence: Any) -> None:
    """p_t = (1 - Σ_i w[i]) p_{t-1} + w    [L2]"""
    lanes = lane_count(weighting)
    sums = fill(weighting, 0.0)
    for n in range(0, padded, lanes):
        sums = sums + load_at(weighting, n)
    kept = fill(weighting, 1.0) - fill(weighting, total(sums))
    for n in range(0, padded, lanes):
        store_at(precedence, n, fused(kept, load_at(precedence_before, n), load_at(weighting, n)))


@inner
def sharpen(cells: int, padded: int, distribution: Any, sharpness: Any, sharpened: Any) -> None:
    """S(d, s) = softmax(s log(d + ε))    [S1]"""
    lanes = lane_count(distribution)
    top = sharpness * log(load_at(distribution, 0) + EPSILON)
    for n in range(0, padded, lanes):
        power = sharpness * log(load_at(distribution, n) + EPSILON)
        store_at(sharpened, n, power)
        top = where_less(top, power, power, top)
    # What pads is 0, and no probability is less.
    top = fill(distribution, greatest(top))
    sums = fill(distribution, 0.0)
    for n in range(0, padded, lanes):
        e = first_of(distribution, n, cells, exp(load_at(sharpened, n) - top))
        store_at(sharpened, n, e)
        sums = sums + e
    _scale(padded, sharpened, sums)


# --- reading -------------------------------------------------------------------------------------


@inner
def read(padded: int, word: int, memory: Any, weighting: Any, words: Any) -> None:
    """r_t^i = M_tᵀ w_t^{r,i}; up to seven numbers more are written    [R2]"""
    for w in range(0, word, BLOCK):
        row = skip(memory, w * padded)
        a0 = fill(memory, 0.0)
        a1, a2, a3, a4, a5, a6, a7 = a0, a0, a0, a0, a0, a0, a0
        for n in range(0, padded, lane_count(memory)):
            q = load_at(weighting, n)
            a0, a1 = fused(q, load_at(row, n), a0), fused(q, load_at(row, n + padded), a1)
            a2 = fused(q, load_at(row, n + 2 * padded), a2)
            a3 = fused(q, load_at(row, n + 3 * padded), a3)
            a4 = fused(q, load_at(row, n + 4 * padded), a4)
            a5 = fused(q, load_at(row, n + 5 * padded), a5)
            a6 = fused(q, load_at(row, n + 6 * padded), a6)
            a7 = fused(q, load_at(row, n + 7 * padded), a7)
        put_totals(words, w, a0, a1, a2, a3, a4, a5, a6, a7)


@inner
def address_write(
    problem: Problem,
    parts: Parts,
    places: Places,
    words: int,
    scratch: Scratch,
    before: Any,
    now: Any,
    memory: Any,
) -> None:
    """From ξ_t to the write weighting, with what it is made of    [U1-U3, C1-C3, W1]"""
    cells, heads, padded = problem.cells, problem.heads, places.padded
    squashed, retained = scratch.squashed, scratch.retained
    squash(problem, parts, 1, skip(now, places.controls), squashed)
    retain(padded, heads, skip(squashed, parts.free_gates), skip(before, places.heads), retained)
    use(
        padded, skip(before, places.usage), skip(before, places.write_weighting), retained,
        skip(now, places.usage), scratch.taken,
    )  # fmt: skip
    products_before(cells, padded, scratch.taken, skip(now, places.before))
    content = skip(now, places.write_content)
    look_up(
        cells, padded, problem.word, words, memory, skip(squashed, parts.write_key),
        skip(squashed, parts.write_mask), spread(squashed, parts.write_strength),
        scratch.scaled, scratch.squares,
        content, skip(content, padded), skip(content, 2 * padded),
    )  # fmt: skip
    one = fill(now, 1.0)
    write_gate = spread(squashed, parts.write_gate)
    allocating = spread(squashed, parts.allocation_gate)
    searching = one - allocating
    for n in range(0, padded, lane_count(now)):
        allocated = (one - load_at(scratch.taken, n)) * load_at(now, places.before + n)
        # Rounded as in the reference: cells that tie there must tie here.
        share = allocating * allocated + searching * load_at(content, n)
        share = first_of(now, n, cells, write_gate * share)
        store_at(now, places.write_weighting + n, share)


@inner
def read_memory(
    problem: Problem,
    parts: Parts,
    places: Places,
    words: int,
    scratch: Scratch,
    now: Any,
    memory: Any,
    reads: Any,
) -> None:
    """From what was written and linked to the words read    [S1, C1-C3, R1, R2]"""
    cells, word, heads, padded = problem.cells, problem.word, problem.heads, places.padded
    squashed = scratch.squashed
    for head in range(heads):
        mine = skip(now, places.heads + head * PER_HEAD * padded)
        mixed = skip(mine, WEIGHTING * padded)
        forwards, backwards = mine, skip(mine, PRECEDING * padded)
        if problem.sharpen:
            sharpness = spread(squashed, parts.sharpness + head)
            sharpen(cells, padded, forwards, sharpness, scratch.forwards)
            sharpness = spread(squashed, parts.sharpness + heads + head)
            sharpen(cells, padded, backwards, sharpness, scratch.backwards)
            forwards, backwards = scratch.forwards, scratch.backwards
        content = skip(mine, CONTENT * padded)
        look_up(
            cells, padded, word, words, memory, skip(squashed, parts.read_keys + head * word),
            skip(squashed, parts.read_masks + head * word),
            spread(squashed, parts.read_strengths + head), scratch.scaled, scratch.squares,
            content, skip(mine, SIMILARITY * padded), skip(mine, LENGTH * padded),
        )  # fmt: skip
        modes = skip(squashed, parts.read_modes + 3 * head)
        by_backward, by_content, by_forward = spread(modes, 0), spread(modes, 1), spread(modes, 2)
        for n in range(0, padded, lane_count(now)):
            share = by_backward * load_at(backwards, n)
            share = fused(by_content, load_at(content, n), share)
            store_at(mixed, n, fused(by_forward, load_at(forwards, n), share))
        read(padded, word, memory, mixed, skip(reads, head * word))


# --- the way back to the links -------------------------------------------------------------------

PATCHED_ABOVE = 0.375
"""(1 - τ)/2 for τ = 1/4: of cells written to with more, two at most, the links are kept."""


@inner
def _two_highest(cells: int, numbers: Any, limit: float) -> Any:
    """The two highest of those that are not above the limit, or 0."""
    highest, second = 0.0, 0.0
    for n in range(cells):
        number = get(numbers, n)
        if number <= limit:
            if number > highest:
                highest, second = number, highest
            elif number > second:
                second = number
    return highest, second


@inner
def amplify(cells: int, padded: int, weighting: Any, alone: Any, paired: Any) -> Any:
    """How much undoing the steps so far multiplies rounding in L at most, as a logarithm.

    A step divides L[i,j] by 1 - w[i] - w[j], that is by (1 - w[i]) (1 - w[j]) times a rest that is
    near 1 unless both are large. `alone` sums -log(1 - w[i]) over steps, `paired` that and the
    rest's -log for the largest w[j] of another cell; a cell that is patched begins anew, and others
    no longer meet it.
    """
    lanes = lane_count(weighting)
    highest, second = _two_highest(cells, weighting, PATCHED_ABOVE)
    one, zero = fill(weighting, 1.0), fill(weighting, 0.0)
    top, next_to_top = fill(weighting, highest), fill(weighting, second)
    patched = fill(weighting, PATCHED_ABOVE)
    for n in range(0, padded, lanes):
        w = load_at(weighting, n)
        other = where_less(w, top, top, next_to_top)
        grown = load_at(alone, n) - log(one - w)
        store_at(alone, n, where_less(patched, w, zero, grown))
        grown = load_at(paired, n) - log((one - w - other) / (one - other))
        store_at(paired, n, where_less(patched, w, zero, grown))
    highest, second = _two_highest(cells, alone, math.inf)
    top, next_to_top = fill(weighting, highest), fill(weighting, second)
    most = zero
    for n in range(0, padded, lanes):
        other = where_less(load_at(alone, n), top, top, next_to_top)
        grown = load_at(paired, n) + other
        most = where_less(most, grown, grown, most)
    return greatest(most)


@inner
def keep_links(
    cells: int, padded: int, links: Any, weighting: Any, room: int, marks: Any, patches: Any
) -> int:
    """Copy row and column of each cell that is written to with much, as long as there is room;
    returns how many there are.
    """
    count = 0
    for n in range(cells):
        if get(weighting, n) > PATCHED_ABOVE:
            if count < room:
                put(marks, count, float(n))
                patch = skip(patches, 2 * count * padded)
                copy(padded, skip(links, n * padded), patch)
                for i in range(padded):
                    put(patch, padded + i, get(links, i * padded + n))
            count += 1
    return count


@inner
def undo_block(padded: int, i: int, rows: Any, weighting: Any, precedence: Any) -> None:
    """Eight rows of L_{t-1}[i,j] = (L_t[i,j] - w[i] p_{t-1}[j]) / (1 - w[i] - w[j]) in place of
    those of L_t, patches aside.
    """
    one = fill(weighting, 1.0)
    for k in range(BLOCK):
        w = spread(weighting, i + k)
        kept, row = one - w, skip(rows, k * padded)
        for j in range(0, padded, lane_count(weighting)):
            rest = fused(w * -1.0, load_at(precedence, j), load_at(row, j))
            store_at(row, j, rest / (kept - load_at(weighting, j)))
        put(row, i + k, 0.0)


@inner
def patch_block(padded: int, i: int, rows: Any, count: int, marks: Any, patches: Any) -> None:
    """Put what was kept of eight rows of L_{t-1} in its place."""
    for number in range(count):
        n = int(get(marks, number))
        patch = skip(patches, 2 * number * padded)
        column = skip(patch, padded)
        for k in range(BLOCK):
            put(rows, k * padded + n, get(column, i + k))
        if i <= n and n < i + BLOCK:
            copy(padded, patch, skip(rows, (n - i) * padded))
