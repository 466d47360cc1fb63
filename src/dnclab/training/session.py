"""A run from the outside: start it, go on with it, evaluate it, draw it, describe it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from dnclab import runs
from dnclab.model import DNC
from dnclab.runs import RunError
from dnclab.tasks.bitmap import BitmapTask, evaluation_set
from dnclab.training import checkpoint
from dnclab.training.config import RunConfig
from dnclab.training.loggers import (
    Logger,
    ProgressDisplay,
    TensorBoardLogger,
    check_tensorboard,
)
from dnclab.training.loop import Learner, Outcome, load_parameters, numerics, train
from dnclab.training.settings import from_dict, to_dict
from dnclab.training.tasks import Bitmaps, Trainable, build_task, evaluate_bitmaps
from dnclab.training.workers import workers


def start(
    folder: Path, config: RunConfig, *, quiet: bool = False, loggers: Sequence[Logger] = ()
) -> Outcome:
    """A new run in a new folder; it shows its progress, and logs to TensorBoard and `loggers`."""
    with workers() as team, numerics(config.course.threads):
        # What cannot be built or logged is refused before there is a folder.
        check_tensorboard()
        learner = Learner.new(build_task(config.task), config, team)
        team.from_first(lambda: runs.create(folder, to_dict(config)))
        return _run(folder, learner, quiet, loggers)


def resume(folder: Path, *, quiet: bool = False, loggers: Sequence[Logger] = ()) -> Outcome:
    """Go on with a run where its newest checkpoint stands."""
    config = read(folder)
    with workers() as team, numerics(config.course.threads):
        learner = Learner.new(build_task(config.task), config, team)
        return _run(folder, learner, quiet, loggers)


def read(folder: Path) -> RunConfig:
    """The configuration of a run."""
    values = dict(runs.read_config(folder))
    values.pop("run_version", None)
    try:
        return from_dict(values)
    except ValueError as error:
        raise RunError(f"{folder}: its config.json does not fit this version: {error}") from error


def _run(folder: Path, learner: Learner, quiet: bool, extra: Sequence[Logger]) -> Outcome:
    team = learner.workers
    with ExitStack() as stack:
        team.from_first(lambda: _enter(stack, runs.locked(folder)))
        learner.restore_newest(folder)
        step, steps = learner.step, learner.config.course.steps
        loggers: list[Logger] = []
        if team.first:
            loggers = [
                ProgressDisplay(steps, quiet=quiet, start_step=step),
                TensorBoardLogger(folder, start_step=step),
                *extra,
            ]
            for logger in loggers:
                stack.callback(logger.close)
            runs.drop_outcome(folder)
        begun = time.perf_counter()
        outcome = train(folder, learner.config, loggers=loggers, learner=learner)
        if team.first:
            runs.note_session(folder, step, outcome.step, time.perf_counter() - begun)
            runs.write_outcome(folder, outcome.step, outcome.reason)
            if outcome.evaluation:
                _draw_if_possible(folder)
        return outcome


def _enter(stack: ExitStack, context: AbstractContextManager[None]) -> None:
    stack.enter_context(context)


def load(folder: Path) -> tuple[RunConfig, Trainable, nn.Module, int]:
    """A run's configuration, its task, its best model so far and the step that is from."""
    config = read(folder)
    saved = checkpoint.load_best(folder)
    if saved is None:
        raise RunError(f"{folder}: no checkpoint yet; let it train a while")
    task = build_task(config.task)
    model = task.model(config.model)
    try:
        load_parameters(model, checkpoint.join_state(saved.tensors, saved.data)["model"])
    except RunError as error:
        raise RunError(f"{folder}: {error}") from error
    return config, task, model.eval(), saved.step


def evaluate(
    folder: Path,
    *,
    batches: int | None = None,
    longer: float | None = None,
    repeats: float | None = None,
    cells: int | None = None,
) -> dict[str, float]:
    """The figures of a run's best model, on harder sequences or with more memory if asked."""
    config, task, model, _ = load(folder)
    count = config.course.evaluation_batches if batches is None else batches
    if cells is not None:
        model = with_cells(model, cells)
    if longer is None and repeats is None:
        return task.evaluate(model, count)
    if not isinstance(task, Bitmaps):
        raise RunError(f"{config.task.name}: has no longer sequences; --longer and --repeats are "
                       "for the tasks on rows of bits")  # fmt: skip
    return evaluate_bitmaps(model, _harder(task.task, longer, repeats), count)


def _harder(task: BitmapTask, longer: float | None, repeats: float | None) -> BitmapTask:
    if repeats is not None:
        more = getattr(task, "more_repeats", None)
        if more is None:
            raise RunError(f"{type(task).__name__}: nothing is repeated in it")
        task = more(repeats)
    return task if longer is None else task.longer(longer)


def with_cells(model: nn.Module, cells: int) -> nn.Module:
    """The model with another number of memory cells."""
    if isinstance(model, DNC):
        return model.with_cells(cells)
    for name, module in model.named_children():
        if isinstance(module, DNC):
            setattr(model, name, module.with_cells(cells))
            return model
    raise RunError(f"{type(model).__name__}: has no DNC whose cells could be changed")


def describe(folder: Path) -> Iterator[str]:
    """What a run is and how far it has come, line by line."""
    config, environment = read(folder), runs.read_environment(folder)
    metrics = runs.read_metrics(folder)
    saved = checkpoint.load_newest(folder)
    yield f"{folder}: {config.task.name}, {config.model.variant}, seed {config.course.seed}"
    yield f"model: {_settings(asdict(config.model))}"
    yield f"task: {_settings(config.task.sizes) or 'its own sizes'}"
    yield f"optimiser: {_settings(asdict(config.optimiser))}"
    yield f"made by: {_settings(environment)}"
    step = 0 if saved is None else saved.step
    yield f"checkpoint at step {step:,} of {config.course.steps:,}"
    for record in metrics[-1:]:
        yield f"last record: {_settings(record)}"
    evaluations = [record for record in metrics if "eval/loss" in record]
    for record in evaluations[-1:]:
        yield f"last evaluation: {_settings(record)}"


def _settings(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_shown(value)}" for name, value in values.items())


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"({_settings(value)})"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _draw_if_possible(folder: Path) -> None:
    """A run that is done is done, whatever is missing for its pictures."""
    try:
        draw(folder)
    except ModuleNotFoundError as error:
        warnings.warn(f"no pictures: {error}", stacklevel=3)


def draw(folder: Path) -> list[Path]:
    """Pictures of a run: the curve and, for rows of bits, a sequence and what the memory did."""
    from dnclab.reports import figures

    place = folder / "pictures"
    place.mkdir(exist_ok=True)
    curve = figures.loss_curve(runs.read_metrics(folder), folder.name)
    figures.save_figure(curve, place / "curve")
    drawn = [place / "curve.png"]
    _, task, model, step = load(folder)
    if isinstance(task, Bitmaps) and isinstance(model, DNC):
        batch = next(evaluation_set(task.task, 1))
        with torch.no_grad():
            trace = model.trace(batch.inputs[:, :1])
        first = {name: part[:, 0].numpy() for name, part in trace._asdict().items()
                 if isinstance(part, torch.Tensor)}  # fmt: skip
        answers = batch.answers.numpy()
        title = f"{folder.name}, step {step}"
        sequence = figures.input_target_output(
            batch.inputs[:, 0].numpy() > 0,
            batch.targets[:, 0].numpy(),
            torch.sigmoid(trace.output[:, 0]).numpy(),
            answers,
            title,
        )
        figures.save_figure(sequence, place / "sequence")
        addresses = figures.address_weightings(
            first["write_weighting"], first["read_weightings"], first["read_modes"], answers, title
        )
        figures.save_figure(addresses, place / "addresses")
        drawn += [place / "sequence.png", place / "addresses.png"]
    return drawn
