"""DistributedDataParallel on two processes gives the gradients of one process with the whole batch.

``python parallel.py FOLDER``; FOLDER is where the two find each other.
"""

from __future__ import annotations

import gc
import sys

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import start_processes
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close

import dnclab

PROCESSES = 2


def gradients(model: torch.nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """Of two calls with the state carried over, as in truncated back-propagation."""
    model.zero_grad()
    first, state = model(x[:3])
    second, _ = model(x[3:], state.detach())
    (first.square().mean() + second.square().mean()).backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def compare(rank: int) -> None:
    """This process's share of the batch against the whole batch."""
    torch.manual_seed(0)
    model = dnclab.DNC(3, 2, hidden_size=6, cells=5, word_size=4, read_heads=2).double()
    x = torch.randn(6, 2 * PROCESSES, 3, dtype=torch.float64)
    expected = gradients(model, x)
    assert len(expected) == len(list(model.parameters()))
    parallel = DistributedDataParallel(model)
    for _ in range(2):
        assert_close(gradients(parallel, x[:, rank::PROCESSES]), expected, rtol=0, atol=1e-12)


def work(rank: int, folder: str) -> None:
    """One of the processes."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=PROCESSES
    )
    compare(rank)
    # The wrapper is gone by now and nobody is still sending: a group that is taken down earlier
    # now and then aborts its process.
    gc.collect()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    start_processes(work, args=(sys.argv[1],), nprocs=PROCESSES, start_method="spawn")
    sys.stdout.write("parallel: the same\n")
