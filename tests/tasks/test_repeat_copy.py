"""Repeat copy: the layout, read back row by row."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dnclab.tasks.bitmap import BitmapStream
from dnclab.tasks.repeat_copy import APPENDIX, PAPER, RepeatCopy


def lengths_of(task: RepeatCopy, seed: int) -> list[int]:
    """The rows of each instance of a batch, while its layout is checked step by step."""
    inputs, targets, answers = BitmapStream(task, seed=seed).batch()
    lengths, start = [], 0
    while start < len(inputs):
        marker = start + int((inputs[start:, 0, -1] > 0).nonzero()[0])
        length = marker - start
        read, said = slice(start, marker), slice(marker + 1, marker + 1 + length)
        end = marker + 1 + length
        # L rows without the marker, then the marker alone, then L + 1 blanks ...
        assert (inputs[read, :, -1] == -1).all()
        assert (inputs[marker, :, -1] == 1).all()
        assert (inputs[marker, :, :-1] == -1).all()
        assert (inputs[marker + 1 : end + 1] == -1).all()
        # ... silence while they are read, then the rows and at last the marker.
        assert not targets[start : marker + 1].any()
        assert torch.equal(2 * targets[said, :, :-1] - 1, inputs[read, :, :-1])
        assert not targets[said, :, -1].any()
        assert not targets[end, :, :-1].any()
        assert (targets[end, :, -1] == 1).all()
        assert not answers[start : marker + 1].any()
        assert answers[marker + 1 : end + 1].all()
        lengths.append(length)
        start = end + 1
    assert start == len(inputs)
    return lengths


@given(
    bits=st.integers(1, 5),
    length=st.tuples(st.integers(1, 5), st.integers(0, 3)),
    repeats=st.tuples(st.integers(1, 4), st.integers(0, 3)),
    batch_size=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_the_layout(
    bits: int, length: tuple[int, int], repeats: tuple[int, int], batch_size: int, seed: int
) -> None:
    task = RepeatCopy(
        bits=bits,
        min_length=length[0],
        max_length=sum(length),
        min_repeats=repeats[0],
        max_repeats=sum(repeats),
        batch_size=batch_size,
    )
    lengths = lengths_of(task, seed)
    assert task.min_repeats <= len(lengths) <= task.max_repeats
    assert all(task.min_length <= own <= task.max_length for own in lengths)


def test_the_papers_sizes_are_drawn_from_end_to_end() -> None:
    drawn = [lengths_of(PAPER, seed) for seed in range(400)]
    repeats = Counter(len(lengths) for lengths in drawn)
    lengths = Counter(length for lengths in drawn for length in lengths)
    assert set(repeats) == set(range(1, 9))
    assert set(lengths) == set(range(2, 15))
    assert max(repeats.values()) < 50 + 5 * 50**0.5
    mean = sum(lengths.values()) / 13
    assert max(abs(count - mean) for count in lengths.values()) < 5 * mean**0.5
    assert any(len(set(lengths)) > 1 for lengths in drawn)  # each instance draws its own


def test_the_appendix_exchanges_the_ranges() -> None:
    assert (APPENDIX.min_length, APPENDIX.max_length) == (1, 8)
    assert (APPENDIX.min_repeats, APPENDIX.max_repeats) == (2, 14)


def test_more_repeats() -> None:
    assert PAPER.more_repeats(2) == RepeatCopy(min_repeats=9, max_repeats=16)
    with pytest.raises(ValueError, match="factor: expected one that makes max_repeats=8 greater"):
        PAPER.more_repeats(1.1)
