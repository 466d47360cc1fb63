"""Runs with invented numbers, as results and as folders."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dnclab import runs
from dnclab.reports.recordings import RECORDING_NAME, Phase, Recording, save_recording
from dnclab.reports.results import RunResult, write_measures


def config(
    task: str = "repeat-copy",
    variant: str = "dnc",
    seed: int = 0,
    *,
    steps: int = 1000,
    mask_min: float = 0.1,
    cells: int = 16,
) -> dict[str, Any]:
    return {
        "task": {"name": task, "sizes": {}},
        "model": {
            "variant": variant, "mask_min": mask_min, "cells": cells, "backend": "auto",
        },
        "optimiser": {"learning_rate": 1e-4},
        "course": {
            "steps": steps, "seed": seed, "log_every": 1, "threads": 1, "checkpoint_every": 10,
            "keep_checkpoints": 3, "evaluate_every": steps // 2,
        },
    }  # fmt: skip


def run_result(
    task: str = "repeat-copy",
    variant: str = "dnc",
    seed: int = 0,
    *,
    curve: Sequence[float | None] = (4.0, 2.0),
    errors: Sequence[float | None] = (0.5, 0.25),
    error_name: str = "bit_error",
    measures: Mapping[str, float] | None = None,
    steps: int = 1000,
    mask_min: float = 0.1,
    **more: Any,
) -> RunResult:
    """A run of evaluations at equal distances."""
    count = len(errors)
    evaluations: dict[str, tuple[Any, ...]] = {
        "step": tuple(steps * (n + 1) // count for n in range(count)),
        "loss": tuple(3.0 - n for n in range(count)),
        error_name: tuple(errors),
        **{name: tuple(values) for name, values in more.items()},
    }
    return RunResult(
        name=f"{variant}-seed{seed}",
        config=config(task, variant, seed, steps=steps, mask_min=mask_min),
        environment={"date": f"2020-01-0{seed % 9 + 1}", "commit": "c0ffee"},
        step=steps,
        reason="finished",
        curve_every=steps // len(curve),
        curve=tuple(curve),
        evaluations=evaluations,
        measures=dict(measures or {}),
    )


def recording(
    task: str = "repeat-copy", variant: str = "dnc", seed: int = 0, *, step: int = 7
) -> Recording:
    """Eight steps of two heads, four cells and words of three."""
    drawn = np.random.default_rng(len(variant) + seed)
    shapes: dict[str, tuple[int, ...]] = {
        "input": (8, 5), "target": (8, 4), "output": (8, 4), "usage": (8, 4),
        "write_weighting": (8, 4), "read_weightings": (8, 2, 4), "read_modes": (8, 2, 3),
        "forwards": (8, 2, 4), "memory": (8, 4, 3), "links": (8, 4, 4),
    }  # fmt: skip
    if "m" in variant.removeprefix("dnc"):
        shapes["read_masks"] = (8, 2, 3)
    phases = (Phase("in", 0, 3), Phase("q1", 4, 5), Phase("q2", 6, 7))
    return Recording(
        task=task,
        variant=variant,
        seed=seed,
        step=step,
        cells=4,
        word_size=3,
        read_heads=2,
        answers=tuple(n in (4, 6) for n in range(8)),
        phases=phases,
        words=None,
        arrays={n: drawn.random(s, dtype=np.float32) for n, s in shapes.items()},
    )


def write_run(
    place: Path,
    values: Mapping[str, Any],
    *,
    error: float = 0.5,
    reason: str | None = "finished",
    measures: Mapping[str, float] | None = None,
) -> None:
    """A run folder: as many training records as steps, an evaluation half way and at the end."""
    runs.create(place, values)
    steps = values["course"]["steps"]
    with runs.MetricsLog(place) as log:
        for step in range(1, steps + 1):
            log.append({"step": step, "loss": 10 / step + error, "error": 0.1})
            if step % (steps // 2) == 0:
                log.append({"step": step, "eval/loss": error, "eval/bit_error": error / step})
    if reason is not None:
        runs.write_outcome(place, steps, reason)
    write_measures(place, steps, measures or {"link_reads": 0.123456789})
    variant, task = values["model"]["variant"], values["task"]["name"]
    own = recording(task, variant, values["course"]["seed"], step=steps)
    save_recording(place / RECORDING_NAME, own)


def write_sweep(folder: Path, variants: Sequence[str], seeds: int, task: str) -> None:
    """A folder of runs, better ones the later they come."""
    for place, variant in enumerate(variants):
        for seed in range(seeds):
            write_run(
                folder / f"{variant}-seed{seed}",
                config(task, variant, seed, steps=400),
                error=1 / (1 + place + seed),
            )


def write_plan(folder: Path, names: Sequence[str]) -> None:
    content = {"plan_version": 1, "command": "", "runs": [{"name": name} for name in names]}
    (folder / "plan.json").write_text(json.dumps(content))
