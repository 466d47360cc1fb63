"""What the tasks on rows of bits share, and what holds for all of them."""

from __future__ import annotations

import importlib
import json
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dnclab.tasks import BITMAP_TASKS
from dnclab.tasks.associative_recall import AssociativeRecall
from dnclab.tasks.bitmap import (
    BitmapBatch,
    BitmapCounts,
    BitmapStream,
    BitmapTask,
    bitmap_loss,
    bitmap_score,
    count_bits,
    draw_bits,
    draw_distinct,
    draw_number,
    draw_orders,
    evaluation_set,
    resized,
    sample_text,
)
from dnclab.tasks.key_value import KeyValue
from dnclab.tasks.repeat_copy import RepeatCopy
from dnclab.tasks.stream import random_source

GOLDEN = Path(__file__).parents[1] / "golden" / "bitmap_batches.json"


def fingerprint(batch: BitmapBatch) -> dict[str, Any]:
    """Enough of a batch to see any change."""
    return {
        "steps": len(batch.inputs),
        "input_bits": int((batch.inputs > 0).sum()),
        "target_bits": int(batch.targets.sum()),
        "answer_steps": int(batch.answers.sum()),
        "checksum": [zlib.crc32(part.numpy().tobytes()) for part in batch],
    }


def golden_batches() -> dict[str, list[dict[str, Any]]]:
    """Three batches of each task at seed 3, and one that is held out."""
    return {
        name: [
            *(fingerprint(BitmapStream(task, seed=3).numbered_batch(n)) for n in range(3)),
            fingerprint(next(evaluation_set(task, 1, seed=3))),
        ]
        for name, task in BITMAP_TASKS.items()
    }


def test_golden_batches() -> None:
    """The file was written by ``json.dump(golden_batches(), ...)``."""
    assert golden_batches() == json.loads(GOLDEN.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["repeat_copy", "associative_recall", "key_value"])
def test_the_pictures_in_the_docstrings_are_samples(name: str) -> None:
    module = importlib.import_module(f"dnclab.tasks.{name}")
    assert module.__doc__ is not None
    seed = int(module.__doc__.split("(seed ")[1].split(" ")[0])
    drawn = sample_text(BitmapStream(module.DRAWN, seed=seed).batch())
    indented = "\n".join(f"    {line}".rstrip() for line in drawn.splitlines())
    assert indented in module.__doc__


SMALL: dict[str, BitmapTask] = {
    "repeat-copy": RepeatCopy(bits=3, max_length=4, max_repeats=3, batch_size=4),
    "associative-recall": AssociativeRecall(bits=2, block_length=2, max_blocks=5, batch_size=4),
    "key-value": KeyValue(bits=3, max_pairs=6, batch_size=4),
    "key-value-one-way": KeyValue(bits=3, max_pairs=8, two_way=False, batch_size=4),
}


@pytest.mark.parametrize("task", [*BITMAP_TASKS.values(), *SMALL.values()], ids=repr)
def test_the_form_of_a_batch(task: BitmapTask) -> None:
    stream = BitmapStream(task, seed=1)
    for _ in range(20):
        inputs, targets, answers = stream.batch()
        steps, samples = inputs.shape[:2]
        assert inputs.shape[2] == task.input_size
        assert targets.shape == (steps, samples, task.output_size)
        assert answers.shape == (steps,)
        assert inputs.dtype == targets.dtype == torch.float32
        assert answers.dtype == torch.bool
        assert set(inputs.unique().tolist()) <= {-1.0, 1.0}
        assert set(targets.unique().tolist()) <= {0.0, 1.0}
        assert not targets[~answers].any()  # silence


def test_bits_are_fair_and_independent() -> None:
    bits = draw_bits(random_source(0, 0), 400, 100).astype(float)
    assert abs(bits.mean() - 0.5) < 4 * 0.5 / math.sqrt(bits.size)
    correlations = np.corrcoef(bits.T)[np.triu_indices(100, 1)]
    assert abs(correlations.mean()) < 4 / math.sqrt(400 * len(correlations))
    assert np.abs(correlations).max() < 5 / math.sqrt(400)


def test_numbers_come_uniformly() -> None:
    counts = np.bincount([draw_number(random_source(0, n), 2, 6) for n in range(4000)])
    assert counts[:2].sum() == 0
    assert len(counts) == 7
    assert np.abs(counts[2:] - 800).max() < 4 * math.sqrt(800)


@given(
    bits=st.integers(1, 40),
    share=st.floats(0, 1),
    samples=st.integers(1, 4),
    number=st.integers(0, 1000),
)
def test_distinct_words_are_distinct(bits: int, share: float, samples: int, number: int) -> None:
    """From one word to all there are, or a hundred."""
    count = 1 + int(share * (min(2**bits, 100) - 1))
    words = draw_distinct(random_source(1, number), samples, count, bits)
    assert words.shape == (count, samples, bits)
    for sample in range(samples):
        assert len(np.unique(words[:, sample], axis=0)) == count


@pytest.mark.parametrize(("bits", "count"), [(2, 3), (3, 2)])
def test_distinct_words_come_uniformly(bits: int, count: int) -> None:
    """Every ordered choice is equally likely, both where all are shuffled and where some repeat."""
    words = draw_distinct(random_source(2, 0), 24_000, count, bits) @ (1 << np.arange(bits))
    choices = math.perm(2**bits, count)
    _, counts = np.unique(words.T, axis=0, return_counts=True)
    assert len(counts) == choices
    expected = 24_000 / choices
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < choices - 1 + 4 * math.sqrt(2 * (choices - 1))


def test_orders_are_permutations() -> None:
    orders = draw_orders(random_source(3, 0), 6000, 3)
    assert (np.sort(orders, axis=0) == np.arange(3)[:, None]).all()
    _, counts = np.unique(orders.T, axis=0, return_counts=True)
    assert len(counts) == 6
    assert np.abs(counts - 1000).max() < 4 * math.sqrt(1000)


# --- evaluation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BITMAP_TASKS)
def test_evaluation_sets_are_fixed_and_not_for_training(name: str) -> None:
    task = BITMAP_TASKS[name]
    held_out = list(evaluation_set(task, 3))
    again = list(evaluation_set(task, 5))[:3]
    for ours, others in zip(held_out, again, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, others, strict=True))
    training = {fingerprint(BitmapStream(task, seed=0).numbered_batch(n))["checksum"][0]
                for n in range(200)}  # fmt: skip
    assert all(fingerprint(batch)["checksum"][0] not in training for batch in held_out)
    with pytest.raises(ValueError, match="batches: expected at least 1, got 0"):
        evaluation_set(task, 0)


@pytest.mark.parametrize("name", BITMAP_TASKS)
def test_longer_tasks_begin_where_training_ends(name: str) -> None:
    task: Any = BITMAP_TASKS[name]
    longer = task.longer(2)
    [field] = [field for field in ("max_length", "max_blocks", "max_pairs") if hasattr(task, field)]
    least = field.replace("max", "min")
    assert getattr(longer, least) == getattr(task, field) + 1
    assert getattr(longer, field) == 2 * getattr(task, field)
    assert longer.input_size == task.input_size  # the same model reads it
    BitmapStream(longer).batch()
    for factor in (1.0, 0.5, float("nan")):
        with pytest.raises(ValueError, match=f"factor: expected one that makes {field}="):
            task.longer(factor)


# --- loss and metrics by hand --------------------------------------------------------------------


def hand_made() -> BitmapBatch:
    """Two samples of 3 steps and 2 bits; answers at the last two."""
    targets = torch.tensor([[[0, 0], [0, 0]], [[1, 0], [0, 1]], [[1, 1], [0, 0]]]).float()
    return BitmapBatch(torch.zeros(3, 2, 4), targets, torch.tensor([False, True, True]))


def test_loss_by_hand() -> None:
    """Summed over time and bits, averaged over the batch."""
    assert bitmap_loss(torch.zeros(3, 2, 2), hand_made()).item() == pytest.approx(6 * math.log(2))
    logits = torch.zeros(3, 2, 2)
    logits[1, 0, 0] = 2.0  # a 1 is asked
    expected = (11 * math.log(2) + math.log1p(math.exp(-2))) / 2
    assert bitmap_loss(logits, hand_made()).item() == pytest.approx(expected)


def test_metrics_by_hand() -> None:
    batch = hand_made()
    right = 4 * batch.targets - 2
    perfect = bitmap_score(count_bits(right, batch))
    assert (perfect.bit_error, perfect.faultless) == (0, 1)
    one_wrong = right.clone()
    one_wrong[2, 1, 0] = 2.0
    score = bitmap_score(count_bits(one_wrong, batch))
    assert (score.bit_error, score.faultless) == (1 / 8, 1 / 2)
    assert score.loss == pytest.approx(bitmap_loss(one_wrong, batch).item())
    noise = right.clone()
    noise[0] = 2.0  # noise where silence is due: no answer is wrong, no sequence is right
    score = bitmap_score(count_bits(noise, batch))
    assert (score.bit_error, score.faultless) == (0, 0)


def test_a_nan_is_wrong_even_where_a_zero_is_asked() -> None:
    batch = hand_made()
    logits = 4 * batch.targets - 2
    logits[1, 0] = torch.nan
    counts = count_bits(logits, batch)
    assert (counts.wrong_bits, counts.faulty) == (2, 1)
    assert math.isnan(counts.loss)


def test_counts_of_batches_add_up() -> None:
    batch = hand_made()
    logits = torch.randn(3, 2, 2, generator=torch.Generator().manual_seed(0))
    counts = count_bits(logits, batch)
    assert counts + BitmapCounts() == counts
    twice = bitmap_score(counts + counts)
    assert twice == bitmap_score(counts)
    with pytest.raises(ValueError, match="counts: expected those of at least one batch"):
        bitmap_score(BitmapCounts())


def test_logits_of_another_shape_are_refused() -> None:
    for score in (bitmap_loss, count_bits):
        with pytest.raises(ValueError, match=r"logits: expected shape \[3, 2, 2\], got \[3, 2, 1"):
            score(torch.zeros(3, 2, 1), hand_made())


# --- sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RepeatCopy(bits=0), "bits: expected at least 1, got 0"),
        (lambda: RepeatCopy(min_length=0), "min_length: expected at least 1"),
        (lambda: RepeatCopy(min_length=5, max_length=4),
         "min_length: expected at most max_length=4, got 5"),
        (lambda: RepeatCopy(min_repeats=9), "min_repeats: expected at most max_repeats=8, got 9"),
        (lambda: RepeatCopy(batch_size=0), "batch_size: expected at least 1"),
        (lambda: AssociativeRecall(min_blocks=1), "min_blocks: expected at least 2, for one to"),
        (lambda: AssociativeRecall(block_length=0), "block_length: expected at least 1"),
        (lambda: AssociativeRecall(min_blocks=17), "min_blocks: expected at most max_blocks=16"),
        (lambda: AssociativeRecall(bits=1, max_blocks=9),
         "max_blocks: expected at most 8, the number of different words of 3 bits, got 9"),
        (lambda: KeyValue(bits=4, max_pairs=17),
         "max_pairs: expected at most 16, the number of different words of 4 bits, got 17"),
        (lambda: KeyValue(min_pairs=3, max_pairs=2), "min_pairs: expected at most max_pairs=2"),
    ],
)  # fmt: skip
def test_impossible_sizes_are_refused_at_once(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_sizes_of_the_wrong_type_are_refused() -> None:
    wrong: Any = 2.5
    with pytest.raises(TypeError, match=r"max_length: expected an int, got 2\.5"):
        RepeatCopy(max_length=wrong)
    with pytest.raises(TypeError, match=r"two_way: expected a bool, got 2\.5"):
        KeyValue(two_way=wrong)


def test_resized() -> None:
    task = resized(KeyValue(), {"bits": "4", "two_way": "false"})
    assert task == KeyValue(bits=4, two_way=False)
    for sizes, message in (
        ({"colour": "3"}, "colour: expected one of bits, min_pairs"),
        ({"bits": "-3"}, "bits: expected a whole number, got '-3'"),
        ({"two_way": "1"}, "two_way: expected true or false, got '1'"),
    ):
        with pytest.raises(ValueError, match=message):
            resized(KeyValue(), sizes)
