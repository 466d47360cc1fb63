"""Streams: the same batches in any number of processes, from any place."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from dnclab.tasks.bitmap import BitmapBatch, BitmapStream
from dnclab.tasks.key_value import KeyValue
from dnclab.tasks.repeat_copy import PAPER, RepeatCopy
from dnclab.tasks.stream import random_source

# Python 3.12 warns that forking beside threads may deadlock; the workers here only make arrays.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def same(ours: list[BitmapBatch], others: list[BitmapBatch]) -> bool:
    return len(ours) == len(others) and all(
        torch.equal(a, b)
        for own, other in zip(ours, others, strict=True)
        for a, b in zip(own, other, strict=True)
    )


def take(stream: BitmapStream, count: int) -> list[BitmapBatch]:
    return [stream.batch() for _ in range(count)]


@pytest.mark.parametrize("seed", [1.5, "1", True, None])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(TypeError, match=rf"^seed: expected an int, got {seed!r} of type"):
        BitmapStream(PAPER, seed=seed)


def test_the_seed_decides() -> None:
    first = take(BitmapStream(PAPER, seed=4), 5)
    assert same(first, take(BitmapStream(PAPER, seed=4), 5))
    assert not same(first, take(BitmapStream(PAPER, seed=5), 5))
    assert not same(first[:1], first[1:2])


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_any_number_of_workers_gives_the_same_batches(workers: int) -> None:
    stream = BitmapStream(PAPER, seed=4)
    before = torch.get_rng_state()
    batches = [stream.batch(), *stream.batches(5, workers=workers), stream.batch()]
    assert same(batches, take(BitmapStream(PAPER, seed=4), 7))
    assert stream.drawn == 7
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_goes_on_after_what_was_handed_out(workers: int) -> None:
    whole = take(BitmapStream(PAPER, seed=4), 8)
    stream = BitmapStream(PAPER, seed=4)
    handed_out = stream.batches(8, workers=workers)
    for _ in range(3):
        next(handed_out)
    state = json.loads(json.dumps(stream.state_dict()))
    resumed = BitmapStream(PAPER, seed=4)
    resumed.load_state_dict(state)
    assert same(take(resumed, 5), whole[3:])


def test_states_of_other_streams_are_refused() -> None:
    stream = BitmapStream(PAPER, seed=4)
    for other in (
        BitmapStream(PAPER, seed=5),
        BitmapStream(PAPER, seed=4, held_out=True),
        BitmapStream(RepeatCopy(bits=7), seed=4),
        BitmapStream(KeyValue(), seed=4),
    ):
        with pytest.raises(ValueError, match="state: expected one of the same batches"):
            stream.load_state_dict(other.state_dict())
    for drawn in (-1, 1.5, None, "3", True):
        with pytest.raises(ValueError, match="state: expected a count of batches as 'drawn'"):
            stream.load_state_dict(stream.state_dict() | {"drawn": drawn})
    assert stream.drawn == 0


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seeds_out_of_range_are_refused(seed: int) -> None:
    with pytest.raises(ValueError, match=r"seed: expected 0 to 2\^64 - 1"):
        BitmapStream(PAPER, seed=seed)


def test_no_two_batches_share_random_numbers() -> None:
    """Also not those for training and those held out, nor those of neighbouring seeds."""
    drawn = [
        random_source(seed, number, held_out=held_out).random_raw(1000)
        for seed in (0, 1, 2**64 - 1)
        for number in (0, 1, 2, 10**9)
        for held_out in (False, True)
    ]
    together = np.concatenate(drawn)
    assert len(np.unique(together)) == len(together)


def test_the_random_numbers_never_change() -> None:
    """Golden: a change here changes every experiment."""
    assert random_source(3, 7).random_raw(2).tolist() == GOLDEN_TRAINING
    assert random_source(3, 7, held_out=True).random_raw(2).tolist() == GOLDEN_HELD_OUT


GOLDEN_TRAINING = [6853491620574804025, 12339992712782869211]
GOLDEN_HELD_OUT = [15482301476619081235, 4634088620322226569]
