"""Jobs side by side: kernels let go of Python's lock, so plain threads will do."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

_pool: ThreadPoolExecutor | None = None
_pool_lock = threading.Lock()
_inside = threading.local()


def run_all(jobs: Sequence[Callable[[], object]], threads: int) -> None:
    """Run every job, at most `threads` at once, the caller's thread among them.

    Which thread runs which job is left to chance: jobs must not depend on it. The first error is
    raised when all have ended.
    """
    helpers = min(threads, len(jobs)) - 1
    # A job that has jobs of its own does them itself: waiting for a pool from within it may never
    # end.
    if helpers < 1 or getattr(_inside, "pool", False):
        for job in jobs:
            job()
        return
    waiting = iter(jobs)
    taking = threading.Lock()

    def work() -> None:
        while True:
            with taking:
                job = next(waiting, None)
            if job is None:
                return
            job()

    others = [_threads().submit(work) for _ in range(helpers)]
    try:
        work()
    finally:
        errors = [other.exception() for other in others]
    for error in errors:
        if error is not None:
            raise error


def _threads() -> ThreadPoolExecutor:
    """The pool of this process, made when first needed."""
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(
                max_workers=max(2, 2 * (os.cpu_count() or 1)),
                thread_name_prefix="dnclab",
                initializer=_enter,
            )
        return _pool


def _enter() -> None:
    """Each processor core has its own mode for denormal numbers: they count as 0 here too."""
    _inside.pool = True
    torch.set_flush_denormal(True)


def _forget_pool() -> None:
    """A forked child has the pool's object but none of its threads."""
    global _pool, _pool_lock
    _pool, _pool_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_pool)
