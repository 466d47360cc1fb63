"""The commands around sweeps: what they refuse, what they say, how they end."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from made_up import write_run

from dnclab.cli import main
from dnclab.cli.sweeps import tell
from dnclab.reports.results import load_results
from dnclab.training.plan import make_plan
from dnclab.training.reproduce import PARTS, reproduce
from dnclab.training.sweep import Ended


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sweep", "nothing"], "PRESET: expected one of repeat-copy"),
        (["sweep", "babi", "--variants", "dnc,x"], "variant: expected one of dnc,"),
        (["sweep", "babi", "--seeds", "0"], "argument --seeds: expected a whole number from 1"),
        (["sweep", "babi", "--budget", "90"], "argument --budget: expected a time, as 90m"),
        (["sweep", "babi", "--set", "model.x=3"], "model.x"),
        (["reproduce", "figure-2"], "argument PART: invalid choice: 'figure-2'"),
        (["measure", "nowhere"], "nowhere: not a run folder"),
        (["collect", "nowhere", "--out", "kept"], "RUN: expected at least one run"),
        (["figures", "nowhere"], "nowhere: no results"),
    ],
)
def test_what_is_refused_gives_one_line_and_exit_code_2(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        code = main(arguments)
    except SystemExit as stopped:
        code = stopped.code  # type: ignore[assignment]
    assert code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not any(tmp_path.iterdir())


def test_how_a_sweep_ended_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path("sweeps/x")
    assert tell(folder, Ended(3, {}, 0, "finished")) == 0
    assert capsys.readouterr().out == "sweeps/x: 3 done, 0 failed, 0 left\n"
    assert tell(folder, Ended(1, {"dnc-seed0": "why"}, 0, "finished")) == 1
    assert "failed: dnc-seed0: why\n" in capsys.readouterr().out
    assert tell(folder, Ended(1, {}, 2, "budget")) == 0
    assert "stopped (budget): the same command goes on\n" in capsys.readouterr().out
    assert tell(folder, Ended(1, {}, 2, "interrupted")) == 130


def test_the_parts_are_the_papers() -> None:
    variants = {name: {group.variant for group in part.groups} for name, part in PARTS.items()}
    assert len(variants["copy"]) == 8
    assert variants["links"] == {"dnc-d", "dnc-ds"}
    assert variants["key-value"] == {"dnc-m", "dnc"}
    assert variants["babi"] == {"dnc", "dnc-mds", "dnc-ds", "dnc-ms", "dnc-md"}
    assert [group.variant for group in PARTS["babi"].groups][:2] == ["dnc-md", "dnc"]
    [changed] = [group for group in PARTS["recall"].groups if group.settings]
    plan = make_plan("associative-recall", [changed], [0])
    assert plan.runs[0].config["model"]["mask_min"] == 0.0
    assert PARTS["links"].preset == PARTS["copy"].preset  # they share their runs


def test_without_a_budget_what_there_is_is_drawn(tmp_path: Path) -> None:
    """Nothing is trained; the runs that are there are shown, those that are not are named."""
    settings = ["course.steps=10"]
    plan = make_plan("repeat-copy", PARTS["links"].groups, range(1), settings=settings)
    for run in plan.runs:
        write_run(tmp_path / "out" / "sweeps" / "repeat-copy" / run.name, run.config)
    ended = reproduce(
        ["links", "key-value"],
        tmp_path / "out",
        seeds=1,
        settings=settings,
        budget=0,
        results=tmp_path / "kept",
        command="dnclab reproduce ...",
    )
    assert (ended["links"].done, ended["links"].left) == (2, 0)
    assert (ended["key-value"].done, ended["key-value"].left) == (0, 2)
    assert ended["key-value"].reason == "budget"
    results = load_results(tmp_path / "kept")
    assert [run.label for run in results.runs] == ["DNC-D", "DNC-DS"]
    assert {own.name: own.reason for own in results.skipped} == {
        "dnc-m-seed0": "not started", "dnc-seed0": "not started",
    }  # fmt: skip
    assert results.commands == ("dnclab reproduce ...",) * 2
    assert (tmp_path / "kept" / "links" / "figures" / "repeat-copy-links.svg").exists()
    assert "not enough runs" in (tmp_path / "kept" / "claims.md").read_text()
    assert not (tmp_path / "out" / "sweeps" / "key-value" / "logs").exists()


def test_the_options_of_sweeps_are_the_same_everywhere() -> None:
    from dnclab.cli import build_parser

    typed = ["--seeds", "2", "--steps", "3", "--budget", "1h", "--jobs", "2", "--set", "a=1", "b=2"]
    for command in (["sweep", "babi"], ["reproduce", "all"]):
        chosen: argparse.Namespace = build_parser().parse_args([*command, *typed])
        assert (chosen.seeds, chosen.steps, chosen.budget, chosen.jobs) == (2, 3, 3600.0, 2)
        assert chosen.set == ["a=1", "b=2"]
