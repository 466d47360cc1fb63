"""Tables by hand, and their three files."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

from made_up import run_result

from dnclab.reports.results import Results
from dnclab.reports.statistics import Interval
from dnclab.reports.tables import (
    Spread,
    Table,
    all_tables,
    by_babi_task,
    claims,
    comparisons,
    each_run,
    markdown,
    shown,
    summary,
    write_table,
)

LABELS = {
    "DNC": [run_result(seed=n, errors=(0.5, 0.4)) for n in range(4)],
    "DNC-D": [
        run_result(variant="dnc-d", seed=n, errors=(0.5, 0.0), measures={"freed_content": 0.1})
        for n in range(4)
    ],
}


def test_cells_as_people_read_them() -> None:
    assert shown(None) == "–"
    assert shown(Interval(0.25, 0.1234, 1.0, 5)) == "0.25 [0.123, 1]"
    assert shown(Interval(math.inf, 12000.0, math.inf, 5)) == "never [12,000, never]"
    assert shown(Interval(3.0, 3.0, 3.0, 1)) == "3"
    assert shown(Spread(16.93, 5.16)) == "16.9 ± 5.2"
    assert shown(Spread(16.93, math.nan)) == "16.9"
    assert shown(7) == "7"


def test_the_three_files_say_the_same(tmp_path: Path) -> None:
    rows = (("a|b", Interval(0.5, 0.25, 1.0, 4), math.inf), ("c", None, 0.1 + 0.2))
    table = Table("t", "A title", ("x", "y", "z"), rows, frozenset({(0, 1)}), "A note.")
    paths = write_table(tmp_path / "new", table)
    assert [path.name for path in paths] == ["t.md", "t.csv", "t.json"]
    assert paths[0].read_text() == (
        "**A title**\n\n| x | y | z |\n| --- | --- | --- |\n"
        "| a\\|b | **0.5 [0.25, 1]** | never |\n| c | – | 0.3 |\n\nA note.\n"
    )
    with paths[1].open() as file:
        lines = list(csv.reader(file))
    assert lines == [
        ["x", "y", "y low", "y high", "y count", "z"],
        ["a|b", "0.5", "0.25", "1.0", "4", "inf"],
        ["c", "", "", "", "", "0.3"],
    ]
    assert json.loads(paths[2].read_text())["rows"] == [
        {"x": "a|b", "y": {"value": 0.5, "low": 0.25, "high": 1.0, "count": 4}, "z": None},
        {"x": "c", "y": None, "z": 0.3},
    ]


def test_the_summary_by_hand() -> None:
    table = summary("repeat-copy", LABELS)
    first, second = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    assert (first["variant"], first["seeds"], first["iterations"]) == ("DNC", 4, 1000)
    share = first["share solved"]
    assert isinstance(share, Interval)
    assert (share.value, share.count) == (0.0, 4)
    assert second["iterations until solved"] == Interval(1000.0, 1000.0, 1000.0, 4)
    assert first["final error"] == Interval(0.4, 0.4, 0.4, 4)
    assert first["freed_content"] is None
    assert second["freed_content"] == Interval(0.1, 0.1, 0.1, 4)
    assert second["mean training loss"] == Interval(3.0, 3.0, 3.0, 4)


def test_comparisons_and_runs_by_hand() -> None:
    table = comparisons("repeat-copy", LABELS)
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row == {
        "change": "D", "without": "DNC", "with": "DNC-D", "figure": "iterations until solved",
        "seeds without": 4, "seeds with": 4, "median without": math.inf, "median with": 1000.0,
        "p": 2 / 70, "p, Holm": 6 / 70,
    }  # fmt: skip
    every = each_run("repeat-copy", LABELS)
    assert len(every.rows) == 8
    assert every.rows[4][:5] == ("DNC-D", 0, 1000, "finished", 1000.0)
    assert every.rows[4][-2] == "c0ffee"


def test_table_1_by_hand() -> None:
    """Two seeds with errors of 10% and 20%: 15.0 ± 7.1; the least as printed is bold."""

    def babi(variant: str, seed: int, first: float, second: float) -> object:
        return run_result(
            "babi", variant, seed, errors=(0.9, (first + second) / 2), error_name="error",
            error_1=(0.9, first), error_2=(0.9, second), unsolved=(2, int(first > 0.05) + 1),
        )  # fmt: skip

    labels = {
        "DNC": [babi("dnc", 0, 0.10, 0.3), babi("dnc", 1, 0.20, 0.3)],
        "DNC-MD": [babi("dnc-md", 0, 0.02, 0.30004), babi("dnc-md", 1, 0.02, 0.3)],
    }
    text = markdown(by_babi_task(labels))  # type: ignore[arg-type]
    assert "| 1 single-supporting-fact | 15.0 ± 7.1 | **2.0 ± 0.0** |" in text
    assert "| **30.0 ± 0.0** | **30.0 ± 0.0** |" in text
    assert "| mean | 22.5 ± 3.5 | **16.0 ± 0.0** |" in text
    assert "| tasks solved (at most 5%) | 0.0 ± 0.0 | 1.0 ± 0.0 |" in text
    assert "| the paper's mean, 500,000 iterations | 16.9 ± 5.2 | 9.5 ± 1.6 |" in text
    assert "| seeds | 2 | 2 |" in text


def test_babi_alone_has_table_1() -> None:
    runs = tuple(run for runs in LABELS.values() for run in runs)
    names = [table.name for table in all_tables(Results(runs), "repeat-copy")]
    assert names == ["summary", "comparisons", "runs"]
    story = run_result("babi", errors=(0.5,), error_name="error", error_1=(0.5,))
    tables = all_tables(Results((story,)), "babi")
    assert [table.name for table in tables] == ["table1", "summary", "comparisons", "runs"]


def test_the_claims_are_a_table() -> None:
    table = claims(Results())
    assert [row[0] for row in table.rows] == [1, 2, 3, 4, 5]
    assert {row[2] for row in table.rows} == {"not enough runs"}
