"""The memory's equations with a sample in each lane: backwards.

An adjoint is the gradient of the loss with respect to the quantity of that name; ``d_`` in front
marks it. The tags are those of the equations whose adjoints these are. What is handed on from
step to step stands at :class:`Adjoints`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dnclab.kernels.compiled import inner
from dnclab.kernels.interface import squash_back
from dnclab.kernels.lanes_memory import prepare_key, retain, sharpen
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
from dnclab.kernels.simd import (
    advance,
    fill,
    fused,
    lane_count,
    load,
    log,
    store,
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
    scaled: Any
    squares: Any


@inner
def zero_all(count: int, target: Any) -> None:
    """Fill with zeros."""
    zero = fill(target, 0.0)
    for i in range(count):
        store(target, i, zero)


# --- look-up by content --------------------------------------------------------------------------


@inner
def look_up_back(
    cells: int,
    padded: int,
    word: int,
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
    room: Room,
) -> None:
    """Adjoint of C = softmax(β D): adds to that of M, sets those of k, m and β    [C1, C2, C3]

    `d_content` is used up: it becomes the adjoint of the dot products, q; the lengths' adjoint, g,
    goes to `room.shares`.
    """
    zero = fill(key, 0.0)
    key_length = prepare_key(word, key, mask, room.scaled, room.squares)
    mean = zero
    for n in range(cells):
        mean = fused(load(content, n), load(d_content, n), mean)
    d_beta, d_key_length = zero, zero
    for n in range(cells):
        d = load(similarity, n)
        size = load(length, n)
        share = load(content, n) * (load(d_content, n) - mean)
        d_beta = fused(share, d, d_beta)
        d_q = share * strength / fused(key_length, size, fill(key, EPSILON))
        d_product = d_q * d * -1.0
        d_key_length = fused(d_product, size, d_key_length)
        # An empty cell gives no gradient through its length.
        slope = d_product * key_length / where_less(zero, size, size, fill(key, 1.0))
        store(d_content, n, d_q)
        store(room.shares, n, where_not_above(size, zero, zero, slope))
    for n in range(cells, padded):
        store(d_content, n, zero)
        store(room.shares, n, zero)
    store(d_strength, 0, d_beta)

    for w in range(word):
        store(d_key, w, zero)
        store(d_mask, w, zero)
    for n in range(0, padded, 2):
        q0, q1 = load(d_content, n), load(d_content, n + 1)
        g0, g1 = load(room.shares, n), load(room.shares, n + 1)
        row = advance(memory, n * word)
        d_row = advance(d_memory, n * word)
        for w in range(word):
            x = load(room.scaled, w)
            square = load(room.squares, w)
            m0, m1 = load(row, w), load(row, w + word)
            t0, t1 = m0 * g0, m1 * g1
            store(d_row, w, fused(t0, square, fused(q0, x, load(d_row, w))))
            store(d_row, w + word, fused(t1, square, fused(q1, x, load(d_row, w + word))))
            store(d_key, w, fused(m1, q1, fused(m0, q0, load(d_key, w))))
            store(d_mask, w, fused(t1, m1, fused(t0, m0, load(d_mask, w))))
    # A key of length 0 gives no gradient through its length either.
    slope = d_key_length / where_less(zero, key_length, key_length, fill(key, 1.0))
    slope = where_not_above(key_length, zero, zero, slope)
    for w in range(word):
        k, m, square = load(key, w), load(mask, w), load(room.squares, w)
        d_x, z = load(d_key, w), load(d_mask, w)
        store(d_key, w, fused(slope, k, d_x) * square)
        store(d_mask, w, m * fused(k * 2.0, d_x, fused(slope * k, k, z)))


# --- reading, sharpening -------------------------------------------------------------------------


@inner
def read_back(
    cells: int,
    word: int,
    memory: Any,
    weighting: Any,
    d_words: Any,
    d_weighting: Any,
    d_memory: Any,
) -> None:
    """Adjoint of r = Mᵀ w: adds to those of w and M    [R2]"""
    for n in range(cells):
        q = load(weighting, n)
        row = n * word
        s0 = load(d_weighting, n)
        s1 = fill(weighting, 0.0)
        for w in range(0, word - 1, 2):
            d0, d1 = load(d_words, w), load(d_words, w + 1)
            s0 = fused(load(memory, row + w), d0, s0)
            s1 = fused(load(memory, row + w + 1), d1, s1)
            store(d_memory, row + w, fused(q, d0, load(d_memory, row + w)))
            store(d_memory, row + w + 1, fused(q, d1, load(d_memory, row + w + 1)))
        if word % 2 == 1:
            w = word - 1
            d0 = load(d_words, w)
            s0 = fused(load(memory, row + w), d0, s0)
            store(d_memory, row + w, fused(q, d0, load(d_memory, row + w)))
        store(d_weighting, n, s0 + s1)


@inner
def sharpen_back(
    cells: int,
    distribution: Any,
    sharpened: Any,
    sharpness: Any,
    d_weighting: Any,
    mode: Any,
    d_distribution: Any,
) -> Any:
    """Adjoint of S(d, s), of which the read weighting has the share `mode`; returns s's    [S1]"""
    zero = fill(sharpened, 0.0)
    mean = zero
    for n in range(cells):
        mean = fused(load(sharpened, n), load(d_weighting, n), mean)
    d_sharpness = zero
    for n in range(cells):
        d = load(distribution, n) + EPSILON
        share = load(sharpened, n) * (load(d_weighting, n) - mean) * mode
        d_sharpness = fused(share, log(d), d_sharpness)
        store(d_distribution, n, sharpness * share / d)
    return d_sharpness


@inner
def _dot(cells: int, left: Any, right: Any) -> Any:
    total = fill(left, 0.0)
    for n in range(cells):
        total = fused(load(left, n), load(right, n), total)
    return total


@inner
def _read_head_back(
    problem: Problem,
    parts: Parts,
    places: Places,
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
    mine = advance(now, places.heads + head * PER_HEAD * padded)
    following = advance(mine, FOLLOWING * padded)
    preceding = advance(mine, PRECEDING * padded)
    content = advance(mine, CONTENT * padded)
    d_following = advance(room.following, head * padded)
    d_preceding = advance(room.preceding, head * padded)
    modes = advance(squashed, parts.read_modes + 3 * head)
    d_modes = advance(d_squashed, parts.read_modes + 3 * head)
    by_backward, by_content, by_forward = load(modes, 0), load(modes, 1), load(modes, 2)
    store(d_modes, 1, _dot(cells, d_weighting, content))
    if problem.sharpen:
        forward_sharpness = load(squashed, parts.sharpness + head)
        backward_sharpness = load(squashed, parts.sharpness + problem.heads + head)
        sharpen(cells, following, forward_sharpness, scratch.forwards)
        sharpen(cells, preceding, backward_sharpness, scratch.backwards)
        store(d_modes, 2, _dot(cells, d_weighting, scratch.forwards))
        store(d_modes, 0, _dot(cells, d_weighting, scratch.backwards))
        d_sharpness = sharpen_back(
            cells, following, scratch.forwards, forward_sharpness, d_weighting, by_forward,
            d_following,
        )  # fmt: skip
        store(d_squashed, parts.sharpness + head, d_sharpness)
        d_sharpness = sharpen_back(
            cells, preceding, scratch.backwards, backward_sharpness, d_weighting, by_backward,
            d_preceding,
        )  # fmt: skip
        store(d_squashed, parts.sharpness + problem.heads + head, d_sharpness)
    else:
        store(d_modes, 2, _dot(cells, d_weighting, following))
        store(d_modes, 0, _dot(cells, d_weighting, preceding))
        for n in range(cells):
            store(d_following, n, by_forward * load(d_weighting, n))
            store(d_preceding, n, by_backward * load(d_weighting, n))
    zero = fill(now, 0.0)
    for n in range(cells, padded):
        store(d_following, n, zero)
        store(d_preceding, n, zero)
    for n in range(cells):
        store(room.content, n, by_content * load(d_weighting, n))
    look_up_back(
        cells, padded, word, memory, advance(squashed, parts.read_keys + head * word),
        advance(squashed, parts.read_masks + head * word),
        load(squashed, parts.read_strengths + head),
        content, advance(mine, SIMILARITY * padded), advance(mine, LENGTH * padded),
        room.content, d_memory, advance(d_squashed, parts.read_keys + head * word),
        advance(d_squashed, parts.read_masks + head * word),
        advance(d_squashed, parts.read_strengths + head), room,
    )  # fmt: skip


# --- the order of writing ------------------------------------------------------------------------


@inner
def _follow_block_back(
    cells: int,
    i: int,
    rows: Any,
    d_rows: Any,
    weighting: Any,
    precedence: Any,
    reads: Any,
    d_following: Any,
    d_preceding: Any,
    d_reads: Any,
) -> None:
    """Two rows, one head: adds to the adjoints of L_t and of the read weighting    [L3, L4]"""
    w0, w1 = load(weighting, i), load(weighting, i + 1)
    c0, c1 = fill(weighting, 1.0) - w0, fill(weighting, 1.0) - w1
    f0, f1 = load(d_following, i), load(d_following, i + 1)
    r0, r1 = load(reads, i), load(reads, i + 1)
    zero = fill(weighting, 0.0)
    s0, s1 = zero, zero
    for j in range(cells):
        w, p, r, b = load(weighting, j), load(precedence, j), load(reads, j), load(d_preceding, j)
        l0 = fused(c0 - w, load(rows, j), w0 * p)
        l1 = fused(c1 - w, load(rows, j + cells), w1 * p)
        g0 = fused(r0, b, fused(f0, r, load(d_rows, j)))
        g1 = fused(r1, b, fused(f1, r, load(d_rows, j + cells)))
        if j == i:
            l0, g0 = zero, zero
        if j == i + 1:
            l1, g1 = zero, zero
        store(d_rows, j, g0)
        store(d_rows, j + cells, g1)
        s0 = fused(l0, b, s0)
        s1 = fused(l1, b, s1)
        store(d_reads, j, fused(l1, f1, fused(l0, f0, load(d_reads, j))))
    store(d_reads, i, load(d_reads, i) + s0)
    store(d_reads, i + 1, load(d_reads, i + 1) + s1)


@inner
def _link_block_back(
    cells: int,
    first: int,
    last: int,
    diagonal: int,
    i: int,
    rows: Any,
    d_rows: Any,
    weighting: Any,
    precedence: Any,
    reads: Any,
    d_following: Any,
    d_preceding: Any,
    d_reads: Any,
    d_weighting: Any,
    d_precedence: Any,
    s0: Any,
    s1: Any,
    t0: Any,
    t1: Any,
) -> Any:
    """Columns `first` to `last` of two rows, for the last head, then L_t's own adjoint."""
    zero = fill(weighting, 0.0)
    w0, w1 = load(weighting, i), load(weighting, i + 1)
    c0, c1 = fill(weighting, 1.0) - w0, fill(weighting, 1.0) - w1
    f0, f1 = load(d_following, i), load(d_following, i + 1)
    r0, r1 = load(reads, i), load(reads, i + 1)
    for j in range(first, last):
        w, p, r, b = load(weighting, j), load(precedence, j), load(reads, j), load(d_preceding, j)
        k0, k1 = c0 - w, c1 - w
        old0, old1 = load(rows, j), load(rows, j + cells)
        l0 = fused(k0, old0, w0 * p)
        l1 = fused(k1, old1, w1 * p)
        g0 = fused(r0, b, fused(f0, r, load(d_rows, j)))
        g1 = fused(r1, b, fused(f1, r, load(d_rows, j + cells)))
        if diagonal >= 0:
            if j == diagonal:
                l0, g0 = zero, zero
            if j == diagonal + 1:
                l1, g1 = zero, zero
        s0 = fused(l0, b, s0)
        s1 = fused(l1, b, s1)
        store(d_reads, j, fused(l1, f1, fused(l0, f0, load(d_reads, j))))
        h0, h1 = g0 * old0, g1 * old1
        t0 = fused(g0, p, t0) - h0
        t1 = fused(g1, p, t1) - h1
        store(d_weighting, j, load(d_weighting, j) - (h0 + h1))
        store(d_precedence, j, fused(g1, w1, fused(g0, w0, load(d_precedence, j))))
        store(d_rows, j, k0 * g0)
        store(d_rows, j + cells, k1 * g1)
    return s0, s1, t0, t1


@inner
def link_and_follow_back(
    cells: int,
    padded: int,
    heads: int,
    links_before: Any,
    weighting: Any,
    precedence_before: Any,
    heads_before: Any,
    d_following: Any,
    d_preceding: Any,
    d_links: Any,
    d_weighting: Any,
    d_precedence: Any,
    d_reads_before: Any,
) -> None:
    """Adjoint of links and of following them; that of L_t becomes that of L_{t-1} in place.

    L_t is computed again from L_{t-1}, which is as quick as reading it.    [L1, L3, L4]
    """
    zero = fill(links_before, 0.0)
    last = heads - 1
    reads = advance(heads_before, WEIGHTING * padded)
    apart = PER_HEAD * padded
    for i in range(0, padded, 2):
        rows = advance(links_before, i * cells)
        d_rows = advance(d_links, i * cells)
        for head in range(last):
            _follow_block_back(
                cells, i, rows, d_rows, weighting, precedence_before,
                advance(reads, head * apart), advance(d_following, head * padded),
                advance(d_preceding, head * padded), advance(d_reads_before, head * padded),
            )  # fmt: skip
        own_reads = advance(reads, last * apart)
        own_following = advance(d_following, last * padded)
        own_preceding = advance(d_preceding, last * padded)
        d_reads = advance(d_reads_before, last * padded)
        begin, end = min(i, cells), min(i + 2, cells)
        s0, s1, t0, t1 = _link_block_back(
            cells, 0, begin, -1, i, rows, d_rows, weighting, precedence_before, own_reads,
            own_following, own_preceding, d_reads, d_weighting, d_precedence,
            zero, zero, zero, zero,
        )  # fmt: skip
        s0, s1, t0, t1 = _link_block_back(
            cells, begin, end, i, i, rows, d_rows, weighting, precedence_before, own_reads,
            own_following, own_preceding, d_reads, d_weighting, d_precedence, s0, s1, t0, t1,
        )  # fmt: skip
        s0, s1, t0, t1 = _link_block_back(
            cells, end, cells, -1, i, rows, d_rows, weighting, precedence_before, own_reads,
            own_following, own_preceding, d_reads, d_weighting, d_precedence, s0, s1, t0, t1,
        )  # fmt: skip
        store(d_reads, i, load(d_reads, i) + s0)
        store(d_reads, i + 1, load(d_reads, i + 1) + s1)
        store(d_weighting, i, load(d_weighting, i) + t0)
        store(d_weighting, i + 1, load(d_weighting, i + 1) + t1)


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
    d_weighting: Any,
    d_erase: Any,
    d_vector: Any,
    d_retained: Any,
) -> None:
    """Adjoint of writing; that of M_t becomes that of M_{t-1} in place    [D1, W2]"""
    word, one, zero = problem.word, fill(weighting, 1.0), fill(weighting, 0.0)
    for w in range(word):
        store(d_erase, w, zero)
        store(d_vector, w, zero)
    for n in range(0, padded, 2):
        share0, share1 = load(weighting, n), load(weighting, n + 1)
        kept0, kept1 = one, one
        if problem.dealloc:
            kept0, kept1 = load(retained, n), load(retained, n + 1)
        gone0, gone1 = kept0 * share0, kept1 * share1
        row = advance(memory_before, n * word)
        d_row = advance(d_memory, n * word)
        written0, erased0, all0 = zero, zero, zero
        written1, erased1, all1 = zero, zero, zero
        for w in range(word):
            e, v = load(erase, w), load(vector, w)
            d0, d1 = load(d_row, w), load(d_row, w + word)
            product0, product1 = d0 * load(row, w), d1 * load(row, w + word)
            written0, written1 = fused(d0, v, written0), fused(d1, v, written1)
            erased0, erased1 = fused(product0, e, erased0), fused(product1, e, erased1)
            all0, all1 = all0 + product0, all1 + product1
            store(d_vector, w, fused(d1, share1, fused(d0, share0, load(d_vector, w))))
            both = fused(product1, gone1, product0 * gone0)
            store(d_erase, w, load(d_erase, w) - both)
            store(d_row, w, d0 * (kept0 - gone0 * e))
            store(d_row, w + word, d1 * (kept1 - gone1 * e))
        store(d_weighting, n, load(d_weighting, n) + (written0 - kept0 * erased0))
        store(d_weighting, n + 1, load(d_weighting, n + 1) + (written1 - kept1 * erased1))
        if problem.dealloc:
            store(d_retained, n, all0 - share0 * erased0)
            store(d_retained, n + 1, all1 - share1 * erased1)
        else:
            store(d_retained, n, zero)
            store(d_retained, n + 1, zero)


@inner
def products_before_back(
    cells: int, taken: Any, before: Any, d_allocation: Any, shares: Any, d_taken: Any
) -> None:
    """Adjoint of a = (1 - x) ∏ x over the cells before; `shares` holds a times its adjoint    [U3]

    x[n] is a factor of the allocation of every cell after it, and x ≥ ε.
    """
    zero = fill(taken, 0.0)
    for n in range(cells):
        x = load(taken, n)
        total, second = zero, zero
        for m in range(n):
            total = total + where_less(x, load(taken, m), load(shares, m), zero)
        for m in range(n + 1, cells):
            y = load(taken, m)
            second = second + where_less(y, x, zero, load(shares, m))
        own = load(d_allocation, n) * load(before, n)
        store(d_taken, n, (total + second) / x - own)


@inner
def retain_back(
    cells: int,
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
        gate = load(free_gates, head)
        total = fill(free_gates, 0.0)
        for n in range(cells):
            rest = load(d_retained, n)
            for other in range(heads):
                if other != head:
                    place = (other * PER_HEAD + WEIGHTING) * padded + n
                    rest = rest * (one - load(free_gates, other) * load(heads_before, place))
            mine = load(heads_before, (head * PER_HEAD + WEIGHTING) * padded + n)
            total = total - rest * mine
            place = head * padded + n
            store(d_reads_before, place, load(d_reads_before, place) - rest * gate)
        store(d_free_gates, head, total)


@inner
def step_back(
    problem: Problem,
    parts: Parts,
    places: Places,
    scratch: Scratch,
    room: Room,
    adjoints: Adjoints,
    alive: Any,
    before: Any,
    now: Any,
    memory_before: Any,
    memory: Any,
    links_before: Any,
    d_reads: Any,
    d_controls: Any,
) -> None:
    """One step backwards: the adjoints of t become those of t-1; sets that of ξ_t.

    ``scratch.squashed`` holds the squashed interface of the step.
    """
    cells, word, heads, padded = problem.cells, problem.word, problem.heads, places.padded
    squashed, d_squashed = scratch.squashed, room.squashed
    heads_before, heads_now = advance(before, places.heads), advance(now, places.heads)
    one, zero = fill(now, 1.0), fill(now, 0.0)

    for head in range(heads):
        d_mine = advance(adjoints.read_weightings, head * padded)
        read_back(
            cells, word, memory, advance(heads_now, (head * PER_HEAD + WEIGHTING) * padded),
            advance(d_reads, head * word), d_mine, adjoints.memory,
        )  # fmt: skip
    for head in range(heads):
        _read_head_back(
            problem, parts, places, scratch, room, head, now, memory,
            advance(adjoints.read_weightings, head * padded), adjoints.memory,
        )  # fmt: skip

    # p_t = (1 - Σ w) p_{t-1} + w    [L2]
    weighting = advance(now, places.write_weighting)
    precedence_before = advance(before, places.precedence)
    product, total = zero, zero
    for n in range(cells):
        product = fused(load(adjoints.precedence, n), load(precedence_before, n), product)
        total = total + load(weighting, n)
    kept = one - total
    for n in range(cells):
        d = load(adjoints.precedence, n)
        store(room.weighting, n, load(adjoints.write_weighting, n) + (d - product))
        store(adjoints.precedence, n, kept * d)
    zero_all(heads * padded, adjoints.read_weightings_before)
    link_and_follow_back(
        cells, padded, heads, links_before, weighting, precedence_before, heads_before,
        room.following, room.preceding, adjoints.links, room.weighting, adjoints.precedence,
        adjoints.read_weightings_before,
    )  # fmt: skip

    retained = scratch.retained
    retain(cells, padded, heads, advance(squashed, parts.free_gates), heads_before, retained)
    write_back(
        problem, padded, memory_before, weighting, retained,
        advance(squashed, parts.erase), advance(squashed, parts.write_vector),
        adjoints.memory, room.weighting,
        advance(d_squashed, parts.erase), advance(d_squashed, parts.write_vector), room.retained,
    )  # fmt: skip

    # w_t = g^w (g^a a + (1 - g^a) c)    [W1]
    write_gate = load(squashed, parts.write_gate)
    allocating = load(squashed, parts.allocation_gate)
    usage, product_before = advance(now, places.usage), advance(now, places.before)
    content = advance(now, places.write_content)
    d_write_gate, d_allocating = zero, zero
    for n in range(cells):
        x = load(usage, n) * (1.0 - EPSILON) + EPSILON
        allocated = (one - x) * load(product_before, n)
        found = load(content, n)
        d = load(room.weighting, n)
        share = fused(allocating, allocated - found, found)
        d_write_gate = fused(d, share, d_write_gate)
        d = d * write_gate
        d_allocating = fused(d, allocated - found, d_allocating)
        store(scratch.taken, n, x)
        store(room.content, n, d * (one - allocating))
        store(room.weighting, n, d * allocating)
        store(scratch.forwards, n, d * allocating * allocated)
    store(d_squashed, parts.write_gate, d_write_gate)
    store(d_squashed, parts.allocation_gate, d_allocating)
    look_up_back(
        cells, padded, word, memory_before, advance(squashed, parts.write_key),
        advance(squashed, parts.write_mask), load(squashed, parts.write_strength),
        content, advance(content, padded), advance(content, 2 * padded),
        room.content, adjoints.memory, advance(d_squashed, parts.write_key),
        advance(d_squashed, parts.write_mask), advance(d_squashed, parts.write_strength), room,
    )  # fmt: skip
    products_before_back(
        cells, scratch.taken, product_before, room.weighting, scratch.forwards, scratch.backwards
    )

    # u_t = (u + w (1 - u)) ψ    [U2]
    usage_before = advance(before, places.usage)
    written = advance(before, places.write_weighting)
    for n in range(cells):
        u, w = load(usage_before, n), load(written, n)
        d = fused(load(scratch.backwards, n), fill(now, 1.0 - EPSILON), load(adjoints.usage, n))
        grown = fused(w, one - u, u)
        store(room.retained, n, fused(d, grown, load(room.retained, n)))
        d = d * load(retained, n)
        store(adjoints.usage, n, d * (one - w))
        through = d * (one - u) if problem.usage_gradient else zero
        store(adjoints.write_weighting, n, through)
    retain_back(
        cells, padded, heads, advance(squashed, parts.free_gates), heads_before, room.retained,
        advance(d_squashed, parts.free_gates), adjoints.read_weightings_before,
    )  # fmt: skip
    squash_back(
        problem, parts, lane_count(now), alive, advance(now, places.controls), squashed,
        d_squashed, d_controls,
    )  # fmt: skip
