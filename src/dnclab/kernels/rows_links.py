"""The links of one large sample, shared by several threads.

Its rows go by shares: how many there are follows from N alone. Each sums what it gives to a column
by itself, and the sums are added in the order of the shares, whoever made them.
"""

from __future__ import annotations

from typing import Any

from dnclab.kernels.compiled import inner, kernel
from dnclab.kernels.problem import Array
from dnclab.kernels.records import PER_HEAD, PRECEDING, Adjoints
from dnclab.kernels.rows_adjoints import Links, Room, link_and_follow_back
from dnclab.kernels.rows_memory import BLOCK, link_and_follow, zero_all
from dnclab.kernels.sharing import (
    NONE_LEFT,
    OVER,
    WORDS,
    Board,
    as_number,
    as_pointer,
    finish,
    look,
    open_round,
    rest,
    take,
    tell,
    wait,
)
from dnclab.kernels.simd import lane_count, load_at, pointer, skip, store_at

SHARED_FROM, SHARES = 512, 8
"""From so many cells on, in so many shares: below, telling others takes longer than doing it."""

FORWARD, BACK = 0, 1
"""What is to be done."""


def shares_of(padded: int) -> int:
    """How many shares the links are worked on in."""
    return SHARES if padded >= SHARED_FROM else 1


def share_size_of(padded: int, heads: int, lanes: int) -> int:
    """Numbers that a share sums for itself, with some room."""
    return (heads + 2) * padded + 2 * lanes


@inner
def _first_row(cells: int, share: int, shares: int) -> int:
    blocks = (cells + BLOCK - 1) // BLOCK
    return share * blocks // shares * BLOCK


@inner
def _add_up(count: int, shares: int, partials: Any, apart: int, target: Any, begin: Any) -> None:
    """target = begin + the sums of all shares."""
    for n in range(0, count, lane_count(target)):
        sums = load_at(begin, n)
        for share in range(shares):
            sums = sums + load_at(partials, share * apart + n)
        store_at(target, n, sums)


@inner
def link_together(
    board: Any,
    shares: int,
    size: int,
    cells: int,
    padded: int,
    heads: int,
    links: Any,
    weighting: Any,
    precedence: Any,
    heads_before: Any,
    heads_now: Any,
    partials: Any,
) -> None:
    """L_t in place, and L_t w_{t-1}^{r,i} and L_tᵀ w_{t-1}^{r,i} of every head    [L1, L3, L4]"""
    preceding, apart = skip(heads_now, PRECEDING * padded), PER_HEAD * padded
    for head in range(heads):
        zero_all(padded, skip(heads_now, head * apart))
    share, sums, sums_apart = 0, preceding, apart
    if shares > 1:
        sums, sums_apart = partials, padded
        tell(board, WORDS, FORWARD)
        tell(board, WORDS + 1, as_number(links))
        tell(board, WORDS + 2, as_number(weighting))
        tell(board, WORDS + 3, as_number(precedence))
        tell(board, WORDS + 4, as_number(heads_before))
        tell(board, WORDS + 5, as_number(heads_now))
        tell(board, WORDS + 6, as_number(partials))
        open_round(board)
        share = take(board, shares)
    while share >= 0:
        link_and_follow(
            _first_row(cells, share, shares), _first_row(cells, share + 1, shares), padded, heads,
            links, weighting, precedence, heads_before, heads_now, skip(sums, share * size),
            sums_apart,
        )  # fmt: skip
        if shares > 1:
            finish(board)
            share = take(board, shares)
        else:
            share = NONE_LEFT
    if shares > 1:
        wait(board, shares)
        for head in range(heads):
            target = skip(preceding, head * apart)
            zero_all(padded, target)
            _add_up(padded, shares, skip(partials, head * padded), size, target, target)


@inner
def link_together_back(
    board: Any,
    shares: int,
    size: int,
    cells: int,
    padded: int,
    heads: int,
    given: Links,
    room: Room,
    adjoints: Adjoints,
    partials: Any,
) -> None:
    """Adjoint of links and of following them; that of L_t becomes that of L_{t-1} in place, and so
    do the links themselves if they are to be undone    [L1, L3, L4]
    """
    d_reads, d_weighting = adjoints.read_weightings_before, room.weighting
    d_precedence, totals = adjoints.precedence, room.totals
    share = 0
    if shares > 1:
        tell(board, WORDS, BACK)
        tell(board, WORDS + 1, as_number(given.links))
        tell(board, WORDS + 2, as_number(given.d_links))
        tell(board, WORDS + 3, as_number(given.weighting))
        tell(board, WORDS + 4, as_number(given.precedence))
        tell(board, WORDS + 5, as_number(given.heads_before))
        tell(board, WORDS + 6, as_number(given.d_following))
        tell(board, WORDS + 7, as_number(given.d_preceding))
        tell(board, WORDS + 8, 1 if given.undone else 0)
        tell(board, WORDS + 9, as_number(given.before))
        tell(board, WORDS + 10, given.patched)
        tell(board, WORDS + 11, as_number(given.marks))
        tell(board, WORDS + 12, as_number(given.patches))
        tell(board, WORDS + 13, as_number(partials))
        open_round(board)
        share = take(board, shares)
    while share >= 0:
        if shares > 1:
            d_reads = skip(partials, share * size)
            d_weighting = skip(d_reads, heads * padded)
            d_precedence = skip(d_weighting, padded)
            totals = skip(d_precedence, padded)
            zero_all(size, d_reads)
        link_and_follow_back(
            _first_row(cells, share, shares), _first_row(cells, share + 1, shares), padded, heads,
            given, d_weighting, d_precedence, d_reads, totals,
        )  # fmt: skip
        if shares > 1:
            finish(board)
            share = take(board, shares)
        else:
            share = NONE_LEFT
    if shares > 1:
        wait(board, shares)
        target = adjoints.read_weightings_before
        _add_up(heads * padded, shares, partials, size, target, target)
        of_weighting = skip(partials, heads * padded)
        _add_up(padded, shares, of_weighting, size, room.weighting, room.weighting)
        of_precedence = skip(of_weighting, padded)
        _add_up(padded, shares, of_precedence, size, adjoints.precedence, adjoints.precedence)


@kernel
def help_with_links(
    board_array: Board, shares: int, size: int, cells: int, padded: int, heads: int, like: Array
) -> None:
    """Do shares of whatever is on the board, until it is closed; `like` is of the numbers' kind."""
    board, p, looks = pointer(board_array), pointer(like), 0
    while True:
        share = take(board, shares)
        if share == OVER:
            return
        if share == NONE_LEFT:
            looks = rest(looks)
            continue
        looks = 0
        first, last = _first_row(cells, share, shares), _first_row(cells, share + 1, shares)
        if look(board, WORDS) == FORWARD:
            link_and_follow(
                first, last, padded, heads,
                as_pointer(p, look(board, WORDS + 1)), as_pointer(p, look(board, WORDS + 2)),
                as_pointer(p, look(board, WORDS + 3)), as_pointer(p, look(board, WORDS + 4)),
                as_pointer(p, look(board, WORDS + 5)),
                skip(as_pointer(p, look(board, WORDS + 6)), share * size), padded,
            )  # fmt: skip
        else:
            given = Links(
                as_pointer(p, look(board, WORDS + 1)), as_pointer(p, look(board, WORDS + 2)),
                as_pointer(p, look(board, WORDS + 3)), as_pointer(p, look(board, WORDS + 4)),
                as_pointer(p, look(board, WORDS + 5)), as_pointer(p, look(board, WORDS + 6)),
                as_pointer(p, look(board, WORDS + 7)), look(board, WORDS + 8) == 1,
                as_pointer(p, look(board, WORDS + 9)), look(board, WORDS + 10),
                as_pointer(p, look(board, WORDS + 11)), as_pointer(p, look(board, WORDS + 12)),
            )  # fmt: skip
            d_reads = skip(as_pointer(p, look(board, WORDS + 13)), share * size)
            d_weighting = skip(d_reads, heads * padded)
            d_precedence = skip(d_weighting, padded)
            zero_all(size, d_reads)
            link_and_follow_back(
                first, last, padded, heads, given, d_weighting, d_precedence, d_reads,
                skip(d_precedence, padded),
            )  # fmt: skip
        finish(board)
