"""What several tests need."""

from __future__ import annotations

import os
import time
from typing import Any

import torch
from torch import Tensor

from dnclab import MemoryConfig, MemoryState
from dnclab.training.config import CourseConfig, ModelConfig, OptimiserConfig, RunConfig, TaskConfig

SWITCHES = {
    "dnc": (False, False, False),
    "dnc-d": (False, True, False),
    "dnc-s": (False, False, True),
    "dnc-m": (True, False, False),
    "dnc-ds": (False, True, True),
    "dnc-ms": (True, False, True),
    "dnc-md": (True, True, False),
    "dnc-mds": (True, True, True),
}
"""The eight variants: (mask, dealloc, sharpen)."""


def memory_config(
    variant: str,
    cells: int,
    word_size: int,
    read_heads: int,
    *,
    interface_clip: float | None = 20.0,
    usage_gradient: bool = False,
) -> MemoryConfig:
    """A variant by its name."""
    mask, dealloc, sharpen = SWITCHES[variant]
    return MemoryConfig(
        cells=cells,
        word_size=word_size,
        read_heads=read_heads,
        mask=mask,
        dealloc=dealloc,
        sharpen=sharpen,
        interface_clip=interface_clip,
        usage_gradient=usage_gradient,
    )


def weightings(*shape: int, generator: torch.Generator, total: float = 1.0) -> Tensor:
    """Random distributions over the last axis that sum to `total`, float64."""
    drawn = torch.rand(*shape, generator=generator, dtype=torch.float64)
    return total * drawn / drawn.sum(-1, keepdim=True)


def used_state(config: MemoryConfig, batch_size: int, generator: torch.Generator) -> MemoryState:
    """The state of a memory that has been used: no two cells alike, float64."""
    cells, word, heads = config.cells, config.word_size, config.read_heads
    links = torch.rand(batch_size, cells, cells, generator=generator, dtype=torch.float64) / cells
    return MemoryState(
        memory=torch.randn(batch_size, cells, word, generator=generator, dtype=torch.float64),
        usage=torch.rand(batch_size, cells, generator=generator, dtype=torch.float64),
        links=links * (1 - torch.eye(cells, dtype=torch.float64)),
        precedence=weightings(batch_size, cells, generator=generator, total=0.9),
        write_weighting=weightings(batch_size, cells, generator=generator, total=0.8),
        read_weightings=weightings(batch_size, heads, cells, generator=generator, total=0.95),
        reads=torch.randn(batch_size, heads, word, generator=generator, dtype=torch.float64),
    )


SMALL_TASKS = {
    "repeat-copy": TaskConfig(
        name="repeat-copy", sizes={"bits": 3, "max_length": 3, "max_repeats": 2, "batch_size": 2}
    ),
    "associative-recall": TaskConfig(
        name="associative-recall",
        sizes={"bits": 3, "block_length": 2, "max_blocks": 3, "batch_size": 2},
    ),
    "key-value": TaskConfig(name="key-value", sizes={"bits": 3, "max_pairs": 3, "batch_size": 2}),
    "key-value-one-way": TaskConfig(
        name="key-value-one-way", sizes={"bits": 3, "max_pairs": 3, "batch_size": 2}
    ),
    "babi": TaskConfig(name="babi", sizes={"generated": 4, "tasks": "1+4+19"}),
}
"""The tasks in sizes that take no time."""


def tiny_config(task: str = "key-value", variant: str = "dnc-mds", **course: Any) -> RunConfig:
    """A run of six steps, a moment each."""
    return RunConfig(
        task=SMALL_TASKS[task],
        model=ModelConfig(
            variant=variant, hidden_size=8, cells=6, word_size=5, embedding_size=4, read_heads=2
        ),
        optimiser=OptimiserConfig(learning_rate=1e-3),
        course=CourseConfig(**{"steps": 6, "evaluate_every": 3, "evaluation_batches": 2} | course),
    )


def runs_still(process: int) -> bool:
    """Of a process that is not our child, or one that the system buries."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for_the_end_of(process: int) -> None:
    """Of a process that is not our child, or one that the system buries."""
    while runs_still(process):
        time.sleep(0.001)
