"""Many runs side by side: workers, the live overview, stopping. What to run says the plan."""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from dnclab import runs
from dnclab.training.loop import interruptions
from dnclab.training.plan import (
    Plan,
    PlannedRun,
    describe,
    duration,
    expected_seconds,
    extended,
    save_plan,
    speeds,
    standing,
)
from dnclab.training.sweep_worker import INTERRUPTED

POLL_SECONDS = 0.2
"""How often the workers are looked after."""

LINE_SECONDS = 60.0
"""Where there is no terminal a line comes this often."""

LOGS_NAME = "logs"

TAIL_BYTES = 4096
"""The last record of a run lies within so many bytes."""


@dataclass(frozen=True)
class Ended:
    """How a sweep ended."""

    done: int
    """Runs that are done, those of earlier times included."""
    failed: dict[str, str]
    """Why runs failed, or were skipped, by name."""
    left: int
    """Runs that there is more to do for."""
    reason: str
    """finished, budget, interrupted, or only planned."""


@dataclass
class _Worker:
    """A run at work."""

    run: PlannedRun
    process: subprocess.Popen[bytes]
    first_step: int
    latest: dict[str, Any] = field(default_factory=dict)
    """Its last training record."""
    since: float | None = None
    """When its first record of this time was seen."""


@dataclass
class _Course:
    """Where a sweep stands."""

    folder: Path
    plan: Plan
    jobs: int
    waiting: list[PlannedRun]
    done: list[str]
    failed: dict[str, str]
    working: list[_Worker] = field(default_factory=list)
    left: int = 0
    reason: str = "finished"


def sweep(
    folder: Path,
    plan: Plan,
    *,
    jobs: int = 1,
    budget: float | None = None,
    stream: TextIO | None = None,
    only_plan: bool = False,
) -> Ended:
    """Run all that a plan has left to do, `jobs` runs at a time, for at most `budget` seconds.

    The plan joins the one that the folder has; of a run that fails the others take no notice.
    """
    overview = _Overview(sys.stderr if stream is None else stream)
    deadline = math.inf if budget is None else time.monotonic() + budget
    if only_plan:
        course = _survey(folder, plan, jobs, overview)
        return Ended(len(course.done), course.failed, len(course.waiting), "only planned")
    folder.mkdir(parents=True, exist_ok=True)
    with runs.locked(folder):
        save_plan(folder, extended(folder, plan))
        course = _survey(folder, plan, jobs, overview)
        _work(course, deadline, overview)
    return Ended(len(course.done), course.failed, course.left, course.reason)


def _survey(folder: Path, plan: Plan, jobs: int, overview: _Overview) -> _Course:
    """Tell what there is to do."""
    for line in describe(folder, plan, jobs):
        overview.tell(line)
    standings = {run.name: standing(folder, run) for run in plan.runs}
    return _Course(
        folder=folder,
        plan=plan,
        jobs=jobs,
        waiting=[run for run in plan.runs if standings[run.name].state in ("new", "begun")],
        done=[name for name, own in standings.items() if own.state == "done"],
        failed={name: own.reason for name, own in standings.items() if own.state == "wrong"},
    )


def _work(course: _Course, deadline: float, overview: _Overview) -> None:
    """Until nothing waits and nothing works."""
    with interruptions() as interrupted, contextlib.ExitStack() as stack:
        stack.callback(lambda: _end(course.working))
        while course.waiting or course.working:
            if course.reason == "finished" and (interrupted() or time.monotonic() >= deadline):
                course.reason = "interrupted" if interrupted() else "budget"
                course.left += len(course.waiting)
                course.waiting.clear()
                _signal(course.working)
                overview.tell(f"{course.reason}: {len(course.working)} runs save and end")
            while course.waiting and len(course.working) < course.jobs:
                course.working.append(_start(course.folder, course.waiting.pop(0)))
            for worker in list(course.working):
                if worker.process.poll() is None:
                    _look_after(course.folder, worker)
                else:
                    course.working.remove(worker)
                    _note_end(course, worker, overview)
            overview.show(lambda: _lines(course))
            if course.working:
                time.sleep(POLL_SECONDS)
    overview.close()


def _note_end(course: _Course, worker: _Worker, overview: _Overview) -> None:
    """A worker has ended: the run is done, has failed, or was stopped."""
    name, code = worker.run.name, worker.process.returncode
    if worker.process.stdin is not None:
        worker.process.stdin.close()
    if code == 0:
        course.done.append(name)
        overview.tell(f"{name}: done")
    elif code == INTERRUPTED or course.reason != "finished":
        course.left += 1
    else:
        course.failed[name] = _last_words(course.folder, name, code)
        overview.tell(f"{name}: failed: {course.failed[name]}")


def _start(folder: Path, run: PlannedRun) -> _Worker:
    """A worker in a session of its own, so that Ctrl-C reaches us alone."""
    threads = str(run.config["course"]["threads"])
    limits = {"OMP_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads}
    logs = folder / LOGS_NAME
    logs.mkdir(exist_ok=True)
    with (logs / f"{run.name}.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "dnclab.training.sweep_worker", str(folder), run.name],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=os.environ | limits,
            start_new_session=True,
        )
    return _Worker(run, process, standing(folder, run).step)


def _signal(working: Sequence[_Worker]) -> None:
    for worker in working:
        worker.process.terminate()


def _end(working: Sequence[_Worker]) -> None:
    """Whatever happened here, no worker stays behind."""
    _signal(working)
    for worker in working:
        worker.process.communicate()


def _last_words(folder: Path, name: str, code: int) -> str:
    """The last line of a log, or how the process ended."""
    path = folder / LOGS_NAME / f"{name}.log"
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    if code < 0:
        return f"killed by signal {-code}"
    return lines[-1].strip() if lines else f"exit code {code}"


def _look_after(folder: Path, worker: _Worker) -> None:
    """Note the last training record of a run."""
    record = last_record(folder / worker.run.name)
    if record is None or record["step"] <= worker.first_step:
        return
    if worker.since is None:
        worker.first_step, worker.since = record["step"], time.monotonic()
    worker.latest = record


def last_record(folder: Path) -> dict[str, Any] | None:
    """The last whole training record of a run, without reading all of them."""
    try:
        with (folder / runs.METRICS_NAME).open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - TAIL_BYTES, 0))
            lines = file.read().split(b"\n")[1 if file.tell() > TAIL_BYTES else 0 : -1]
    except FileNotFoundError:
        return None
    for line in reversed(lines):
        with contextlib.suppress(ValueError, TypeError):  # a damaged one is the worker's trouble
            record: dict[str, Any] = json.loads(line)
            if "loss" in record:
                return record
    return None


def _lines(course: _Course) -> list[str]:
    """The overview: all runs in a line, then a line for each at work."""
    speed, rows = speeds(course.folder, course.plan.runs), []
    to_do = [(run, standing(course.folder, run).step) for run in course.waiting]
    for worker in course.working:
        step = worker.latest.get("step", worker.first_step)
        to_do.append((worker.run, step))
        row = f"  {worker.run.name:<18} {step:>9,}/{worker.run.steps:,}"
        if worker.since is not None and step > worker.first_step:
            rate = (step - worker.first_step) / (time.monotonic() - worker.since)
            speed.setdefault(worker.run.kind, rate)
            loss = worker.latest["loss"]
            row += f"  {rate:7.1f} steps/s  loss {'-' if loss is None else format(loss, '.4g')}"
        rows.append(row)
    seconds = expected_seconds(to_do, speed, course.jobs)
    left = "" if seconds is None else f", {duration(seconds)} to go"
    trouble = f", {len(course.failed)} failed" if course.failed else ""
    total = (
        f"{len(course.done)} of {len(course.plan.runs)} done{trouble}, "
        f"{len(course.waiting)} waiting{left}"
    )
    return [total, *rows]


class _Overview:
    """A few lines that stay in place on a terminal; elsewhere the first of them now and then."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._shown = 0
        self._next = time.monotonic() + LINE_SECONDS / 6

    def tell(self, line: str) -> None:
        """A line that stays."""
        self._wipe()
        print(line, file=self._stream, flush=True)

    def show(self, lines: Callable[[], list[str]]) -> None:
        """Draw the lines that a function gives, if it is time to."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (1.0 if self._live else LINE_SECONDS)
        made = lines()
        if self._live:
            width = max(os.get_terminal_size(self._stream.fileno()).columns - 1, 20)
            self._wipe()
            print("\n".join(line[:width] for line in made), file=self._stream, flush=True)
            self._shown = len(made)
        else:
            self.tell("; ".join(" ".join(line.split()) for line in made))

    def close(self) -> None:
        """The overview is over."""
        self._wipe()

    def _wipe(self) -> None:
        if self._shown:
            print(f"\x1b[{self._shown}F\x1b[J", end="", file=self._stream, flush=True)
            self._shown = 0
