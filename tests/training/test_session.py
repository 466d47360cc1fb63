"""Runs from the outside: what is refused leaves no folder, what is kept, what loggers see."""

from __future__ import annotations

import json
import platform
import shutil
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from dnclab import runs
from dnclab.model import DNC
from dnclab.runs import RunError
from dnclab.training import checkpoint, session
from dnclab.training.config import CourseConfig, ModelConfig, OptimiserConfig, RunConfig, TaskConfig
from dnclab.training.loop import Outcome
from dnclab.training.settings import to_dict
from dnclab.training.workers import Workers

TINY = RunConfig(
    task=TaskConfig(name="repeat-copy", sizes={"bits": 2, "max_length": 2, "max_repeats": 2}),
    model=ModelConfig(hidden_size=6, cells=4, word_size=3),
    course=CourseConfig(steps=4, evaluate_every=2, evaluation_batches=1, checkpoint_every=2),
)


def start(folder: Path, config: RunConfig = TINY, **options: Any) -> Outcome:
    return session.start(folder, config, quiet=True, **options)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of TINY; not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "trained"
    start(folder)
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


class Recorder:
    """A logger of one's own."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.closed = 0

    def log(self, record: Mapping[str, Any]) -> None:
        self.records.append(dict(record))

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize(
    "config",
    [
        replace(TINY, model=replace(TINY.model, cells=0)),
        replace(TINY, model=replace(TINY.model, controller="nobody")),
        replace(TINY, task=TaskConfig(name="repeat-copy", sizes={"bits": 0})),
        replace(TINY, optimiser=OptimiserConfig(name="sgd", momentum=-1.0)),
        replace(TINY, course=replace(TINY.course, best_metric="eval/error")),
        replace(TINY, course=replace(TINY.course, stop_metric="loss")),
    ],
)
def test_what_cannot_be_run_is_refused_before_there_is_a_folder(
    config: RunConfig, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"expected|Invalid momentum"):
        start(tmp_path / "run", config)
    assert not (tmp_path / "run").exists()


def test_a_batch_that_processes_cannot_share_is_refused_before_there_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = Workers(rank=1, world=3)
    monkeypatch.setattr(Workers, "from_first", lambda _, make: make())
    monkeypatch.setattr(session, "workers", lambda: nullcontext(team))
    with pytest.raises(ValueError, match=r"batch_size: expected a multiple of the 3 .*, got 16$"):
        start(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_loggers_of_ones_own_see_every_record_and_the_end(tmp_path: Path) -> None:
    first, second = Recorder(), Recorder()
    start(tmp_path / "run", loggers=[first])
    assert first.records == runs.read_metrics(tmp_path / "run")
    longer = replace(TINY, course=replace(TINY.course, steps=6))
    config = json.dumps({"run_version": runs.RUN_VERSION, **to_dict(longer)})
    (tmp_path / "run" / runs.CONFIG_NAME).write_text(config)
    assert session.resume(tmp_path / "run", quiet=True, loggers=[second]).step == 6
    assert first.records + second.records == runs.read_metrics(tmp_path / "run")
    assert first.closed == second.closed == 1


def test_tensorboard_shows_what_the_metrics_say(folder: Path) -> None:
    board = EventAccumulator(str(folder)).Reload()
    for name in ("loss", "error", "gradient_norm", "eval/loss", "eval/bit_error"):
        expected = {r["step"]: r[name] for r in runs.read_metrics(folder) if name in r}
        shown = {event.step: event.value for event in board.Scalars(name)}
        assert shown == pytest.approx(expected)
        assert shown


def test_the_environment_tells_the_threads_of_the_run(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    start(tmp_path / "run", replace(TINY, course=replace(TINY.course, threads=2)))
    assert runs.read_environment(tmp_path / "run")["threads"] == 2
    assert torch.get_num_threads() == before


def test_a_configuration_is_written_and_read_back_whole(tmp_path: Path) -> None:
    config = replace(TINY, optimiser=OptimiserConfig(name="adam", schedule="cosine"))
    start(tmp_path / "run", config)
    assert session.read(tmp_path / "run") == config


def test_the_best_model_is_loaded_and_evaluated_beyond_training(folder: Path) -> None:
    config, _, model, step = session.load(folder)
    best = checkpoint.load_best(folder)
    assert best is not None
    assert (config, step) == (TINY, best.step)
    assert torch.equal(model.get_parameter("interface.bias"), best.tensors["model/interface.bias"])
    recorded = [r for r in runs.read_metrics(folder) if "eval/loss" in r]
    [at_best] = [r for r in recorded if r["step"] == step]
    plain = session.evaluate(folder)
    assert {f"eval/{name}": value for name, value in plain.items()} == pytest.approx(
        {name: value for name, value in at_best.items() if name != "step"}
    )
    longer = session.evaluate(folder, longer=2.0, batches=1)
    repeated = session.evaluate(folder, repeats=3.0, cells=9, batches=1)
    assert longer["loss"] > plain["loss"]
    assert repeated["loss"] > plain["loss"]
    assert isinstance(model, DNC)
    grown = session.with_cells(model, 9)
    assert isinstance(grown, DNC)
    assert grown.config.cells == 9


def test_a_checkpoint_of_another_model_is_refused(folder: Path) -> None:
    other = replace(TINY, model=replace(TINY.model, word_size=4))
    config = json.dumps({"run_version": runs.RUN_VERSION, **to_dict(other)})
    (folder / runs.CONFIG_NAME).write_text(config)
    for act in (session.evaluate, session.resume):
        with pytest.raises(RunError, match=r"is of another model than config.json says: size"):
            act(folder)


def test_a_damaged_checkpoint_is_told_once(folder: Path) -> None:
    newest = sorted((folder / "checkpoints").glob("step-*"))[-1]
    (newest / "state.json").write_bytes(b"{")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        session.resume(folder, quiet=True)
    damaged = [w for w in told if "step-00000004 is damaged" in str(w.message)]
    assert len(damaged) == 1
    assert "using step-00000002" in str(damaged[0].message)


def test_a_run_in_use_is_refused(folder: Path) -> None:
    with (
        runs.locked(folder),
        pytest.raises(RunError, match="is in use by process"),
    ):
        session.resume(folder, quiet=True)


def test_a_description_says_how_far_a_run_has_come(folder: Path) -> None:
    text = "\n".join(session.describe(folder))
    assert text.startswith(f"{folder}: repeat-copy, dnc-mds, seed 0")
    assert "checkpoint at step 4 of 4" in text
    last = runs.read_metrics(folder)[-1]
    assert f"last evaluation: step 4, eval/loss {last['eval/loss']:.4g}, eval/bit_error" in text
    assert f"versions (python {platform.python_version()}, torch " in text
    assert "{" not in text


def test_a_run_on_a_disk_that_fills_up_keeps_what_was_saved(small_disk: Path) -> None:
    """It says what happened, and goes on from there once there is room."""
    course = replace(
        TINY.course, steps=300, checkpoint_every=1, evaluate_every=300, keep_checkpoints=1000
    )
    config = replace(TINY, course=course)
    with pytest.raises(RunError, match=r"No space left on device; the last good one: .*step-0"):
        start(small_disk / "run", config)
    saved = checkpoint.load_newest(small_disk / "run")
    assert saved is not None
    assert saved.step <= runs.read_metrics(small_disk / "run")[-1]["step"] <= saved.step + 1
    for old in sorted((small_disk / "run" / "checkpoints").glob("step-*"))[:-1]:
        shutil.rmtree(old)
    shorter = replace(config, course=replace(course, steps=saved.step + 4, keep_checkpoints=1))
    text = json.dumps({"run_version": runs.RUN_VERSION, **to_dict(shorter)})
    (small_disk / "run" / runs.CONFIG_NAME).write_text(text)
    session.resume(small_disk / "run", quiet=True)
    start(small_disk.parent / "whole", shorter)
    assert runs.read_metrics(small_disk / "run") == runs.read_metrics(small_disk.parent / "whole")
