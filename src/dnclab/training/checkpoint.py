"""Checkpoints of a run: each a folder that is there whole or not at all, and checked when read.

    checkpoints/step-00001000/
        tensors.safetensors   every tensor
        state.json            step, data, checkpoint_version, SHA-256 of the tensors and of itself
        best                  an empty file, there if this was the best when it was saved

One process saves, the one that holds the lock of the run folder. Anyone may load meanwhile: loading
changes nothing. Names that begin with a dot are unfinished or on their way out.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from dnclab.checks import check_count, check_flag, check_size, check_tensor
from dnclab.runs import CHECKPOINTS_NAME, RunError, sync_folder, write_synced

CHECKPOINT_VERSION = 1
"""The layout of a checkpoint; one of another version is passed over."""

TENSORS_NAME = "tensors.safetensors"
STATE_NAME = "state.json"
BEST_NAME = "best"
REPLACED_SUFFIX = ".replaced"
"""Marks what was saved before at the same step, until the new one is in place."""

RESERVED_NAME = "__metadata__"
"""The one name that the safetensors format keeps for itself."""


class CheckpointWarning(UserWarning):
    """Another checkpoint is used than the one that was meant."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """All that a run needs to go on as if it had never stopped."""

    step: int
    """Steps done."""

    tensors: dict[str, Tensor]
    """By any names; loaded ones are on the CPU, bit for bit those saved."""

    data: dict[str, Any]
    """The rest, as JSON holds it: str keys, lists instead of tuples, finite numbers; else see
    `split_state`."""


def save(folder: Path, checkpoint: Checkpoint, *, keep_last: int = 3, best: bool = False) -> Path:
    """Write a checkpoint into a run folder, then remove all but the last few and the best.

    When it returns, the disk has the checkpoint. Whenever it is killed or fails, what was saved
    before is still there. Once marked as best, a step stays so when it is saved again.
    """
    check_size("keep_last", keep_last)
    check_flag("best", best)
    files = _encoded(checkpoint)
    place = folder / CHECKPOINTS_NAME
    target = place / f"step-{checkpoint.step:08d}"
    try:
        place.mkdir(exist_ok=True)
        _tidy(place)
        if best or (target / BEST_NAME).exists():
            files[BEST_NAME] = b""
        _put_in_place(target, files)
        for old in _superseded(place, checkpoint.step, keep_last):
            _remove(old)
    except OSError as error:
        raise RunError(_failure(place, checkpoint.step, error)) from error
    return target


def _encoded(checkpoint: Checkpoint) -> dict[str, bytes]:
    """The files, in memory: what cannot be saved is refused before the disk is touched."""
    check_count("step", checkpoint.step)
    for name, tensor in checkpoint.tensors.items():
        check_tensor(f"tensors[{name!r}]", tensor)
        if name == RESERVED_NAME:
            raise ValueError(f"tensors: expected any name but {RESERVED_NAME}")
    try:
        tensors = safetensors.torch.save({k: _apart(v) for k, v in checkpoint.tensors.items()})
    except KeyError as error:  # its table of dtypes
        raise TypeError(f"tensors: expected dtypes that safetensors has, got {error}") from error
    state = {
        "checkpoint_version": CHECKPOINT_VERSION,
        "step": checkpoint.step,
        "tensors_sha256": hashlib.sha256(tensors).hexdigest(),
        "data": checkpoint.data,
    }
    try:
        content = _signed(state)
    except (TypeError, ValueError) as error:
        raise type(error)(f"data: expected what JSON can hold: {error}") from error
    if json.loads(content)["data"] != checkpoint.data:
        raise TypeError("data: JSON would give it back changed (tuples, keys that are not str)")
    return {TENSORS_NAME: tensors, STATE_NAME: content}


def _apart(tensor: Tensor) -> Tensor:
    """A dense copy on the CPU, which shares its memory with no other tensor."""
    resolved = tensor.detach().resolve_conj().resolve_neg()
    return resolved.to("cpu", copy=True, memory_format=torch.contiguous_format)


def _signed(state: Mapping[str, Any]) -> bytes:
    """The bytes of state.json: the one way to write this state, its own SHA-256 included."""
    digest = hashlib.sha256(_canonical(state)).hexdigest()
    return _canonical({**state, "state_sha256": digest})


def _canonical(state: Mapping[str, Any]) -> bytes:
    return json.dumps(state, allow_nan=False).encode() + b"\n"


def _put_in_place(target: Path, files: Mapping[str, bytes]) -> None:
    """Each step is on the disk before the next begins; at any moment an old or a new one is."""
    unfinished = target.with_name(f".{target.name}.part")
    unfinished.mkdir()
    for name, content in files.items():
        write_synced(unfinished / name, content)
    sync_folder(unfinished)
    replaced = target.with_name(target.name + REPLACED_SUFFIX)
    if target.exists():
        target.rename(replaced)
    unfinished.rename(target)
    sync_folder(target.parent)
    if replaced.exists():
        _remove(replaced)


def _tidy(place: Path) -> None:
    """Bring in order what a killed process left."""
    for path in list(place.iterdir()):
        if path.name.startswith("."):
            shutil.rmtree(path)
        elif path.name.endswith(REPLACED_SUFFIX):
            target = path.with_name(path.name.removesuffix(REPLACED_SUFFIX))
            if target.exists():
                _remove(path)
            else:
                path.rename(target)


def _remove(path: Path) -> None:
    """At once for a reader: under its name it is whole, or not there."""
    doomed = path.with_name(f".{path.name}.old")
    path.rename(doomed)
    shutil.rmtree(doomed)


def _superseded(place: Path, step: int, keep_last: int) -> list[Path]:
    """What may go once `step` is saved: neither among the last few up to it nor the best.

    Later steps than the one just saved count for nothing: the run went on from before them because
    they were damaged, and comes to them again.
    """
    reached = [path for path in _newest_first(place) if _step(path) <= step]
    best = next((path for path in reached if (path / BEST_NAME).exists()), None)
    return [path for path in reached[keep_last:] if path != best]


def _failure(place: Path, step: int, error: OSError) -> str:
    """What happened and what there still is, after cleaning up as far as the disk lets us."""
    message = f"checkpoint of step {step}: {error.strerror or error}"
    try:
        _tidy(place)
        found, _ = _first_intact(_newest_first(place))
    except OSError:
        return f"{message}; {place} may hold unfinished files"
    return f"{message}; the last good one: {found[0] if found else 'none'}"


_FOLDER = re.compile(rf"step-(\d{{8,}})({re.escape(REPLACED_SUFFIX)})?")


def _step(path: Path) -> int:
    found = _FOLDER.fullmatch(path.name)
    if found is None:
        raise ValueError(f"path: expected a checkpoint's, got {path}")
    return int(found[1])


def _newest_first(place: Path) -> list[Path]:
    """The checkpoints by step; one replaced comes after what replaces it."""
    if not place.is_dir():
        return []
    paths = [path for path in place.iterdir() if _FOLDER.fullmatch(path.name)]
    return sorted(
        paths, key=lambda path: (_step(path), path.suffix != REPLACED_SUFFIX), reverse=True
    )


def _best_first(place: Path) -> list[Path]:
    """The one marked as best (the newest that is), earlier best ones, then the others."""
    return sorted(_newest_first(place), key=lambda path: not (path / BEST_NAME).exists())


def load_newest(folder: Path) -> Checkpoint | None:
    """The newest checkpoint that is undamaged; None if there is none at all.

    A warning names each that was passed over, why, and what is used in its place.
    """
    return _load(folder / CHECKPOINTS_NAME, _newest_first)


def load_best(folder: Path) -> Checkpoint | None:
    """The checkpoint marked as best, or with a warning another one; None if there is none at all.

    In place of a damaged one: an earlier best if that is still kept, else the newest.
    """
    place = folder / CHECKPOINTS_NAME
    checkpoints = _best_first(place)
    if checkpoints and not (checkpoints[0] / BEST_NAME).exists():
        warnings.warn(
            f"{place}: none is marked as best; using the newest", CheckpointWarning, stacklevel=2
        )
    return _load(place, _best_first)


def _load(place: Path, in_order: Callable[[Path], list[Path]]) -> Checkpoint | None:
    paths = in_order(place)
    if not paths:
        return None
    found, faults = _first_intact(paths)
    if any(not path.exists() for path in faults):  # the run goes on and has removed it meanwhile
        return _load(place, in_order)
    if found is None:
        path, why = next(iter(faults.items()))
        raise RunError(f"{place}: none of {len(paths)} can be used; the first, {path.name}: {why}")
    used, checkpoint = found
    for path, why in faults.items():
        warnings.warn(
            f"checkpoint {path} is damaged: {why}; using {used.name}",
            CheckpointWarning,
            stacklevel=3,
        )
    return checkpoint


def _first_intact(paths: list[Path]) -> tuple[tuple[Path, Checkpoint] | None, dict[Path, str]]:
    """The first that can be read, and what is wrong with those before it."""
    faults: dict[Path, str] = {}
    for path in paths:
        result = _read_or_fault(path)
        if isinstance(result, Checkpoint):
            return (path, result), faults
        faults[path] = result
    return None, faults


def _read_or_fault(path: Path) -> Checkpoint | str:
    try:
        return _read(path)
    except OSError as error:
        return f"{Path(error.filename or path).name}: {error.strerror}"
    except (ValueError, safetensors.SafetensorError) as error:
        return str(error)


def _read(path: Path) -> Checkpoint:
    content = (path / STATE_NAME).read_bytes()
    try:
        state = json.loads(content)
    except ValueError as error:
        raise ValueError(f"{STATE_NAME}: not JSON: {error}") from error
    if not isinstance(state, dict):
        raise ValueError(f"{STATE_NAME}: expected a JSON object")  # noqa: TRY004  # a bad file is a bad value
    found = state.get("checkpoint_version")
    if type(found) is not int or found != CHECKPOINT_VERSION:
        raise ValueError(
            f"{STATE_NAME}: expected checkpoint_version {CHECKPOINT_VERSION}, got {found!r}"
        )
    state.pop("state_sha256", None)
    if _signed(state) != content:
        raise ValueError(f"{STATE_NAME}: its content and its SHA-256 differ")
    if state["step"] != _step(path):
        raise ValueError(f"{STATE_NAME}: is of step {state['step']}")
    tensors = (path / TENSORS_NAME).read_bytes()
    if hashlib.sha256(tensors).hexdigest() != state["tensors_sha256"]:
        raise ValueError(f"{TENSORS_NAME}: its content and its SHA-256 differ")
    return Checkpoint(state["step"], safetensors.torch.load(tensors), state["data"])


def split_state(state: Any) -> tuple[dict[str, Tensor], Any]:
    """Take a nest (an optimiser's state) apart: tensors by name, and the rest for JSON.

    It may hold dicts with str or int keys, lists, tuples, None, bool, int, float, str and tensors;
    `join_state` gives an equal one back, the order of the keys included.

    In the rest a JSON object stands for what JSON has not: {"tensor": name}, {"tuple": parts},
    {"dict": [[key, value], ...]}, {"float": "nan"}.
    """
    tensors: dict[str, Tensor] = {}
    return tensors, _split(state, "", tensors)


def _split(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        name = path
        while name in tensors or name == RESERVED_NAME:  # as for the keys 0 and "0"
            name += "+"
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, dict):
        for key in value:
            if isinstance(key, bool) or not isinstance(key, (str, int)):
                raise TypeError(f"state: {path or 'top'}: expected str or int keys, got {key!r}")
        pairs = value.items()
        return {"dict": [[key, _split(part, _below(path, key), tensors)] for key, part in pairs]}
    if type(value) in (list, tuple):
        parts = [_split(part, _below(path, i), tensors) for i, part in enumerate(value)]
        return parts if type(value) is list else {"tuple": parts}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(float(value))}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(
        f"state: {path or 'top'}: expected a dict, list, tuple, None, bool, int, float, str or "
        f"tensor, got {type(value).__name__}"
    )


def _below(path: str, key: str | int) -> str:
    return f"{path}/{key}" if path else str(key)


def join_state(tensors: Mapping[str, Tensor], data: Any) -> Any:
    """Put together what `split_state` took apart; `tensors` may hold others besides."""
    if isinstance(data, list):
        return [join_state(tensors, part) for part in data]
    if not isinstance(data, dict):
        return data
    if len(data) == 1:
        ((kind, content),) = data.items()
        if kind == "tensor":
            if content not in tensors:
                raise ValueError(f"tensors: expected one named {content!r}, which data refers to")
            return tensors[content]
        if kind == "dict":
            return {key: join_state(tensors, part) for key, part in content}
        if kind == "tuple":
            return tuple(join_state(tensors, part) for part in content)
        if kind == "float":
            return float(content)
    raise ValueError(f"data: expected what split_state gives, got an object of {list(data)}")
