"""The run folder, the only thing that training and reports share.

    config.json        what was asked for, with `run_version`: the layout of this folder
    environment.json   what it ran on: versions, commit, machine, threads, date
    metrics.jsonl      one JSON object a line, each with its `step`
    outcome.json       how the last session ended: absent while one is at work, or if it was killed
    checkpoints/       see dnclab.training.checkpoint
    .lock              held by the process that trains here

Whoever writes into it holds `locked`; whoever reads changes nothing.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import platform
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch

from dnclab.checks import check_count

RUN_VERSION = 1
"""The layout of the run folder; read_config refuses any other."""

CONFIG_NAME = "config.json"
ENVIRONMENT_NAME = "environment.json"
SESSIONS_NAME = "sessions.jsonl"
METRICS_NAME = "metrics.jsonl"
OUTCOME_NAME = "outcome.json"
CHECKPOINTS_NAME = "checkpoints"
LOCK_NAME = ".lock"


class RunError(ValueError):
    """What is wrong with a run folder and its user can put right, in one line."""


def create(folder: Path, config: Mapping[str, Any]) -> None:
    """Make the folder of a new run; one that holds anything already is refused.

    `config.json` comes last: a folder that has it is complete. Takes the lock while it writes, so
    call it before `locked`.
    """
    if "run_version" in config:
        raise ValueError("config: run_version is the folder's own, got one")
    settings = _json_file("config", {"run_version": RUN_VERSION, **config})
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            if {path.name for path in folder.iterdir()} != {LOCK_NAME}:
                raise RunError(f"{folder}: exists and is not empty: name a new folder for the run")
            (folder / CHECKPOINTS_NAME).mkdir()
            write_whole(folder / ENVIRONMENT_NAME, _json_file("environment", environment()))
            write_whole(folder / CONFIG_NAME, settings)
    except OSError as error:
        raise RunError(f"{folder}: cannot be made a run folder: {error.strerror}") from error


def _json_file(name: str, value: Any) -> bytes:
    try:
        return (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: expected what JSON can hold: {error}") from error


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that after a crash it is the old one or the new one, whole."""
    unfinished = path.with_name(f".{path.name}.part")
    try:
        write_synced(unfinished, content)
        unfinished.replace(path)
        sync_folder(path.parent)
    finally:
        unfinished.unlink(missing_ok=True)


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names in a folder: what was renamed, made or removed."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def environment() -> dict[str, Any]:
    """What a result may depend on besides the configuration."""
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "dnclab": version("dnclab"),
        },
        "commit": _commit(),
        "machine": {
            "platform": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        },
        "threads": torch.get_num_threads(),
    }


def _commit() -> str | None:
    """Of the source that runs, a + behind it: with changes; None if git does not keep it.

    An installed package may lie in somebody else's repository, so git must know this very file.
    """
    source = Path(__file__).resolve()
    git = ["git", "-C", str(source.parent)]
    try:
        subprocess.run(
            [*git, "ls-files", "--error-unmatch", source.name], capture_output=True, check=True
        )
        described = subprocess.run(
            [*git, "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return described.stdout.strip()


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def read_config(folder: Path) -> dict[str, Any]:
    """The configuration as it was given to `create`; refuses the run of another version."""
    config = _read_object(folder, CONFIG_NAME)
    found = config.pop("run_version", None)
    if type(found) is int and found > RUN_VERSION:
        raise RunError(
            f"{folder}: written by a newer dnclab (run_version {found}, this one reads "
            f"{RUN_VERSION}): update dnclab"
        )
    if type(found) is not int or found != RUN_VERSION:
        raise RunError(
            f"{folder / CONFIG_NAME}: expected run_version {RUN_VERSION}, got {found!r}: "
            "is it a run's?"
        )
    return config


def read_environment(folder: Path) -> dict[str, Any]:
    """What the run was started on."""
    return _read_object(folder, ENVIRONMENT_NAME)


def _read_object(folder: Path, name: str) -> dict[str, Any]:
    try:
        return read_object(folder / name)
    except FileNotFoundError as error:
        raise RunError(f"{folder}: not a run folder: it has no {name}") from error


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file; FileNotFoundError if there is no file."""
    try:
        value = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(f"{path}: no such file") from error
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise RunError(f"{path}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise RunError(f"{path}: expected a JSON object, got {type(value).__name__}")
    return value


_held_locks: set[int] = set()
"""Descriptors of the locks that this process holds."""


def _let_go_of_locks() -> None:
    """A forked child (a worker that loads data) must not keep a lock beyond its parent's death."""
    for descriptor in _held_locks:
        os.close(descriptor)
    _held_locks.clear()


os.register_at_fork(after_in_child=_let_go_of_locks)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep the folder to this process; the system lets go of it when the process dies, however."""
    try:
        descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o666)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RunError(f"{folder}: no such folder") from error
    except OSError as error:
        raise RunError(f"{folder}: cannot be locked: {error.strerror}") from error
    _held_locks.add(descriptor)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 300, 0).decode(errors="replace") or "another process"
            raise RunError(f"run folder {folder} is in use by {holder}") from error
        except OSError as error:
            raise RunError(f"{folder}: cannot be locked: {error.strerror}") from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield
    finally:
        if descriptor in _held_locks:  # not in a forked child, which has let go of it
            _held_locks.remove(descriptor)
            os.close(descriptor)


class MetricsLog:
    """Appends to `metrics.jsonl`: every line reaches the system at once, whole or not at all.

    For the process that holds the lock. A line torn by a crash is cut off when the log is opened.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / METRICS_NAME
        self._open()
        content = self._path.read_bytes()
        os.ftruncate(self._descriptor, content.rfind(b"\n") + 1)

    def _open(self) -> None:
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            self._descriptor = os.open(self._path, flags, 0o666)
        except OSError as error:
            raise RunError(f"{self._path}: cannot be opened: {error.strerror}") from error

    def append(self, record: Mapping[str, Any]) -> None:
        """One line. Needs a `step`; a number that is not finite becomes null, as JSON has none."""
        check_count("step", record.get("step"))
        try:
            line = json.dumps(record, allow_nan=False)
        except ValueError:
            line = json.dumps(_finite_or_null(record), allow_nan=False)
        content = line.encode() + b"\n"
        done = 0
        try:
            while done < len(content):
                done += os.write(self._descriptor, content[done:])
        except OSError as error:
            os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - done)
            raise RunError(
                f"{self._path}: step {record['step']} not written: {error.strerror}"
            ) from error

    def keep_until(self, step: int) -> None:
        """Drop the lines of later steps, which a run that goes on from here writes again."""
        content = b"".join(
            line + b"\n" for line, record in _lines(self._path) if record["step"] <= step
        )
        self.close()
        try:
            write_whole(self._path, content)
        except OSError as error:
            raise RunError(f"{self._path}: cannot be written: {error.strerror}") from error
        finally:
            self._open()

    def sync(self) -> None:
        """Wait until the disk has every line: before a checkpoint that counts on them."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Nothing can be appended afterwards."""
        os.close(self._descriptor)

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _finite_or_null(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite_or_null(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite_or_null(part) for part in value]
    return value


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Every line of `metrics.jsonl`; a last one torn by a crash is passed over."""
    path = folder / METRICS_NAME
    if not path.exists():
        read_config(folder)
        return []
    return [record for _, record in _lines(path)]


def _lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Each whole line and what it says."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror}") from error
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise RunError(f"{path}, line {number}: not JSON: {error}") from error
        if not isinstance(record, dict) or type(record.get("step")) is not int:
            raise RunError(f"{path}, line {number}: expected a JSON object with an int step")
        yield line, record


def note_session(folder: Path, first: int, last: int, seconds: float) -> None:
    """Add to `sessions.jsonl` which steps one process made, and in what time.

    Times stand here and not in the metrics, which are the same however often a run was stopped.
    """
    line = json.dumps({"first_step": first, "last_step": last, "seconds": round(seconds, 3)})
    with (folder / SESSIONS_NAME).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def read_sessions(folder: Path) -> list[dict[str, Any]]:
    """The sessions of a run so far; a line torn by a crash is passed over."""
    path = folder / SESSIONS_NAME
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def write_outcome(folder: Path, step: int, reason: str) -> None:
    """Write `outcome.json`: where a session ended, and why."""
    write_whole(folder / OUTCOME_NAME, _json_file("outcome", {"step": step, "reason": reason}))


def drop_outcome(folder: Path) -> None:
    """A session begins: how the one before it ended is no longer so."""
    (folder / OUTCOME_NAME).unlink(missing_ok=True)


def read_outcome(folder: Path) -> dict[str, Any] | None:
    """How the last session ended; None while one is at work, or if it was killed."""
    return _read_object(folder, OUTCOME_NAME) if (folder / OUTCOME_NAME).exists() else None
