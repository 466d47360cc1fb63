"""Refuse a bad argument where it comes in: each message names it, what was expected, what came."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

STATE_DTYPES = (torch.float32, torch.float64)
"""The memory's own precisions. Its constants (1e-6) and long products vanish in half precision."""

MODEL_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
"""The precisions that parameters and inputs may have."""


def check_int(name: str, value: object) -> int:
    """An int (a bool is not an int here)."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: expected an int, got {value!r} of type {type(value).__name__}")
    return value


def check_size(name: str, value: object) -> None:
    """A size is an int of at least 1."""
    value = check_int(name, value)
    if value < 1:
        raise ValueError(f"{name}: expected at least 1, got {value}")


def check_count(name: str, value: object) -> None:
    """A count is an int of at least 0."""
    value = check_int(name, value)
    if value < 0:
        raise ValueError(f"{name}: expected at least 0, got {value}")


def check_flag(name: str, value: object) -> None:
    """A switch is True or False, nothing that merely looks like it."""
    if not isinstance(value, bool):
        raise TypeError(f"{name}: expected a bool, got {value!r} of type {type(value).__name__}")


def check_number(name: str, value: object) -> None:
    """A real, finite number (a bool is not a number here)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name}: expected a number, got {value!r} of type {type(value).__name__}")
    if not math.isfinite(value):
        raise ValueError(f"{name}: expected a finite number, got {value}")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """One of some names."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a str, got {value!r} of type {type(value).__name__}")
    if value not in choices:
        raise ValueError(f"{name}: expected one of {', '.join(choices)}; got {value!r}")


def check_tensor(name: str, value: object) -> None:
    """Anything but a dense tensor is refused by type."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(value).__name__}")
    if value.layout != torch.strided:
        raise TypeError(f"{name}: expected a dense tensor, got one in {value.layout}")


def check_shape(name: str, value: Tensor, expected: Sequence[int]) -> None:
    """The exact shape."""
    if tuple(value.shape) != tuple(expected):
        raise ValueError(f"{name}: expected shape {list(expected)}, got {list(value.shape)}")


def check_dtype(name: str, value: Tensor, expected: torch.dtype) -> None:
    """The exact dtype: a silent cast would hide a float64 experiment that runs in float32."""
    if value.dtype != expected:
        raise TypeError(f"{name}: expected dtype {expected}, got {value.dtype}")


def check_model_dtype(name: str, dtype: object) -> None:
    """A precision that a model can compute in."""
    if dtype not in MODEL_DTYPES:
        known = ", ".join(str(known) for known in MODEL_DTYPES)
        raise TypeError(f"{name}: expected one of {known}; got {dtype}")


def check_like(name: str, value: object, pattern: object, *, same_dtype: bool = True) -> None:
    """A pytree of tensors like another one: structure, shapes, dtypes and devices."""
    expected, structure = pytree.tree_flatten(pattern)
    leaves, came = pytree.tree_flatten(value)
    if came != structure:
        raise ValueError(
            f"{name}: expected {len(expected)} tensors arranged as in initial_state, "
            f"got {len(leaves)} in another way: is it the state of another model?"
        )
    for index, (leaf, like) in enumerate(zip(leaves, expected, strict=True)):
        part = f"{name}, tensor {index}"
        check_tensor(part, leaf)
        check_shape(part, leaf, like.shape)
        if same_dtype:
            check_dtype(part, leaf, like.dtype)
        check_device(part, leaf, like.device)


def check_device(name: str, value: Tensor, expected: torch.device) -> None:
    """The exact device."""
    if value.device != expected:
        raise ValueError(f"{name}: expected device {expected}, got {value.device}")
