"""Other ways to compute the same sequence, faster. Arrays in, arrays out.

Two layouts: ``lanes`` has a sample in each lane of the processor's vectors, ``rows`` the cells of
one sample. A layout is imported when it is chosen, and with it Numba.
"""

from __future__ import annotations

import importlib
import threading
from functools import cache
from types import ModuleType

import numpy as np

LAYOUTS = ("lanes", "rows")


class BackendUnavailable(RuntimeError):  # noqa: N818  # says what is the case
    """A backend that was asked for by name cannot do what is asked; says why."""


def layout_for(cells: int, samples: int) -> str:
    """The rule by which a layout is picked.

    Lanes while the links of a whole group of samples fit into the second cache and most lanes have
    a sample, or where a step is so small that empty lanes cost nothing.
    """
    few = cells <= 32
    return "lanes" if few or (cells <= 64 and samples >= 4) else "rows"


_loading = threading.Lock()


def load(name: str, dtype: str) -> ModuleType:
    """A layout, compiled for a dtype."""
    with _loading:
        return _load(name, dtype)


@cache
def _load(name: str, dtype: str) -> ModuleType:
    try:
        from dnclab.kernels.compiled import explained
        from dnclab.kernels.warmup import run_once

        with explained(f"the {name} kernels ({dtype})"):
            layout = importlib.import_module(f"dnclab.kernels.{name}")
            run_once(layout, np.dtype(dtype))
    except ImportError as error:
        raise BackendUnavailable(
            f"backend 'fused': the {name} kernels cannot be imported: {error}"
        ) from error
    except Exception as error:
        raise BackendUnavailable(
            f"backend 'fused': the {name} kernels cannot be compiled: {type(error).__name__}: "
            f"{str(error).strip().splitlines()[0] if str(error).strip() else 'no message'}"
        ) from error
    return layout
