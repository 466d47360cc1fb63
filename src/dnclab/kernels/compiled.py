"""How kernels are compiled: once per machine and dtype, for sizes known only when they run."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

PATIENCE = 2.0
"""Seconds after which a person is told what is going on."""

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}
# No fast-math: it would take the liberty to assume that no number is a NaN.


def inner(function: Function) -> Function:
    """A part of kernels: compiled into each that calls it."""
    compiled: Function = numba.njit(**_OPTIONS)(function)
    return compiled


def kernel(function: Function) -> Function:
    """What Python calls: compiled when first called, then read from Numba's cache on the disk."""
    try:
        dispatcher = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # no folder can be written to: every process compiles for itself
        return inner(function)
    # Numba would compile anew only when the file of this very function has changed.
    file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if file is not None and hasattr(file, "_source_stamp"):
        file._source_stamp = (file._source_stamp, _sources())
    compiled: Function = dispatcher
    return compiled


def _sources() -> str:
    """A hash of all that kernels are made of."""
    hashed = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        hashed.update(path.read_bytes())
    return hashed.hexdigest()


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Tell a person what takes so long, if it does."""
    told = threading.Timer(
        PATIENCE,
        lambda: print(  # noqa: T201  # a library has no other voice at this moment
            f"dnclab: compiling {what} for this machine, once; this takes about half a minute",
            file=sys.stderr,
            flush=True,
        ),
    )
    told.daemon = True
    told.start()
    try:
        yield
    finally:
        told.cancel()
