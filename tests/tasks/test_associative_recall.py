"""Associative recall: the layout, read back block by block; the answer, looked up anew."""

from __future__ import annotations

from collections import Counter

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dnclab.tasks.associative_recall import PAPER, AssociativeRecall
from dnclab.tasks.bitmap import BitmapStream


def asked_blocks(task: AssociativeRecall, seed: int) -> tuple[int, list[int]]:
    """The number of blocks, and which one each sample is asked about; checks all on the way."""
    inputs, targets, answers = BitmapStream(task, seed=seed).batch()
    rows, bits = task.block_length, task.bits
    count = (len(inputs) + 1) // (rows + 1) - 2
    assert len(inputs) == (count + 2) * (rows + 1) - 1

    def block(index: int) -> Tensor:
        """[rows B bits]"""
        start = index * (rows + 1)
        shown = inputs[start : start + rows]
        assert (shown[..., bits:] == -1).all()
        end = inputs[start + rows]
        assert (end[:, :bits] == -1).all()
        last = index >= count - 1
        assert (end[:, bits] == (-1 if last else 1)).all()
        assert (end[:, bits + 1] == (1 if last else -1)).all()
        return shown[..., :bits]

    blocks = torch.stack([block(index) for index in range(count)])
    question = block(count)
    assert (inputs[-rows:] == -1).all()
    assert answers.tolist() == [False] * (len(inputs) - rows) + [True] * rows
    assert not targets[:-rows].any()
    assert not targets[-rows:, :, bits:].any()
    asked = []
    for sample in range(inputs.shape[1]):
        own = blocks[:, :, sample]
        assert len(own.flatten(1).unique(dim=0)) == count  # no block twice
        matches = (own == question[:, sample]).all(-1).all(-1).nonzero().flatten().tolist()
        [match] = matches
        assert match < count - 1
        assert torch.equal(2 * targets[-rows:, sample, :bits] - 1, own[match + 1])
        asked.append(match)
    return count, asked


@given(
    bits=st.integers(1, 5),
    block_length=st.integers(1, 4),
    blocks=st.tuples(st.integers(2, 5), st.integers(0, 4)),
    batch_size=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_the_layout(
    bits: int, block_length: int, blocks: tuple[int, int], batch_size: int, seed: int
) -> None:
    most = min(sum(blocks), 2 ** (bits * block_length))
    task = AssociativeRecall(
        bits=bits,
        block_length=block_length,
        min_blocks=min(blocks[0], most),
        max_blocks=most,
        batch_size=batch_size,
    )
    count, _ = asked_blocks(task, seed)
    assert task.min_blocks <= count <= task.max_blocks


def test_the_papers_sizes_are_drawn_from_end_to_end() -> None:
    drawn = [asked_blocks(PAPER, seed) for seed in range(300)]
    counts = Counter(count for count, _ in drawn)
    assert set(counts) == set(range(2, 17))
    places = Counter(place for count, asked in drawn if count == 16 for place in asked)
    assert set(places) == set(range(15))  # any block but the last
    assert all(len(BitmapStream(PAPER, seed=seed).batch().inputs) == 4 * count + 7
               for seed, (count, _) in enumerate(drawn[:20]))  # fmt: skip
