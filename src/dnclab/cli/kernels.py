"""``dnclab warmup``, ``backends`` and ``bench kernels``."""

# ruff: noqa: T201  # a command prints

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from dnclab import agreement, bench_kernels, bench_stages, kernels
from dnclab.cli.parsing import whole_number
from dnclab.config import DNCConfig
from dnclab.kernels import BackendUnavailable

DTYPES = {"float32": torch.float32, "float64": torch.float64}


def add_warmup(parser: argparse.ArgumentParser) -> None:
    """The options of ``dnclab warmup``."""
    parser.set_defaults(run=run_warmup, command=parser.prog, refuse=parser.error)
    parser.add_argument("--layout", choices=kernels.LAYOUTS, help="this one only")
    parser.add_argument("--dtype", choices=DTYPES, help="this one only")


def run_warmup(chosen: argparse.Namespace) -> int:
    """Compile the kernels, or find them in the cache."""
    for layout in [chosen.layout] if chosen.layout else kernels.LAYOUTS:
        for dtype in [chosen.dtype] if chosen.dtype else DTYPES:
            start = time.perf_counter()
            try:
                kernels.load(layout, dtype)
            except BackendUnavailable as error:
                raise ValueError(str(error)) from error
            print(f"{layout}, {dtype}: ready in {time.perf_counter() - start:.1f} s")
    return 0


def add_backends(parser: argparse.ArgumentParser) -> None:
    """The options of ``dnclab backends``."""
    parser.set_defaults(run=run_backends, command=parser.prog, refuse=parser.error)
    parser.add_argument(
        "--check", action="store_true", help="compare the kernels with the reference"
    )


def run_backends(chosen: argparse.Namespace) -> int:
    """Say which backends there are, and how far they are from the reference."""
    print("reference: plain PyTorch, any device and precision")
    failed = 0
    for layout in kernels.LAYOUTS:
        for name, dtype in DTYPES.items():
            try:
                kernels.load(layout, name)
            except BackendUnavailable as error:
                print(f"fused, {layout}, {name}: no: {error}")
                continue
            if not chosen.check:
                print(f"fused, {layout}, {name}: yes")
                continue
            errors = agreement.compare(_checked(layout), steps=30, samples=5, dtype=dtype)
            worst = max(errors, key=lambda part: errors[part])
            bound = agreement.BOUNDS[dtype]
            verdict = "agrees" if errors[worst] <= bound else "DOES NOT AGREE"
            failed += errors[worst] > bound
            print(
                f"fused, {layout}, {name}: {verdict}: relative error at most "
                f"{errors[worst]:.1e} ({worst}), bound {bound:.0e}"
            )
    return 1 if failed else 0


def _checked(layout: str) -> DNCConfig:
    return DNCConfig(
        input_size=9, output_size=7, hidden_size=33, cells=37, word_size=19, read_heads=3,
        backend="fused", layout=layout,
    )  # fmt: skip


def add_bench_kernels(parser: argparse.ArgumentParser, *, default: bool = False) -> None:
    """The options of ``dnclab bench kernels``; those of ``dnclab bench`` too, which means it."""
    parser.set_defaults(run=run_bench_kernels, command=parser.prog, refuse=parser.error)
    if default:
        parser.set_defaults(
            sizes=list(bench_kernels.SIZES), repeats=7, memory_steps=1500, jsonl=None
        )
        return
    parser.add_argument(
        "--sizes", nargs="+", choices=bench_kernels.SIZES, default=list(bench_kernels.SIZES)
    )
    parser.add_argument("--repeats", type=whole_number(1), default=7, help="of the reference (7)")
    parser.add_argument(
        "--memory-steps", type=whole_number(0), default=1500,
        help="length of the bAbI sequence whose memory is measured (1500); 0: no memory at all",
    )  # fmt: skip
    parser.add_argument("--jsonl", type=Path, metavar="FILE", help="write the records too")


def run_bench_kernels(chosen: argparse.Namespace) -> int:
    """Print the tables."""
    for line in bench_kernels.kernels_table(
        chosen.sizes,
        repeats=chosen.repeats,
        memory_steps=chosen.memory_steps,
        jsonl=chosen.jsonl,
    ):
        print(line, flush=True)
    return 0


def add_bench_stages(parser: argparse.ArgumentParser) -> None:
    """The options of ``dnclab bench stages``."""
    parser.set_defaults(run=run_bench_stages, command=parser.prog, refuse=parser.error)
    parser.add_argument(
        "--sizes", nargs="+", choices=bench_kernels.SIZES, default=bench_stages.PAPER
    )
    parser.add_argument("--repeats", type=whole_number(1), default=7, help="turns of each (7)")


def run_bench_stages(chosen: argparse.Namespace) -> int:
    """Print the tables."""
    for line in bench_stages.stages_table(chosen.sizes, repeats=chosen.repeats):
        print(line, flush=True)
    return 0
