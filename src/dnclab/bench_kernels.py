"""The fused kernels beside the reference, in one run: first whether they agree, then how fast.

Both have denormal numbers flushed and the same threads; their runs take turns, and medians count.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dnclab import agreement, kernels
from dnclab.bench import environment
from dnclab.config import DNCConfig
from dnclab.fused import problem_of
from dnclab.model import DNC
from dnclab.training.config import OptimiserConfig
from dnclab.training.loop import build_optimiser, numerics


@dataclass(frozen=True)
class Size:
    """A model and a batch that are measured."""

    name: str
    """Whose size it is."""
    model: DNCConfig
    """The model."""
    steps: int
    """T: about the task's mean length, less where a step of the reference takes long."""
    samples: int
    """B."""
    threads: tuple[int, ...] = (1,)
    """Threads to measure with."""


def _babi(cells: int) -> DNCConfig:
    return DNCConfig(
        input_size=256, output_size=170, hidden_size=256, cells=cells, word_size=64, read_heads=4
    )


SIZES = {
    size.name: size
    for size in (
        Size(
            "repeat-copy",
            DNCConfig(input_size=9, output_size=9, hidden_size=32, cells=16, word_size=16),
            steps=77,
            samples=16,
        ),
        Size(
            "key-value",
            DNCConfig(input_size=18, output_size=8, hidden_size=32, cells=16, word_size=32),
            steps=29,
            samples=16,
        ),
        Size(
            "associative-recall",
            DNCConfig(input_size=10, output_size=10, hidden_size=128, cells=64, word_size=32),
            steps=42,
            samples=16,
        ),
        Size("babi", _babi(256), steps=136, samples=2, threads=(1, 2)),
        Size("512 cells", _babi(512), steps=30, samples=1, threads=(1, 2)),
        Size("1024 cells", _babi(1024), steps=15, samples=1, threads=(1, 2)),
        Size("2048 cells", _babi(2048), steps=6, samples=1, threads=(1, 2)),
    )
}
"""The paper's four sizes, and bAbI's with more cells."""

WORKS = ("forward", "forward and back", "training iteration")


def measure(size: Size, threads: int, repeats: int) -> Iterator[dict[str, Any]]:
    """A record for each work: seconds a step of both, and their ratio; the share of the floor."""
    from dnclab.kernels.floor import operations, peak

    errors = agreement.compare(
        replace(size.model, backend="fused"),
        steps=min(size.steps, 20),
        samples=size.samples,
        dtype=torch.float32,
    )
    worst = max(errors.values())
    bound = agreement.BOUNDS[torch.float32]
    if not worst <= bound:
        culprit = max(errors, key=lambda name: errors[name])
        raise RuntimeError(f"{size.name}: {culprit} is off by {worst:.1e}, more than {bound:.0e}")

    model = DNC.from_config(size.model)
    forwards, back = operations(problem_of(model))
    speed = peak(np.dtype(np.float32)) * threads
    with numerics(threads):
        for kind in WORKS:
            reference, fused = _side_by_side(model, size, kind, repeats)
            floor = (forwards + (kind != "forward") * back) * size.samples / speed
            yield {
                "size": size.name,
                "steps": size.steps,
                "samples": size.samples,
                "threads": threads,
                "layout": kernels.layout_for(size.model.cells, size.samples),
                "work": kind,
                "reference_seconds_per_step": reference,
                "fused_seconds_per_step": fused,
                "ratio": reference / fused,
                "floor_seconds_per_step": floor,
                "share_of_floor": floor / fused,
                "largest_error": worst,
            }


def _side_by_side(model: DNC, size: Size, kind: str, repeats: int) -> tuple[float, float]:
    """Median seconds a step of the reference and of the fused kernels, taking turns."""
    inputs = torch.randn(size.steps, size.samples, size.model.input_size)
    runs = {
        backend: _work(model.with_backend(backend), kind, inputs)
        for backend in ("reference", "fused")
    }
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {"reference": [], "fused": []}
    for _ in range(repeats):
        # A turn of either takes about as long.
        for backend, times_in_a_row in (("reference", 1), ("fused", 15)):
            for _ in range(times_in_a_row):
                start = time.perf_counter()
                runs[backend]()
                times[backend].append((time.perf_counter() - start) / size.steps)
    return statistics.median(times["reference"]), statistics.median(times["fused"])


def _work(model: DNC, kind: str, inputs: Tensor) -> Callable[[], object]:
    """What is timed: forward, there and back, or a whole training iteration."""
    upstream = torch.randn(*inputs.shape[:2], model.config.output_size)
    optimiser = build_optimiser(model, OptimiserConfig())
    parameters = list(model.parameters())

    def forward() -> None:
        with torch.no_grad():
            model(inputs)

    def back() -> None:
        outputs, _ = model(inputs)
        torch.autograd.grad(outputs, parameters, upstream)

    def iteration() -> None:
        optimiser.zero_grad()
        outputs, _ = model(inputs)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            outputs, upstream.sigmoid(), reduction="sum"
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 10.0)
        optimiser.step()

    return dict(zip(WORKS, (forward, back, iteration), strict=True))[kind]


# --- memory --------------------------------------------------------------------------------------


SETTINGS: dict[str, dict[str, Any]] = {
    "reference": {"backend": "reference"},
    "fused": {"backend": "fused"},
    "fused, memory rebuilt": {"backend": "fused", "rebuild_memory": True},
    "fused, links rebuilt exactly": {"backend": "fused", "rebuild_links": "exact"},
}
"""Ways to compute that differ in what they keep."""


def memory_records(size: Size, settings: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The peak of memory on the way there and back, each setting in a process of its own."""
    context = multiprocessing.get_context("spawn")
    for name in settings:
        with ProcessPoolExecutor(1, mp_context=context) as process:
            peak = process.submit(peak_bytes, size, SETTINGS[name]).result()
        yield {
            "size": size.name,
            "steps": size.steps,
            "samples": size.samples,
            "setting": name,
            "peak_bytes": peak,
            "bytes_per_step_and_sample": peak / size.steps / size.samples,
        }


def peak_bytes(size: Size, options: dict[str, Any]) -> int:
    """How far the memory of this process rises above where it was, inputs and outputs included."""
    torch.set_num_threads(1)
    model = DNC.from_config(size.model).with_backend(**options)
    outputs, _ = model(torch.zeros(2, size.samples, size.model.input_size))  # compile, allocate
    outputs.sum().backward()
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the highest so far
    outputs, _ = model(torch.randn(size.steps, size.samples, size.model.input_size))
    outputs.sum().backward()
    return _status("VmHWM") - before


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/self/status has no {name}")


# --- what is told --------------------------------------------------------------------------------


def kernels_table(
    names: Sequence[str], *, repeats: int, memory_steps: int, jsonl: Path | None
) -> Iterator[str]:
    """The tables as Markdown; the records also to a file, a JSON object a line."""
    records: list[dict[str, Any]] = []
    yield f"`dnclab bench kernels`: {environment()}; float32, medians of {repeats}."
    yield ""
    yield "| size | threads | layout | work | reference, µs a step | fused | ratio | of the floor |"
    yield "|---|---|---|---|---|---|---|---|"
    for name in names:
        size = SIZES[name]
        for threads in size.threads:
            if threads > (os.cpu_count() or 1):
                continue
            for record in measure(size, threads, repeats):
                records.append(record)
                yield _row(record)
    if memory_steps:
        yield ""
        yield from _memory_table(names, memory_steps, records)
    if jsonl is not None:
        lines = [json.dumps({"environment": environment(), **record}) for record in records]
        jsonl.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _row(record: dict[str, Any]) -> str:
    model = SIZES[record["size"]].model
    sizes = (
        f"N{model.cells} W{model.word_size} R{model.read_heads} H{model.hidden_size} "
        f"B{record['samples']}"
    )
    return (
        f"| {record['size']} ({sizes}) | {record['threads']} | {record['layout']} "
        f"| {record['work']} | {1e6 * record['reference_seconds_per_step']:,.0f} "
        f"| {1e6 * record['fused_seconds_per_step']:,.1f} | {record['ratio']:.1f} "
        f"| {record['share_of_floor']:.0%} |"
    )


def _memory_table(names: Sequence[str], steps: int, records: list[dict[str, Any]]) -> Iterator[str]:
    """All sizes at their own length, and bAbI's at a great one in every setting."""
    yield "The most memory that a pass there and back takes, above where the process was:"
    yield ""
    yield "| size | steps | setting | MB | KB a step and sample |"
    yield "|---|---|---|---|---|"
    asked = [(SIZES[name], ["reference", "fused"]) for name in names]
    if "babi" in names:
        asked.append((replace(SIZES["babi"], steps=steps), list(SETTINGS)))
    for size, settings in asked:
        for record in memory_records(size, settings):
            records.append(record)
            yield (
                f"| {record['size']} (B{record['samples']}) | {record['steps']:,} "
                f"| {record['setting']} | {record['peak_bytes'] / 1e6:,.1f} "
                f"| {record['bytes_per_step_and_sample'] / 1e3:,.1f} |"
            )
