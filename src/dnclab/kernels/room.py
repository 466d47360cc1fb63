"""Memory for kernels: aligned, and used again.

What is large goes back to the system when it is freed, and costs a page fault for every page when
the next sequence asks for it: as much time as a good part of the work. So blocks that nobody uses
any more are kept, up to a limit, for whoever asks next.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dnclab.kernels.problem import Array

Bytes = NDArray[np.uint8]

CACHE_LINE = 64
"""Bytes that come from memory together."""

KEPT_BYTES = 256 * 1024 * 1024
"""How much is kept at most when nobody uses it."""

LARGE = 256 * 1024
"""Smaller blocks are the allocator's affair."""

_kept: list[Bytes] = []
"""Blocks that nobody uses, the latest last."""

_lock = threading.RLock()
"""The garbage collector may bring a block back while its own thread takes another."""


class _Block:
    """Bytes that come back when the last array on them is gone."""

    def __init__(self, memory: Bytes) -> None:
        self.memory = memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not finalizing():
            _keep(self.memory)


def _keep(memory: Bytes) -> None:
    with _lock:
        _kept.append(memory)
        while _kept and sum(block.nbytes for block in _kept) > KEPT_BYTES:
            del _kept[0]


def _take(size: int) -> Bytes | None:
    """The smallest block that is large enough, and not much larger."""
    with _lock:
        fitting = [block for block in _kept if size <= block.nbytes <= size + size // 2]
        if not fitting:
            return None
        taken = min(fitting, key=lambda block: block.nbytes)
        _kept[:] = [block for block in _kept if block is not taken]
        return taken


def _rounded(size: int) -> int:
    """Up to an eighth more, so that sequences of about the same length share their blocks."""
    grain = 1 << max(size.bit_length() - 4, 0)
    return -(-size // grain) * grain


def _bytes(size: int) -> Bytes:
    """So many bytes of anything, or some more."""
    if size < LARGE:
        return np.empty(size, np.uint8)
    size = _rounded(size)
    memory = _take(size)
    return np.asarray(_Block(np.empty(size, np.uint8) if memory is None else memory))


def _unlock() -> None:
    """A forked child has none of the threads that may have held the lock."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_unlock)


def aligned_empty(dtype: np.dtype[Any], *shapes: tuple[int, ...]) -> list[Array]:
    """Arrays of anything, each beginning at a whole cache line, so that lanes lie in one."""
    sizes = [-(-math.prod(shape) * dtype.itemsize // CACHE_LINE) * CACHE_LINE for shape in shapes]
    raw = _bytes(sum(sizes) + CACHE_LINE)
    start = -raw.ctypes.data % CACHE_LINE
    arrays = []
    for shape, size in zip(shapes, sizes, strict=True):
        arrays.append(np.ndarray(shape, dtype, raw, start))
        start += size
    return arrays
