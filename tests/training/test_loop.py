"""The loop: golden losses, resuming bit for bit, stopping, schedules, trouble."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support import SMALL_TASKS as TASKS
from support import SWITCHES
from support import tiny_config as tiny
from torch.testing import assert_close

from dnclab import runs
from dnclab.runs import RunError
from dnclab.training import checkpoint, loop
from dnclab.training.config import ModelConfig, OptimiserConfig, RunConfig
from dnclab.training.loop import Learner, build_optimiser, learning_rate, train
from dnclab.training.settings import to_dict
from dnclab.training.tasks import WordModel, build_task
from dnclab.training.workers import Workers

SCRIPTS = Path(__file__).parents[1] / "scripts"
GOLDEN = Path(__file__).parents[1] / "golden" / "losses.json"


def run(folder: Path, config: RunConfig) -> list[dict[str, Any]]:
    """Train in a new folder; the metrics."""
    runs.create(folder, to_dict(config))
    train(folder, config)
    return runs.read_metrics(folder)


def losses(metrics: list[dict[str, Any]]) -> list[float]:
    return [record["loss"] for record in metrics if "loss" in record]


# --- golden losses -------------------------------------------------------------------------------


def golden_losses(folder: Path) -> dict[str, list[float]]:
    """Six losses of each task and variant, float32, one thread."""
    return {
        f"{task} {variant}": losses(run(folder / f"{task}-{variant}", tiny(task, variant)))
        for task in TASKS
        for variant in SWITCHES
    }


def test_golden_losses(tmp_path: Path) -> None:
    """A change that means to change nothing moves none of them; another machine a last digit."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    own = golden_losses(tmp_path)
    assert own.keys() == golden.keys()
    for name, expected in golden.items():
        assert own[name] == pytest.approx(expected, rel=1e-4), name


# --- killed and resumed equals never stopped -----------------------------------------------------


def metrics_bytes(folder: Path) -> bytes:
    return (folder / runs.METRICS_NAME).read_bytes()


def test_killed_twenty_times_and_resumed_equals_never_stopped(tmp_path: Path) -> None:
    """SIGKILL at random moments, many of them while a checkpoint is written."""
    steps = "400"
    command = [sys.executable, str(SCRIPTS / "train_and_die.py")]
    subprocess.run([*command, str(tmp_path / "whole"), steps], check=True, timeout=120)

    moments = random.Random(7)
    folder, kills = tmp_path / "killed", 0
    while kills < 20:
        process = subprocess.Popen([*command, str(folder), steps], stderr=subprocess.PIPE)
        lines = _lines(folder)
        while process.poll() is None and _lines(folder) <= lines and not lines >= 440:
            time.sleep(0.001)  # it is at work again as soon as it adds to the metrics
        time.sleep(moments.uniform(0, 0.15))
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
    assert kills == 20
    subprocess.run([*command, str(folder), steps], check=True, timeout=120)
    assert metrics_bytes(folder) == metrics_bytes(tmp_path / "whole")
    ours = checkpoint.load_newest(folder)
    whole = checkpoint.load_newest(tmp_path / "whole")
    assert ours is not None
    assert whole is not None
    assert ours.step == whole.step == 400
    assert ours.tensors.keys() == whole.tensors.keys()
    assert all(torch.equal(ours.tensors[name], whole.tensors[name]) for name in ours.tensors)
    assert ours.data == whole.data


def _lines(folder: Path) -> int:
    path = folder / runs.METRICS_NAME
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.parametrize("task", ["repeat-copy", "babi"])
def test_stopped_and_resumed_equals_never_stopped(task: str, tmp_path: Path) -> None:
    config = tiny(task, steps=9, checkpoint_every=2, truncate=4)
    whole = run(tmp_path / "whole", config)

    folder = tmp_path / "stopped"
    runs.create(folder, to_dict(config))
    for until in (3, 7, 9):
        torch.randn(5)  # whatever else the process draws
        shorter = replace(config, course=replace(config.course, steps=until))
        train(folder, shorter)
        torch.manual_seed(123)
    resumed = runs.read_metrics(folder)
    assert losses(resumed) == losses(whole)


def test_sigterm_finishes_the_step_saves_and_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "dnclab", "train", "key-value-small", "--out", str(folder)]
    process = subprocess.Popen(
        [*command, "--set", "course.checkpoint_every=100000"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while _lines(folder) < 5:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    step = losses(runs.read_metrics(folder)).__len__()
    assert f"interrupted at step {step:,}" in out
    assert f"go on with: dnclab resume {folder}" in out
    saved = checkpoint.load_newest(folder)
    assert saved is not None
    assert saved.step == step


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path: Path) -> None:
    config = tiny(steps=6, checkpoint_every=2)
    whole = run(tmp_path / "run", config)
    newest = sorted((tmp_path / "run" / "checkpoints").glob("step-*"))[-1]
    tensors = newest / "tensors.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-1])
    with pytest.warns(checkpoint.CheckpointWarning, match="step-00000006"):
        train(tmp_path / "run", config)
    assert runs.read_metrics(tmp_path / "run") == whole


# --- the course ----------------------------------------------------------------------------------


def test_the_end_and_early_stopping(tmp_path: Path) -> None:
    finished = train_new(tmp_path / "a", tiny(steps=4, evaluate_every=3))
    assert (finished.step, finished.reason) == (4, "finished")
    assert set(finished.evaluation) == {"eval/loss", "eval/bit_error", "eval/faulty"}
    early = train_new(tmp_path / "b", tiny(stop_metric="eval/bit_error", stop_at=1.0))
    assert (early.step, early.reason) == (3, "target reached")
    assert checkpoint.load_newest(tmp_path / "b") is not None
    with pytest.raises(ValueError, match=r"course.stop_metric: expected one of eval/loss, .*'x'"):
        train_new(tmp_path / "c", tiny(stop_metric="x"))
    with pytest.raises(ValueError, match=r"course.best_metric: expected one of eval/loss"):
        train_new(tmp_path / "d", tiny(best_metric="eval/error"))


def train_new(folder: Path, config: RunConfig) -> loop.Outcome:
    runs.create(folder, to_dict(config))
    return train(folder, config)


def test_records_and_their_frequency(tmp_path: Path) -> None:
    metrics = run(tmp_path / "run", tiny(steps=7, log_every=2, evaluate_every=5))
    assert [record["step"] for record in metrics if "loss" in record] == [2, 4, 6]
    assert [record["step"] for record in metrics if "eval/loss" in record] == [5, 7]
    assert set(metrics[0]) == {"step", "loss", "error", "gradient_norm"}


def test_the_best_checkpoint_is_that_of_the_best_evaluation(tmp_path: Path) -> None:
    metrics = run(tmp_path / "run", tiny(steps=30, evaluate_every=3))
    evaluations = {r["step"]: r["eval/loss"] for r in metrics if "eval/loss" in r}
    best = checkpoint.load_best(tmp_path / "run")
    assert best is not None
    assert best.step == min(evaluations, key=lambda step: (evaluations[step], step))


def learner(config: RunConfig) -> Learner:
    return Learner.new(build_task(config.task), config, Workers())


def gradients(own: Learner) -> list[torch.Tensor]:
    return [p.grad for p in own.model.parameters() if p.grad is not None]


def test_truncation_carries_the_state_and_cuts_the_gradient() -> None:
    whole, cut = learner(tiny()), learner(tiny(truncate=3))
    batch = whole.stream.batch()
    assert len(batch.inputs) > 3
    (loss, error), (cut_loss, cut_error) = whole.backward(batch), cut.backward(batch)
    assert cut_loss == pytest.approx(loss)  # the same numbers forwards ...
    assert cut_error == error
    pairs = list(zip(gradients(whole), gradients(cut), strict=True))
    assert any(not torch.allclose(a, b) for a, b in pairs)  # ... but not backwards


def test_accumulated_batches_are_one_large_batch() -> None:
    twice = learner(tiny(accumulate=2))
    batches = [twice.stream.batch(), twice.stream.batch()]
    for batch in batches:
        twice.backward(batch)
    once = learner(tiny())
    for batch in batches:
        output, _ = once.model(batch.inputs)
        (once.task.loss(output, batch) / 2).backward()
    assert_close(gradients(twice), gradients(once))


@pytest.mark.parametrize("name", ["rmsprop", "adam", "adamw", "sgd"])
def test_biases_and_embeddings_do_not_decay(name: Any) -> None:
    model = WordModel(7, ModelConfig(hidden_size=4, cells=3, word_size=2, embedding_size=5))
    optimiser = build_optimiser(model, OptimiserConfig(name=name, weight_decay=0.1))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    decaying, spared = (
        {names[id(parameter)] for parameter in group["params"]} for group in optimiser.param_groups
    )
    assert [group["weight_decay"] for group in optimiser.param_groups] == [0.1, 0.0]
    assert decaying | spared == set(names.values())
    assert all(name.endswith("weight") and "embedding" not in name for name in decaying)
    assert "embedding.weight" in spared
    assert "dnc.interface.bias" in spared


def test_the_papers_optimiser() -> None:
    [group, _] = build_optimiser(torch.nn.Linear(2, 2), OptimiserConfig()).param_groups
    expected = {"lr": 1e-4, "momentum": 0.9, "alpha": 0.99, "eps": 1e-10, "weight_decay": 1e-5}
    assert {name: group[name] for name in expected} == expected
    assert OptimiserConfig().clip_gradient == 10


def test_schedules_by_hand() -> None:
    linear = OptimiserConfig(learning_rate=1.0, schedule="linear", warmup_steps=2)
    rates = [learning_rate(linear, step, 6) for step in range(6)]
    assert rates == pytest.approx([0.5, 1.0, 1.0, 0.75, 0.5, 0.25])
    cosine = OptimiserConfig(learning_rate=2.0, schedule="cosine")
    assert learning_rate(cosine, 0, 4) == 2.0
    assert learning_rate(cosine, 2, 4) == pytest.approx(1.0)
    assert learning_rate(OptimiserConfig(), 17, 20) == 1e-4


def test_gradients_are_clipped() -> None:
    plain = OptimiserConfig(
        name="sgd", momentum=0.0, learning_rate=1.0, weight_decay=0.0, clip_gradient=0.01
    )
    config = replace(tiny(), optimiser=plain)
    own = learner(config)
    before = [parameter.detach().clone() for parameter in own.model.parameters()]
    record = own.update(Path("unused"))
    moved = sum(
        (after - old).square().sum().item()
        for after, old in zip(own.model.parameters(), before, strict=True)
    )
    assert record["gradient_norm"] > 0.01
    assert math.sqrt(moved) == pytest.approx(0.01, rel=1e-3)


# --- trouble -------------------------------------------------------------------------------------


def test_what_is_not_finite_stops_the_run_with_a_name(tmp_path: Path) -> None:
    own = learner(tiny())
    own.update(tmp_path)
    with torch.no_grad():
        own.model.get_parameter("interface.bias")[0] = math.nan
    with pytest.raises(RunError, match=r"step 2: the first .* is parameter interface.bias"):
        own.update(tmp_path)
    place = tmp_path / "trouble" / "step-00000002"
    report = json.loads((place / "report.json").read_text())
    assert report == {"step": 2, "first_not_finite": "parameter interface.bias"}
    assert (place / "tensors.safetensors").stat().st_size > 1000


def test_the_first_quantity_inside_is_named(tmp_path: Path) -> None:
    own = learner(tiny())
    with torch.no_grad():
        own.model.get_parameter("controller.gates.0.weight").fill_(3e38)
    with pytest.raises(RunError, match=r"not finite is hidden at time step 0"):
        own.update(tmp_path)


def test_skipping_counts_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = learner(tiny(non_finite="skip"))
    before = [parameter.detach().clone() for parameter in own.model.parameters()]
    whole_loss = own.task.loss
    monkeypatch.setattr(
        own.task, "loss", lambda outputs, batch: whole_loss(outputs * math.nan, batch)
    )
    record = own.update(tmp_path)
    assert record["skipped"] == 1
    assert all(torch.equal(a, b) for a, b in zip(own.model.parameters(), before, strict=True))
    monkeypatch.setattr(own.task, "loss", whole_loss)
    assert own.update(tmp_path)["skipped"] == 1
    assert any(not torch.equal(a, b) for a, b in zip(own.model.parameters(), before, strict=True))
    assert not (tmp_path / "trouble").exists()


# --- several processes ---------------------------------------------------------------------------


def test_two_processes_train_as_one(tmp_path: Path) -> None:
    """torchrun with two processes on gloo: the losses of one process, to rounding."""
    arguments = ["train", "key-value-small", "--steps", "6", "--quiet", "--set",
                 "course.evaluate_every=3", "course.evaluation_batches=2"]  # fmt: skip
    for launcher, name in (
        ([sys.executable], "one"),
        ([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
         "two"),
    ):  # fmt: skip
        finished = subprocess.run(
            [*launcher, "-m", "dnclab", *arguments, "--out", str(tmp_path / name)],
            capture_output=True, text=True, timeout=180, check=False,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert finished.returncode == 0, finished.stderr
    one, two = (runs.read_metrics(tmp_path / name) for name in ("one", "two"))
    assert [record["step"] for record in one] == [record["step"] for record in two]
    for ours, theirs in zip(one, two, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4)
