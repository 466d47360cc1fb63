"""For each line of input, "FOLDER STEP", starts a process that saves until it is killed.

Answers with the number of the process; what was saved is noted in FOLDER/saved.txt.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from pathlib import Path

import torch

from dnclab.training.checkpoint import Checkpoint, save


def numbered_checkpoint(step: int) -> Checkpoint:
    """Each part tells the step, so that parts of two checkpoints would be seen."""
    tensors = {"weights": torch.full((5000,), float(step)), "position": torch.tensor(step)}
    return Checkpoint(step, tensors, {"seen": [step] * (step % 300)})


def is_consistent(checkpoint: Checkpoint) -> bool:
    """Whether every part is of the same step."""
    expected = numbered_checkpoint(checkpoint.step)
    same = (torch.equal(checkpoint.tensors[k], v) for k, v in expected.tensors.items())
    return all(same) and checkpoint.data == expected.data


def save_forever(folder: Path, first: int) -> None:
    """Every third step twice, every fifth marked as best."""
    notes = os.open(folder / "saved.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for step in count(first):
        for _ in range(2 if step % 3 == 0 else 1):
            save(folder, numbered_checkpoint(step), keep_last=2, best=step % 5 == 0)
            os.write(notes, f"{step}\n".encode())


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system buries the children
    for line in sys.stdin:
        name, first = line.split()
        child = os.fork()
        if child == 0:
            save_forever(Path(name), int(first))
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
