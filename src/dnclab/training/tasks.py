"""Where task and model meet: what the loop asks of a task, for rows of bits and for bAbI.

A task of your own is a class like :class:`~dnclab.tasks.repeat_copy.RepeatCopy`, which makes
batches of bits, or a :class:`Trainable`, which decides everything itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from dnclab.checks import check_size
from dnclab.controllers import CONTROLLERS
from dnclab.model import DNC
from dnclab.state import DNCState
from dnclab.tasks import BITMAP_TASKS
from dnclab.tasks.babi import encoding
from dnclab.tasks.babi import task as babi
from dnclab.tasks.babi.reader import ALL_TASKS, check_tasks
from dnclab.tasks.babi.stories import generate_stories
from dnclab.tasks.bitmap import (
    BitmapBatch,
    BitmapCounts,
    BitmapStream,
    BitmapTask,
    bitmap_loss,
    bitmap_score,
    count_answer_bits,
    count_bits,
    evaluation_set,
)
from dnclab.tasks.stream import BatchStream
from dnclab.training.config import ModelConfig, TaskConfig
from dnclab.training.plugins import find


@runtime_checkable
class Trainable(Protocol):
    """What the loop asks of a task. A batch is a named tuple of tensors; time comes first."""

    def model(self, config: ModelConfig) -> nn.Module:
        """A new model for the task: ``outputs, state = model(inputs, state)``."""

    def stream(self, seed: int) -> BatchStream[Any]:
        """Batches for training."""

    def inputs(self, batch: Any) -> Tensor:
        """What the model reads of a batch [T B ...]."""

    def part(self, batch: Any, time: slice, samples: slice) -> Any:
        """Some time steps of some samples of a batch."""

    def loss(self, outputs: Tensor, batch: Any) -> Tensor:
        """What is made small: summed over time, averaged over the samples of the batch."""

    def count_answers(self, outputs: Tensor, batch: Any) -> tuple[int, int]:
        """For the progress bar: how many answers are wrong, and how many there are."""

    def figures(self) -> Sequence[str]:
        """The names of what `evaluate` gives."""

    def evaluate(self, model: nn.Module, batches: int) -> dict[str, float]:
        """Figures on held-out data, ``loss`` among them; lower is better for all."""


def build_task(config: TaskConfig) -> Trainable:
    """The task of a configuration, in its sizes."""
    found = find("task", config.name, {**BITMAP_TASKS, "babi": Babi})
    try:
        made = found(**config.sizes) if callable(found) else replace(found, **config.sizes)
    except TypeError as error:
        raise ValueError(f"task.sizes: {error}") from error
    if isinstance(made, Trainable):
        return made
    if isinstance(made, BitmapTask):
        return Bitmaps(made)
    raise ValueError(
        f"task: {config.name} makes a {type(made).__name__}; expected a Trainable, or something "
        "with input_size, output_size, make_batch and longer"
    )


def build_dnc(config: ModelConfig, input_size: int, output_size: int) -> DNC:
    """The DNC of a configuration."""
    settings = asdict(config)
    del settings["embedding_size"]
    settings["controller"] = find(
        "controller", config.controller, {name: name for name in CONTROLLERS}
    )
    try:
        return DNC(input_size, output_size, **settings)
    except TypeError as error:  # a controller of the user's own that is none
        raise ValueError(f"model: {error}") from error


class Bitmaps:
    """A task on rows of bits, for the loop."""

    def __init__(self, task: BitmapTask) -> None:
        self.task = task

    def model(self, config: ModelConfig) -> nn.Module:
        """The DNC alone."""
        return build_dnc(config, self.task.input_size, self.task.output_size)

    def stream(self, seed: int) -> BitmapStream:
        """Batches drawn for training."""
        return BitmapStream(self.task, seed=seed)

    def inputs(self, batch: BitmapBatch) -> Tensor:
        """The rows."""
        return batch.inputs

    def part(self, batch: BitmapBatch, time: slice, samples: slice) -> BitmapBatch:
        """Some rows of some samples."""
        return BitmapBatch(
            batch.inputs[time, samples], batch.targets[time, samples], batch.answers[time]
        )

    def loss(self, outputs: Tensor, batch: BitmapBatch) -> Tensor:
        """Cross entropy of the bits."""
        return bitmap_loss(outputs, batch)

    def count_answers(self, outputs: Tensor, batch: BitmapBatch) -> tuple[int, int]:
        """Wrong bits, and all bits, where an answer is due."""
        return count_answer_bits(outputs, batch)

    def figures(self) -> Sequence[str]:
        """As `evaluate_bitmaps` names them."""
        return ("loss", "bit_error", "faulty")

    def evaluate(self, model: nn.Module, batches: int) -> dict[str, float]:
        """Loss, share of wrong bits, share of sequences with a wrong bit."""
        return evaluate_bitmaps(model, self.task, batches)


def evaluate_bitmaps(model: nn.Module, task: BitmapTask, batches: int) -> dict[str, float]:
    """The figures of a model on the held-out batches of a task."""
    counts = BitmapCounts()
    with torch.no_grad():
        for batch in evaluation_set(task, batches):
            outputs, _ = model(batch.inputs.to(_device(model)))
            counts += count_bits(outputs.cpu(), batch)
    score = bitmap_score(counts)
    return {"loss": score.loss, "bit_error": score.bit_error, "faulty": 1 - score.faultless}


class WordModel(nn.Module):
    """Words in, words out: an embedding before a DNC."""

    def __init__(self, words: int, config: ModelConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, config.embedding_size)
        self.dnc = build_dnc(config, config.embedding_size, words)

    def forward(self, tokens: Tensor, state: DNCState | None = None) -> tuple[Tensor, DNCState]:
        """Ids [T B] to logits [T B words]."""
        outputs, state = self.dnc(self.embedding(tokens), state)
        return outputs, state


class Babi:
    """bAbI, for the loop: the installed files, those of a folder, or generated stories."""

    def __init__(
        self,
        *,
        folder: str | None = None,
        edition: str = "en-10k",
        generated: int | None = None,
        tasks: str | int = "all",
        batch_size: int = 2,
        think_steps: int = 3,
        joined_answers: bool = False,
        group_lengths: bool = False,
    ) -> None:
        chosen = ALL_TASKS if tasks == "all" else _numbers(str(tasks))
        check_size("batch_size", batch_size)
        options = encoding.EncodingOptions(think_steps=think_steps, joined_answers=joined_answers)
        if generated is not None:
            check_size("generated", generated)
            self.vocabulary, self.train, self.test = _generated(generated, chosen, options)
        else:
            data = (
                encoding.load_installed(edition, options)
                if folder is None
                else encoding.load_folder(folder, edition, options)
            )
            self.vocabulary, self.train, self.test = data.vocabulary, data.train, data.test
        self.tasks = chosen
        self.batch_size = batch_size
        self.group_lengths = group_lengths

    def model(self, config: ModelConfig) -> nn.Module:
        """An embedding and a DNC."""
        return WordModel(len(self.vocabulary), config)

    def stream(self, seed: int) -> babi.BabiTask:
        """Stories of all chosen tasks, equally likely."""
        config = babi.BatchConfig(
            batch_size=self.batch_size,
            tasks=self.tasks,
            group_lengths=self.group_lengths,
            seed=seed,
        )
        return babi.BabiTask(self.train, config)

    def inputs(self, batch: babi.BabiBatch) -> Tensor:
        """The ids of the words."""
        return batch.inputs

    def part(self, batch: babi.BabiBatch, time: slice, samples: slice) -> babi.BabiBatch:
        """Some words of some stories."""
        return babi.BabiBatch(
            batch.inputs[time, samples],
            batch.targets[time, samples],
            batch.lengths[samples],
            batch.tasks[samples],
        )

    def loss(self, outputs: Tensor, batch: babi.BabiBatch) -> Tensor:
        """Cross entropy of the answers."""
        return babi.answer_loss(outputs, batch)

    def count_answers(self, outputs: Tensor, batch: babi.BabiBatch) -> tuple[int, int]:
        """Wrong answer words, and all answer words."""
        counts = babi.count_answers(outputs, batch)
        return sum(counts.wrong), sum(counts.asked)

    def figures(self) -> Sequence[str]:
        """The mean error, tasks unsolved, the error of each task."""
        return ("loss", "error", "unsolved", *(f"error_{task}" for task in self.tasks))

    def evaluate(self, model: nn.Module, batches: int) -> dict[str, float]:
        """The mean error of the tasks, how many stay unsolved, each task's error, the loss.

        Over all test stories, whatever the number of batches.
        """
        del batches
        counts, loss, stories = babi.NO_ANSWERS, 0.0, 0
        with torch.no_grad():
            for batch in babi.every_story(self.test, EVALUATED_TOGETHER, self.tasks):
                outputs = model(batch.inputs.to(_device(model)))[0].cpu()
                counts += babi.count_answers(outputs, batch)
                loss += babi.answer_loss(outputs, batch).item() * batch.inputs.shape[1]
                stories += batch.inputs.shape[1]
        score = babi.score(counts)
        return {
            "loss": loss / stories,
            "error": score.mean_error,
            "unsolved": len(score.errors) - score.solved,
            **{f"error_{task}": error for task, error in score.errors.items()},
        }


def _numbers(tasks: str) -> tuple[int, ...]:
    """``"1+4+19"`` → (1, 4, 19)"""
    parts = tasks.split("+")
    if not all(part.isdecimal() for part in parts):
        raise ValueError(f"tasks: expected all, or numbers as 1+4+19, got {tasks!r}")
    return check_tasks(int(part) for part in parts)


EVALUATED_TOGETHER = 32
"""Test stories of like length in a batch."""


def _generated(
    stories: int, tasks: Iterable[int], options: encoding.EncodingOptions
) -> tuple[tuple[str, ...], encoding.EncodedStories, encoding.EncodedStories]:
    """Vocabulary, training and test stories; a tenth as many for the test, seed 1."""
    train = {task: list(generate_stories(task, stories, 1)) for task in tasks}
    test = {task: list(generate_stories(task, max(1, stories // 10), 1, "test")) for task in tasks}
    words = encoding.make_vocabulary(
        (story for split in (train, test) for own in split.values() for story in own), options
    )
    return (
        words,
        encoding.encode_stories(train, words, options),
        encoding.encode_stories(test, words, options),
    )


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
