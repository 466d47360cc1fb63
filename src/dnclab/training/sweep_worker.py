"""One run of a sweep: ``python -m dnclab.training.sweep_worker FOLDER NAME``, in its own process.

Trains the run, or goes on with it, then measures and records its best model. SIGTERM saves and
ends it; so does the end of the process that started it, which shows as the end of standard input.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from dnclab import runs
from dnclab.training import measure, plan, session
from dnclab.training.settings import from_dict

INTERRUPTED = 130


def work(folder: Path, name: str) -> int:
    """Do what is left to do of a run; the exit code."""
    planned = next(run for run in plan.load_plan(folder).runs if run.name == name)
    place = folder / name
    plan.clear_cut_short(place)
    if not (place / runs.CONFIG_NAME).exists():
        session.start(place, from_dict(planned.config), quiet=True)
    elif (outcome := runs.read_outcome(place)) is None or outcome["reason"] == plan.UNFINISHED:
        session.resume(place, quiet=True)
    ended = runs.read_outcome(place)
    if ended is None or ended["reason"] == plan.UNFINISHED:
        return INTERRUPTED
    measure.measure(place)
    return 0


def end_with_parent() -> None:
    """Save and end once standard input ends, which its other side holds open while it lives."""

    def wait() -> None:
        os.read(sys.stdin.fileno(), 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    end_with_parent()
    sys.exit(work(Path(sys.argv[1]), sys.argv[2]))
