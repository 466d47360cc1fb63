"""The memory's equations with a sample in each lane: forwards.

Everything is an array of lanes, given by a pointer; sizes count lanes. The tags are those of
``docs/equations.md``. Sums over cells go by blocks of four rows of M_t and L_t, so their number of
rows is padded to a multiple of four (``padded``); rows that pad are zero and stay zero.
"""

from __future__ import annotations

from typing import Any

from dnclab.kernels.compiled import inner
from dnclab.kernels.interface import squash
from dnclab.kernels.problem import Problem
from dnclab.kernels.records import (
    CONTENT,
    EPSILON,
    FOLLOWING,
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
    advance,
    exp,
    fill,
    fused,
    lane_count,
    load,
    log,
    sqrt,
    store,
    where_less,
)

BLOCK = 4
"""Rows of the memory and of the links that are worked on together."""


# --- look-up by content --------------------------------------------------------------------------


@inner
def prepare_key(word: int, key: Any, mask: Any, scaled: Any, squares: Any) -> Any:
    """k m² and m² of each component; the masked key's length."""
    total = fill(key, 0.0)
    for w in range(word):
        m = load(mask, w)
        k = load(key, w)
        square = m * m
        x = k * square
        store(squares, w, square)
        store(scaled, w, x)
        total = fused(k, x, total)
    return sqrt(total)


@inner
def look_up(
    cells: int,
    padded: int,
    word: int,
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
    key_length = prepare_key(word, key, mask, scaled, squares)
    for n in range(0, padded, 4):
        q0 = fill(key, 0.0)
        q1, q2, q3, s0, s1, s2, s3 = q0, q0, q0, q0, q0, q0, q0
        row = advance(memory, n * word)
        for w in range(word):
            x = load(scaled, w)
            z = load(squares, w)
            m0 = load(row, w)
            m1 = load(row, w + word)
            m2 = load(row, w + 2 * word)
            m3 = load(row, w + 3 * word)
            q0 = fused(m0, x, q0)
            q1 = fused(m1, x, q1)
            q2 = fused(m2, x, q2)
            q3 = fused(m3, x, q3)
            s0 = fused(m0 * m0, z, s0)
            s1 = fused(m1 * m1, z, s1)
            s2 = fused(m2 * m2, z, s2)
            s3 = fused(m3 * m3, z, s3)
        _similarity(key_length, q0, s0, similarity, length, n)
        _similarity(key_length, q1, s1, similarity, length, n + 1)
        _similarity(key_length, q2, s2, similarity, length, n + 2)
        _similarity(key_length, q3, s3, similarity, length, n + 3)
    top = load(similarity, 0)
    for n in range(1, cells):
        d = load(similarity, n)
        top = where_less(top, d, d, top)
    total = fill(key, 0.0)
    for n in range(cells):
        e = exp(strength * (load(similarity, n) - top))
        store(content, n, e)
        total = total + e
    _scale(cells, content, total)


@inner
def _similarity(
    key_length: Any, dot: Any, square: Any, similarity: Any, length: Any, n: int
) -> None:
    size = sqrt(square)
    store(length, n, size)
    store(similarity, n, dot / (key_length * size + EPSILON))


@inner
def _scale(cells: int, distribution: Any, total: Any) -> None:
    share = fill(distribution, 1.0) / total
    for n in range(cells):
        store(distribution, n, load(distribution, n) * share)


# --- which cells are free ------------------------------------------------------------------------


@inner
def retain(
    cells: int, padded: int, heads: int, free_gates: Any, heads_before: Any, retained: Any
) -> None:
    """ψ_t = ∏_i (1 - f_t^i w_{t-1}^{r,i})    [U1]"""
    for n in range(cells):
        kept = fill(retained, 1.0)
        for head in range(heads):
            weighting = load(heads_before, (head * PER_HEAD + WEIGHTING) * padded + n)
            kept = kept * (fill(retained, 1.0) - load(free_gates, head) * weighting)
        store(retained, n, kept)
    for n in range(cells, padded):
        store(retained, n, fill(retained, 1.0))


@inner
def use(cells: int, usage_before: Any, written: Any, retained: Any, usage: Any, taken: Any) -> None:
    """u_t = (u_{t-1} + w_{t-1}^w (1 - u_{t-1})) ψ_t; x = ε + (1 - ε) u_t    [U2]"""
    for n in range(cells):
        u = load(usage_before, n)
        u = fused(load(written, n), fill(usage, 1.0) - u, u) * load(retained, n)
        store(usage, n, u)
        store(taken, n, u * (1.0 - EPSILON) + EPSILON)


@inner
def products_before(cells: int, taken: Any, before: Any) -> None:
    """∏ x[m] over the cells m that are freer than n; of equals, over those of lower index    [U3]

    The same as sorting, and in lanes cheaper while there are few cells.
    """
    one = fill(taken, 1.0)
    for n in range(cells):
        x = load(taken, n)
        product, second = one, one
        for m in range(n):
            y = load(taken, m)
            product = product * where_less(x, y, one, y)
        for m in range(n + 1, cells):
            y = load(taken, m)
            second = second * where_less(y, x, y, one)
        store(before, n, product * second)


# --- writing -------------------------------------------------------------------------------------


@inner
def write(
    cells: int,
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
    for n in range(cells):
        share = load(weighting, n)
        kept = load(retained, n) if dealloc else fill(weighting, 1.0)
        row = n * word
        for w in range(word):
            m = kept * load(source, row + w)
            change = fused(m * -1.0, load(erase, w), load(vector, w))
            store(target, row + w, fused(share, change, m))


# --- the order of writing ------------------------------------------------------------------------


@inner
def relink(cells: int, source: Any, target: Any, weighting: Any, precedence: Any) -> None:
    """L_t[i,j] = (1 - w[i] - w[j]) L_{t-1}[i,j] + w[i] p_{t-1}[j], zero diagonal    [L1]"""
    for i in range(cells):
        w = load(weighting, i)
        c = fill(weighting, 1.0) - w
        row = i * cells
        for j in range(cells):
            old = load(source, row + j)
            new = fused(c - load(weighting, j), old, w * load(precedence, j))
            store(target, row + j, new)
        store(target, row + i, fill(weighting, 0.0))


@inner
def _link_block(
    cells: int,
    first: int,
    last: int,
    diagonal: int,
    rows: Any,
    weighting: Any,
    precedence: Any,
    reads: Any,
    preceding: Any,
    w0: Any,
    w1: Any,
    w2: Any,
    w3: Any,
    q0: Any,
    q1: Any,
    q2: Any,
    q3: Any,
    s0: Any,
    s1: Any,
    s2: Any,
    s3: Any,
) -> Any:
    """Columns `first` to `last` of four rows; the first row's diagonal is in column `diagonal`."""
    one, zero = fill(weighting, 1.0), fill(weighting, 0.0)
    c0, c1, c2, c3 = one - w0, one - w1, one - w2, one - w3
    for j in range(first, last):
        w = load(weighting, j)
        p = load(precedence, j)
        l0 = fused(c0 - w, load(rows, j), w0 * p)
        l1 = fused(c1 - w, load(rows, j + cells), w1 * p)
        l2 = fused(c2 - w, load(rows, j + 2 * cells), w2 * p)
        l3 = fused(c3 - w, load(rows, j + 3 * cells), w3 * p)
        if diagonal >= 0:
            if j == diagonal:
                l0 = zero
            if j == diagonal + 1:
                l1 = zero
            if j == diagonal + 2:
                l2 = zero
            if j == diagonal + 3:
                l3 = zero
        store(rows, j, l0)
        store(rows, j + cells, l1)
        store(rows, j + 2 * cells, l2)
        store(rows, j + 3 * cells, l3)
        r = load(reads, j)
        s0 = fused(l0, r, s0)
        s1 = fused(l1, r, s1)
        s2 = fused(l2, r, s2)
        s3 = fused(l3, r, s3)
        b = fused(l1, q1, fused(l0, q0, load(preceding, j)))
        store(preceding, j, fused(l3, q3, fused(l2, q2, b)))
    return s0, s1, s2, s3


@inner
def _follow_block(
    cells: int, rows: Any, reads: Any, following: Any, preceding: Any, i: int
) -> None:
    """What four rows of L_t, which are there already, give to another head."""
    q0, q1, q2, q3 = load(reads, i), load(reads, i + 1), load(reads, i + 2), load(reads, i + 3)
    s0 = fill(reads, 0.0)
    s1, s2, s3 = s0, s0, s0
    for j in range(cells):
        l0 = load(rows, j)
        l1 = load(rows, j + cells)
        l2 = load(rows, j + 2 * cells)
        l3 = load(rows, j + 3 * cells)
        r = load(reads, j)
        s0 = fused(l0, r, s0)
        s1 = fused(l1, r, s1)
        s2 = fused(l2, r, s2)
        s3 = fused(l3, r, s3)
        b = fused(l1, q1, fused(l0, q0, load(preceding, j)))
        store(preceding, j, fused(l3, q3, fused(l2, q2, b)))
    store(following, i, s0)
    store(following, i + 1, s1)
    store(following, i + 2, s2)
    store(following, i + 3, s3)


@inner
def link_and_follow(
    cells: int,
    padded: int,
    heads: int,
    links: Any,
    weighting: Any,
    precedence: Any,
    heads_before: Any,
    heads_now: Any,
) -> None:
    """L_t in place, and L_t w_{t-1}^{r,i} and L_tᵀ w_{t-1}^{r,i} of every head    [L1, L3, L4]"""
    zero = fill(links, 0.0)
    for head in range(heads):
        preceding = advance(heads_now, (head * PER_HEAD + PRECEDING) * padded)
        for j in range(cells):
            store(preceding, j, zero)
    reads = advance(heads_before, WEIGHTING * padded)
    following = advance(heads_now, FOLLOWING * padded)
    preceding = advance(heads_now, PRECEDING * padded)
    for i in range(0, padded, 4):
        rows = advance(links, i * cells)
        w0, w1 = load(weighting, i), load(weighting, i + 1)
        w2, w3 = load(weighting, i + 2), load(weighting, i + 3)
        q0, q1 = load(reads, i), load(reads, i + 1)
        q2, q3 = load(reads, i + 2), load(reads, i + 3)
        s0, s1, s2, s3 = _link_block(
            cells, 0, i, -1, rows, weighting, precedence, reads, preceding,
            w0, w1, w2, w3, q0, q1, q2, q3, zero, zero, zero, zero,
        )  # fmt: skip
        end = min(i + 4, cells)
        s0, s1, s2, s3 = _link_block(
            cells, i, end, i, rows, weighting, precedence, reads, preceding,
            w0, w1, w2, w3, q0, q1, q2, q3, s0, s1, s2, s3,
        )  # fmt: skip
        s0, s1, s2, s3 = _link_block(
            cells, end, cells, -1, rows, weighting, precedence, reads, preceding,
            w0, w1, w2, w3, q0, q1, q2, q3, s0, s1, s2, s3,
        )  # fmt: skip
        store(following, i, s0)
        store(following, i + 1, s1)
        store(following, i + 2, s2)
        store(following, i + 3, s3)
        for head in range(1, heads):
            shift = head * PER_HEAD * padded
            _follow_block(
                cells, rows, advance(reads, shift), advance(following, shift),
                advance(preceding, shift), i,
            )  # fmt: skip


@inner
def precede(cells: int, weighting: Any, precedence_before: Any, precedence: Any) -> None:
    """p_t = (1 - Σ_i w[i]) p_{t-1} + w    [L2]"""
    total = fill(weighting, 0.0)
    for n in range(cells):
        total = total + load(weighting, n)
    kept = fill(weighting, 1.0) - total
    for n in range(cells):
        store(precedence, n, fused(kept, load(precedence_before, n), load(weighting, n)))


@inner
def sharpen(cells: int, distribution: Any, sharpness: Any, sharpened: Any) -> None:
    """S(d, s) = softmax(s log(d + ε))    [S1]"""
    top = sharpness * log(load(distribution, 0) + EPSILON)
    store(sharpened, 0, top)
    for n in range(1, cells):
        power = sharpness * log(load(distribution, n) + EPSILON)
        store(sharpened, n, power)
        top = where_less(top, power, power, top)
    total = fill(distribution, 0.0)
    for n in range(cells):
        e = exp(load(sharpened, n) - top)
        store(sharpened, n, e)
        total = total + e
    _scale(cells, sharpened, total)


# --- reading -------------------------------------------------------------------------------------


@inner
def read(cells: int, word: int, memory: Any, weighting: Any, words: Any) -> None:
    """r_t^i = M_tᵀ w_t^{r,i}    [R2]"""
    whole = word - word % 4
    for w in range(0, whole, 4):
        a0 = fill(memory, 0.0)
        a1, a2, a3 = a0, a0, a0
        for n in range(cells):
            q = load(weighting, n)
            place = n * word + w
            a0 = fused(q, load(memory, place), a0)
            a1 = fused(q, load(memory, place + 1), a1)
            a2 = fused(q, load(memory, place + 2), a2)
            a3 = fused(q, load(memory, place + 3), a3)
        store(words, w, a0)
        store(words, w + 1, a1)
        store(words, w + 2, a2)
        store(words, w + 3, a3)
    for w in range(whole, word):
        a0 = fill(memory, 0.0)
        for n in range(cells):
            a0 = fused(load(weighting, n), load(memory, n * word + w), a0)
        store(words, w, a0)


@inner
def step(
    problem: Problem,
    parts: Parts,
    places: Places,
    scratch: Scratch,
    before: Any,
    now: Any,
    memory: Any,
    links: Any,
    reads: Any,
) -> None:
    """One step of the memory, in the paper's order: from the record of the step before and ξ_t to
    the record of this one, M_t, L_t and the words read.
    """
    cells, word, heads, padded = problem.cells, problem.word, problem.heads, places.padded
    squashed, retained = scratch.squashed, scratch.retained
    squash(problem, parts, lane_count(now), advance(now, places.controls), squashed)
    heads_before, heads_now = advance(before, places.heads), advance(now, places.heads)
    precedence_before = advance(before, places.precedence)

    retain(cells, padded, heads, advance(squashed, parts.free_gates), heads_before, retained)
    use(
        cells, advance(before, places.usage), advance(before, places.write_weighting), retained,
        advance(now, places.usage), scratch.taken,
    )  # fmt: skip
    products_before(cells, scratch.taken, advance(now, places.before))
    content = advance(now, places.write_content)
    look_up(
        cells, padded, word, memory, advance(squashed, parts.write_key),
        advance(squashed, parts.write_mask), load(squashed, parts.write_strength),
        scratch.scaled, scratch.squares,
        content, advance(content, padded), advance(content, 2 * padded),
    )  # fmt: skip

    weighting = advance(now, places.write_weighting)
    write_gate = load(squashed, parts.write_gate)
    allocating = load(squashed, parts.allocation_gate)
    searching = fill(weighting, 1.0) - allocating
    for n in range(cells):  # [W1]
        free = fill(weighting, 1.0) - load(scratch.taken, n)
        allocated = free * load(now, places.before + n)
        # Rounded as in the reference: cells that tie there must tie here.
        share = allocating * allocated + searching * load(content, n)
        store(weighting, n, write_gate * share)
    for n in range(cells, padded):
        store(weighting, n, fill(weighting, 0.0))
    write(
        cells, word, problem.dealloc, memory, memory, weighting, retained,
        advance(squashed, parts.erase), advance(squashed, parts.write_vector),
    )  # fmt: skip

    link_and_follow(
        cells, padded, heads, links, weighting, precedence_before, heads_before, heads_now
    )
    precede(cells, weighting, precedence_before, advance(now, places.precedence))
    for head in range(heads):
        mine = advance(heads_now, head * PER_HEAD * padded)
        mixed = advance(mine, WEIGHTING * padded)
        forwards, backwards = mine, advance(mine, PRECEDING * padded)
        if problem.sharpen:
            sharpness = load(squashed, parts.sharpness + head)
            sharpen(cells, forwards, sharpness, scratch.forwards)
            sharpness = load(squashed, parts.sharpness + heads + head)
            sharpen(cells, backwards, sharpness, scratch.backwards)
            forwards, backwards = scratch.forwards, scratch.backwards
        content = advance(mine, CONTENT * padded)
        look_up(
            cells, padded, word, memory, advance(squashed, parts.read_keys + head * word),
            advance(squashed, parts.read_masks + head * word),
            load(squashed, parts.read_strengths + head), scratch.scaled, scratch.squares,
            content, advance(mine, SIMILARITY * padded), advance(mine, LENGTH * padded),
        )  # fmt: skip
        modes = advance(squashed, parts.read_modes + 3 * head)
        by_backward, by_content, by_forward = load(modes, 0), load(modes, 1), load(modes, 2)
        for n in range(cells):  # [R1]
            share = fused(by_content, load(content, n), by_backward * load(backwards, n))
            store(mixed, n, fused(by_forward, load(forwards, n), share))
        for n in range(cells, padded):
            store(mixed, n, fill(mixed, 0.0))
        read(cells, word, memory, mixed, advance(reads, head * word))
