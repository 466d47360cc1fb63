"""Plans of sweeps: their order, their file, how far runs have come, how long they may take."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dnclab import runs
from dnclab.reports.results import write_measures
from dnclab.runs import RunError
from dnclab.training import plan
from dnclab.training.plan import Group, Plan, PlannedRun, Standing
from dnclab.training.presets import PRESETS
from dnclab.training.settings import from_dict

GROUPS = (Group("dnc"), Group("dnc-md", ("model.mask_min=0",), "-delta0"))


def made(seeds: int = 2, *settings: str) -> Plan:
    return plan.make_plan("key-value-small", GROUPS, range(seeds), settings=settings, command="c")


def test_a_plan_has_every_group_with_every_seed_seed_after_seed() -> None:
    planned = made(2, "course.steps=7")
    names = ["dnc-seed0", "dnc-md-delta0-seed0", "dnc-seed1", "dnc-md-delta0-seed1"]
    assert [run.name for run in planned.runs] == names
    config = from_dict(planned.runs[3].config)
    assert (config.model.variant, config.model.mask_min) == ("dnc-md", 0.0)
    assert (config.course.seed, config.course.steps) == (1, 7)
    assert config.task == PRESETS["key-value-small"].task
    assert planned.runs[3].kind == "dnc-md-delta0"
    assert planned.runs[3].steps == 7


def test_variants_by_name() -> None:
    assert len(plan.variants_named("all")) == 8
    assert plan.variants_named("mds,dnc,DNC-D,mds") == ["dnc-mds", "dnc", "dnc-d"]
    with pytest.raises(ValueError, match="variant: expected one of"):
        plan.variants_named("dnc,x")
    with pytest.raises(ValueError, match="PRESET: expected one of"):
        plan.make_plan("x", GROUPS, [0])
    with pytest.raises(ValueError, match="at least one variant and one seed"):
        plan.make_plan("babi", GROUPS, [])


def test_the_file_gives_the_plan_back(tmp_path: Path) -> None:
    planned = made()
    plan.save_plan(tmp_path, planned)
    assert plan.load_plan(tmp_path) == planned
    (tmp_path / "plan.json").write_text('{"plan_version": 9}')
    with pytest.raises(RunError, match="expected plan_version 1, got 9"):
        plan.load_plan(tmp_path)
    (tmp_path / "plan.json").write_text('{"plan_version": 1, "runs": [3]}')
    with pytest.raises(RunError, match="not as a plan is"):
        plan.load_plan(tmp_path)


def test_a_plan_joins_the_one_before_it_or_is_refused(tmp_path: Path) -> None:
    plan.save_plan(tmp_path, made(1))
    more = plan.extended(tmp_path, made(3))
    assert more == made(3)
    plan.save_plan(tmp_path, more)
    assert {run.name for run in plan.extended(tmp_path, made(1)).runs} == {
        run.name for run in more.runs
    }
    with pytest.raises(RunError, match=r"dnc-seed0 is planned already, with course.steps=3000, "):
        plan.extended(tmp_path, made(1, "course.steps=5"))


def start(folder: Path, run: PlannedRun, **outcome: Any) -> Path:
    place = folder / run.name
    runs.create(place, run.config)
    if outcome:
        runs.write_outcome(place, **outcome)
    return place


def test_how_far_a_run_has_come(tmp_path: Path) -> None:
    new, begun, wrong, over = made().runs
    assert plan.standing(tmp_path, new) == Standing("new")
    place = start(tmp_path, begun)
    assert plan.standing(tmp_path, begun) == Standing("begun", 0)
    for step in (20, 100):
        (place / "checkpoints" / f"step-{step:08d}").mkdir()
    (place / "checkpoints" / ".step-00000200.part").mkdir()
    assert plan.standing(tmp_path, begun) == Standing("begun", 100)
    runs.write_outcome(place, 100, "interrupted")
    assert plan.standing(tmp_path, begun) == Standing("begun", 100)

    other = {**wrong.config, "course": {**wrong.config["course"], "steps": 5}}
    start(tmp_path, replace(wrong, config=other))
    assert plan.standing(tmp_path, wrong) == Standing(
        "wrong", reason="the plan's run is another: here course.steps=5, not 3000"
    )
    place = start(tmp_path, over, step=3000, reason="finished")
    assert plan.standing(tmp_path, over).state == "begun"  # its measures are to be taken
    write_measures(place, 3000, {})
    assert plan.standing(tmp_path, over).state == "done"
    (place / "config.json").write_text("{")
    assert plan.standing(tmp_path, over).state == "wrong"


def test_a_folder_whose_making_was_cut_short_is_made_again(tmp_path: Path) -> None:
    run = made().runs[0]
    place = start(tmp_path, run)
    (place / "config.json").unlink()
    assert plan.standing(tmp_path, run) == Standing("new")
    plan.clear_cut_short(place)
    runs.create(place, run.config)
    (place / "config.json").unlink()
    (place / "notes.txt").write_text("mine")
    assert plan.standing(tmp_path, run) == Standing("wrong", reason="it is not a run folder")
    plan.clear_cut_short(place)
    assert (place / "environment.json").exists()


def test_the_speed_is_that_of_all_sessions_and_the_time_follows(tmp_path: Path) -> None:
    quick, slow, third, _ = made().runs
    for first, last, seconds in ((0, 100, 1.0), (100, 400, 1.0)):
        (tmp_path / quick.name).mkdir(exist_ok=True)
        runs.note_session(tmp_path / quick.name, first, last, seconds)
    with (tmp_path / quick.name / "sessions.jsonl").open("a") as file:
        file.write('{"torn')
    assert plan.speeds(tmp_path, made().runs) == {"dnc": 200.0}
    (tmp_path / slow.name).mkdir()
    runs.note_session(tmp_path / slow.name, 0, 100, 1.0)
    speed = plan.speeds(tmp_path, made().runs)
    assert speed == {"dnc": 200.0, "dnc-md-delta0": 100.0}

    assert plan.expected_seconds([(third, 1000)], speed, 1) == 2000 / 200
    both = [(third, 1000), (slow, 0)]
    assert plan.expected_seconds(both, speed, 1) == 10 + 30
    assert plan.expected_seconds(both, speed, 2) == 30  # the longest cannot be divided
    assert plan.expected_seconds(both, {"another": 300.0}, 1) == (2000 + 3000) / 300
    assert plan.expected_seconds(both, {}, 1) is None
    assert plan.expected_seconds([], {}, 1) == 0


def test_the_plan_is_told(tmp_path: Path) -> None:
    planned = made()
    lines = plan.describe(tmp_path, planned, 2)
    assert lines[0] == f"4 runs in {tmp_path}: 0 done, 0 begun, 4 new"
    assert lines[1] == "dnc, dnc-md-delta0; 3,000 steps each"
    assert lines[2].startswith("expected time: known once")
    place = start(tmp_path, planned.runs[0], step=3000, reason="finished")
    write_measures(place, 3000, {})
    runs.note_session(place, 0, 3000, 30.0)
    (tmp_path / planned.runs[1].name).write_text("a file")
    lines = plan.describe(tmp_path, planned, 2)
    assert lines[0].endswith("1 done, 0 begun, 2 new, 1 wrong")
    assert lines[2] == "skipped: dnc-md-delta0-seed0: it is not a run folder"
    assert lines[3] == "expected time: 0:00:30 with 2 jobs; steps/s: dnc 100"
    assert plan.duration(3909.4) == "1:05:09"


def test_the_plan_is_plain_data(tmp_path: Path) -> None:
    plan.save_plan(tmp_path, made(1))
    values = json.loads((tmp_path / "plan.json").read_text())
    assert values["command"] == "c"
    assert values["runs"][0]["name"] == "dnc-seed0"
    assert values["runs"][0]["config"]["course"]["steps"] == 3000
