"""A folder of results → its figures and tables, from what is kept in it and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dnclab.reports import plots, tables
from dnclab.reports.figures import save_figure
from dnclab.reports.results import RESULTS_NAME, Results, load_results, merged
from dnclab.runs import RunError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES_NAME = "figures"
TABLES_NAME = "tables"

LINK_VARIANTS = ("dnc-d", "dnc-ds")
"""Those whose forward distributions stand side by side."""


def render(folder: Path) -> list[Path]:
    """Write the figures and tables of every folder of results in a folder, and the claims.

    The claims are judged by all of them together.
    """
    own = [folder] if (folder / RESULTS_NAME).exists() else _parts(folder)
    parts = {part: load_results(part) for part in own}
    written = []
    for part, results in parts.items():
        written += _render_part(part, results)
    return written + tables.write_table(folder, tables.claims(merged(parts.values())))


def _parts(folder: Path) -> list[Path]:
    found = [path.parent for path in sorted(folder.glob(f"*/{RESULTS_NAME}"))]
    if not found:
        raise RunError(f"{folder}: no results: neither it nor a folder in it has a {RESULTS_NAME}")
    return found


def _render_part(folder: Path, results: Results) -> list[Path]:
    written: list[Path] = []
    tasks = list(dict.fromkeys(run.task for run in results.runs))
    for task in tasks:
        place = folder / TABLES_NAME if len(tasks) == 1 else folder / TABLES_NAME / _file_name(task)
        for table in tables.all_tables(results, task):
            written += tables.write_table(place, table)
    drawn = figures_of(results)
    if drawn:
        (folder / FIGURES_NAME).mkdir(exist_ok=True)
    for name, figure in drawn.items():
        written += save_figure(figure, folder / FIGURES_NAME / name)
    return written


def figures_of(results: Results) -> dict[str, Figure]:
    """All figures of results by the name of their files."""
    drawn: dict[str, Figure] = {}
    for task in dict.fromkeys(run.task for run in results.runs):
        labels = results.of_task(task)
        losses = {label: plots.loss_band(runs) for label, runs in labels.items()}
        drawn[f"{task}-loss"] = plots.bands(losses, f"{task}: training loss", "training loss")
        name = next(iter(labels.values()))[0].error_name
        if name is not None:
            errors = {label: plots.evaluation_band(runs, name) for label, runs in labels.items()}
            kind = "mean test error" if name == "error" else name.replace("_", " ")
            drawn[f"{task}-error"] = plots.bands(errors, f"{task}: {kind}", kind)
    for recording in results.recordings:
        name = f"{recording.task}-{recording.variant}"
        if "input" in recording.arrays:
            drawn[f"{name}-sequence"] = plots.sequence(recording)
        if "read_masks" in recording.arrays and [p.name for p in recording.phases[1:]] == [
            "q1",
            "q2",
        ]:
            drawn[f"{name}-masks"] = plots.read_masks(recording)
    for task in dict.fromkeys(recording.task for recording in results.recordings):
        both = [results.recording(task, variant.upper()) for variant in LINK_VARIANTS]
        shown = [recording for recording in both if recording is not None]
        if len(shown) == len(LINK_VARIANTS):
            drawn[f"{task}-links"] = plots.forward_links(shown)
    return {_file_name(name): figure for name, figure in drawn.items()}


def _file_name(text: str) -> str:
    """A name that any file system takes: a task of the user's own has a colon in its name."""
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in text)
