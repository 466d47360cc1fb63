"""One piece of work for several threads, from within a kernel.

A board is an array of whole numbers. The thread that leads writes on it what is to be done and
opens a round of so many shares; whoever watches takes one share after the other, the leader too, so
that a round ends even if nobody else comes. What a share is made of depends on its number alone,
never on who does it. Functions on a pointer to a board work inside ``numba.njit`` only.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from dnclab.kernels.compiled import inner

Board = NDArray[np.int64]

NEXT, DONE, WORDS = 0, 8, 16
"""Where the next share, those done, and the words of the task stand: a cache line each."""

BOARD_SIZE = 48

ROUND = 1 << 16
"""From a round's first share to the next round's."""

NONE_LEFT, OVER = -1, -2

PATIENCE = 2000
"""Looks at the board before others may have the processor."""

_INTEGER = ir.IntType(64)


def new_board() -> Board:
    """A board with nothing on it."""
    board = np.zeros(BOARD_SIZE, np.int64)
    board[NEXT] = ROUND - 1  # all shares of round 0 are gone
    return board


def close(board: Board) -> None:
    """Let all who watch go."""
    board[NEXT] = OVER


def _place(builder: Any, start: Any, index: Any) -> Any:
    return builder.gep(builder.bitcast(start, _INTEGER.as_pointer()), [index])


@intrinsic
def look(context: Any, board: Any, index: Any) -> Any:
    """A number on the board, and with it all that was written before it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_place(builder, *arguments), "acquire", 8)

    return types.int64(board, types.intp), generate


@intrinsic
def tell(context: Any, board: Any, index: Any, number: Any) -> Any:
    """Write a number for others to see, and with it all that was written before it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(builder, arguments[0], arguments[1])
        builder.store_atomic(arguments[2], place, "release", 8)
        return context.get_dummy_value()

    return types.void(board, types.intp, types.int64), generate


@intrinsic
def _exchange(context: Any, board: Any, index: Any, expected: Any, new: Any) -> Any:
    """Whether the number was as expected and is now the new one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(builder, arguments[0], arguments[1])
        pair = builder.cmpxchg(place, arguments[2], arguments[3], "acq_rel", "acquire")
        return builder.extract_value(pair, 1)

    return types.boolean(board, types.intp, types.int64, types.int64), generate


@intrinsic
def _count(context: Any, board: Any, index: Any) -> Any:
    """One more."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(builder, *arguments)
        builder.atomic_rmw("add", place, ir.Constant(_INTEGER, 1), "acq_rel")
        return context.get_dummy_value()

    return types.void(board, types.intp), generate


@intrinsic
def _give_way(context: Any) -> Any:
    """Let another thread have the processor, where the system has a word for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if sys.platform != "win32":
            kind = ir.FunctionType(ir.IntType(32), [])
            function = builder.module.globals.get("sched_yield")
            if function is None:
                function = ir.Function(builder.module, kind, "sched_yield")
            builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def as_number(context: Any, p: Any) -> Any:
    """Where a pointer points to."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(arguments[0], _INTEGER)

    return types.int64(p), generate


@intrinsic
def as_pointer(context: Any, like: Any, number: Any) -> Any:
    """The pointer to there, of the kind of another."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[1], context.get_value_type(signature.return_type))

    return like(like, types.int64), generate


@inner
def open_round(board: Any) -> None:
    """The words are written: let shares be taken."""
    tell(board, DONE, 0)
    tell(board, NEXT, (look(board, NEXT) // ROUND + 1) * ROUND)


@inner
def take(board: Any, shares: int) -> int:
    """The number of a share that nobody else has; or that there is none, now or for ever."""
    while True:
        following = look(board, NEXT)
        if following < 0:
            return OVER
        if following % ROUND >= shares:
            return NONE_LEFT
        if _exchange(board, NEXT, following, following + 1):
            share: int = following % ROUND
            return share


@inner
def finish(board: Any) -> None:
    """A share is done."""
    _count(board, DONE)


@inner
def wait(board: Any, shares: int) -> None:
    """Until all shares of the round are done."""
    looks = 0
    while look(board, DONE) < shares:
        looks += 1
        if looks > PATIENCE:
            _give_way()


@inner
def rest(looks: int) -> int:
    """There was nothing to do; so many times in a row."""
    if looks > PATIENCE:
        _give_way()
    return looks + 1
