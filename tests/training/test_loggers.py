"""What a run shows while it runs: the bar, the lines, TensorBoard."""

from __future__ import annotations

import fcntl
import io
import os
import re
import struct
import sys
import termios
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from dnclab.training import loggers
from dnclab.training.loggers import Logger, ProgressDisplay, TensorBoardLogger


class Terminal(io.StringIO):
    """Keeps what a terminal would be sent."""

    def isatty(self) -> bool:
        return True

    def drawings(self) -> list[str]:
        """The bar's states, one after the other."""
        return [part for part in self.getvalue().replace("\n", "\r").split("\r") if part.strip()]


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(loggers, "monotonic", clock)
    return clock


def training(step: int) -> dict[str, Any]:
    return {"step": step, "loss": 50 / step, "bit_error": 0.25, "gradient_norm": 3.0}


# --- plain lines ---------------------------------------------------------------------------------


def test_a_run_in_a_file_is_a_few_lines(clock: Clock) -> None:
    stream = io.StringIO()
    display = ProgressDisplay(1000, stream=stream)
    for step in range(1, 1001):
        display.log(training(step))
        clock.now += 1 / 64
    display.close()
    assert stream.getvalue().splitlines() == [
        "step 1/1000  loss 50  bit error 25.00%",
        "step 321/1000  loss 0.1558  bit error 25.00%  64.0 steps/s  ETA 0:00:11",
        "step 641/1000  loss 0.078  bit error 25.00%  64.0 steps/s  ETA 0:00:06",
        "step 961/1000  loss 0.05203  bit error 25.00%  64.0 steps/s  ETA 0:00:01",
        "step 1000/1000  loss 0.05  bit error 25.00%  63.9 steps/s  ETA 0:00:00",
    ]


def test_lines_become_rarer_in_a_long_run(clock: Clock) -> None:
    stream = io.StringIO()
    display = ProgressDisplay(10**6, stream=stream)
    began = clock.now
    times = []
    for step in range(1, 40_000):
        length = len(stream.getvalue())
        display.log(training(step))
        if len(stream.getvalue()) > length:
            times.append(clock.now - began)
        clock.now += 0.5
    gaps = np.diff(times)
    assert gaps[0] == 5
    assert gaps[-1] == 60
    assert (np.diff(gaps) >= -0.5).all()


def test_an_evaluation_is_always_a_line_with_its_numbers(clock: Clock) -> None:
    stream = io.StringIO()
    display = ProgressDisplay(100, stream=stream)
    display.log(training(1))
    display.log(training(5))
    display.log({"step": 5, "eval/bit_error": 0.03125, "eval/loss": 2.5, "eval/note": "text"})
    display.log({"step": 6, "eval/error": 0.5, "eval/solved": True})
    display.log(training(7))
    display.log({"step": 8, "eval/error": 0.25})
    display.close()
    assert stream.getvalue().splitlines() == [
        "step 1/100  loss 50  bit error 25.00%",
        "step 5/100  loss 10  bit error 25.00%  eval bit error 3.12%  eval loss 2.5",
        "step 6/100  eval error 50.00%",
        "step 8/100  eval error 25.00%",
    ]


def test_a_resumed_run_counts_its_own_steps_for_the_rate(clock: Clock) -> None:
    stream = io.StringIO()
    display = ProgressDisplay(1000, start_step=500, stream=stream)
    display.log({"step": 501, "loss": 2.0})
    clock.now += 10
    display.log({"step": 521, "loss": 1.0})
    display.close()
    assert stream.getvalue().splitlines() == [
        "step 501/1000  loss 2",
        "step 521/1000  loss 1  2.0 steps/s  ETA 0:04:00",
    ]


def test_a_note_is_a_line() -> None:
    stream = io.StringIO()
    ProgressDisplay(5, stream=stream).note("checkpoint saved")
    assert stream.getvalue() == "checkpoint saved\n"


def test_the_error_stream_is_where_it_goes(capsys: pytest.CaptureFixture[str]) -> None:
    display = ProgressDisplay(5)
    display.log({"step": 1, "loss": 3.0})
    display.close()
    assert capsys.readouterr() == ("", "step 1/5  loss 3\n")


# --- the bar -------------------------------------------------------------------------------------


def test_a_thousand_records_are_few_drawings(clock: Clock) -> None:
    stream = Terminal()
    display = ProgressDisplay(1000, stream=stream)
    for step in range(1, 1001):
        display.log(training(step))
        clock.now += 1 / 1024
    display.close()
    drawings = stream.drawings()
    assert 10 <= len(drawings) <= 13  # at once, ten a second, at the end
    assert drawings[0].startswith("0/1000 |")
    assert drawings[1].startswith("1/1000 |")
    assert drawings[2].startswith("104/1000 |")
    assert drawings[-1].startswith("1000/1000 |##")
    assert "| loss 0.05  error 25.00%  " in drawings[-1]
    assert "/s  ETA 00:00" in drawings[-1]
    assert stream.getvalue().endswith("\n")


def test_the_bar_keeps_the_last_evaluation(clock: Clock) -> None:
    stream = Terminal()
    display = ProgressDisplay(100, stream=stream)
    display.log({"step": 5, "eval/bit_error": 0.0312, "eval/loss": 3.0})
    clock.now += 1
    display.log({"step": 6, "loss": 3.0})
    assert "loss 3  eval 3.12%  " in stream.drawings()[-1]
    clock.now += 1
    display.log({"step": 6, "eval/bit_error": 0.01})
    assert "loss 3  eval 1.00%  " in stream.drawings()[-1]
    display.close()


def test_the_bar_fits_into_80_columns() -> None:
    reader, writer = os.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with os.fdopen(reader, "rb", buffering=0) as screen, os.fdopen(writer, "w") as stream:
        display = ProgressDisplay(100_000, start_step=99_990, stream=stream)
        sleep(0.02)  # hundreds of steps in a second, not millions
        numbers = {"loss": 0.012345, "bit_error": 0.25, "eval/bit_error": 0.0312}
        display.log({"step": 99_999, **numbers})
        display.close()
        sent = b""
        while b"\n" not in sent:  # which ends the bar
            sent += screen.read(10_000)
    last = sent.decode().rstrip().split("\r")[-1]
    assert len(last) <= 80
    assert re.search(r"\| loss 0.01235  error 25.00%  eval 3.12%  [0-9.]+/s  ETA 00:00$", last)


def test_a_resumed_bar_starts_where_the_run_does() -> None:
    stream = Terminal()
    display = ProgressDisplay(1000, start_step=500, stream=stream)
    assert stream.drawings()[0].startswith("500/1000 |")
    display.close()
    assert stream.drawings()[-1].startswith("500/1000 |")


def test_a_note_stands_above_the_bar() -> None:
    stream = Terminal()
    display = ProgressDisplay(1000, stream=stream)
    display.log(training(1))
    display.note("checkpoint saved")
    display.close()
    text = stream.getvalue()
    assert "\rcheckpoint saved\n" in text
    assert text.rindex("1/1000 |") > text.index("checkpoint saved\n")


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_quiet_prints_nothing(stream: io.StringIO) -> None:
    display = ProgressDisplay(10, quiet=True, stream=stream)
    display.log(training(1))
    display.log({"step": 1, "eval/error": 0.5})
    display.note("checkpoint saved")
    display.close()
    assert stream.getvalue() == ""


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_a_record_costs_next_to_nothing(stream: io.StringIO) -> None:
    display = ProgressDisplay(20_000, stream=stream)
    records = [training(step) for step in range(1, 20_001)]
    began = perf_counter()
    for record in records:
        display.log(record)
    assert (perf_counter() - began) / len(records) < 20e-6  # measured: under 1e-6
    display.close()


def test_impossible_steps_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^total_steps: expected at least 1, got 0"):
        ProgressDisplay(0)
    with pytest.raises(ValueError, match=r"^start_step: expected at least 0, got -1"):
        ProgressDisplay(5, start_step=-1)


# --- TensorBoard ---------------------------------------------------------------------------------


def read_back(folder: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(folder)).Reload()
    return {
        name: [(event.step, event.value) for event in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


def test_tensorboard_gets_the_numbers(tmp_path: Path) -> None:
    logger: Logger = TensorBoardLogger(tmp_path)
    for step in (1, 2, 3):
        logger.log({"step": step, "loss": 1 / 2**step, "rate": np.float32(0.5), "seen": 7 * step})
    logger.log({"step": 3, "eval/bit_error": 0.125, "eval/why": "early stop", "solved": True})
    logger.log({"step": 4, "word": "nothing to draw"})
    logger.close()
    assert read_back(tmp_path) == {
        "loss": [(1, 0.5), (2, 0.25), (3, 0.125)],
        "rate": [(1, 0.5), (2, 0.5), (3, 0.5)],
        "seen": [(1, 7.0), (2, 14.0), (3, 21.0)],
        "eval/bit_error": [(3, 0.125)],
    }


def test_a_resumed_run_hides_the_steps_it_runs_again(tmp_path: Path) -> None:
    for start_step, steps in ((0, range(1, 6)), (3, range(4, 8))):
        logger = TensorBoardLogger(tmp_path, start_step=start_step)
        for step in steps:
            logger.log({"step": step, "loss": step + start_step})
        logger.close()
    assert read_back(tmp_path) == {
        "loss": [(1, 1.0), (2, 2.0), (3, 3.0), (4, 7.0), (5, 8.0), (6, 9.0), (7, 10.0)]
    }


def test_a_negative_start_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="start_step: expected at least 0, got -1"):
        TensorBoardLogger(tmp_path, start_step=-1)


def test_a_terminal_without_a_width_shows_the_bar() -> None:
    """A new one has 0 columns until somebody says how many."""
    reading, writing = os.openpty()
    with open(writing, "w", encoding="utf-8") as terminal:  # noqa: PTH123  # it has no path
        display = ProgressDisplay(4, stream=terminal)
        display.log({"step": 2, "loss": 1.5})
        display.close()
        terminal.flush()
        shown = os.read(reading, 10_000).decode()
    os.close(reading)
    assert "2/4 |" in shown
    assert "loss 1.5" in shown
    assert max(len(line) for line in shown.split("\r")) <= 81


# --- what is missing, what is one's own ----------------------------------------------------------


@pytest.mark.parametrize("library", ["tensorboard", "tqdm"])
def test_a_missing_library_is_named_with_its_remedy(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if library in name.split(".")]:
        monkeypatch.setitem(sys.modules, name, None)
    make: dict[str, Callable[[], Logger]] = {
        "tensorboard": lambda: TensorBoardLogger(tmp_path),
        "tqdm": lambda: ProgressDisplay(5, stream=Terminal()),
    }
    with pytest.raises(ModuleNotFoundError) as caught:
        make[library]()
    message = str(caught.value)
    assert message.endswith(f'needs {library}: pip install "dnclab[train]"')
    assert "\n" not in message


def test_a_logger_of_ones_own_needs_two_methods() -> None:
    class Losses:
        def __init__(self) -> None:
            self.losses: list[float] = []

        def log(self, record: Mapping[str, Any]) -> None:
            self.losses.append(record["loss"])

        def close(self) -> None:
            self.losses.append(-1.0)

    own = Losses()
    several: list[Logger] = [own, ProgressDisplay(5, quiet=True)]
    for logger in several:
        logger.log({"step": 1, "loss": 3.0})
        logger.close()
    assert own.losses == [3.0, -1.0]
