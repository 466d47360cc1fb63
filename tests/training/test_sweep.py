"""Sweeps: done runs are skipped, broken ones resumed, failures passed over, budgets kept."""

from __future__ import annotations

import fcntl
import io
import json
import os
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dnclab import runs
from dnclab.cli import main
from dnclab.cli.sweeps import time_span
from dnclab.reports.recordings import load_recording
from dnclab.training import sweep as sweeps
from dnclab.training.plan import Group, make_plan
from dnclab.training.sweep import last_record, sweep

TINY = ("task.sizes.bits=3", "task.sizes.max_pairs=2", "task.sizes.batch_size=2",
        "model.hidden_size=4", "model.cells=4", "model.word_size=4",
        "course.evaluate_every=2", "course.evaluation_batches=1")  # fmt: skip
ENDLESS = (*TINY[:-2], "course.steps=10000000", "course.checkpoint_every=10000000",
           "course.evaluate_every=10000000")  # fmt: skip


def test_a_sweep_passes_over_failures_and_the_same_command_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "sweep"
    command = ["sweep", "key-value-small", "--variants", "dnc,m", "--seeds", "2", "--steps", "4",
               "--jobs", "2", "--out", str(folder), "--set", *TINY]  # fmt: skip
    assert main([*command, "--dry-run"]) == 0
    assert not folder.exists()
    assert "4 runs" in capsys.readouterr().err

    plan = make_plan(
        "key-value-small", [Group("dnc"), Group("dnc-m")], range(2),
        settings=[*TINY, "course.steps=4"],
    )  # fmt: skip
    by_name = {run.name: run for run in plan.runs}
    runs.create(folder / "dnc-seed1", by_name["dnc-seed0"].config)  # another seed's: wrong
    runs.create(folder / "dnc-m-seed1", by_name["dnc-m-seed1"].config)
    (folder / "dnc-m-seed1" / "metrics.jsonl").write_text("broken\n")  # it will fail
    assert main(command) == 1
    out, err = capsys.readouterr()
    assert f"{folder}: 2 done, 2 failed, 0 left" in out
    assert "failed: dnc-seed1: the plan's run is another: here course.seed=0, not 1" in out
    assert "metrics.jsonl, line 1: not JSON" in out
    assert "dnc-m-seed0: done" in err
    for name in ("dnc-seed0", "dnc-m-seed0"):
        metrics = runs.read_metrics(folder / name)
        assert [record["step"] for record in metrics if "loss" in record] == [1, 2, 3, 4]
        assert load_recording(folder / name / "recording.json").variant == name[:-6]
        assert runs.read_environment(folder / name)["commit"]
    before = (folder / "dnc-seed0" / "metrics.jsonl").stat()

    (folder / "dnc-m-seed1" / "metrics.jsonl").unlink()  # repaired
    assert main(command) == 1
    assert f"{folder}: 3 done, 1 failed, 0 left" in capsys.readouterr().out
    assert (folder / "dnc-seed0" / "metrics.jsonl").stat() == before  # not touched again


def metrics_lines(place: Path) -> int:
    path = place / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


class Clock:
    """A clock that stands still until a run has so many records, and is then far ahead."""

    def __init__(self, place: Path, lines: int) -> None:
        self.place, self.lines = place, lines

    def monotonic(self) -> float:
        return 1000.0 if metrics_lines(self.place) > self.lines else 0.0

    sleep = staticmethod(time.sleep)


def test_at_the_end_of_the_budget_runs_save_and_later_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan("key-value-small", [Group("dnc")], range(2), settings=ENDLESS)
    place = tmp_path / "dnc-seed0"
    stopped_at = []
    for lines in (5, 40):
        monkeypatch.setattr(sweeps, "time", Clock(place, lines))
        stream = io.StringIO()
        ended = sweep(tmp_path, plan, budget=500, stream=stream)
        assert (ended.done, ended.left, ended.reason) == (0, 2, "budget")
        assert not ended.failed
        assert "budget: 1 runs save and end" in stream.getvalue()
        outcome = runs.read_outcome(place)
        assert outcome is not None
        assert outcome["reason"] == "interrupted"
        stopped_at.append(outcome["step"])
        assert not (tmp_path / "dnc-seed1").exists()
    first, second = stopped_at
    assert 5 <= first < second
    steps = [record["step"] for record in runs.read_metrics(place)]
    assert steps == list(range(1, second + 1))  # each step once: it went on where it was
    sessions = runs.read_sessions(place)
    assert [own["first_step"] for own in sessions] == [0, first]

    monkeypatch.undo()
    assert sweep(tmp_path, plan, budget=0, stream=io.StringIO()).left == 2
    assert len(runs.read_sessions(place)) == 2


def test_ctrl_c_saves_and_so_does_the_death_of_the_sweep(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dnclab", "sweep", "key-value-small", "--variants", "dnc",
               "--seeds", "1", "--out", str(tmp_path), "--set", *ENDLESS]  # fmt: skip
    place = tmp_path / "dnc-seed0"
    steps = [0]
    for number in (signal.SIGINT, signal.SIGKILL):
        before = metrics_lines(place)
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        wait_for_lines(place, before + 5)
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
        if number == signal.SIGINT:
            assert process.returncode == 130
            assert "1 left" in out
            assert "stopped (interrupted): the same command goes on" in out
        wait_until(lambda: runs.read_outcome(place) is not None)
        outcome = runs.read_outcome(place)
        assert outcome is not None
        assert outcome["reason"] == "interrupted"
        assert outcome["step"] > steps[-1]
        steps.append(outcome["step"])
        with runs.locked(place):  # nobody is left there
            assert metrics_lines(place) == outcome["step"]


def wait_for_lines(place: Path, lines: int) -> None:
    wait_until(lambda: metrics_lines(place) > lines)


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_last_record_is_read_from_the_end(tmp_path: Path) -> None:
    assert last_record(tmp_path) is None
    records: list[dict[str, Any]] = [{"step": n, "loss": n / 2} for n in range(1, 1001)]
    records.append({"step": 1000, "eval/loss": 3.0})
    text = "".join(json.dumps(record) + "\n" for record in records)
    (tmp_path / "metrics.jsonl").write_text(text + '{"step": 10')
    assert last_record(tmp_path) == {"step": 1000, "loss": 500.0}
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\nbroken\n3\n')
    assert last_record(tmp_path) == {"step": 1, "loss": 2.0}


def test_a_terminal_shows_the_lines_in_place() -> None:
    """Drawn once a second, cut to the width, wiped before anything else is said."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))
    with open(theirs, "w") as stream:  # noqa: PTH123  # a descriptor has no path
        overview = sweeps._Overview(stream)
        overview._next = 0
        overview.show(lambda: ["first", "x" * 50])
        overview.show(lambda: ["too soon"])
        overview.tell("a run is done")
        shown = ""
        while not shown.endswith("done\r\n"):  # a terminal hands on in pieces
            shown += os.read(ours, 1000).decode()
    os.close(ours)
    assert shown == f"first\r\n{'x' * 29}\r\n\x1b[2F\x1b[Ja run is done\r\n"


def test_elsewhere_a_line_comes_now_and_then() -> None:
    stream = io.StringIO()
    overview = sweeps._Overview(stream)
    overview.show(lambda: ["too soon"])
    overview._next = 0
    overview.show(lambda: ["1 of 2 done", "  dnc-seed0   5/10"])
    overview.close()
    assert stream.getvalue() == "1 of 2 done; dnc-seed0 5/10\n"


def test_time_spans() -> None:
    assert time_span("90m") == 5400
    assert time_span("1h30m") == 5400
    assert time_span("1.5h") == 5400
    assert time_span("45s") == 45
    for text in ("90", "m", "1x", "1h 30m", ""):
        with pytest.raises(Exception, match="expected a time, as 90m"):
            time_span(text)
