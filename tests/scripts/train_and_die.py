"""Train in a folder until done: ``python train_and_die.py FOLDER STEPS``. Made to be killed."""

from __future__ import annotations

import sys
from pathlib import Path

from dnclab import runs
from dnclab.training.config import CourseConfig, ModelConfig, OptimiserConfig, RunConfig, TaskConfig
from dnclab.training.loop import train
from dnclab.training.settings import to_dict


def config(steps: int) -> RunConfig:
    """Small steps and a checkpoint after each third, so that many a kill falls into a write."""
    return RunConfig(
        task=TaskConfig(name="key-value", sizes={"bits": 3, "max_pairs": 3, "batch_size": 2}),
        model=ModelConfig(hidden_size=8, cells=6, word_size=5),
        optimiser=OptimiserConfig(learning_rate=1e-3, schedule="cosine", warmup_steps=5),
        course=CourseConfig(
            steps=steps, checkpoint_every=3, evaluate_every=10, evaluation_batches=2, accumulate=2
        ),
    )


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    own = config(int(sys.argv[2]))
    if not (folder / runs.CONFIG_NAME).exists():
        runs.create(folder, to_dict(own))
    with runs.locked(folder):
        train(folder, own)
