from __future__ import annotations

import os
import threading
from functools import partial

import pytest
import torch

from dnclab.kernels.threads import run_all


def test_every_job_runs_once() -> None:
    for threads in (1, 2, 8):
        done: list[int] = []
        run_all([partial(done.append, number) for number in range(50)], threads)
        assert sorted(done) == list(range(50))


def test_jobs_run_side_by_side() -> None:
    """Each waits for the other."""
    meeting = threading.Barrier(2, timeout=60)
    run_all([meeting.wait, meeting.wait], 2)


def test_one_thread_is_the_callers() -> None:
    seen: list[int] = []
    run_all([lambda: seen.append(threading.get_ident())] * 3, 1)
    assert set(seen) == {threading.get_ident()}


def test_jobs_of_jobs_do_not_wait_for_ever() -> None:
    done: list[int] = []

    def outer() -> None:
        run_all([lambda: done.append(1)] * 3, 4)

    run_all([outer] * 40, 4)
    assert len(done) == 120


def test_the_first_error_is_raised_when_all_have_ended() -> None:
    done: list[int] = []

    def fails() -> None:
        raise ValueError("a job")

    with pytest.raises(ValueError, match="a job"):
        run_all([lambda: done.append(1), fails, lambda: done.append(1)], 3)
    run_all([lambda: done.append(1)] * 2, 2)
    assert len(done) >= 3


def test_denormal_numbers_are_flushed_in_every_thread() -> None:
    meeting = threading.Barrier(2, timeout=60)
    flushed: dict[int, bool] = {}

    def look() -> None:
        meeting.wait()
        tiny = torch.tensor([1e-310], dtype=torch.float64)
        flushed[threading.get_ident()] = tiny.mul(1.0).item() == 0

    run_all([look, look], 2)
    del flushed[threading.get_ident()]  # the caller's is the caller's affair
    assert list(flushed.values()) == [True]


def test_a_forked_child_makes_its_own_pool() -> None:
    run_all([lambda: None] * 4, 2)
    child = os.fork()
    if child == 0:
        run_all([lambda: None] * 4, 2)
        os._exit(7)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
