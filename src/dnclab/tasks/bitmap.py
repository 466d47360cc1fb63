"""What the tasks on rows of bits share: the batch, loss, metrics, evaluation, a sample as text.

Bits enter as -1 and +1, a blank step is all -1; targets are 0 and 1. All samples of a batch share
their lengths. Nothing is masked in the loss: silence is demanded while the model reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from dnclab.checks import check_size
from dnclab.tasks.stream import BatchStream, check_seed, random_source

Bits = NDArray[np.float32]


class BitmapBatch(NamedTuple):
    """Samples side by side, time first."""

    inputs: Tensor
    """What the model reads, -1 and +1 [T B X]."""
    targets: Tensor
    """What it must say, 0 and 1 [T B Y]."""
    answers: Tensor
    """The steps at which it is to say something [T]; silence at the others."""


@runtime_checkable
class BitmapTask(Protocol):
    """A task by its sizes; `BitmapStream` makes its batches."""

    @property
    def input_size(self) -> int:
        """Numbers in an input row."""

    @property
    def output_size(self) -> int:
        """Numbers in a target row."""

    def make_batch(self, source: np.random.Philox) -> BitmapBatch:
        """A batch from random numbers."""

    def longer(self, factor: float) -> BitmapTask:
        """Sequences that are longer than any of this task, by up to `factor`."""


class BitmapStream(BatchStream[BitmapBatch]):
    """Batches of a task: for training, or held out for evaluation."""

    def __init__(self, task: BitmapTask, *, seed: int = 0, held_out: bool = False) -> None:
        super().__init__()
        check_seed(seed)
        self.task = task
        self.seed = seed
        self.held_out = held_out

    def numbered_batch(self, number: int) -> BitmapBatch:
        """The batch of a number, from 0."""
        return self.task.make_batch(random_source(self.seed, number, held_out=self.held_out))

    def identity(self) -> dict[str, Any]:
        """The task with its sizes, the seed, the purpose."""
        return {
            "task": type(self.task).__name__,
            "sizes": asdict(self.task),  # type: ignore[call-overload]  # tasks are dataclasses
            "seed": self.seed,
            "held_out": self.held_out,
        }


def resized(task: BitmapTask, sizes: Mapping[str, str]) -> BitmapTask:
    """The task with some of its sizes replaced, given as text: ``{"bits": "4"}``."""
    known = asdict(task)  # type: ignore[call-overload]  # tasks are dataclasses
    values: dict[str, int | bool] = {}
    for name, text in sizes.items():
        if name not in known:
            raise ValueError(f"{name}: expected one of {', '.join(known)}")
        if isinstance(known[name], bool):
            if text not in ("true", "false"):
                raise ValueError(f"{name}: expected true or false, got {text!r}")
            values[name] = text == "true"
        elif text.isdecimal():
            values[name] = int(text)
        else:
            raise ValueError(f"{name}: expected a whole number, got {text!r}")
    changed: BitmapTask = replace(task, **values)  # type: ignore[type-var]
    return changed


def evaluation_set(task: BitmapTask, batches: int, seed: int = 0) -> Iterator[BitmapBatch]:
    """Always the same batches, which training cannot draw whatever its seed."""
    check_size("batches", batches)
    stream = BitmapStream(task, seed=seed, held_out=True)
    return (stream.numbered_batch(number) for number in range(batches))


# --- making batches ------------------------------------------------------------------------------


def draw_number(source: np.random.Philox, least: int, most: int) -> int:
    """A whole number from `least` to `most`, both possible."""
    return least + int(source.random_raw()) % (most - least + 1)


def draw_bits(source: np.random.Philox, *shape: int) -> NDArray[np.uint8]:
    """Fair bits."""
    count = int(np.prod(shape))
    raw = source.random_raw(-(-count // 64)).astype("<u8", copy=False)
    return (
        np.unpackbits(raw.view(np.uint8), count=count).reshape(shape).astype(np.uint8, copy=False)
    )


def draw_distinct(
    source: np.random.Philox, batch_size: int, count: int, bits: int
) -> NDArray[np.uint8]:
    """For each sample `count` different words, in random order [count B bits]."""
    leading = min(bits, 32)  # words that differ in these differ
    if count**2 > 4 * 2**leading:  # a good part of all words: shuffle them all
        raw = source.random_raw((batch_size, 2**leading))
        words = np.argsort(raw, axis=1, kind="stable")[:, :count].astype(np.uint64)
    else:  # few of them: draw, and draw again where two are the same
        words = source.random_raw((batch_size, count)) & np.uint64(2**leading - 1)
        while len(again := np.flatnonzero((np.diff(np.sort(words)) == 0).any(axis=1))):
            words[again] = source.random_raw((len(again), count)) & np.uint64(2**leading - 1)
    places = np.arange(leading, dtype=np.uint64)
    drawn: NDArray[np.uint8] = (words.T[..., None] >> places & np.uint64(1)).astype(np.uint8)
    if bits == leading:
        return drawn
    return np.concatenate([drawn, draw_bits(source, count, batch_size, bits - leading)], axis=2)


def draw_orders(source: np.random.Philox, batch_size: int, count: int) -> NDArray[np.int64]:
    """A random order of `count` things for each sample [count B]."""
    return np.argsort(source.random_raw((count, batch_size)), axis=0, kind="stable")


def blank_inputs(steps: int, batch_size: int, width: int) -> Bits:
    """Rows in which no bit is set."""
    return np.full((steps, batch_size, width), -1, dtype=np.float32)


def finish(inputs: Bits, targets: Bits, answers: NDArray[np.bool_]) -> BitmapBatch:
    """The arrays as tensors; they share their memory."""
    return BitmapBatch(
        torch.from_numpy(inputs), torch.from_numpy(targets), torch.from_numpy(answers)
    )


def check_range(name: str, least: int, most: int) -> None:
    """A range of sizes, given by its ends."""
    check_size(f"min_{name}", least)
    check_size(f"max_{name}", most)
    if least > most:
        raise ValueError(f"min_{name}: expected at most max_{name}={most}, got {least}")


def check_enough_words(name: str, count: int, bits: int) -> None:
    """As many different words as are asked for must exist."""
    if count > 2**bits:
        raise ValueError(
            f"{name}: expected at most {2**bits}, the number of different words of {bits} bits, "
            f"got {count}"
        )


def range_beyond(name: str, most: int, factor: float) -> tuple[int, int]:
    """From one more than the most so far to `factor` times as much."""
    if not most + 1 <= most * factor < math.inf:
        raise ValueError(f"factor: expected one that makes max_{name}={most} greater, got {factor}")
    return most + 1, int(most * factor)


# --- loss and metrics ----------------------------------------------------------------------------


def bitmap_loss(logits: Tensor, batch: BitmapBatch) -> Tensor:
    """Cross entropy of the bits, summed over time and bits, averaged over the batch."""
    _check_logits(logits, batch)
    total = functional.binary_cross_entropy_with_logits(logits, batch.targets, reduction="sum")
    return total / batch.targets.shape[1]


@dataclass(frozen=True)
class BitmapCounts:
    """What the metrics are made of; counts of several batches add up."""

    loss: float = 0.0
    """The loss, summed over sequences."""
    wrong_bits: int = 0
    """Wrong bits at the answer steps."""
    bits: int = 0
    """All bits at the answer steps."""
    faulty: int = 0
    """Sequences with a wrong bit at any step, silence included."""
    sequences: int = 0
    """All sequences."""

    def __add__(self, other: BitmapCounts) -> BitmapCounts:
        return BitmapCounts(
            self.loss + other.loss,
            self.wrong_bits + other.wrong_bits,
            self.bits + other.bits,
            self.faulty + other.faulty,
            self.sequences + other.sequences,
        )


def count_bits(logits: Tensor, batch: BitmapBatch) -> BitmapCounts:
    """Compare logits [T B Y] with the targets; a logit above 0 says 1."""
    loss, wrong = bitmap_loss(logits, batch), _wrong(logits, batch.targets)
    wrong_bits, bits = count_answer_bits(logits, batch)
    samples = batch.targets.shape[1]
    return BitmapCounts(
        loss=loss.item() * samples,
        wrong_bits=wrong_bits,
        bits=bits,
        faulty=int(wrong.any(dim=2).any(dim=0).sum()),
        sequences=samples,
    )


def count_answer_bits(logits: Tensor, batch: BitmapBatch) -> tuple[int, int]:
    """Of logits [T B Y], the wrong bits at the answer steps and all bits there."""
    _check_logits(logits, batch)
    wrong = _wrong(logits[batch.answers], batch.targets[batch.answers])
    return int(wrong.sum()), wrong.numel()


def _wrong(logits: Tensor, targets: Tensor) -> Tensor:
    """Where a logit says another bit; a NaN says nothing, which is wrong whatever was asked."""
    return ((logits > 0) != (targets > 0)) | logits.isnan()


@dataclass(frozen=True)
class BitmapScore:
    """The figures that are reported."""

    loss: float
    """The mean loss of a sequence."""
    bit_error: float
    """Wrong bits / bits, at the answer steps."""
    faultless: float
    """The share of sequences without any wrong bit, silence included."""


def bitmap_score(counts: BitmapCounts) -> BitmapScore:
    """The figures from the counts of at least one batch."""
    if counts.sequences == 0:
        raise ValueError("counts: expected those of at least one batch, got none")
    return BitmapScore(
        loss=counts.loss / counts.sequences,
        bit_error=counts.wrong_bits / counts.bits,
        faultless=1 - counts.faulty / counts.sequences,
    )


def _check_logits(logits: Tensor, batch: BitmapBatch) -> None:
    if logits.shape != batch.targets.shape:
        raise ValueError(
            f"logits: expected shape {list(batch.targets.shape)}, got {list(logits.shape)}"
        )


# --- showing -------------------------------------------------------------------------------------


def sample_text(batch: BitmapBatch, sample: int = 0) -> str:
    """One sample, time from left to right: ``#`` is a set bit, ``.`` one that is not."""
    lines = [f"{'answer':>7} |{_row(batch.answers.tolist(), '^', ' ')}|"]
    for name, rows in (("input", batch.inputs), ("target", batch.targets)):
        lines.append("")
        lines += [
            f"{name if bit == 0 else '':>7} |{_row((values > 0).tolist(), '#', '.')}|"
            for bit, values in enumerate(rows[:, sample].T)
        ]
    return "\n".join(lines) + "\n"


def _row(values: list[bool], yes: str, no: str) -> str:
    return "".join(yes if value else no for value in values)
