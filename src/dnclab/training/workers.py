"""One process, or several that train together (``torchrun -m dnclab train ...``)."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist

Result = TypeVar("Result")


@dataclass(frozen=True)
class Workers:
    """This process among those that train together. The first one alone writes files."""

    rank: int = 0
    """Which one this is."""
    world: int = 1
    """How many there are."""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """Where this one computes."""

    @property
    def first(self) -> bool:
        """Whether this is the one that writes."""
        return self.rank == 0

    def share(self, batch_size: int) -> slice:
        """This process's samples of a batch; all processes have as many."""
        if batch_size % self.world:
            raise ValueError(
                f"batch_size: expected a multiple of the {self.world} processes that share it, "
                f"got {batch_size}"
            )
        each = batch_size // self.world
        return slice(self.rank * each, (self.rank + 1) * each)

    def only_first(self, make: Callable[[], Result]) -> Result | None:
        """What the first process makes; nothing in the others."""
        return make() if self.first else None

    def from_first(self, make: Callable[[], Result]) -> Result:
        """What the first process makes, in all of them."""
        if self.world == 1:
            return make()
        made: list[Any] = [_made_or_refused(make) if self.first else None]
        dist.broadcast_object_list(made)
        result, refusal = made[0]
        if refusal is not None:
            raise refusal
        return cast("Result", result)

    def sums(self, *values: float) -> list[float]:
        """Each value summed over the processes, equal in all of them."""
        if self.world == 1:
            return list(values)
        totals = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(totals)
        found: list[float] = totals.tolist()
        return found

    def any(self, flag: bool) -> bool:
        """Whether any process says so."""
        return self.sums(float(flag))[0] > 0


def _made_or_refused(make: Callable[[], Result]) -> tuple[Result | None, Exception | None]:
    """What the others must hear of, or they would wait for ever."""
    try:
        return make(), None
    except Exception as error:  # noqa: BLE001  # raised again, in all processes
        return None, error


def is_first() -> bool:
    """Whether this process is the one that speaks and writes, as torchrun numbers them."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def workers() -> Iterator[Workers]:
    """The processes that torchrun has started; without it, one. On GPUs if there are any."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    gpu = torch.cuda.is_available()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if gpu else torch.device("cpu")
    if world == 1:
        yield Workers(device=device)
        return
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpu else "gloo")
    try:
        yield Workers(dist.get_rank(), world, device)
        # Whoever takes the group down while another still sends aborts that one.
        gc.collect()
        dist.barrier()
    finally:
        dist.destroy_process_group()
