"""``dnclab data babi``."""

# ruff: noqa: T201  # a command prints

from __future__ import annotations

import argparse
from pathlib import Path

from dnclab.cli.parsing import whole_number
from dnclab.tasks.babi import summary
from dnclab.tasks.babi.download import download
from dnclab.tasks.babi.install import BabiInstallError, install_from
from dnclab.tasks.babi.reader import EDITIONS, TOP_FOLDER

BABI = "Install or generate the bAbI tasks, read every file and show what there is."


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
        "--seed", type=whole_number(0), help=f"of the stories to generate ({DEFAULT_SEED})"
    )
    parser.add_argument(
        "--stories", type=whole_number(1), help=f"to generate for a task ({DEFAULT_STORIES})"
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
