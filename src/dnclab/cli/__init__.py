"""The command ``dnclab``: parse, call, print. What it does lives elsewhere.

A command is a function that adds its parser and one that runs it, in a module of this folder;
``build_parser`` lists them. Whatever is refused gives one line on stderr and exit code 2.
"""

# ruff: noqa: T201  # a command prints

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dnclab.cli import babi, kernels, reports, sweeps, tasks, training
from dnclab.cli.parsing import Parser
from dnclab.kernels import BackendUnavailable

REFUSALS = (ValueError, ModuleNotFoundError, OSError, BackendUnavailable)
"""What the user can put right; anything else is our fault and shows its traceback."""

REFUSED = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; give the exit code."""
    chosen = build_parser().parse_args(arguments)
    try:
        with _warnings_in_one_line(chosen.command):
            code: int | None = chosen.run(chosen)
    except REFUSALS as error:
        print(f"{chosen.command}: {' '.join(str(error).split())}", file=sys.stderr)
        return REFUSED
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        said = " ".join(str(error).split())
        print(f"{chosen.command}: too large for the memory: {said}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        print(f"{chosen.command}: interrupted", file=sys.stderr)
        return INTERRUPTED
    return code or 0


def _out_of_memory(error: BaseException) -> bool:
    """NumPy has a class of errors for it; PyTorch's allocator on the CPU has words."""
    return isinstance(error, MemoryError) or "can't allocate memory" in str(error)


@contextmanager
def _warnings_in_one_line(command: str) -> Iterator[None]:
    """A warning is for the user of the command, who has no use for the line of our source."""

    def show(message: Warning | str, *place: Any, **more: Any) -> None:
        del place, more
        print(f"{command}: warning: {message}", file=sys.stderr)

    before = warnings.showwarning
    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before


def build_parser() -> argparse.ArgumentParser:
    """All commands with their options."""
    parser = Parser(prog="dnclab", description="The improved Differentiable Neural Computer.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    training.add_train(commands.add_parser("train", help="train a preset"))
    training.add_resume(commands.add_parser("resume", help="go on with a run"))
    training.add_eval(commands.add_parser("eval", help="evaluate a run's best model"))
    training.add_info(commands.add_parser("info", help="describe a run"))
    training.add_presets(commands.add_parser("presets", help="list the presets"))
    training.add_demo(
        commands.add_parser("demo", help="train repeat copy until it is solved, and draw it")
    )
    sweeps.add_sweep(commands.add_parser("sweep", help="train many variants and seeds"))
    sweeps.add_reproduce(commands.add_parser("reproduce", help="run the paper's experiments"))
    sweeps.add_measure(commands.add_parser("measure", help="measure what trained models do"))
    sweeps.add_collect(commands.add_parser("collect", help="keep what figures need of runs"))
    sweeps.add_figures(commands.add_parser("figures", help="figures and tables of results"))
    reports.add_report(commands.add_parser("report", help="make a page on runs"))
    tasks.add_show_task(commands.add_parser("show-task", help="print a sample of a task"))
    data = commands.add_parser("data", help="get the data of a task")
    sets = data.add_subparsers(title="data sets", required=True, metavar="NAME")
    babi.add_data_babi(sets.add_parser("babi", help="the 20 bAbI tasks", description=babi.BABI))
    kernels.add_warmup(commands.add_parser("warmup", help="compile the fused kernels now"))
    kernels.add_backends(commands.add_parser("backends", help="list the ways to compute"))
    bench = commands.add_parser("bench", help="measure how fast things are")
    kernels.add_bench_kernels(bench, default=True)
    benches = bench.add_subparsers(title="what", metavar="WHAT")
    kernels.add_bench_kernels(benches.add_parser("kernels", help="fused kernels and reference"))
    stages = benches.add_parser("stages", help="where the kernels' time goes")
    kernels.add_bench_stages(stages)
    tasks.add_bench_tasks(benches.add_parser("tasks", help="making batches of the tasks"))
    tasks.add_bench_loop(benches.add_parser("loop", help="an iteration beside the model's work"))
    return parser
