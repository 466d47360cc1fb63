"""Tables from results: plain data that is written as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dnclab.reports.claims import judge
from dnclab.reports.comparisons import (
    BEST_ERROR,
    FINAL_ERROR,
    MEAN_LOSS,
    UNTIL_SOLVED,
    all_comparisons,
    figure_of,
    figures_of,
)
from dnclab.reports.results import SOLVED, Results, RunResult
from dnclab.reports.statistics import (
    Interval,
    holm,
    mean_interval,
    median_interval,
    share_interval,
)
from dnclab.runs import write_whole
from dnclab.tasks.babi.format import TASK_NAMES

Labels = Mapping[str, Sequence[RunResult]]


@dataclass(frozen=True)
class Spread:
    """A mean and the standard deviation of what it is of."""

    mean: float
    deviation: float


Cell = str | int | float | Interval | Spread | None


@dataclass(frozen=True)
class Table:
    """Rows under named columns."""

    name: str
    """Of its files."""
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    best: frozenset[tuple[int, int]] = frozenset()
    """Cells, row and column, that are set in bold."""
    note: str = ""
    """How to read it."""


# --- the tables ----------------------------------------------------------------------------------


def all_tables(results: Results, task: str) -> list[Table]:
    """The tables of a task."""
    labels = results.of_task(task)
    made = [summary(task, labels), comparisons(task, labels), each_run(task, labels)]
    if any("error_1" in run.evaluations for runs in labels.values() for run in runs):
        made.insert(0, by_babi_task(labels))
    return made


def summary(task: str, labels: Labels) -> Table:
    """For each label the share that solved the task, when, and what else was measured."""
    measured = sorted({name for runs in labels.values() for run in runs for name in run.measures})
    means = [BEST_ERROR, FINAL_ERROR, MEAN_LOSS, *measured]
    rows = []
    for label, runs in labels.items():
        times = figures_of(runs, UNTIL_SOLVED)
        solved = sum(math.isfinite(time) for time in times)
        row: list[Cell] = [label, len(runs), max(run.step for run in runs)]
        row.append(share_interval(solved, len(times)) if times else None)
        row.append(median_interval(times) if times else None)
        for name in means:
            values = figures_of(runs, name)
            row.append(mean_interval(values) if values else None)
        rows.append(tuple(row))
    return Table(
        name="summary",
        title=f"{task}: by variant",
        columns=("variant", "seeds", "iterations", "share solved", UNTIL_SOLVED, *means),
        rows=tuple(rows),
        note="Brackets: 95% intervals, of the median for the iterations until solved, by Wilson "
        "for shares, of the mean otherwise, by bootstrap over seeds. Solved: "
        + ", ".join(f"{name.replace('_', ' ')} at most {limit:g}" for name, limit in SOLVED.items())
        + " at an evaluation.",
    )


def comparisons(task: str, labels: Labels) -> Table:
    """Variants that differ in one change, with the test over their seeds."""
    made = all_comparisons(labels)
    adjusted = holm([comparison.probability for comparison in made])
    rows = [
        (c.change, c.first, c.second, c.figure, *c.seeds, *c.medians, c.probability, p)
        for c, p in zip(made, adjusted, strict=True)
    ]
    return Table(
        name="comparisons",
        title=f"{task}: what each change does",
        columns=(
            "change", "without", "with", "figure", "seeds without", "seeds with",
            "median without", "median with", "p", "p, Holm",
        ),
        rows=tuple(rows),
        note="p: exact two-sided Wilcoxon-Mann-Whitney test over seeds; a run that never solved "
        "the task counts as later than all others. Holm: raised for the number of rows.",
    )  # fmt: skip


def each_run(task: str, labels: Labels) -> Table:
    """Every run in a row."""
    figures = (UNTIL_SOLVED, BEST_ERROR, FINAL_ERROR, MEAN_LOSS)
    rows = [
        (label, run.seed, run.step, run.reason, *(figure_of(run, name) for name in figures),
         run.environment.get("commit"), run.environment.get("date"))
        for label, runs in labels.items()
        for run in runs
    ]  # fmt: skip
    return Table(
        name="runs",
        title=f"{task}: every run",
        columns=("variant", "seed", "iterations", "ended", *figures, "commit", "date"),
        rows=tuple(rows),
    )


PAPERS_MEANS = {
    "DNC": Spread(16.9, 5.2),
    "DNC-MDS": Spread(11.0, 3.8),
    "DNC-DS": Spread(15.3, 3.5),
    "DNC-MS": Spread(10.5, 1.9),
    "DNC-MD": Spread(9.5, 1.6),
}
"""The last row of the paper's Table 1, error in per cent."""


def by_babi_task(labels: Labels) -> Table:
    """The paper's Table 1: errors in per cent by task and variant, the best in bold."""
    names = list(labels)
    tasks = [
        number
        for number in TASK_NAMES
        if any(f"error_{number}" in run.evaluations for runs in labels.values() for run in runs)
    ]
    rows: list[tuple[Cell, ...]] = []
    best = set()
    for title, figure in [
        (f"{number} {TASK_NAMES[number]}", f"error_{number}") for number in tasks
    ]:
        cells = [_percentages(labels[label], figure) for label in names]
        best |= {(len(rows), 1 + place) for place in _least(cells)}
        rows.append((title, *cells))
    means = [_percentages(labels[label], "error") for label in names]
    best |= {(len(rows), 1 + place) for place in _least(means)}
    rows.append(("mean", *means))
    rows.append(
        (
            "tasks solved (at most 5%)",
            *(_solved_tasks(labels[label], len(tasks)) for label in names),
        )
    )
    rows.append(("seeds", *(len(labels[label]) for label in names)))
    rows.append(("iterations", *(min(run.step for run in labels[label]) for label in names)))
    rows.append(("the paper's mean, 500,000 iterations", *(PAPERS_MEANS.get(n) for n in names)))
    return Table(
        name="table1",
        title="bAbI: test error in per cent, mean ± standard deviation over seeds",
        columns=("task", *names),
        rows=tuple(rows),
        best=frozenset(best),
        note="Of each run's last evaluation.",
    )


def _percentages(runs: Sequence[RunResult], figure: str) -> Spread | None:
    return _spread([100 * run.final(figure) for run in runs if figure in run.evaluations])


def _solved_tasks(runs: Sequence[RunResult], tasks: int) -> Spread | None:
    known = [run.final("unsolved") for run in runs if "unsolved" in run.evaluations]
    return _spread([tasks - unsolved for unsolved in known])


def _spread(values: Sequence[float]) -> Spread | None:
    if not values or not all(map(math.isfinite, values)):
        return None
    return Spread(
        statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else math.nan
    )


def _least(cells: Sequence[Spread | None]) -> list[int]:
    """Where the least mean stands, as it is printed: there may be several."""
    shown = [math.inf if cell is None else round(cell.mean, 1) for cell in cells]
    return [n for n, value in enumerate(shown) if value == min(shown) and math.isfinite(value)]


def claims(results: Results) -> Table:
    """The paper's claims, judged."""
    rows = tuple((c.number, c.text, c.verdict, c.numbers) for c in judge(results))
    return Table("claims", "The paper's claims", ("claim", "text", "verdict", "numbers"), rows)


# --- their files ---------------------------------------------------------------------------------


def write_table(folder: Path, table: Table) -> list[Path]:
    """Write a table as Markdown, CSV and JSON; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {".md": markdown(table), ".csv": as_csv(table), ".json": as_json(table)}
    paths = []
    for suffix, text in texts.items():
        paths.append(folder / f"{table.name}{suffix}")
        write_whole(paths[-1], text.encode())
    return paths


def markdown(table: Table) -> str:
    """The table as people read it; the best in bold."""
    lines = [f"**{table.title}**", "", _line(table.columns), _line(["---"] * len(table.columns))]
    for place, row in enumerate(table.rows):
        cells = [shown(cell) for cell in row]
        cells = [f"**{c}**" if (place, n) in table.best else c for n, c in enumerate(cells)]
        lines.append(_line(cells))
    if table.note:
        lines += ["", table.note]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def shown(cell: Cell) -> str:
    """A cell as people read it."""
    if cell is None:
        return "–"
    if isinstance(cell, Interval):
        if cell.low == cell.high == cell.value:
            return _number(cell.value)
        return f"{_number(cell.value)} [{_number(cell.low)}, {_number(cell.high)}]"
    if isinstance(cell, Spread):
        spread = "" if math.isnan(cell.deviation) else f" ± {cell.deviation:.1f}"
        return f"{cell.mean:.1f}{spread}"
    return _number(cell) if isinstance(cell, float) else str(cell)


def _number(value: float) -> str:
    if math.isinf(value):
        return "never"
    if value == round(value) and abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def as_csv(table: Table) -> str:
    """All numbers to ten digits; an interval or a spread takes several columns."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    kinds = [_parts(row[n] for row in table.rows) for n in range(len(table.columns))]
    writer.writerow(
        f"{column} {part}".rstrip()
        for column, parts in zip(table.columns, kinds, strict=True)
        for part in parts
    )
    for row in table.rows:
        writer.writerow(
            value for cell, parts in zip(row, kinds, strict=True) for value in _values(cell, parts)
        )
    return file.getvalue()


def _parts(cells: Any) -> tuple[str, ...]:
    """What a column's cells consist of; the first part has no name."""
    for cell in cells:
        if isinstance(cell, Interval):
            return ("", "low", "high", "count")
        if isinstance(cell, Spread):
            return ("", "deviation")
    return ("",)


def _values(cell: Cell, parts: Sequence[str]) -> list[Any]:
    if isinstance(cell, (Interval, Spread)):
        return [_digits(value) for value in asdict(cell).values()]
    return [_digits(cell), *[None] * (len(parts) - 1)]


def _digits(value: Any) -> Any:
    """Ten significant digits: the last ones of a sum may depend on the processor."""
    return float(f"{value:.10g}") if isinstance(value, float) else value


def as_json(table: Table) -> str:
    """The rows as objects; what is not finite is null."""
    rows = [
        {column: _plain(cell) for column, cell in zip(table.columns, row, strict=True)}
        for row in table.rows
    ]
    values = {"title": table.title, "note": table.note, "rows": rows}
    return json.dumps(values, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _plain(cell: Cell) -> Any:
    if isinstance(cell, (Interval, Spread)):
        return {name: _plain(value) for name, value in asdict(cell).items()}
    return None if isinstance(cell, float) and not math.isfinite(cell) else _digits(cell)
