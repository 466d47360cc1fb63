"""``dnclab report``."""

# ruff: noqa: T201  # a command prints

from __future__ import annotations

import argparse
from pathlib import Path

from dnclab.reports.page import render
from dnclab.reports.report import make_report
from dnclab.runs import write_whole


def add_report(parser: argparse.ArgumentParser) -> None:
    """The options of ``dnclab report``."""
    parser.set_defaults(run=run_report, command=parser.prog, refuse=parser.error)
    parser.add_argument(
        "folders",
        type=Path,
        nargs="+",
        metavar="RUNS",
        help="runs, sweeps, folders of runs, or results",
    )
    parser.add_argument("--out", type=Path, default=Path("report.html"), metavar="FILE")
    parser.add_argument(
        "--player",
        type=Path,
        nargs="+",
        default=[],
        metavar="RUN",
        help="what the memory player shows (of each task the run with the least loss)",
    )
    parser.add_argument("--unfinished", action="store_true", help="count unfinished runs too")


def run_report(chosen: argparse.Namespace) -> int:
    """Write the page."""
    page = make_report(chosen.folders, players=chosen.player, unfinished=chosen.unfinished)
    write_whole(chosen.out, render(page).encode())
    for claim in page.claims:
        print(f"claim {claim.number}: {claim.verdict}")
    for skipped in page.skipped:
        print(f"left out: {skipped.name}: {skipped.reason}")
    if not page.recordings:
        print("no run has a recording to play: dnclab measure RUN makes one")
    print(f"{chosen.out}: {chosen.out.stat().st_size / 1e6:.2f} MB; open it in a browser")
    return 0
