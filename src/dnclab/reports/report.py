"""The report on runs: what stands on its page, gathered from folders. Imports no model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dnclab.reports.claims import judge
from dnclab.reports.page import Page, picture
from dnclab.reports.recordings import RECORDING_NAME, Recording, load_recording
from dnclab.reports.render import figures_of
from dnclab.reports.results import (
    RESULTS_NAME,
    Results,
    RunResult,
    Skipped,
    best_recordings,
    collect,
    load_results,
    merged,
    run_folders,
)
from dnclab.reports.tables import Table, all_tables
from dnclab.runs import RunError

LISTED = 6
"""Of more different values only the range, or the number, is told."""


def make_report(
    paths: Iterable[Path], *, players: Sequence[Path] = (), unfinished: bool = False
) -> Page:
    """The page on run folders, sweeps, folders of runs and folders of results.

    `players` are run folders or recordings to be played; without any, the run of each task that has
    the least loss is.
    """
    paths = list(paths)
    kept = [path for path in paths if has_results(path)]
    others = [path for path in paths if path not in kept]
    parts = [collect(others, unfinished=unfinished), *map(load_results, kept)]
    results = merged(parts)
    if not results.runs:
        reasons = "; ".join(f"{own.name}: {own.reason}" for own in results.skipped)
        raise RunError(f"nothing to report: {reasons or 'no folder was given'}")
    played, broken = chosen_recordings([] if players else run_folders(others), results)
    played += [load_recording(recording_path(path)) for path in players]
    thin = (own for part in parts[1:] for own in part.recordings)
    shown = {(own.task, own.variant) for own in played}
    recordings = [*played, *(own for own in thin if (own.task, own.variant) not in shown)]
    return Page(
        title=title(results),
        lead=lead(results),
        skipped=list(dict.fromkeys([*results.skipped, *broken])),
        claims=judge(results),
        recordings=recordings,
        figures=[picture(figure, caption(name)) for name, figure in figures_of(results).items()],
        tables=[
            table
            for task, _ in by_task(results)
            for table in all_tables(results, task)
            if table.rows
        ],
        configurations=[configuration_table(task, runs) for task, runs in by_task(results)],
        environments=[environment_table(results)],
    )


def has_results(path: Path) -> bool:
    """Whether a folder, or one in it, is one of results."""
    return (path / RESULTS_NAME).exists() or any(path.glob(f"*/{RESULTS_NAME}"))


# --- what is played ------------------------------------------------------------------------------


def recording_path(path: Path) -> Path:
    """The recording of a run folder, or the file that was given."""
    if not path.is_dir():
        return path
    if not (path / RECORDING_NAME).exists():
        raise RunError(f"{path}: it has no {RECORDING_NAME}: dnclab measure {path} makes one")
    return path / RECORDING_NAME


def chosen_recordings(
    folders: Iterable[Path], results: Results
) -> tuple[list[Recording], list[Skipped]]:
    """For each task the recording of its run with the least loss; and those that are damaged."""
    places = {folder.name: folder for folder in folders}
    return best_recordings(
        [
            (run.task, run.best("loss"), places[run.name])
            for run in results.runs
            if run.name in places
        ]
    )


# --- in words ------------------------------------------------------------------------------------


def by_task(results: Results) -> Iterator[tuple[str, list[RunResult]]]:
    """The runs of each task, in the order of the results."""
    for task in dict.fromkeys(run.task for run in results.runs):
        yield task, [run for run in results.runs if run.task == task]


def title(results: Results) -> str:
    """What the page is about."""
    if len(results.runs) == 1:
        return results.runs[0].name
    tasks = [task for task, _ in by_task(results)]
    return f"{len(results.runs)} runs of {_listed(tasks)}"


def lead(results: Results) -> str:
    """The variants of each task and how many seeds they have."""
    sentences = []
    for task, runs in by_task(results):
        seeds: dict[str, int] = {}
        for run in runs:
            seeds[run.label] = seeds.get(run.label, 0) + 1
        told = [f"{label} ({n} seed{'s' * (n > 1)})" for label, n in seeds.items()]
        sentences.append(f"{task}: {_listed(told)}.")
    return " ".join(sentences)


def _listed(texts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


CAPTIONS = {
    "loss": "training loss: the mean of the seeds, and two standard deviations to either side",
    "error": "evaluation error: the mean of the seeds, and two standard deviations to either side",
    "sequence": "what the model read, what it should have said, and what it said",
    "masks": "the read mask at each step; the lines divide the phases of the task",
    "links": "where the links lead, without sharpness and with it, and the read modes beside it",
}
"""By the end of a figure's name."""


def caption(name: str) -> str:
    """A figure's name in words."""
    what, _, kind = name.rpartition("-")
    return f"{what}, {CAPTIONS[kind]}."


# --- tables --------------------------------------------------------------------------------------


def configuration_table(task: str, runs: Sequence[RunResult]) -> Table:
    """Each setting, with the value or the values that the runs have."""
    return _facts(f"{task}: settings", [run.config for run in runs])


def environment_table(results: Results) -> Table:
    """What the runs ran on, and what started them."""
    table = _facts("What the runs ran on", [run.environment for run in results.runs])
    commands = tuple(("command", command) for command in results.commands)
    return replace(table, rows=commands + table.rows)


def _facts(title: str, sources: Sequence[Mapping[str, Any]]) -> Table:
    flat = [dict(_flattened(source)) for source in sources]
    names = dict.fromkeys(name for facts in flat for name in facts)
    rows = ((name, values_in_words([facts.get(name) for facts in flat])) for name in names)
    return Table("facts", title, ("name", "value"), tuple(rows))


def _flattened(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flattened(value, f"{path}{name}.")
        else:
            yield path + name, value


def values_in_words(values: Sequence[Any]) -> str:
    """The different ones of some values; of many the range, or how many there are."""
    distinct = list(dict.fromkeys(map(_in_words, values)))
    if len(distinct) <= LISTED:
        return ", ".join(distinct)
    if all(type(value) in (int, float) for value in values):
        return f"{min(values)} to {max(values)}"
    return f"{min(distinct)} to {max(distinct)} ({len(distinct)} different)"


def _in_words(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
