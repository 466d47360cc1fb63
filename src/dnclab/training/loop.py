"""The training loop. `train` reads top to bottom; what it is made of stands below it.

A run is its folder: the configuration is read from there, and if it holds a checkpoint the run goes
on from it. A run that was killed and resumed writes the same metrics as one that never stopped.
"""

from __future__ import annotations

import math
import random
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils import _pytree as pytree

from dnclab import runs
from dnclab.model import DNC
from dnclab.runs import RunError
from dnclab.training import checkpoint, trouble
from dnclab.training.config import CourseConfig, OptimiserConfig, RunConfig
from dnclab.training.loggers import Logger
from dnclab.training.tasks import Trainable, build_task
from dnclab.training.workers import Workers


@dataclass(frozen=True)
class Outcome:
    """How a call of `train` ended."""

    step: int
    """Updates made in the whole run so far."""
    reason: str
    """finished, target reached, or interrupted."""
    evaluation: Mapping[str, float]
    """The last evaluation; empty if there was none."""


def train(
    folder: Path,
    config: RunConfig,
    *,
    loggers: Sequence[Logger] = (),
    learner: Learner | None = None,
) -> Outcome:
    """Run, or go on with, the run in a folder until it is finished or interrupted.

    `learner` is at the place where the run stands, for whoever has made it already.
    """
    if learner is None:
        learner = Learner.new(build_task(config.task), config, Workers())
        learner.restore_newest(folder)
    course, workers = config.course, learner.workers
    metrics = workers.only_first(lambda: runs.MetricsLog(folder))
    if metrics is not None:
        metrics.keep_until(learner.step)

    def log(record: dict[str, Any]) -> None:
        if metrics is not None:
            metrics.append(record)
            for logger in loggers:
                logger.log(record)

    def save(*, best: bool = False) -> None:
        if metrics is not None:
            metrics.sync()
            checkpoint.save(
                folder, learner.snapshot(), keep_last=course.keep_checkpoints, best=best
            )

    # Killed after its last checkpoint, a run that had reached its target makes no further step.
    reason = "target reached" if reached(course, learner.evaluation) else "finished"
    with interruptions() as interrupted, numerics(course.threads):
        while reason == "finished" and learner.step < course.steps:
            record = learner.update(folder)
            if learner.step % course.log_every == 0:
                log(record)
            due = learner.step % course.evaluate_every == 0 or learner.step == course.steps
            best = False
            if due:
                best = learner.evaluate()
                log({"step": learner.step, **prefixed(learner.evaluation)})
            stop = workers.any(interrupted())
            target = reached(course, learner.evaluation) if due else False
            last = learner.step == course.steps
            if best or stop or target or last or learner.step % course.checkpoint_every == 0:
                save(best=best)
            if target or stop:
                reason = "target reached" if target else "interrupted"
    return Outcome(learner.step, reason, prefixed(learner.evaluation))


def prefixed(evaluation: Mapping[str, float]) -> dict[str, float]:
    """``loss`` → ``eval/loss``"""
    return {f"eval/{name}": value for name, value in evaluation.items()}


def reached(course: CourseConfig, evaluation: Mapping[str, float]) -> bool:
    """Whether an evaluation says that the run may end; an empty one does not."""
    if course.stop_metric is None or not evaluation:
        return False
    return prefixed(evaluation)[course.stop_metric] <= course.stop_at


def check_backends(model: nn.Module) -> None:
    """Refuse a backend asked for by name that does not know the model before the first step."""
    for module in model.modules():
        if isinstance(module, DNC):
            _ = module.backend_reason


def check_metrics(course: CourseConfig, task: Trainable) -> None:
    """Refuse a figure that the task's evaluations do not have before the first of them."""
    figures = [f"eval/{name}" for name in task.figures()]
    for setting, name in (("best_metric", course.best_metric), ("stop_metric", course.stop_metric)):
        if name is not None and name not in figures:
            known = ", ".join(figures)
            raise ValueError(f"course.{setting}: expected one of {known}; got {name!r}")


@contextmanager
def numerics(threads: int) -> Iterator[None]:
    """So many threads, and denormal numbers taken as 0: products of usages are full of them, and
    a processor takes its time over each. Afterwards as it was before.
    """
    threads_before = torch.get_num_threads()
    flushed_before = bool(torch.tensor([1e-310], dtype=torch.float64).mul(1.0).item() == 0.0)
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads_before)
        torch.set_flush_denormal(flushed_before)


@contextmanager
def interruptions() -> Iterator[Callable[[], bool]]:
    """While it lasts, SIGINT and SIGTERM only leave a note; the function given reads it."""
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        came.append(number)
        if len(came) > 2:  # somebody is impatient
            raise KeyboardInterrupt

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class Learner:
    """All that changes in the course of a run; a checkpoint holds it, and nothing else does."""

    task: Trainable
    config: RunConfig
    workers: Workers
    model: nn.Module
    runner: nn.Module
    """The model, or what spreads it over processes."""
    optimiser: torch.optim.Optimizer
    stream: Any
    step: int = 0
    skipped: int = 0
    best: float | None = None
    evaluation: dict[str, float] = field(default_factory=dict)

    @classmethod
    def new(cls, task: Trainable, config: RunConfig, workers: Workers) -> Learner:
        """At step 0: everything follows from the seed."""
        check_metrics(config.course, task)
        seed = config.course.seed
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002  # a user's task may draw from it
        random.seed(seed)
        model = task.model(config.model).to(workers.device)
        stream = task.stream(seed)
        check_backends(model)
        workers.share(task.inputs(stream.numbered_batch(0)).shape[1])
        runner = DistributedDataParallel(model) if workers.world > 1 else model
        return cls(
            task=task,
            config=config,
            workers=workers,
            model=model,
            runner=runner,
            optimiser=build_optimiser(model, config.optimiser),
            stream=stream,
        )

    def update(self, folder: Path) -> dict[str, Any]:
        """One step: the loss of as many batches as asked, their gradient, the parameters' move."""
        course, optimiser = self.config.course, self.config.optimiser
        rate = learning_rate(optimiser, self.step, course.steps)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad()
        loss, wrong, answers = 0.0, 0.0, 0.0
        batches = []
        for _ in range(course.accumulate):
            batches.append(self.stream.batch())
            # All processes hear of a loss that is not finite, so that all stop here together.
            sums = self.workers.sums(*self.backward(batches[-1]))
            loss += sums[0] / self.workers.world / course.accumulate
            wrong, answers = wrong + sums[1], answers + sums[2]
            if not math.isfinite(loss):
                break
        norm = self.clip_gradient()
        self.step += 1
        error = wrong / max(1, answers)
        record = {"step": self.step, "loss": loss, "error": error, "gradient_norm": norm}
        if math.isfinite(loss) and math.isfinite(norm):
            self.optimiser.step()
        elif course.non_finite == "skip":
            self.skipped += 1
        else:
            culprit = trouble.first_not_finite(self.task, self.model, batches)
            place = trouble.place(folder, self.step)
            if self.workers.first:
                trouble.keep(place, culprit, self.snapshot(), self.model, batches)
            raise RunError(
                f"step {self.step}: the first quantity that is not finite is {culprit}; batches, "
                f"gradients and all that a checkpoint holds are in {place}"
            )
        if self.skipped:
            record["skipped"] = self.skipped
        return record

    def clip_gradient(self) -> float:
        """The norm of the whole gradient, which is scaled down to the largest that is allowed.

        One that is not finite is left as it is: scaling would spread it over all parameters.
        """
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        found, largest = norm.item(), self.config.optimiser.clip_gradient
        if largest is not None and largest < found < math.inf:
            nn.utils.clip_grads_with_norm_(self.model.parameters(), largest, norm)
        return found

    def backward(self, batch: Any) -> tuple[float, int, int]:
        """Add this process's share of a batch's gradient; its loss, wrong answers and answers.

        With `truncate` the batch is run in pieces of so many time steps: the state is carried on,
        the gradient is not.
        """
        course = self.config.course
        inputs = self.task.inputs(batch)
        samples = self.workers.share(inputs.shape[1])
        own = self.task.part(batch, slice(None), samples)
        state, outputs, loss = None, [], 0.0
        for start in range(0, len(inputs), course.truncate or len(inputs)):
            time = slice(start, start + (course.truncate or len(inputs)))
            part = _on(self.workers.device, self.task.part(batch, time, samples))
            output, state = self.runner(self.task.inputs(part), state)
            part_loss = self.task.loss(output, part)
            (part_loss / course.accumulate).backward()
            state = pytree.tree_map_only(Tensor, Tensor.detach, state)
            outputs.append(output.detach().cpu())
            loss += part_loss.item()
        return loss, *self.task.count_answers(torch.cat(outputs), own)

    def evaluate(self) -> bool:
        """Take the figures on held-out data; whether they are the best so far."""
        course = self.config.course
        self.model.eval()
        self.evaluation = self.workers.from_first(
            lambda: self.task.evaluate(self.model, course.evaluation_batches)
        )
        self.model.train()
        figure = prefixed(self.evaluation)[course.best_metric]
        if not math.isfinite(figure) or (self.best is not None and figure >= self.best):
            return False
        self.best = figure
        return True

    def snapshot(self) -> checkpoint.Checkpoint:
        """Everything that it takes to go on as if nothing had happened."""
        tensors, data = checkpoint.split_state(
            {
                "model": self.model.state_dict(),
                "optimiser": self.optimiser.state_dict(),
                "random": random_states(),
                "stream": self.stream.state_dict(),
                "skipped": self.skipped,
                "best": self.best,
                "evaluation": self.evaluation,
            }
        )
        return checkpoint.Checkpoint(self.step, tensors, data)

    def restore_newest(self, folder: Path) -> None:
        """Be as the learner was at the newest checkpoint of a run, if it has any."""
        saved = checkpoint.load_newest(folder)
        if saved is not None:
            self.restore(saved)

    def restore(self, saved: checkpoint.Checkpoint) -> None:
        """Be as the learner was when the snapshot was taken."""
        state = checkpoint.join_state(saved.tensors, saved.data)
        load_parameters(self.model, state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.stream.load_state_dict(state["stream"])
        self.skipped, self.best = state["skipped"], state["best"]
        self.evaluation = state["evaluation"]
        self.step = saved.step
        set_random_states(state["random"])


def load_parameters(model: nn.Module, parameters: Mapping[str, Tensor]) -> None:
    """Those of a checkpoint; refuses the ones of another model."""
    try:
        model.load_state_dict(parameters)
    except RuntimeError as error:
        fault = str(error).splitlines()[-1].strip()
        raise RunError(
            f"its checkpoint is of another model than config.json says: {fault}"
        ) from error


def _on(device: torch.device, batch: Any) -> Any:
    """A batch where the model is."""
    return pytree.tree_map_only(Tensor, lambda tensor: tensor.to(device), batch)


def build_optimiser(model: nn.Module, config: OptimiserConfig) -> torch.optim.Optimizer:
    """The rule of a configuration; biases and embeddings do not decay."""
    embedded = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, nn.Embedding)
        for parameter in module.parameters()
    }
    spared = [p for p in model.parameters() if p.dim() < 2 or id(p) in embedded]
    decaying = [p for p in model.parameters() if not (p.dim() < 2 or id(p) in embedded)]
    groups: list[dict[str, Any]] = [
        {"params": decaying, "weight_decay": config.weight_decay},
        {"params": spared, "weight_decay": 0.0},
    ]
    rate = config.learning_rate
    if config.name == "rmsprop":
        return torch.optim.RMSprop(
            groups, rate, alpha=config.alpha, eps=config.epsilon, momentum=config.momentum
        )
    if config.name == "sgd":
        return torch.optim.SGD(groups, rate, momentum=config.momentum)
    rule = torch.optim.Adam if config.name == "adam" else torch.optim.AdamW
    return rule(groups, rate)


def learning_rate(config: OptimiserConfig, step: int, steps: int) -> float:
    """The rate of the update after `step` others: warm-up, then the schedule down to 0."""
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    share = (step - config.warmup_steps) / max(1, steps - config.warmup_steps)
    if config.schedule == "linear":
        return config.learning_rate * (1 - share)
    if config.schedule == "cosine":
        return config.learning_rate * (1 + math.cos(math.pi * share)) / 2
    return config.learning_rate


def random_states() -> dict[str, Any]:
    """Where every global random generator stands."""
    name, keys, *rest = np.random.get_state()  # noqa: NPY002  # the global one is meant
    return {
        "python": random.getstate(),
        "numpy": [name, torch.from_numpy(np.asarray(keys).astype(np.int64)), *rest],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_random_states(states: Mapping[str, Any]) -> None:
    """Put them back."""
    name, keys, *rest = states["numpy"]
    random.setstate(states["python"])
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(states["torch"])
    if states["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(states["cuda"])
