from __future__ import annotations

import gc
import os

import numpy as np
import pytest

from dnclab.kernels import room
from dnclab.kernels.room import LARGE, aligned_empty

F32 = np.dtype(np.float32)


@pytest.fixture(autouse=True)
def _none_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    monkeypatch.setattr(room, "_kept", [])


def address(array: np.ndarray) -> int:
    return array.ctypes.data


def test_a_large_block_comes_back_when_its_last_array_is_gone() -> None:
    first, second = aligned_empty(F32, (LARGE,), (7,))
    where = address(first)
    part = first[10:20]
    del first, second
    [other] = aligned_empty(F32, (LARGE + 7,))
    assert address(other) != where
    del part
    [again] = aligned_empty(F32, (LARGE + 100,))
    assert address(again) == where


def test_blocks_in_use_are_never_shared() -> None:
    arrays = [aligned_empty(F32, (LARGE,))[0] for _ in range(5)]
    for number, array in enumerate(arrays):
        array[:] = number
    del arrays[1], arrays[2]
    arrays += [aligned_empty(F32, (LARGE,))[0] for _ in range(4)]
    for one in range(len(arrays)):
        for other in range(one):
            assert not np.shares_memory(arrays[one], arrays[other])


def test_a_much_larger_block_is_left_alone() -> None:
    [large] = aligned_empty(F32, (4 * LARGE,))
    del large
    [small] = aligned_empty(F32, (LARGE,))
    assert len(room._kept) == 1
    assert small.shape == (LARGE,)


def test_no_more_is_kept_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "KEPT_BYTES", 12 * LARGE)
    arrays = [aligned_empty(F32, (LARGE,))[0] for _ in range(5)]
    del arrays
    assert 4 * LARGE <= sum(block.nbytes for block in room._kept) <= 12 * LARGE


def test_a_forked_child_can_ask() -> None:
    with room._lock:
        child = os.fork()
        if child == 0:
            aligned_empty(F32, (LARGE,))
            os._exit(7)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7


def test_arrays_begin_at_a_cache_line() -> None:
    for dtype in (F32, np.dtype(np.float64)):
        for array in aligned_empty(dtype, (3,), (5, 7), (0, 2), (LARGE,)):
            assert array.ctypes.data % 64 == 0
            assert array.dtype == dtype
