"""The command ``dnclab``: parse, call, print. What it does lives elsewhere.

A command is a function that adds its parser and one that runs it; ``build_parser`` lists them.
Whatever is refused gives one line on stderr and exit code 2.
"""

# ruff: noqa: T201  # a command prints

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from dnclab import bench
from dnclab.tasks import BITMAP_TASKS, pictures
from dnclab.tasks.babi import summary
from dnclab.tasks.babi.download import download
from dnclab.tasks.babi.format import TASK_NAMES
from dnclab.tasks.babi.install import BabiInstallError, install_from
from dnclab.tasks.babi.reader import EDITIONS, TOP_FOLDER
from dnclab.tasks.babi.show import show_story
from dnclab.tasks.bitmap import BitmapStream, resized, sample_text

REFUSALS = (ValueError, ModuleNotFoundError, OSError)
"""What the user can put right; anything else is our fault and shows its traceback."""

REFUSED = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; give the exit code."""
    chosen = build_parser().parse_args(arguments)
    try:
        chosen.run(chosen)
    except REFUSALS as error:
        print(f"{chosen.command}: {' '.join(str(error).split())}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        print(f"{chosen.command}: interrupted", file=sys.stderr)
        return INTERRUPTED
    return 0


def build_parser() -> argparse.ArgumentParser:
    """All commands with their options."""
    parser = _Parser(prog="dnclab", description="The improved Differentiable Neural Computer.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    data = commands.add_parser("data", help="get the data of a task")
    tasks = data.add_subparsers(title="data sets", required=True, metavar="NAME")
    add_data_babi(tasks.add_parser("babi", help="the 20 bAbI tasks", description=BABI))
    add_show_task(commands.add_parser("show-task", help="print a sample of a task"))
    measure = commands.add_parser("bench", help="measure how fast things are")
    benches = measure.add_subparsers(title="what", required=True, metavar="WHAT")
    add_bench_tasks(benches.add_parser("tasks", help="making batches of the tasks"))
    return parser


def add_show_task(parser: argparse.ArgumentParser) -> None:
    """The options of ``dnclab show-task``."""
    parser.set_defaults(run=run_show_task, command=parser.prog, refuse=parser.error)
    parser.add_argument("name", choices=(*BITMAP_TASKS, "babi"), metavar="NAME", help=TASKS_HELP)
    parser.add_argument("--seed", type=_whole_number(0), default=0, help="of the sample (0)")
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


BABI = "Install or generate the bAbI tasks, read every file and show what there is."

TASKS_HELP = f"one of {', '.join(BITMAP_TASKS)}, babi"

DEFAULT_SEED = 1
DEFAULT_STORIES = 2000


def add_data_babi(parser: argparse.ArgumentParser) -> None:
    """The options of ``dnclab data babi``."""
    parser.set_defaults(run=run_data_babi, command=parser.prog, refuse=parser.error)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="PATH",
        help=f"install from {TOP_FOLDER}.tar.gz or its folder",
    )
    source.add_argument("--download", action="store_true", help="install from the public addresses")
    source.add_argument("--generate", action="store_true", help="write new stories into --out")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="install here, not in the cache")
    parser.add_argument("--edition", choices=EDITIONS, help=f"what to show ({EDITIONS[0]})")
    parser.add_argument("--out", type=Path, metavar="DIR", help="a new folder for --generate")
    parser.add_argument(
        "--seed", type=_whole_number(0), help=f"of the stories to generate ({DEFAULT_SEED})"
    )
    parser.add_argument(
        "--stories", type=_whole_number(1), help=f"to generate for a task ({DEFAULT_STORIES})"
    )


def run_data_babi(chosen: argparse.Namespace) -> None:
    """Install or generate, then show what there is."""
    for option in ("cache", "edition") if chosen.generate else ("out", "seed", "stories"):
        if getattr(chosen, option) is not None:
            joined = "without" if chosen.generate else "with"
            chosen.refuse(f"--{option} goes {joined} --generate")
    if chosen.generate:
        folder = _generate(chosen)
    elif chosen.download:
        folder = download(chosen.cache)
    else:
        folder = install_from(chosen.source, chosen.cache)
    counts = summary.count_folder(folder, chosen.edition or EDITIONS[0])
    print(summary.table(counts))
    print(f"in {folder}")


def _generate(chosen: argparse.Namespace) -> Path:
    folder: Path | None = chosen.out
    if folder is None:
        raise BabiInstallError("--generate needs --out DIR, a new folder for the stories")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BabiInstallError(f"--out: expected a new or empty folder, got {folder}")
    from dnclab.tasks.babi.stories import write_files

    seed = DEFAULT_SEED if chosen.seed is None else chosen.seed
    write_files(folder, seed, chosen.stories or DEFAULT_STORIES)
    return folder


def _whole_number(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"expected a whole number from {least}, got {text!r}")
        return int(text)

    return parse


class _Parser(argparse.ArgumentParser):
    """argparse, with its complaints in one line."""

    def error(self, message: str) -> NoReturn:
        """One line on stderr, exit code 2."""
        self.exit(REFUSED, f"{self.prog}: {message} (see {self.prog} --help)\n")
