"""Where a run's numbers go while it runs: a person's screen, TensorBoard, a logger of one's own.

A record is what the loop has to say about a step: ``{"step": 40, "loss": 12.3, "bit_error": 0.1}``
from training, ``{"step": 40, "eval/loss": 11.9, "eval/bit_error": 0.08}`` from an evaluation.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from datetime import timedelta
from numbers import Real
from pathlib import Path
from time import monotonic
from typing import Any, Protocol, TextIO

from dnclab.checks import check_size

TRAINING_NUMBERS = ("loss", "bit_error", "error")
"""What a person sees of a training record."""

EVALUATION = "eval/"
"""What the names of an evaluation's numbers begin with."""

BAR_NUMBERS = {
    "loss": "loss {:.4g}  ",
    "bit_error": "error {:.2%}  ",
    "error": "error {:.2%}  ",
    "eval/bit_error": "eval {:.2%}  ",
    "eval/error": "eval {:.2%}  ",
}
"""What the bar shows, when a run has it; in short, since the end of a long line is cut off."""

BAR_SECONDS = 0.1
"""The bar is drawn at most this often: faster than this is not seen, and drawing takes time."""

LINE_SECONDS = (5.0, 60.0)
"""Plain lines come at most this often: the first at the start of a run, the second in a long one;
in between, twenty lines cover the time so far."""


class Logger(Protocol):
    """What takes a run's records: for W&B, MLflow or anything else, write these two methods.

    ::

        class Wandb:
            def __init__(self, project: str) -> None:
                self.run = wandb.init(project=project)

            def log(self, record):
                numbers = dict(record)
                self.run.log(numbers, step=numbers.pop("step"))

            def close(self):
                self.run.finish()
    """

    def log(self, record: Mapping[str, Any]) -> None:
        """Take a record: an int ``step``, numbers and possibly texts under other names.

        Called in every step, in order; the record is not yours to change. What is slow belongs
        into a thread.
        """

    def close(self) -> None:
        """The run is over: nothing is logged any more. Called once, after an error too."""


def check_tensorboard() -> None:
    """Refuse to begin what could not be logged."""
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ModuleNotFoundError as error:
        raise _missing("logging to TensorBoard", "tensorboard") from error


class TensorBoardLogger:
    """Writes the numbers of all records for ``tensorboard --logdir FOLDER``. Texts are left out.

    A run that was resumed after step `start_step` gives it: what an earlier process logged beyond
    it is then hidden, since those steps are run again.
    """

    def __init__(self, folder: Path, *, start_step: int = 0) -> None:
        _check_start(start_step)
        check_tensorboard()
        from tensorboard.compat.proto.summary_pb2 import Summary
        from torch.utils.tensorboard import SummaryWriter

        self._summary = Summary
        self._writer = SummaryWriter(  # a long queue: training never waits for the disk
            folder,
            max_queue=1000,
            flush_secs=15,
            purge_step=start_step + 1 if start_step else None,
        )
        self._file: Any = self._writer.file_writer

    def log(self, record: Mapping[str, Any]) -> None:
        """All numbers of a record as one event: a fifth of the time that one event each takes."""
        numbers = [
            self._summary.Value(tag=name, simple_value=value)
            for name, value in record.items()
            if name != "step" and _is_number(value)
        ]
        if numbers:
            self._file.add_summary(self._summary(value=numbers), record["step"])

    def close(self) -> None:
        """Write what is still queued."""
        self._writer.close()


class ProgressDisplay:
    """Shows a person how a run goes: a live bar in a terminal, now and then a line elsewhere.

    Args:
        total_steps: the step at which the run ends.
        start_step: the step after which it goes on, when it was resumed.
        quiet: print nothing at all, notes included.
        stream: where to print; ``sys.stderr`` when not given.
    """

    def __init__(
        self,
        total_steps: int,
        *,
        start_step: int = 0,
        quiet: bool = False,
        stream: TextIO | None = None,
    ) -> None:
        check_size("total_steps", total_steps)
        _check_start(start_step)
        stream = sys.stderr if stream is None else stream
        self._display: _Bar | _Lines | None = None
        if not quiet and stream.isatty():
            self._display = _Bar(total_steps, start_step, stream)
        elif not quiet:
            self._display = _Lines(total_steps, stream)

    def log(self, record: Mapping[str, Any]) -> None:
        """Take a record; most of them cost about a microsecond, since few are shown."""
        if self._display is not None:
            self._display.log(record)

    def note(self, text: str) -> None:
        """Print a line of its own, above the bar when there is one."""
        if self._display is not None:
            self._display.note(text)

    def close(self) -> None:
        """Show the last record, if it was not shown."""
        if self._display is not None:
            self._display.close()


def _width_for_none(stream: TextIO) -> int | None:
    """80 columns for a terminal that says it has none, as in many containers; else None."""
    try:
        return 80 if os.get_terminal_size(stream.fileno()).columns == 0 else None
    except OSError:  # no terminal of the system's
        return None


class _Bar:
    """The bar of a terminal."""

    def __init__(self, total_steps: int, start_step: int, stream: TextIO) -> None:
        try:
            from tqdm import tqdm
        except ModuleNotFoundError as error:
            raise _missing("the progress bar", "tqdm") from error
        self._stream = stream
        width = _width_for_none(stream)
        self._bar = tqdm(
            total=total_steps,
            initial=start_step,
            file=stream,
            ncols=width,
            dynamic_ncols=width is None,
            mininterval=0,  # when to draw is decided here: with these two every update draws
            miniters=1,
            smoothing=0.05,
            bar_format="{n_fmt}/{total_fmt} |{bar}| {desc}{rate_noinv_fmt}  ETA {remaining}",
            unit="",
        )
        self._step = start_step
        self._latest: dict[str, float] = {}
        self._next_drawing = monotonic()

    def log(self, record: Mapping[str, Any]) -> None:
        self._step = record["step"]
        for name in BAR_NUMBERS:
            if name in record:
                self._latest[name] = record[name]
        if monotonic() >= self._next_drawing:
            self._draw()
            self._next_drawing = monotonic() + BAR_SECONDS

    def note(self, text: str) -> None:
        self._bar.write(text, file=self._stream)

    def close(self) -> None:
        self._describe()
        self._bar.n = self._step
        self._bar.close()  # draws

    def _draw(self) -> None:
        self._describe()
        if not self._bar.update(self._step - self._bar.n):
            self._bar.refresh()  # the same step again, with other numbers

    def _describe(self) -> None:
        numbers = [
            form.format(self._latest[name])
            for name, form in BAR_NUMBERS.items()
            if name in self._latest
        ]
        self._bar.set_description_str("".join(numbers), refresh=False)


class _Lines:
    """Plain lines, for files and other programs."""

    def __init__(self, total_steps: int, stream: TextIO) -> None:
        self._total_steps = total_steps
        self._stream = stream
        self._first: tuple[int, float] | None = None  # the first record's step and time
        self._next_line = monotonic()
        self._waiting: Mapping[str, Any] | None = None  # a training record that was not printed

    def log(self, record: Mapping[str, Any]) -> None:
        now = monotonic()
        if self._first is None:
            self._first = record["step"], now
        if any(name.startswith(EVALUATION) for name in record):
            self._print_evaluation(record, now)
        elif now >= self._next_line:
            self._print_training(record, now)
        else:
            self._waiting = record

    def note(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def close(self) -> None:
        if self._waiting is not None:
            self._print_training(self._waiting, monotonic())

    def _print_training(self, record: Mapping[str, Any], now: float) -> None:
        self._print(record, [name for name in TRAINING_NUMBERS if name in record], now)
        least, most = LINE_SECONDS
        _, began = self._first or (0, now)
        self._next_line = now + min(max(least, (now - began) / 20), most)
        self._waiting = None

    def _print_evaluation(self, record: Mapping[str, Any], now: float) -> None:
        if self._waiting is not None and self._waiting["step"] == record["step"]:
            record = {**self._waiting, **record}
        self._waiting = None
        names = [
            name
            for name, value in record.items()
            if name in TRAINING_NUMBERS or (name.startswith(EVALUATION) and _is_number(value))
        ]
        self._print(record, names, now)

    def _print(self, record: Mapping[str, Any], names: list[str], now: float) -> None:
        step = record["step"]
        parts = [f"step {step}/{self._total_steps}"]
        parts += [_shown(name, record[name]) for name in names]
        first_step, began = self._first or (step, now)  # what came before it was preparation
        if step > first_step and now > began:
            rate = (step - first_step) / (now - began)
            left = timedelta(seconds=round((self._total_steps - step) / rate))
            parts += [f"{rate:.1f} steps/s", f"ETA {left}"]
        self.note("  ".join(parts))


def _shown(name: str, value: float) -> str:
    """A number with its name, errors in per cent: ``eval bit error 3.12%``."""
    words = name.replace("/", " ").replace("_", " ")
    return f"{words} {value:.2%}" if name.endswith("error") else f"{words} {value:.4g}"


def _is_number(value: object) -> bool:
    """NumPy's numbers count, truth values do not."""
    return type(value) is not bool and isinstance(value, Real)


def _check_start(start_step: int) -> None:
    if start_step < 0:
        raise ValueError(f"start_step: expected at least 0, got {start_step}")


def _missing(what: str, library: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(f'{what} needs {library}: pip install "dnclab[train]"', name=library)
