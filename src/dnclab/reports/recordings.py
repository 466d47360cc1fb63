"""A recording: one sequence of a run, step by step, small enough for a page. Its file, defined.

``recording.json`` is one JSON object. T steps, X and Y numbers in an input and an output row, N
cells, W word size, R read heads::

    recording_version   1
    task, variant       as in config.json: "repeat-copy", "dnc-ds"
    seed, step          the run's seed; the step of training that the model is from
    steps               T
    cells, word_size, read_heads    N, W, R
    answers             [T] true where an answer is due
    phases              [{"name": "read 1", "start": 0, "stop": 5}, ...] of steps start <= t < stop
    words               null, or {"input": [T texts], "target": [T texts or nulls], "output": [T
                        texts]} for a task on words; the arrays of these names are then absent
    arrays              {name: {"shape": [T, ...], "scale": s, "zero": z, "bytes": base64}}

An array's bytes are unsigned, one for each number, the last axis running fastest; the number is
``(byte - zero) * scale``. Numbers of 0 to 1 have scale 1/255 and zero 0; those that may be negative
have zero 128 and those that may be large a scale of their own, so that 0 is always exact.

    input [T X] · target [T Y] · output [T Y]    bits as 0 or 1; outputs are probabilities
    memory [T N W]                               M_t, signed
    usage [T N]                                  u_t
    write_weighting [T N] · read_weightings [T R N]
    read_modes [T R 3]                           backward, content, forward
    forwards · backwards · read_contents [T R N] what the modes mix; forwards sharpened with S
    allocation · write_content [T N]             what the write weighting mixes
    write_gate · allocation_gate [T] · free_gates [T R]
    read_strengths [T R] · write_strength [T]    from 1 on
    write_mask [T W] · read_masks [T R W]        M only, otherwise absent
    forward_sharpness · backward_sharpness [T R] S only, otherwise absent, from 1 on
    links [T N N]                                L_t[i, j]: i was written after j; absent where the
                                                 links of all steps would take over LINKS_BYTES
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dnclab.runs import RunError, read_object, write_whole

RECORDING_VERSION = 1
RECORDING_NAME = "recording.json"

LINKS_BYTES = 2_000_000
"""Links of all steps that take more than this are left out: N=64 leaves room for 488 steps."""

SIGNED = ("memory",)
UNBOUNDED = ("read_strengths", "write_strength", "forward_sharpness", "backward_sharpness")
TEXTS = ("input", "target", "output")

REQUIRED = (
    "memory", "usage", "write_weighting", "read_weightings", "read_modes", "forwards",
)  # fmt: skip
"""Arrays that every recording in a run folder has."""

Numbers = NDArray[np.float32]


@dataclass(frozen=True)
class Phase:
    """A stretch of a sequence, as the task divides it."""

    name: str
    start: int
    """Its first step."""
    stop: int
    """The step after its last one."""


@dataclass(frozen=True, eq=False)
class Recording:
    """One sequence of a run; see above for the arrays and their shapes."""

    task: str
    variant: str
    seed: int
    step: int
    """Of training."""
    cells: int
    word_size: int
    read_heads: int
    answers: tuple[bool, ...]
    """Whether an answer is due [T]."""
    phases: tuple[Phase, ...]
    words: Mapping[str, tuple[str | None, ...]] | None
    """Input, target and output of a task on words."""
    arrays: Mapping[str, Numbers]
    """By name, a time axis first."""

    @property
    def steps(self) -> int:
        """T."""
        return len(self.answers)

    @property
    def title(self) -> str:
        """What it is of, in a line."""
        return f"{self.task}, {self.variant.upper()}, seed {self.seed}, step {self.step:,}"


def full_name(variant: str) -> str:
    """The variant as the paper's names are: ``mds`` and ``DNC-MDS`` are ``dnc-mds``."""
    letters = variant.lower().removeprefix("dnc").removeprefix("-")
    return f"dnc-{letters}" if letters else "dnc"


def save_recording(path: Path, recording: Recording) -> None:
    """Write the file, whole or not at all."""
    write_whole(path, encoded(recording))


def encoded(recording: Recording) -> bytes:
    """The content of the file."""
    values = {
        "recording_version": RECORDING_VERSION,
        "task": recording.task,
        "variant": recording.variant,
        "seed": recording.seed,
        "step": recording.step,
        "steps": recording.steps,
        "cells": recording.cells,
        "word_size": recording.word_size,
        "read_heads": recording.read_heads,
        "answers": list(recording.answers),
        "phases": [vars(phase) for phase in recording.phases],
        "words": None if recording.words is None else dict(recording.words),
        "arrays": {name: _packed(name, array) for name, array in recording.arrays.items()},
    }
    return (json.dumps(values, allow_nan=False) + "\n").encode()


def _packed(name: str, array: Numbers) -> dict[str, Any]:
    """The array in bytes; what it was to half a step of its scale, 0 exactly."""
    if not np.isfinite(array).all():
        raise RunError(f"{name}: expected finite numbers, got some that are not")
    largest = float(np.abs(array).max(initial=0))
    zero, scale = 0, 1 / 255
    if name in SIGNED:
        zero, scale = 128, (largest or 1.0) / 127
    elif name in UNBOUNDED:
        scale = (largest or 1.0) / 255
    steps = np.rint(array.astype(np.float64) / scale) + zero
    return {
        "shape": list(array.shape),
        "scale": scale,
        "zero": zero,
        "bytes": base64.b64encode(steps.clip(0, 255).astype(np.uint8).tobytes()).decode(),
    }


def load_recording(path: Path) -> Recording:
    """Read a file; what does not fit together is refused with the path and the reason."""
    values = read_object(path)
    found = values.get("recording_version")
    if found != RECORDING_VERSION:
        raise RunError(f"{path}: expected recording_version {RECORDING_VERSION}, got {found!r}")
    try:
        return _recording(values)
    except KeyError as error:
        raise RunError(f"{path}: it has no {error}") from error
    except (TypeError, ValueError, binascii.Error) as error:
        raise RunError(f"{path}: {error}") from error


def _recording(values: Mapping[str, Any]) -> Recording:
    steps = values["steps"]
    words = values["words"]
    if words is not None:
        words = {name: tuple(words[name]) for name in TEXTS}
    arrays = {name: _unpacked(name, packed) for name, packed in values["arrays"].items()}
    lengths = {"answers": len(values["answers"])}
    lengths |= {name: len(array) for name, array in arrays.items()}
    lengths |= {} if words is None else {f"words, {n}": len(texts) for n, texts in words.items()}
    for name, length in lengths.items():
        if length != steps:
            raise ValueError(f"{name}: expected {steps} steps, got {length}")
    return Recording(
        task=values["task"],
        variant=full_name(values["variant"]),
        seed=values["seed"],
        step=values["step"],
        cells=values["cells"],
        word_size=values["word_size"],
        read_heads=values["read_heads"],
        answers=tuple(map(bool, values["answers"])),
        phases=tuple(Phase(**phase) for phase in values["phases"]),
        words=words,
        arrays=arrays,
    )


def _unpacked(name: str, packed: Mapping[str, Any]) -> Numbers:
    content = base64.b64decode(packed["bytes"], validate=True)
    shape = packed["shape"]
    if len(content) != math.prod(shape):
        raise ValueError(f"{name}: expected {math.prod(shape)} bytes, got {len(content)}")
    steps = np.frombuffer(content, dtype=np.uint8).reshape(shape).astype(np.float32)
    unpacked: Numbers = (steps - np.float32(packed["zero"])) * np.float32(packed["scale"])
    return unpacked
