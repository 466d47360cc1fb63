"""Measurements: medians of several runs, with the machine and the commit beside them."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from dnclab import runs
from dnclab.tasks import BITMAP_TASKS
from dnclab.tasks.babi.encoding import load_folder
from dnclab.tasks.babi.install import install_from
from dnclab.tasks.babi.task import BabiTask
from dnclab.tasks.bitmap import BitmapStream
from dnclab.training.loggers import ProgressDisplay, TensorBoardLogger
from dnclab.training.loop import Learner
from dnclab.training.presets import PRESETS
from dnclab.training.tasks import build_task
from dnclab.training.workers import Workers

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
    found = runs.environment()
    machine, versions = found["machine"], found["versions"]
    return (
        f"{machine['processor']}, {machine['cores']} cores; Python {versions['python']}, "
        f"NumPy {versions['numpy']}, PyTorch {versions['torch']}; commit {found['commit']}"
    )


def tasks_table(babi: Path | None) -> Iterator[str]:
    """How long a batch takes to make, and bAbI's files to read if they are there; Markdown."""
    command = "dnclab bench tasks" if babi is None else "dnclab bench tasks --babi PATH"
    yield f"`{command}`: {environment()}."
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


def loop_table(preset: str) -> Iterator[str]:
    """What an iteration costs beside the model's own forward and backward pass, as Markdown."""
    config = PRESETS[preset]
    torch.set_num_threads(config.course.threads)
    learner = Learner.new(build_task(config.task), config, Workers())
    batch = learner.stream.batch()
    outputs, _ = learner.model(learner.task.inputs(batch))
    learner.task.loss(outputs, batch).backward()
    detached = outputs.detach()
    record = {"step": 1, "loss": 1.0, "error": 0.5, "gradient_norm": 3.0}

    def optimise() -> None:
        learner.clip_gradient()
        learner.optimiser.step()

    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as nowhere:
        metrics = runs.MetricsLog(Path(folder))
        progress = ProgressDisplay(1, stream=nowhere)
        board = TensorBoardLogger(Path(folder))

        def log() -> None:
            metrics.append(record)
            progress.log(record)
            board.log(record)

        parts: dict[str, Callable[[], object]] = {
            "make the batch": learner.stream.batch,
            "count wrong answers": lambda: learner.task.count_answers(detached, batch),
            "clip the gradient, move the parameters": optimise,
            "metrics, progress, TensorBoard": log,
        }
        times = {
            name: median_seconds(lambda part=part: [part() for _ in range(BATCHES)]) / BATCHES  # type: ignore[misc]
            for name, part in parts.items()
        }
        for logger in (progress, board, metrics):
            logger.close()
    yield f"`dnclab bench loop {preset}`: {environment()}."
    yield ""
    yield "| part of an iteration | microseconds |"
    yield "|---|---|"
    for name, seconds in times.items():
        yield f"| {name} | {1e6 * seconds:.0f} |"
    yield f"| together | {1e6 * sum(times.values()):.0f} |"
