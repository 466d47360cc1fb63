"""A trained model as a folder: ``config.json`` and ``model.safetensors``. No pickle anywhere."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import nn

FORMAT_VERSION = 1
CONFIG_NAME = "config.json"
PARAMETERS_NAME = "model.safetensors"


def save(folder: str | os.PathLike[str], model: nn.Module, config: Mapping[str, Any]) -> None:
    """Write the folder; each file appears whole or not at all."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format_version": FORMAT_VERSION, **config}, indent=2) + "\n"
    _write_whole(
        folder / PARAMETERS_NAME,
        lambda path: safetensors.torch.save_model(model, str(path), {"format": "pt"}),
    )
    _write_whole(folder / CONFIG_NAME, lambda path: path.write_text(text, encoding="utf-8"))


def _write_whole(path: Path, write: Callable[[Path], object]) -> None:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        unfinished.touch()
        mode = unfinished.stat().st_mode
        write(unfinished)
        unfinished.chmod(mode)  # safetensors lets nobody but the owner read
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def load_config(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Read ``config.json``; refuse what this version cannot understand."""
    path = Path(folder) / CONFIG_NAME
    if not path.is_file():
        raise FileNotFoundError(f"folder: {folder} has no {CONFIG_NAME}: not a saved model")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from error
    if not isinstance(config, dict):
        raise ValueError(f"{path}: expected a JSON object, got {type(config).__name__}")  # noqa: TRY004  # a bad file is a bad value
    version = config.pop("format_version", None)
    if type(version) is not int or version != FORMAT_VERSION:
        raise ValueError(f"{path}: expected format_version {FORMAT_VERSION}, got {version!r}")
    return config


def load_parameters(folder: str | os.PathLike[str], model: nn.Module) -> None:
    """Fill the model; every parameter must be there in its shape, and nothing else."""
    path = Path(folder) / PARAMETERS_NAME
    if not path.is_file():
        raise FileNotFoundError(f"folder: {folder} has no {PARAMETERS_NAME}")
    try:
        _check_header(path, model)
        safetensors.torch.load_model(model, path, strict=True)
    except (RuntimeError, safetensors.SafetensorError) as error:
        raise ValueError(f"{path}: does not fit the model of its config.json: {error}") from error


def _check_header(path: Path, model: nn.Module) -> None:
    """Refuse a file that does not fit before any number of the model is touched.

    Of parameters that share their memory the file holds one.
    """
    expected = model.state_dict()
    with safetensors.safe_open(path, "pt") as file:
        names = set(file.keys())
        stored = {expected[name].data_ptr() for name in names & expected.keys()}
        absent = {
            name for name in expected.keys() - names if expected[name].data_ptr() not in stored
        }
        if absent or names - expected.keys():
            odd = ", ".join(sorted(absent | (names - expected.keys())))
            raise RuntimeError(f"missing or unknown: {odd}")
        for name in sorted(names):
            shape = file.get_slice(name).get_shape()
            dtype = file.get_tensor(name).dtype
            if shape != list(expected[name].shape) or dtype != expected[name].dtype:
                raise RuntimeError(
                    f"{name}: expected {list(expected[name].shape)} in {expected[name].dtype}, "
                    f"got {shape} in {dtype}"
                )


def dtype_name(dtype: torch.dtype) -> str:
    """``torch.float32`` → ``"float32"``."""
    return str(dtype).removeprefix("torch.")


def dtype_named(name: object) -> torch.dtype:
    """``"float32"`` → ``torch.float32``."""
    dtype = getattr(torch, name, None) if isinstance(name, str) else None
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise ValueError(f"torch_dtype: expected the name of a floating dtype, got {name!r}")
    return dtype
