"""``dnclab sweep``, ``reproduce``, ``measure``, ``collect`` and ``figures``."""

# ruff: noqa: T201  # a command prints

from __future__ import annotations

import argparse
import json
import re
import shlex
from pathlib import Path

from dnclab.cli.parsing import whole_number
from dnclab.reports.render import render
from dnclab.reports.results import collect, save_results
from dnclab.runs import RunError
from dnclab.training import measure, plan
from dnclab.training.reproduce import (
    PAPER_SEEDS,
    PARTS,
    RESULTS_FOLDER,
    SWEEPS_NAME,
    reproduce,
)
from dnclab.training.sweep import Ended, sweep

INTERRUPTED = 130
FAILED = 1

SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0}


def add_sweep(parser: argparse.ArgumentParser) -> None:
    """The options of ``dnclab sweep``."""
    parser.set_defaults(run=run_sweep, command=parser.prog, refuse=parser.error)
    parser.add_argument("preset", metavar="PRESET", help="see dnclab presets")
    parser.add_argument(
        "--variants", default="all", metavar="NAMES", help="all, or some as dnc,md,mds (all)"
    )
    add_course(parser, seeds=8)
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="NAME=VALUE", help="as model.cells=32"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="of the sweep (sweeps/PRESET)")
    parser.add_argument("--dry-run", action="store_true", help="only print the plan")


def add_course(parser: argparse.ArgumentParser, *, seeds: int) -> None:
    """What sweeps have in common."""
    parser.add_argument(
        "--seeds",
        type=whole_number(1),
        default=seeds,
        help=f"so many, from 0 ({seeds})",
    )
    parser.add_argument("--steps", type=whole_number(1), help="updates of each run")
    parser.add_argument("--budget", type=time_span, metavar="TIME", help="stop after it, as 90m")
    parser.add_argument("--jobs", type=whole_number(1), default=1, help="runs at a time (1)")


def time_span(text: str) -> float:
    """Seconds: ``90m``, ``1h30m``, ``45s``."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([hms])", text)
    if not parts or "".join(map("".join, parts)) != text:
        raise argparse.ArgumentTypeError(f"expected a time, as 90m, 1h30m or 45s, got {text!r}")
    return sum(float(number) * SECONDS[unit] for number, unit in parts)


def run_sweep(chosen: argparse.Namespace) -> int:
    """Train all variants with all seeds."""
    settings = list(chosen.set)
    if chosen.steps is not None:
        settings.append(f"course.steps={chosen.steps}")
    groups = [plan.Group(variant) for variant in plan.variants_named(chosen.variants)]
    planned = plan.make_plan(
        chosen.preset,
        groups,
        range(chosen.seeds),
        settings=settings,
        command=_typed(chosen, chosen.preset, "--variants", chosen.variants),
    )
    folder = chosen.out or Path("sweeps") / chosen.preset
    ended = sweep(
        folder, planned, jobs=chosen.jobs, budget=chosen.budget, only_plan=chosen.dry_run
    )  # fmt: skip
    return 0 if chosen.dry_run else tell(folder, ended)


def _typed(chosen: argparse.Namespace, *words: str) -> str:
    """The command as it would be typed to get the same runs."""
    typed = [*chosen.command.split(), *words, "--seeds", str(chosen.seeds)]
    typed += [] if chosen.steps is None else ["--steps", str(chosen.steps)]
    typed += ["--set", *chosen.set] if chosen.set else []
    return shlex.join(typed)


def tell(folder: Path, ended: Ended) -> int:
    """Say how a sweep ended; the exit code."""
    print(f"{folder}: {ended.done} done, {len(ended.failed)} failed, {ended.left} left")
    for name, reason in ended.failed.items():
        print(f"failed: {name}: {reason}")
    if ended.left:
        print(f"stopped ({ended.reason}): the same command goes on")
    if ended.reason == "interrupted":
        return INTERRUPTED
    return FAILED if ended.failed else 0


def add_measure(parser: argparse.ArgumentParser) -> None:
    """The options of ``dnclab measure``."""
    parser.set_defaults(run=run_measure, command=parser.prog, refuse=parser.error)
    parser.add_argument("folders", type=Path, nargs="+", metavar="RUN", help="run folders")


def run_measure(chosen: argparse.Namespace) -> int:
    """Measure and record the best models of runs; print the measures as JSON."""
    for folder in chosen.folders:
        print(json.dumps({"run": str(folder), **measure.measure(folder)}, indent=2))
    return 0


def add_reproduce(parser: argparse.ArgumentParser) -> None:
    """The options of ``dnclab reproduce``."""
    parser.set_defaults(run=run_reproduce, command=parser.prog, refuse=parser.error)
    parser.add_argument("part", choices=(*PARTS, "all"), metavar="PART", help=_parts_help())
    add_course(parser, seeds=PAPER_SEEDS)
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="NAME=VALUE", help="as course.evaluate_every=500"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("reproduction"), metavar="DIR", help="of sweeps, results"
    )
    parser.add_argument(
        "--results", type=Path, metavar="DIR", help="figures, tables, metrics (DIR/results)"
    )


def _parts_help() -> str:
    return "; ".join(f"{name}: {part.shows}" for name, part in PARTS.items()) + "; or all"


def run_reproduce(chosen: argparse.Namespace) -> int:
    """Train a part of the paper, or all of it, and draw what there is."""
    settings = list(chosen.set)
    if chosen.steps is not None:
        settings.append(f"course.steps={chosen.steps}")
    results = chosen.results or chosen.out / RESULTS_FOLDER
    ended = reproduce(
        list(PARTS) if chosen.part == "all" else [chosen.part],
        chosen.out,
        seeds=chosen.seeds,
        settings=settings,
        jobs=chosen.jobs,
        budget=chosen.budget,
        results=results,
        command=_typed(chosen, chosen.part),
    )
    codes = [
        tell(chosen.out / SWEEPS_NAME / PARTS[name].preset, own) for name, own in ended.items()
    ]
    print((results / "claims.md").read_text(encoding="utf-8"), end="")
    print(f"figures and tables in {results}")
    return max(codes)


def add_collect(parser: argparse.ArgumentParser) -> None:
    """The options of ``dnclab collect``."""
    parser.set_defaults(run=run_collect, command=parser.prog, refuse=parser.error)
    parser.add_argument(
        "folders", type=Path, nargs="+", metavar="RUN", help="run folders, or folders of them"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="of the results")
    parser.add_argument(
        "--unfinished", action="store_true", help="runs that have not finished as well"
    )


def run_collect(chosen: argparse.Namespace) -> int:
    """Keep what figures and tables need of runs; say which were passed over."""
    results = collect(chosen.folders, unfinished=chosen.unfinished)
    for skipped in results.skipped:
        print(f"skipped: {skipped.name}: {skipped.reason}")
    if not results.runs:
        raise RunError("RUN: expected at least one run that can be used, got none")
    save_results(chosen.out, results)
    print(f"{len(results.runs)} runs in {chosen.out}; next: dnclab figures {chosen.out}")
    return 0


def add_figures(parser: argparse.ArgumentParser) -> None:
    """The options of ``dnclab figures``."""
    parser.set_defaults(run=run_figures, command=parser.prog, refuse=parser.error)
    parser.add_argument("folder", type=Path, metavar="RESULTS", help="as docs/results")


def run_figures(chosen: argparse.Namespace) -> int:
    """Make all figures and tables again from what is kept of the runs."""
    for path in render(chosen.folder):
        print(path)
    return 0
