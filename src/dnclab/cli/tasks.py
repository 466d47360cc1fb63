"""``dnclab show-task`` and ``dnclab bench``."""

# ruff: noqa: T201  # a command prints

from __future__ import annotations

import argparse
from pathlib import Path

from dnclab import bench
from dnclab.cli.parsing import whole_number
from dnclab.tasks import BITMAP_TASKS, pictures
from dnclab.tasks.babi.format import TASK_NAMES
from dnclab.tasks.babi.show import show_story
from dnclab.tasks.bitmap import BitmapStream, resized, sample_text
from dnclab.training.presets import PRESETS

TASKS_HELP = f"one of {', '.join(BITMAP_TASKS)}, babi"


def add_show_task(parser: argparse.ArgumentParser) -> None:
    """The options of ``dnclab show-task``."""
    parser.set_defaults(run=run_show_task, command=parser.prog, refuse=parser.error)
    parser.add_argument("name", choices=(*BITMAP_TASKS, "babi"), metavar="NAME", help=TASKS_HELP)
    parser.add_argument("--seed", type=whole_number(0), default=0, help="of the sample (0)")
    parser.add_argument("--png", type=Path, metavar="FILE", help="draw it into this file too")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="SIZE=VALUE", help="other sizes, as bits=4"
    )
    parser.add_argument(
        "--task", type=int, choices=TASK_NAMES, metavar="N", help="which of the bAbI tasks (1)"
    )


def run_show_task(chosen: argparse.Namespace) -> None:
    """Print a sample; draw it if asked."""
    if chosen.name == "babi":
        if chosen.png or chosen.set:
            chosen.refuse("--png and --set go with the tasks on rows of bits")
        print(show_story(chosen.task or 1, chosen.seed), end="")
        return
    if chosen.task is not None:
        chosen.refuse("--task goes with babi")
    settings = dict(_setting(chosen, text) for text in chosen.set)
    batch = BitmapStream(resized(BITMAP_TASKS[chosen.name], settings), seed=chosen.seed).batch()
    print(sample_text(batch), end="")
    if chosen.png:
        pictures.save_sample(chosen.png, batch, f"{chosen.name}, seed {chosen.seed}")
        print(f"drawn in {chosen.png}")


def _setting(chosen: argparse.Namespace, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        chosen.refuse(f"--set: expected SIZE=VALUE, got {text!r}")
    return name, value


def add_bench_tasks(parser: argparse.ArgumentParser) -> None:
    """The options of ``dnclab bench tasks``."""
    parser.set_defaults(run=run_bench_tasks, command=parser.prog, refuse=parser.error)
    parser.add_argument(
        "--babi", type=Path, metavar="PATH", help="the bAbI archive or folder: measure it too"
    )


def run_bench_tasks(chosen: argparse.Namespace) -> None:
    """Print the table."""
    for line in bench.tasks_table(chosen.babi):
        print(line)


def add_bench_loop(parser: argparse.ArgumentParser) -> None:
    """The options of ``dnclab bench loop``."""
    parser.set_defaults(run=run_bench_loop, command=parser.prog, refuse=parser.error)
    parser.add_argument(
        "preset", nargs="?", default="repeat-copy", choices=PRESETS, metavar="PRESET"
    )


def run_bench_loop(chosen: argparse.Namespace) -> None:
    """Print the table."""
    for line in bench.loop_table(chosen.preset):
        print(line)
