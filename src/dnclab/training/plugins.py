"""Things by name: known ones, those of other packages, and those given as module:object."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any


def find(kind: str, name: str, known: Mapping[str, Any]) -> Any:
    """The object of a name; `kind` is what it is, and the entry-point group ``dnclab.<kind>s``.

    ``module:object`` is imported as ``python -m`` would import it: the current folder counts.
    """
    if name in known:
        return known[name]
    if ":" in name:
        return _import(kind, name)
    offered = {entry.name: entry for entry in entry_points(group=f"dnclab.{kind}s")}
    if name in offered:
        return offered[name].load()
    names = ", ".join((*known, *offered))
    raise ValueError(f"{kind}: expected one of {names}, or module:object; got {name!r}")


def _import(kind: str, name: str) -> Any:
    module_name, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{kind}: {name} cannot be imported: {error}") from error
    return found
