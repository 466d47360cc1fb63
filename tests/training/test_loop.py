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
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from support import SMALL_TASKS as TASKS
from support import SWITCHES, runs_still, wait_for_the_end_of
from support import tiny_config as tiny
from torch.testing import assert_close

from dnclab import runs
from dnclab.memory.interface import interface_slices
from dnclab.model import DNC
from dnclab.runs import RunError
from dnclab.training import checkpoint, loop
from dnclab.training.config import ModelConfig, OptimiserConfig, RunConfig
from dnclab.training.loop import Learner, build_optimiser, learning_rate, train
from dnclab.training.presets import PRESETS
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
    """SIGKILL at random moments, every other one in the next write of a checkpoint."""
    script = SCRIPTS / "train_and_die.py"
    moments = random.Random(7)
    with subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as starter:
        wait_for_the_end_of(started(starter, tmp_path / "whole"))
        folders, kills, in_a_write = [tmp_path / "killed"], 0, 0
        while kills < 20:
            lines = _lines(folders[-1])
            process = started(starter, folders[-1])
            while _lines(folders[-1]) <= lines and runs_still(process):
                time.sleep(0.001)  # it is at work again once it adds to the metrics
            time.sleep(moments.uniform(0, 0.15))
            while kills % 2 and not writes(folders[-1]) and runs_still(process):
                pass
            if not runs_still(process):  # done before its moment came: another run is killed
                folders.append(tmp_path / f"killed{len(folders)}")
                continue
            os.kill(process, signal.SIGKILL)
            wait_for_the_end_of(process)
            kills += 1
            in_a_write += writes(folders[-1])
        wait_for_the_end_of(started(starter, folders[-1]))
        assert starter.stdin is not None
        starter.stdin.close()
    assert in_a_write >= 1
    for folder in folders:
        assert metrics_bytes(folder) == metrics_bytes(tmp_path / "whole")
        assert_same_end(folder, tmp_path / "whole")


def assert_same_end(folder: Path, other: Path) -> None:
    """The last checkpoints of two runs are equal in all they hold, bit for bit."""
    ours, theirs = checkpoint.load_newest(folder), checkpoint.load_newest(other)
    assert ours is not None
    assert theirs is not None
    assert ours.step == theirs.step
    assert ours.tensors.keys() == theirs.tensors.keys()
    assert all(torch.equal(ours.tensors[name], theirs.tensors[name]) for name in ours.tensors)
    assert ours.data == theirs.data


def started(starter: subprocess.Popen[str], folder: Path) -> int:
    """The number of a process that trains in a folder, 120 steps in all."""
    assert starter.stdin is not None
    assert starter.stdout is not None
    starter.stdin.write(f"{folder} 120\n")
    starter.stdin.flush()
    return int(starter.stdout.readline())


def writes(folder: Path) -> bool:
    """Whether a checkpoint is being written, or was when its process died."""
    place = folder / runs.CHECKPOINTS_NAME
    return any(path.name.startswith(".") for path in place.iterdir())


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


def test_a_run_that_has_reached_its_target_makes_no_further_step(tmp_path: Path) -> None:
    """Nor does one that was killed before it could say so: it equals one that was not."""
    config = tiny(stop_metric="eval/bit_error", stop_at=1.0)
    before = train_new(tmp_path, config)
    metrics = metrics_bytes(tmp_path)
    assert train(tmp_path, config) == before
    assert metrics_bytes(tmp_path) == metrics
    harder = replace(config, course=replace(config.course, stop_at=0.0))
    assert train(tmp_path, harder).step == 6


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
    (loss, *answers), (cut_loss, *cut_answers) = whole.backward(batch), cut.backward(batch)
    assert cut_loss == pytest.approx(loss)  # the same numbers forwards ...
    assert cut_answers == answers
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


def test_an_iteration_costs_little_beside_the_models_work() -> None:
    """0.3 ms on a quiet machine: the batch, the wrong bits, the norm, the parameters' move.

    The least of many tries, since others may be at work; the bound is what a slower machine needs.
    """
    own = learner(PRESETS["repeat-copy"])
    batch = own.stream.batch()
    own.backward(batch)
    output = torch.zeros_like(batch.targets)
    parts = (
        own.stream.batch,
        lambda: own.task.count_answers(output, batch),
        own.clip_gradient,
        own.optimiser.step,
    )
    assert sum(least_seconds(part) for part in parts) < 1e-3


def least_seconds(part: Callable[[], object]) -> float:
    durations = []
    for _ in range(200):
        start = time.perf_counter()
        part()
        durations.append(time.perf_counter() - start)
    return min(durations)


# --- trouble -------------------------------------------------------------------------------------


def test_what_is_not_finite_stops_the_run_with_a_name(tmp_path: Path) -> None:
    own = learner(tiny(accumulate=2))
    own.update(tmp_path)
    with torch.no_grad():
        own.model.get_parameter("interface.bias")[0] = math.nan
    before = {name: p.detach().clone() for name, p in own.model.named_parameters()}
    with pytest.raises(RunError, match=r"step 2: the first .* is parameter interface.bias"):
        own.update(tmp_path)
    place = tmp_path / "trouble" / "step-00000002"
    report = json.loads((place / "report.json").read_text())
    assert report == {"step": 2, "first_not_finite": "parameter interface.bias"}
    kept = load_file(place / "tensors.safetensors")
    # The third batch of the run was the first with a loss that is not finite: the fourth, with
    # which it would have shared a step, was not taken.
    third = learner(tiny()).stream.numbered_batch(2)
    assert torch.equal(kept["batch/0/inputs"], third.inputs)
    assert torch.equal(kept["batch/0/targets"], third.targets)
    assert "batch/1/inputs" not in kept
    for name, parameter in before.items():
        assert torch.equal(kept[f"model/{name}"].isnan(), parameter.isnan())
        assert f"gradient/{name}" in kept
    assert any(name.startswith("optimiser/") for name in kept)


def test_the_first_quantity_inside_is_named(tmp_path: Path) -> None:
    """The memory takes numbers whose squares overflow: a look-up divides infinity by infinity."""
    config = tiny(variant="dnc-d")
    own = learner(replace(config, model=replace(config.model, interface_clip=None)))
    assert isinstance(own.model, DNC)
    slices = interface_slices(own.model.config.memory)
    with torch.no_grad():
        bias = own.model.get_parameter("interface.bias")
        bias[slices["write_vector"]] = 3e38
        bias[slices["read_keys"]] = 10.0
    with pytest.raises(RunError, match=r"not finite is read_contents at time step 0"):
        own.update(tmp_path)


def test_a_gradient_that_is_not_finite_is_named_and_spreads_nowhere(tmp_path: Path) -> None:
    own = learner(tiny())
    spoilt = own.model.get_parameter("interface.weight")
    spoilt.register_hook(lambda gradient: gradient * math.nan)
    with pytest.raises(RunError, match=r"not finite is gradient of interface.weight"):
        own.update(tmp_path)
    kept = load_file(tmp_path / "trouble" / "step-00000001" / "tensors.safetensors")
    broken = [name for name, tensor in kept.items() if not tensor.isfinite().all()]
    assert broken == ["gradient/interface.weight"]


def test_a_loss_that_is_not_finite_is_named_before_the_gradients_it_spoils(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = learner(tiny())
    loss = own.task.loss
    monkeypatch.setattr(own.task, "loss", lambda outputs, batch: loss(outputs, batch) * math.nan)
    with pytest.raises(RunError, match=r"first quantity that is not finite is the loss;"):
        own.update(tmp_path)


def test_a_norm_that_overflows_is_named_as_such(tmp_path: Path) -> None:
    """Every gradient is finite; the sum of their squares is not."""
    own = learner(tiny())
    spoilt = own.model.get_parameter("interface.weight")
    spoilt.register_hook(lambda gradient: torch.full_like(gradient, 1e30))
    with pytest.raises(RunError, match=r"not finite is the norm of the gradient;"):
        own.update(tmp_path)


def test_an_evaluation_that_is_not_finite_is_not_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = learner(tiny())
    losses = iter([math.nan, 3.0, math.nan, 2.0])
    monkeypatch.setattr(own.task, "evaluate", lambda model, batches: {"loss": next(losses)})
    assert [own.evaluate() for _ in range(4)] == [False, True, False, True]


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

TWO = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def dnclab(launcher: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, as a user starts it."""
    return subprocess.run(
        [*launcher, "-m", "dnclab", *arguments],
        capture_output=True, text=True, timeout=180, check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.mark.parametrize(
    "settings",
    [
        ["key-value-small", "--steps", "6", "--quiet", "--set", "course.accumulate=2",
         "course.truncate=7", "course.evaluate_every=3", "course.evaluation_batches=2"],
        # The stories of a batch ask for answers of one word or of several.
        ["babi-small", "--steps", "4", "--quiet", "--set", "task.sizes.tasks=4+19",
         "task.sizes.generated=20", "task.sizes.batch_size=4", "model.cells=4"],
    ],
    ids=["accumulated and truncated", "words"],
)  # fmt: skip
def test_two_processes_train_as_one(settings: list[str], tmp_path: Path) -> None:
    """torchrun with two processes on gloo: the records of one process, to rounding."""
    for launcher, name in (([sys.executable], "one"), (TWO, "two")):
        finished = dnclab(launcher, "train", *settings, "--out", str(tmp_path / name))
        assert finished.returncode == 0, finished.stderr
        assert finished.stdout.count("finished at step") == 1  # one speaks
    one, two = (runs.read_metrics(tmp_path / name) for name in ("one", "two"))
    assert [record["step"] for record in one] == [record["step"] for record in two]
    for ours, theirs in zip(one, two, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4)


def test_two_processes_end_together_when_one_of_them_meets_trouble(tmp_path: Path) -> None:
    """The other would wait for ever: a folder in use, a loss that is not finite in one share."""
    folder = tmp_path / "run"
    runs.create(folder, to_dict(tiny(accumulate=2)))
    with runs.locked(folder):
        refused = dnclab(TWO, "resume", str(folder))
    assert refused.returncode != 0
    assert (
        f"dnclab resume: run folder {folder} is in use by process {os.getpid()}" in refused.stderr
    )

    (tmp_path / "broken.py").write_text(BROKEN, encoding="utf-8")
    stopped = subprocess.run(
        [*TWO, "-m", "dnclab", "train", "key-value-small", "--quiet", "--out", "broken",
         "--set", "task.name=broken:Broken", "course.accumulate=2"],
        cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert stopped.returncode != 0
    assert "step 3: the first quantity that is not finite is the batch's inputs" in stopped.stderr
    [report] = (tmp_path / "broken" / "trouble").glob("*/report.json")
    assert json.loads(report.read_text())["step"] == 3


BROKEN = """
from dnclab.tasks.key_value import KeyValue

class Broken(KeyValue):
    def make_batch(self, source):
        number = int(source.state["state"]["counter"][3])
        batch = super().make_batch(source)
        if number == 4:  # the first batch of the third step; the second process has this sample
            batch.inputs[0, -1] = float("nan")
        return batch
"""
