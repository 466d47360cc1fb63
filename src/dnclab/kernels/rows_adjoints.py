"""The memory's equations for one sample, its cells in the lanes: backwards.

An adjoint is the gradient of the loss with respect to the quantity of that name; ``d_`` in front
marks it. The tags are those of the equations whose adjoints these are. What is handed on from
step to step stands at :class:`Adjoints`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dnclab.kernels.compiled import inner
from dnclab.kernels.interface import squash_back
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
    Adjoints,
    Parts,
    Places,
    Scratch,
)
from dnclab.kernels.rows_memory import (
    BLOCK,
    WORDS,
    clear_diagonal,
    patch_block,
    prepare_key,
    retain,
    sharpen,
    undo_block,
    zero_all,
)
from dnclab.kernels.simd import (
    fill,
    fused,
    get,
    lane_count,
    lane_numbers,
    load_at,
    log,
    put,
    put_totals,
    skip,
    spread,
    store_at,
    total,
    where_less,
    where_not_above,
)


class Room(NamedTuple):
    """Room for what a step needs on its way back: pointers."""

    squashed: Any
    """Adjoint of the squashed interface."""
    following: Any
    """Of L_t w, all heads."""
    preceding: Any
    """Of L_tᵀ w, all heads."""
    weighting: Any
    """Of w_t^w."""
    content: Any
    retained: Any
    shares: Any
    """Allocations times their adjoints."""
    sums: Any
    """Three vectors of sums over words."""
    d_scaled: Any
    """Sums over cells, one for each word."""
    d_squares: Any
    totals: Any
    """Eight numbers."""


@inner
def _store_first(p: Any, place: int, count: int, value: Any) -> None:
    """Only the first `count` lanes."""
    old = load_at(p, place)
    store_at(p, place, where_less(lane_numbers(p), fill(p, count), value, old))


# --- look-up by content --------------------------------------------------------------------------


@inner
def look_up_back(
    padded: int,
    word: int,
    words: int,
    memory: Any,
    key: Any,
    mask: Any,
    strength: Any,
    content: Any,
    similarity: Any,
    length: Any,
    d_content: Any,
    d_memory: Any,
    d_key: Any,
    d_mask: Any,
    d_strength: Any,
    scratch: Scratch,
    room: Room,
) -> None:
    """Adjoint of C = softmax(β D): adds to that of M, sets those of k, m and β    [C1, C2, C3]

    `d_content` is used up: it becomes the adjoint of the dot products, q; the lengths' adjoint, g,
    goes to `room.shares`.
    """
    lanes, zero, one = lane_count(key), fill(key, 0.0), fill(key, 1.0)
    scaled, squares = scratch.scaled, scratch.squares
    key_length = prepare_key(word, words, key, mask, scaled, squares)
    mean = zero
    for n in range(0, padded, lanes):
        mean = fused(load_at(content, n), load_at(d_content, n), mean)
    mean = fill(key, total(mean))
    d_beta, d_key_length = zero, zero
    for n in range(0, padded, lanes):
        d = load_at(similarity, n)
        size = load_at(length, n)
        share = load_at(content, n) * (load_at(d_content, n) - mean)
        d_beta = fused(share, d, d_beta)
        d_q = share * strength / fused(key_length, size, fill(key, EPSILON))
        d_product = d_q * d * -1.0
        d_key_length = fused(d_product, size, d_key_length)
        # An empty cell gives no gradient through its length.
        slope = d_product * key_length / where_less(zero, size, size, one)
        store_at(d_content, n, d_q)
        store_at(room.shares, n, where_not_above(size, zero, zero, slope))
    put(d_strength, 0, total(d_beta))

    for w in range(0, words, WORDS):
        x0, x1, x2, x3 = (
            spread(scaled, w), spread(scaled, w + 1), spread(scaled, w + 2), spread(scaled, w + 3)
        )  # fmt: skip
        z0, z1, z2, z3 = (
            spread(squares, w), spread(squares, w + 1), spread(squares, w + 2),
            spread(squares, w + 3),
        )  # fmt: skip
        row, d_row = skip(memory, w * padded), skip(d_memory, w * padded)
        a0, a1, a2, a3, b0, b1, b2, b3 = zero, zero, zero, zero, zero, zero, zero, zero
        for n in range(0, padded, lanes):
            q, g = load_at(d_content, n), load_at(room.shares, n)
            m = load_at(row, n)
            t = m * g
            store_at(d_row, n, fused(t, z0, fused(q, x0, load_at(d_row, n))))
            a0, b0 = fused(m, q, a0), fused(t, m, b0)
            place = n + padded
            m = load_at(row, place)
            t = m * g
            store_at(d_row, place, fused(t, z1, fused(q, x1, load_at(d_row, place))))
            a1, b1 = fused(m, q, a1), fused(t, m, b1)
            place += padded
            m = load_at(row, place)
            t = m * g
            store_at(d_row, place, fused(t, z2, fused(q, x2, load_at(d_row, place))))
            a2, b2 = fused(m, q, a2), fused(t, m, b2)
            place += padded
            m = load_at(row, place)
            t = m * g
            store_at(d_row, place, fused(t, z3, fused(q, x3, load_at(d_row, place))))
            a3, b3 = fused(m, q, a3), fused(t, m, b3)
        put_totals(room.totals, 0, a0, a1, a2, a3, b0, b1, b2, b3)
        for k in range(WORDS):
            put(room.d_scaled, w + k, get(room.totals, k))
            put(room.d_squares, w + k, get(room.totals, WORDS + k))
    # A key of length 0 gives no gradient through its length either.
    slope = fill(key, total(d_key_length)) / where_less(zero, key_length, key_length, one)
    slope = where_not_above(key_length, zero, zero, slope)
    for w in range(0, word, lanes):
        k, m, square = load_at(key, w), load_at(mask, w), load_at(squares, w)
        d_x, z = load_at(room.d_scaled, w), load_at(room.d_squares, w)
        _store_first(d_key, w, word - w, fused(slope, k, d_x) * square)
        d_m = m * fused(k * 2.0, d_x, fused(slope * k, k, z))
        _store_first(d_mask, w, word - w, d_m)


# --- reading, sharpening -------------------------------------------------------------------------


@inner
def read_back(
    padded: int,
    word: int,
    memory: Any,
    weighting: Any,
    d_words: Any,
    d_weighting: Any,
    d_memory: Any,
) -> None:
    """Adjoint of r = Mᵀ w: adds to those of w and M    [R2]"""
    lanes = lane_count(memory)
    whole = word - word % WORDS
    for w in range(0, whole, WORDS):
        x0, x1, x2, x3 = (
            spread(d_words, w), spread(d_words, w + 1), spread(d_words, w + 2),
            spread(d_words, w + 3),
        )  # fmt: skip
        row, d_row = skip(memory, w * padded), skip(d_memory, w * padded)
        for n in range(0, padded, lanes):
            q = load_at(weighting, n)
            s = fused(load_at(row, n), x0, load_at(d_weighting, n))
            store_at(d_row, n, fused(q, x0, load_at(d_row, n)))
            place = n + padded
            s = fused(load_at(row, place), x1, s)
            store_at(d_row, place, fused(q, x1, load_at(d_row, place)))
            place += padded
            s = fused(load_at(row, place), x2, s)
            store_at(d_row, place, fused(q, x2, load_at(d_row, place)))
            place += padded
            s = fused(load_at(row, place), x3, s)
            store_at(d_row, place, fused(q, x3, load_at(d_row, place)))
            store_at(d_weighting, n, s)
    for w in range(whole, word):
        x, row, d_row = spread(d_words, w), skip(memory, w * padded), skip(d_memory, w * padded)
        for n in range(0, padded, lanes):
            store_at(d_weighting, n, fused(load_at(row, n), x, load_at(d_weighting, n)))
            store_at(d_row, n, fused(load_at(weighting, n), x, load_at(d_row, n)))


@inner
def _dot(padded: int, left: Any, right: Any) -> Any:
    sums = fill(left, 0.0)
    for n in range(0, padded, lane_count(left)):
        sums = fused(load_at(left, n), load_at(right, n), sums)
    return total(sums)


@inner
def sharpen_back(
    padded: int,
    distribution: Any,
    sharpened: Any,
    sharpness: Any,
    d_weighting: Any,
    mode: Any,
    d_distribution: Any,
) -> Any:
    """Adjoint of S(d, s), of which the read weighting has the share `mode`; returns s's    [S1]"""
    mean = fill(sharpened, _dot(padded, sharpened, d_weighting))
    d_sharpness = fill(sharpened, 0.0)
    for n in range(0, padded, lane_count(sharpened)):
        d = load_at(distribution, n) + EPSILON
        share = load_at(sharpened, n) * (load_at(d_weighting, n) - mean) * mode
        d_sharpness = fused(share, log(d), d_sharpness)
        store_at(d_distribution, n, sharpness * share / d)
    return total(d_sharpness)


@inner
def _read_head_back(
    problem: Problem,
    parts: Parts,
    places: Places,
    words: int,
    scratch: Scratch,
    room: Room,
    head: int,
    now: Any,
    memory: Any,
    d_weighting: Any,
    d_memory: Any,
) -> None:
    """From the adjoint of a read weighting to those of what it is mixed of    [R1, S1, C3]"""
    cells, word, padded = problem.cells, problem.word, places.padded
    squashed, d_squashed = scratch.squashed, room.squashed
    mine = skip(now, places.heads + head * PER_HEAD * padded)
    following = skip(mine, FOLLOWING * padded)
    preceding = skip(mine, PRECEDING * padded)
    content = skip(mine, CONTENT * padded)
    d_following, d_preceding = (
        skip(room.following, head * padded),
        skip(room.preceding, head * padded),
    )
    modes = skip(squashed, parts.read_modes + 3 * head)
    d_modes = skip(d_squashed, parts.read_modes + 3 * head)
    by_backward, by_content, by_forward = spread(modes, 0), spread(modes, 1), spread(modes, 2)
    put(d_modes, 1, _dot(padded, d_weighting, content))
    lanes = lane_count(now)
    if problem.sharpen:
        forward_sharpness = spread(squashed, parts.sharpness + head)
        backward_sharpness = spread(squashed, parts.sharpness + problem.heads + head)
        sharpen(cells, padded, following, forward_sharpness, scratch.forwards)
        sharpen(cells, padded, preceding, backward_sharpness, scratch.backwards)
        put(d_modes, 2, _dot(padded, d_weighting, scratch.forwards))
        put(d_modes, 0, _dot(padded, d_weighting, scratch.backwards))
        d_sharpness = sharpen_back(
            padded, following, scratch.forwards, forward_sharpness, d_weighting, by_forward,
            d_following,
        )  # fmt: skip
        put(d_squashed, parts.sharpness + head, d_sharpness)
        d_sharpness = sharpen_back(
            padded, preceding, scratch.backwards, backward_sharpness, d_weighting, by_backward,
            d_preceding,
        )  # fmt: skip
        put(d_squashed, parts.sharpness + problem.heads + head, d_sharpness)
    else:
        put(d_modes, 2, _dot(padded, d_weighting, following))
        put(d_modes, 0, _dot(padded, d_weighting, preceding))
        for n in range(0, padded, lanes):
            store_at(d_following, n, by_forward * load_at(d_weighting, n))
            store_at(d_preceding, n, by_backward * load_at(d_weighting, n))
    for n in range(0, padded, lanes):
        store_at(room.content, n, by_content * load_at(d_weighting, n))
    look_up_back(
        padded, word, words, memory, skip(squashed, parts.read_keys + head * word),
        skip(squashed, parts.read_masks + head * word),
        spread(squashed, parts.read_strengths + head),
        content, skip(mine, SIMILARITY * padded), skip(mine, LENGTH * padded),
        room.content, d_memory, skip(d_squashed, parts.read_keys + head * word),
        skip(d_squashed, parts.read_masks + head * word),
        skip(d_squashed, parts.read_strengths + head), scratch, room,
    )  # fmt: skip


# --- the order of writing ------------------------------------------------------------------------


@inner
def _follow_block_back(
    padded: int, i: int, rows: Any, d_rows: Any, reads: Any, d_following: Any, d_preceding: Any,
    d_reads: Any, totals: Any,
) -> None:  # fmt: skip
    """Eight rows, one head: adds to the adjoints of L_t and the read weighting    [L3, L4]"""
    zero = fill(reads, 0.0)
    s0, s1, s2, s3, s4, s5, s6, s7 = zero, zero, zero, zero, zero, zero, zero, zero
    f0, f1, f2, f3 = (
        spread(d_following, i), spread(d_following, i + 1), spread(d_following, i + 2),
        spread(d_following, i + 3),
    )  # fmt: skip
    f4, f5, f6, f7 = (
        spread(d_following, i + 4), spread(d_following, i + 5), spread(d_following, i + 6),
        spread(d_following, i + 7),
    )  # fmt: skip
    r0, r1, r2, r3 = (
        spread(reads, i),
        spread(reads, i + 1),
        spread(reads, i + 2),
        spread(reads, i + 3),
    )
    r4, r5, r6, r7 = (
        spread(reads, i + 4), spread(reads, i + 5), spread(reads, i + 6), spread(reads, i + 7)
    )  # fmt: skip
    for j in range(0, padded, lane_count(reads)):
        r, b, d = load_at(reads, j), load_at(d_preceding, j), load_at(d_reads, j)
        x = load_at(rows, j)
        store_at(d_rows, j, fused(r0, b, fused(f0, r, load_at(d_rows, j))))
        s0, d = fused(x, b, s0), fused(x, f0, d)
        p = j + padded
        x = load_at(rows, p)
        store_at(d_rows, p, fused(r1, b, fused(f1, r, load_at(d_rows, p))))
        s1, d = fused(x, b, s1), fused(x, f1, d)
        p += padded
        x = load_at(rows, p)
        store_at(d_rows, p, fused(r2, b, fused(f2, r, load_at(d_rows, p))))
        s2, d = fused(x, b, s2), fused(x, f2, d)
        p += padded
        x = load_at(rows, p)
        store_at(d_rows, p, fused(r3, b, fused(f3, r, load_at(d_rows, p))))
        s3, d = fused(x, b, s3), fused(x, f3, d)
        p += padded
        x = load_at(rows, p)
        store_at(d_rows, p, fused(r4, b, fused(f4, r, load_at(d_rows, p))))
        s4, d = fused(x, b, s4), fused(x, f4, d)
        p += padded
        x = load_at(rows, p)
        store_at(d_rows, p, fused(r5, b, fused(f5, r, load_at(d_rows, p))))
        s5, d = fused(x, b, s5), fused(x, f5, d)
        p += padded
        x = load_at(rows, p)
        store_at(d_rows, p, fused(r6, b, fused(f6, r, load_at(d_rows, p))))
        s6, d = fused(x, b, s6), fused(x, f6, d)
        p += padded
        x = load_at(rows, p)
        store_at(d_rows, p, fused(r7, b, fused(f7, r, load_at(d_rows, p))))
        s7, d = fused(x, b, s7), fused(x, f7, d)
        store_at(d_reads, j, d)
    put_totals(totals, 0, s0, s1, s2, s3, s4, s5, s6, s7)
    for k in range(BLOCK):
        put(d_reads, i + k, get(d_reads, i + k) + get(totals, k))


@inner
def _link_block_back(
    padded: int, i: int, rows: Any, d_rows: Any, weighting: Any, precedence: Any,
    d_weighting: Any, d_precedence: Any, totals: Any,
) -> None:  # fmt: skip
    """Eight rows of L_{t-1}; the adjoint of L_t becomes that of L_{t-1}    [L1]"""
    one, zero = fill(weighting, 1.0), fill(weighting, 0.0)
    w0, w1, w2, w3 = (
        spread(weighting, i), spread(weighting, i + 1), spread(weighting, i + 2),
        spread(weighting, i + 3),
    )  # fmt: skip
    w4, w5, w6, w7 = (
        spread(weighting, i + 4), spread(weighting, i + 5), spread(weighting, i + 6),
        spread(weighting, i + 7),
    )  # fmt: skip
    t0, t1, t2, t3, t4, t5, t6, t7 = zero, zero, zero, zero, zero, zero, zero, zero
    for j in range(0, padded, lane_count(weighting)):
        c, p = one - load_at(weighting, j), load_at(precedence, j)
        d_w, d_p = load_at(d_weighting, j), load_at(d_precedence, j)
        g = load_at(d_rows, j)
        h = g * load_at(rows, j)
        t0, d_w, d_p = fused(g, p, t0) - h, d_w - h, fused(g, w0, d_p)
        store_at(d_rows, j, (c - w0) * g)
        q = j + padded
        g = load_at(d_rows, q)
        h = g * load_at(rows, q)
        t1, d_w, d_p = fused(g, p, t1) - h, d_w - h, fused(g, w1, d_p)
        store_at(d_rows, q, (c - w1) * g)
        q += padded
        g = load_at(d_rows, q)
        h = g * load_at(rows, q)
        t2, d_w, d_p = fused(g, p, t2) - h, d_w - h, fused(g, w2, d_p)
        store_at(d_rows, q, (c - w2) * g)
        q += padded
        g = load_at(d_rows, q)
        h = g * load_at(rows, q)
        t3, d_w, d_p = fused(g, p, t3) - h, d_w - h, fused(g, w3, d_p)
        store_at(d_rows, q, (c - w3) * g)
        q += padded
        g = load_at(d_rows, q)
        h = g * load_at(rows, q)
        t4, d_w, d_p = fused(g, p, t4) - h, d_w - h, fused(g, w4, d_p)
        store_at(d_rows, q, (c - w4) * g)
        q += padded
        g = load_at(d_rows, q)
        h = g * load_at(rows, q)
        t5, d_w, d_p = fused(g, p, t5) - h, d_w - h, fused(g, w5, d_p)
        store_at(d_rows, q, (c - w5) * g)
        q += padded
        g = load_at(d_rows, q)
        h = g * load_at(rows, q)
        t6, d_w, d_p = fused(g, p, t6) - h, d_w - h, fused(g, w6, d_p)
        store_at(d_rows, q, (c - w6) * g)
        q += padded
        g = load_at(d_rows, q)
        h = g * load_at(rows, q)
        t7, d_w, d_p = fused(g, p, t7) - h, d_w - h, fused(g, w7, d_p)
        store_at(d_rows, q, (c - w7) * g)
        store_at(d_weighting, j, d_w)
        store_at(d_precedence, j, d_p)
    put_totals(totals, 0, t0, t1, t2, t3, t4, t5, t6, t7)
    for k in range(BLOCK):
        put(d_weighting, i + k, get(d_weighting, i + k) + get(totals, k))


class Links(NamedTuple):
    """What the adjoint of links needs and changes: pointers, and how L_{t-1} is had."""

    links: Any
    """L_t; L_{t-1} afterwards if it is undone."""
    d_links: Any
    weighting: Any
    precedence: Any
    """p_{t-1}."""
    heads_before: Any
    d_following: Any
    d_preceding: Any
    undone: bool
    """Whether L_{t-1} is made of L_t in place, or stands at `before`."""
    before: Any
    patched: int
    """Cells whose rows and columns were kept, their numbers, and those."""
    marks: Any
    patches: Any


@inner
def link_and_follow_back(
    first: int,
    last: int,
    padded: int,
    heads: int,
    given: Links,
    d_weighting: Any,
    d_precedence: Any,
    d_reads: Any,
    totals: Any,
) -> None:
    """Rows first to last: the adjoint of L_t becomes that of L_{t-1} in place; adds to those of w,
    p_{t-1} and the read weightings of t-1    [L1, L3, L4]
    """
    reads = skip(given.heads_before, WEIGHTING * padded)
    for i in range(first, last, BLOCK):
        rows, d_rows = skip(given.links, i * padded), skip(given.d_links, i * padded)
        for head in range(heads):
            _follow_block_back(
                padded, i, rows, d_rows, skip(reads, head * PER_HEAD * padded),
                skip(given.d_following, head * padded), skip(given.d_preceding, head * padded),
                skip(d_reads, head * padded), totals,
            )  # fmt: skip
        clear_diagonal(padded, i, given.d_links)
        if given.undone:
            undo_block(padded, i, rows, given.weighting, given.precedence)
            patch_block(padded, i, rows, given.patched, given.marks, given.patches)
        else:
            rows = skip(given.before, i * padded)
        _link_block_back(
            padded, i, rows, d_rows, given.weighting, given.precedence, d_weighting, d_precedence,
            totals,
        )  # fmt: skip


# --- writing and allocating ----------------------------------------------------------------------


@inner
def write_back(
    problem: Problem,
    padded: int,
    memory_before: Any,
    weighting: Any,
    retained: Any,
    erase: Any,
    vector: Any,
    d_memory: Any,
    d_erase: Any,
    d_vector: Any,
    room: Room,
) -> None:
    """Adjoint of writing; that of M_t becomes that of M_{t-1} in place    [D1, W2]"""
    word, lanes = problem.word, lane_count(weighting)
    one, zero = fill(weighting, 1.0), fill(weighting, 0.0)
    written, erased = room.sums, skip(room.sums, padded)
    whole = skip(room.sums, 2 * padded)
    zero_all(3 * padded, room.sums)
    for w in range(0, word, 2):
        # The second may be a word that pads: what lies there is 0.
        e0, v0 = spread(erase, w), spread(vector, w)
        e1, v1 = (spread(erase, w + 1), spread(vector, w + 1)) if w + 1 < word else (zero, zero)
        row, d_row = skip(memory_before, w * padded), skip(d_memory, w * padded)
        a0, a1, b0, b1 = zero, zero, zero, zero
        for n in range(0, padded, lanes):
            share = load_at(weighting, n)
            kept = load_at(retained, n) if problem.dealloc else one
            gone = kept * share
            d0, d1 = load_at(d_row, n), load_at(d_row, n + padded)
            product0, product1 = d0 * load_at(row, n), d1 * load_at(row, n + padded)
            store_at(written, n, fused(d1, v1, fused(d0, v0, load_at(written, n))))
            store_at(erased, n, fused(product1, e1, fused(product0, e0, load_at(erased, n))))
            store_at(whole, n, load_at(whole, n) + (product0 + product1))
            a0, a1 = fused(d0, share, a0), fused(d1, share, a1)
            b0, b1 = fused(product0, gone, b0), fused(product1, gone, b1)
            store_at(d_row, n, d0 * (kept - gone * e0))
            store_at(d_row, n + padded, d1 * (kept - gone * e1))
        put(d_vector, w, total(a0))
        put(d_erase, w, total(b0) * -1.0)
        if w + 1 < word:
            put(d_vector, w + 1, total(a1))
            put(d_erase, w + 1, total(b1) * -1.0)
    for n in range(0, padded, lanes):
        share = load_at(weighting, n)
        kept = load_at(retained, n) if problem.dealloc else one
        d = load_at(written, n) - kept * load_at(erased, n)
        store_at(room.weighting, n, load_at(room.weighting, n) + d)
        d = load_at(whole, n) - share * load_at(erased, n) if problem.dealloc else zero
        store_at(room.retained, n, d)


@inner
def _shares_of_lower_index(taken: Any, shares: Any, x: Any, begin: int, end: int) -> Any:
    """Of cells that come after x only if they are fuller."""
    zero = fill(taken, 0.0)
    s0, s1, s2, s3 = zero, zero, zero, zero
    whole = begin + (end - begin) // 4 * 4
    for m in range(begin, whole, 4):
        s0 = s0 + where_less(x, spread(taken, m), spread(shares, m), zero)
        s1 = s1 + where_less(x, spread(taken, m + 1), spread(shares, m + 1), zero)
        s2 = s2 + where_less(x, spread(taken, m + 2), spread(shares, m + 2), zero)
        s3 = s3 + where_less(x, spread(taken, m + 3), spread(shares, m + 3), zero)
    for m in range(whole, end):
        s0 = s0 + where_less(x, spread(taken, m), spread(shares, m), zero)
    return (s0 + s1) + (s2 + s3)


@inner
def _shares_of_higher_index(taken: Any, shares: Any, x: Any, begin: int, end: int) -> Any:
    """Of cells that come after x unless they are freer."""
    zero = fill(taken, 0.0)
    s0, s1, s2, s3 = zero, zero, zero, zero
    whole = begin + (end - begin) // 4 * 4
    for m in range(begin, whole, 4):
        s0 = s0 + where_less(spread(taken, m), x, zero, spread(shares, m))
        s1 = s1 + where_less(spread(taken, m + 1), x, zero, spread(shares, m + 1))
        s2 = s2 + where_less(spread(taken, m + 2), x, zero, spread(shares, m + 2))
        s3 = s3 + where_less(spread(taken, m + 3), x, zero, spread(shares, m + 3))
    for m in range(whole, end):
        s0 = s0 + where_less(spread(taken, m), x, zero, spread(shares, m))
    return (s0 + s1) + (s2 + s3)


@inner
def products_before_back(
    cells: int, padded: int, taken: Any, before: Any, d_allocation: Any, shares: Any, d_taken: Any
) -> None:
    """Adjoint of a = (1 - x) ∏ x over the cells before; `shares` holds a times its adjoint    [U3]

    x[n] is a factor of the allocation of every cell after it, and x ≥ ε.
    """
    lanes, zero = lane_count(taken), fill(taken, 0.0)
    for n in range(0, padded, lanes):
        x = load_at(taken, n)
        sums = _shares_of_lower_index(taken, shares, x, 0, min(n, cells))
        for m in range(n, min(n + lanes, cells)):
            y, share = spread(taken, m), spread(shares, m)
            own = where_less(fill(taken, m - n), lane_numbers(taken), zero, share)
            own = where_less(lane_numbers(taken), fill(taken, m - n), own, zero)  # not of itself
            lower, higher = where_less(x, y, share, zero), where_less(y, x, zero, own)
            sums = sums + where_less(fill(taken, m - n), lane_numbers(taken), lower, higher)
        end = min(n + lanes, cells)
        sums = sums + _shares_of_higher_index(taken, shares, x, end, cells)
        own = load_at(d_allocation, n) * load_at(before, n)
        store_at(d_taken, n, sums / x - own)


@inner
def retain_back(
    padded: int,
    heads: int,
    free_gates: Any,
    heads_before: Any,
    d_retained: Any,
    d_free_gates: Any,
    d_reads_before: Any,
) -> None:
    """Adjoint of ψ = ∏_i (1 - f^i w^{r,i})    [U1]"""
    one = fill(free_gates, 1.0)
    for head in range(heads):
        gate = spread(free_gates, head)
        sums = fill(free_gates, 0.0)
        for n in range(0, padded, lane_count(free_gates)):
            rest = load_at(d_retained, n)
            for other in range(heads):
                if other != head:
                    place = (other * PER_HEAD + WEIGHTING) * padded + n
                    rest = rest * (one - spread(free_gates, other) * load_at(heads_before, place))
            mine = load_at(heads_before, (head * PER_HEAD + WEIGHTING) * padded + n)
            sums = sums - rest * mine
            place = head * padded + n
            store_at(d_reads_before, place, load_at(d_reads_before, place) - rest * gate)
        put(d_free_gates, head, total(sums))


@inner
def reads_back(
    problem: Problem,
    parts: Parts,
    places: Places,
    words: int,
    scratch: Scratch,
    room: Room,
    adjoints: Adjoints,
    before: Any,
    now: Any,
    memory: Any,
    d_reads: Any,
) -> None:
    """The first part of a step backwards, to where the links are: from the adjoints of the words
    read and of p_t. ``scratch.squashed`` holds the squashed interface of the step.
    """
    heads, padded, lanes = problem.heads, places.padded, lane_count(now)
    heads_now, one, zero = skip(now, places.heads), fill(now, 1.0), fill(now, 0.0)
    for head in range(heads):
        d_mine = skip(adjoints.read_weightings, head * padded)
        read_back(
            padded, problem.word, memory,
            skip(heads_now, (head * PER_HEAD + WEIGHTING) * padded),
            skip(d_reads, head * problem.word), d_mine, adjoints.memory,
        )  # fmt: skip
    for head in range(heads):
        _read_head_back(
            problem, parts, places, words, scratch, room, head, now, memory,
            skip(adjoints.read_weightings, head * padded), adjoints.memory,
        )  # fmt: skip

    # p_t = (1 - Σ w) p_{t-1} + w    [L2]
    weighting = skip(now, places.write_weighting)
    precedence_before = skip(before, places.precedence)
    product = fill(now, _dot(padded, adjoints.precedence, precedence_before))
    sums = zero
    for n in range(0, padded, lanes):
        sums = sums + load_at(weighting, n)
    rest = one - fill(now, total(sums))
    for n in range(0, padded, lanes):
        d = load_at(adjoints.precedence, n)
        store_at(room.weighting, n, load_at(adjoints.write_weighting, n) + (d - product))
        store_at(adjoints.precedence, n, rest * d)
    zero_all(heads * padded, adjoints.read_weightings_before)


@inner
def writes_back(
    problem: Problem,
    parts: Parts,
    places: Places,
    words: int,
    scratch: Scratch,
    room: Room,
    adjoints: Adjoints,
    before: Any,
    now: Any,
    memory_before: Any,
    d_controls: Any,
) -> None:
    """The last part of a step backwards, from where the links are: sets the adjoint of ξ_t."""
    cells, heads, padded = problem.cells, problem.heads, places.padded
    lanes = lane_count(now)
    squashed, d_squashed = scratch.squashed, room.squashed
    heads_before, weighting = skip(before, places.heads), skip(now, places.write_weighting)
    one, zero = fill(now, 1.0), fill(now, 0.0)
    retained = scratch.retained
    retain(padded, heads, skip(squashed, parts.free_gates), heads_before, retained)
    write_back(
        problem, padded, memory_before, weighting, retained,
        skip(squashed, parts.erase), skip(squashed, parts.write_vector),
        adjoints.memory, skip(d_squashed, parts.erase), skip(d_squashed, parts.write_vector), room,
    )  # fmt: skip

    # w_t = g^w (g^a a + (1 - g^a) c)    [W1]
    write_gate = spread(squashed, parts.write_gate)
    allocating = spread(squashed, parts.allocation_gate)
    usage, product_before = skip(now, places.usage), skip(now, places.before)
    content = skip(now, places.write_content)
    d_write_gate, d_allocating = zero, zero
    for n in range(0, padded, lanes):
        x = load_at(usage, n) * (1.0 - EPSILON) + EPSILON
        # Cells that pad have no allocation.
        real = where_less(lane_numbers(now) + n, fill(now, cells), one, zero)
        allocated = (one - x) * load_at(product_before, n) * real
        found = load_at(content, n)
        d = load_at(room.weighting, n) * real
        share = fused(allocating, allocated - found, found)
        d_write_gate = fused(d, share, d_write_gate)
        d = d * write_gate
        d_allocating = fused(d, allocated - found, d_allocating)
        store_at(scratch.taken, n, x)
        store_at(room.content, n, d * (one - allocating))
        store_at(room.weighting, n, d * allocating)
        store_at(scratch.forwards, n, d * allocating * allocated)
    put(d_squashed, parts.write_gate, total(d_write_gate))
    put(d_squashed, parts.allocation_gate, total(d_allocating))
    look_up_back(
        padded, problem.word, words, memory_before, skip(squashed, parts.write_key),
        skip(squashed, parts.write_mask), spread(squashed, parts.write_strength),
        content, skip(content, padded), skip(content, 2 * padded),
        room.content, adjoints.memory, skip(d_squashed, parts.write_key),
        skip(d_squashed, parts.write_mask), skip(d_squashed, parts.write_strength), scratch, room,
    )  # fmt: skip
    products_before_back(
        cells, padded, scratch.taken, product_before, room.weighting, scratch.forwards,
        scratch.backwards,
    )  # fmt: skip

    # u_t = (u + w (1 - u)) ψ    [U2]
    usage_before, written = skip(before, places.usage), skip(before, places.write_weighting)
    for n in range(0, padded, lanes):
        u, w = load_at(usage_before, n), load_at(written, n)
        d = load_at(scratch.backwards, n)
        d = fused(d, fill(now, 1.0 - EPSILON), load_at(adjoints.usage, n))
        d = where_less(lane_numbers(now) + n, fill(now, cells), d, zero)
        grown = fused(w, one - u, u)
        store_at(room.retained, n, fused(d, grown, load_at(room.retained, n)))
        d = d * load_at(retained, n)
        store_at(adjoints.usage, n, d * (one - w))
        through = d * (one - u) if problem.usage_gradient else zero
        store_at(adjoints.write_weighting, n, through)
    retain_back(
        padded, heads, skip(squashed, parts.free_gates), heads_before, room.retained,
        skip(d_squashed, parts.free_gates), adjoints.read_weightings_before,
    )  # fmt: skip
    squash_back(
        problem, parts, 1, one, skip(now, places.controls), squashed, d_squashed, d_controls
    )
