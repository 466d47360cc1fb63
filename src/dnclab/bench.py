"""Measurements: medians of several runs, with the machine and the commit beside them."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from dnclab.tasks import BITMAP_TASKS
from dnclab.tasks.babi.encoding import load_folder
from dnclab.tasks.babi.install import install_from
from dnclab.tasks.babi.task import BabiTask
from dnclab.tasks.bitmap import BitmapStream

REPEATS = 9
"""Runs, of which the median counts."""

BATCHES = 300
"""Batches in a run, which takes some ten milliseconds."""


def median_seconds(run: Callable[[], object], repeats: int = REPEATS) -> float:
    """The median duration of several runs, after one that does not count."""
    run()
    durations = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        durations.append(time.perf_counter() - start)
    return statistics.median(durations)


def environment() -> str:
    """One line: processor, versions, commit."""
    return (
        f"{_processor()}, {os.cpu_count()} cores; Python {platform.python_version()}, "
        f"NumPy {np.__version__}, PyTorch {torch.__version__}; commit {_commit()}"
    )


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _commit() -> str:
    """Of the source that runs; a + behind it: with changes."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+"]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return finished.stdout.strip()


def tasks_table(babi: Path | None) -> Iterator[str]:
    """How long a batch takes to make, and bAbI's files to read if they are there; Markdown."""
    yield f"`dnclab bench tasks`: {environment()}."
    yield ""
    yield "| task, the paper's sizes | steps in a batch, mean | microseconds to make one |"
    yield "|---|---|---|"
    for name, task in BITMAP_TASKS.items():
        stream = BitmapStream(task)
        seconds = median_seconds(lambda stream=stream: [stream.batch() for _ in range(BATCHES)])  # type: ignore[misc]
        steps = statistics.mean(len(stream.numbered_batch(n).inputs) for n in range(BATCHES))
        yield f"| {name}, batch 16 | {steps:.0f} | {1e6 * seconds / BATCHES:.0f} |"
    if babi is not None:
        yield from _babi_rows(babi)


def _babi_rows(place: Path) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as cache:
        folder = install_from(place, cache)
        start = time.perf_counter()
        data = load_folder(folder, cache=cache)
        first = time.perf_counter() - start
        again = median_seconds(lambda: load_folder(folder, cache=cache))
        task = BabiTask(data.train)
        seconds = median_seconds(lambda: [task.batch() for _ in range(BATCHES)])
    steps = statistics.mean(task.numbered_batch(n).inputs.shape[0] for n in range(BATCHES))
    yield f"| babi, batch 2 | {steps:.0f} | {1e6 * seconds / BATCHES:.0f} |"
    yield ""
    yield (
        f"bAbI en-10k, {len(data.train):,} training and {len(data.test):,} test stories, into "
        f"arrays: {first:.2f} s the first time, {again:.2f} s from the cache."
    )
