"""The run folder: what is written comes back, what is broken is refused in one line."""

from __future__ import annotations

import errno
import json
import os
import platform
import signal
import socket
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dnclab import runs
from dnclab.runs import MetricsLog, RunError, create, locked, read_config, read_metrics

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    create(tmp_path / "run", {"task": "copy", "sizes": [1, 2], "clip": None})
    return tmp_path / "run"


def line_of(error: pytest.ExceptionInfo[RunError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_config_comes_back_as_it_was_given(folder: Path) -> None:
    assert read_config(folder) == {"task": "copy", "sizes": [1, 2], "clip": None}
    assert json.loads((folder / "config.json").read_text())["run_version"] == 1
    assert sorted(path.name for path in folder.iterdir()) == [
        ".lock",
        "checkpoints",
        "config.json",
        "environment.json",
    ]
    assert read_metrics(folder) == []


def test_the_environment_tells_what_ran(folder: Path) -> None:
    found = runs.read_environment(folder)
    age = datetime.now(timezone.utc) - datetime.fromisoformat(found["date"])
    assert timedelta(seconds=-1) <= age < timedelta(minutes=5)
    assert found["date"].endswith("+00:00")
    assert found["versions"]["torch"] == torch.__version__
    assert found["versions"]["numpy"] == np.__version__
    assert found["versions"]["python"] == platform.python_version()
    assert found["threads"] == 1
    assert found["machine"]["cores"] == os.cpu_count()
    assert found["machine"]["memory_bytes"] > 2**28
    assert found["machine"]["processor"]


def in_repository(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_is_that_of_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "runs.py"
    source.write_text("1")
    monkeypatch.setattr(runs, "__file__", str(source))
    assert runs.environment()["commit"] is None
    in_repository(tmp_path, "init")
    (tmp_path / "other.py").write_text("1")
    in_repository(tmp_path, "add", "other.py")
    in_repository(tmp_path, "commit", "-m", "somebody else's repository")
    assert runs.environment()["commit"] is None
    in_repository(tmp_path, "add", "runs.py")
    in_repository(tmp_path, "commit", "-m", "ours")
    in_repository(tmp_path, "tag", "-a", "v1", "-m", "a tag is not a commit")
    head = in_repository(tmp_path, "rev-parse", "HEAD")
    assert runs.environment()["commit"] == head
    source.write_text("2")
    assert runs.environment()["commit"] == head + "+"
    monkeypatch.setenv("PATH", "")
    assert runs.environment()["commit"] is None


def test_a_folder_with_something_in_it_is_refused(folder: Path, tmp_path: Path) -> None:
    before = (folder / "config.json").read_bytes()
    with pytest.raises(RunError, match="exists and is not empty") as error:
        create(folder, {})
    assert line_of(error).startswith(str(folder))
    assert (folder / "config.json").read_bytes() == before
    (tmp_path / "empty").mkdir()
    create(tmp_path / "empty", {"seed": 1})
    assert read_config(tmp_path / "empty") == {"seed": 1}
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="File exists"):
        create(tmp_path / "file", {})


def test_a_config_that_is_not_json_makes_no_folder(tmp_path: Path) -> None:
    for config, kind in (
        ({"clip": float("inf")}, ValueError),
        ({"task": object()}, TypeError),
        ({"run_version": 1}, ValueError),
    ):
        with pytest.raises(kind, match=r"^config: "):
            create(tmp_path / "run", config)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "not a run folder: it has no config.json"),
        (b'{"run_version": 1', "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[1]", "expected a JSON object, got list"),
        (b'{"run_version": 2}', r"written by a newer dnclab \(run_version 2, this one reads 1\)"),
        (b'{"run_version": true}', "expected run_version 1, got True"),
        (b"{}", "expected run_version 1, got None"),
    ],
)
def test_a_config_that_cannot_be_read(content: bytes | None, message: str, folder: Path) -> None:
    path = folder / "config.json"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(RunError, match=message) as error:
        read_config(folder)
    assert line_of(error).startswith(str(folder))


def test_what_is_no_run_folder(tmp_path: Path) -> None:
    for read in (read_config, runs.read_environment, read_metrics):
        with pytest.raises(RunError, match="not a run folder"):
            read(tmp_path / "absent")
    with pytest.raises(RunError, match="no such folder"), locked(tmp_path / "absent"):
        pass


def test_a_file_is_written_whole_or_stays_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    runs.write_whole(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            runs.write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    runs.write_whole(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_lock_keeps_others_out_and_is_given_back(folder: Path) -> None:
    for _ in range(2):
        with locked(folder):
            with pytest.raises(RunError) as error, locked(folder):
                pass
            assert line_of(error) == (
                f"run folder {folder} is in use by process {os.getpid()} on {socket.gethostname()}"
            )


def test_the_lock_goes_with_its_process(folder: Path) -> None:
    """Even where a worker that it forked lives on."""
    command = [sys.executable, str(SCRIPTS / "holds_lock.py"), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        process, worker = (int(number) for number in holder.stdout.readline().split())
        try:
            with pytest.raises(RunError, match=f"in use by process {process} on "), locked(folder):
                pass
            holder.send_signal(signal.SIGKILL)
            assert holder.wait() == -signal.SIGKILL
            os.kill(worker, 0)
            with locked(folder):
                pass
        finally:
            os.kill(worker, signal.SIGKILL)


def write_metrics(folder: Path, steps: range) -> None:
    with MetricsLog(folder) as log:
        for step in steps:
            log.append({"step": step, "loss": 1 / (step + 1), "name": f"é{step}"})


def test_metrics_come_back_line_by_line(folder: Path) -> None:
    with MetricsLog(folder) as log:
        for step in range(3):
            log.append({"step": step, "loss": 0.1 * step})
            assert [record["step"] for record in read_metrics(folder)] == list(range(step + 1))
        log.sync()
    assert read_metrics(folder)[2] == {"step": 2, "loss": 0.2}


def test_what_is_not_finite_becomes_null(folder: Path) -> None:
    nan, inf = float("nan"), float("inf")
    with MetricsLog(folder) as log:
        log.append({"step": 1, "loss": nan, "parts": {"a": [inf, 1.5], "b": (-inf, "x")}})
    expected = {"step": 1, "loss": None, "parts": {"a": [None, 1.5], "b": [None, "x"]}}
    assert read_metrics(folder) == [expected]


@pytest.mark.parametrize(
    ("record", "kind", "message"),
    [
        ({"loss": 1.0}, TypeError, "step: expected an int, got None"),
        ({"step": True}, TypeError, "step: expected an int, got True"),
        ({"step": -1}, ValueError, "step: expected at least 0, got -1"),
        ({"step": 1, "loss": object()}, TypeError, "not JSON serializable"),
    ],
)
def test_a_record_that_is_refused_leaves_no_trace(
    record: dict[str, Any], kind: type[Exception], message: str, folder: Path
) -> None:
    with MetricsLog(folder) as log, pytest.raises(kind, match=message):
        log.append(record)
    assert (folder / "metrics.jsonl").read_bytes() == b""


def test_a_joined_log_equals_one_that_never_stopped(folder: Path) -> None:
    path = folder / "metrics.jsonl"
    write_metrics(folder, range(40))
    whole = path.read_bytes()
    end_of_line_20 = [place for place, byte in enumerate(whole) if byte == ord("\n")][20] + 1
    for length in range(end_of_line_20, len(whole) + 1, 7):  # wherever the crash came
        path.write_bytes(whole[:length])
        with MetricsLog(folder) as log:
            log.keep_until(20)
            for step in range(21, 40):
                log.append({"step": step, "loss": 1 / (step + 1), "name": f"é{step}"})
        assert path.read_bytes() == whole
    assert not list(folder.glob("*.part")) + list(folder.glob(".*.part"))


def test_a_torn_last_line_is_passed_over_and_then_cut_off(folder: Path) -> None:
    path = folder / "metrics.jsonl"
    write_metrics(folder, range(3))
    whole = path.read_bytes()
    last = whole.rfind(b"\n", 0, -1) + 1
    for length in range(last, len(whole)):
        path.write_bytes(whole[:length])
        assert [record["step"] for record in read_metrics(folder)] == [0, 1]
        write_metrics(folder, range(2, 3))
        assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"step": 1', "not JSON"),
        (b"\xff", "not JSON"),
        (b"", "not JSON"),
        (b"[1]", "expected a JSON object with an int step"),
        (b'{"loss": 1}', "expected a JSON object with an int step"),
        (b'{"step": true}', "expected a JSON object with an int step"),
    ],
)
def test_any_other_broken_line_is_named(line: bytes, message: str, folder: Path) -> None:
    path = folder / "metrics.jsonl"
    content = b'{"step": 0}\n' + line + b'\n{"step": 2}\n'
    path.write_bytes(content)
    with pytest.raises(RunError, match=message) as error:
        read_metrics(folder)
    assert line_of(error).startswith(f"{path}, line 2: ")
    with MetricsLog(folder) as log, pytest.raises(RunError, match="line 2"):
        log.keep_until(0)
    assert path.read_bytes() == content


def test_a_full_disk_tears_no_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    outcomes: list[int | OSError] = [5, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))]

    def five_bytes_then_full(descriptor: int, content: bytes) -> int:
        outcome = outcomes.pop(0)
        if isinstance(outcome, OSError):
            raise outcome
        return write(descriptor, content[:outcome])

    with MetricsLog(folder) as log:
        log.append({"step": 1})
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", five_bytes_then_full)
            with pytest.raises(RunError, match="step 2 not written: No space left") as error:
                log.append({"step": 2})
        assert line_of(error).startswith(str(folder / "metrics.jsonl"))
        log.append({"step": 3})
    assert (folder / "metrics.jsonl").read_bytes() == b'{"step": 1}\n{"step": 3}\n'
