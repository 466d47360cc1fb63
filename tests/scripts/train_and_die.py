"""For each line of input, "FOLDER STEPS", starts a process that trains there until it is done.

Answers with the number of the process, which is made to be killed. One process imports everything
and the others are its forks: they are at work at once.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch._dynamo  # noqa: F401  # seconds, which each fork's optimiser would take again

from dnclab import runs
from dnclab.training.config import CourseConfig, ModelConfig, OptimiserConfig, RunConfig, TaskConfig
from dnclab.training.loop import train
from dnclab.training.settings import to_dict


def config(steps: int) -> RunConfig:
    """Small steps and a checkpoint after each third, so that many a kill falls into a write."""
    return RunConfig(
        task=TaskConfig(name="key-value", sizes={"bits": 2, "max_pairs": 2, "batch_size": 2}),
        model=ModelConfig(hidden_size=8, cells=6, word_size=5),
        optimiser=OptimiserConfig(learning_rate=1e-3, schedule="cosine", warmup_steps=5),
        course=CourseConfig(
            steps=steps, checkpoint_every=3, evaluate_every=10, evaluation_batches=2, accumulate=2
        ),
    )


def train_until_killed(folder: Path, steps: int) -> None:
    """Start the run, or go on with it."""
    if not (folder / runs.CONFIG_NAME).exists():
        runs.create(folder, to_dict(config(steps)))
    with runs.locked(folder):
        train(folder, config(steps))


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system buries the children
    for line in sys.stdin:
        name, steps = line.split()
        child = os.fork()
        if child == 0:
            train_until_killed(Path(name), int(steps))
            os._exit(0)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
