"""Key-value retrieval: the layout, read back phase by phase; each answer, looked up anew."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dnclab.tasks.bitmap import BitmapStream
from dnclab.tasks.key_value import ONE_WAY, PAPER, KeyValue


def check(task: KeyValue, seed: int) -> int:
    """The number of pairs of a batch, all of which is checked."""
    inputs, targets, answers = BitmapStream(task, seed=seed).batch()
    bits, phases = task.bits, 3 if task.two_way else 2
    pairs = len(inputs) // phases - 1
    assert len(inputs) == phases * (pairs + 1)
    keys, values = inputs[:pairs, :, :bits], inputs[:pairs, :, bits : 2 * bits]
    flags = torch.full((len(inputs), task.input_size - 2 * bits), -1.0)
    flags[pairs, 0] = 1
    if task.two_way:
        flags[2 * pairs + 1, 1] = 1
    flags[-1] = 1
    assert (inputs[:, :, 2 * bits :] == flags[:, None]).all()
    assert (inputs[pairs:, :, bits : 2 * bits] == -1).all()
    assert (inputs[pairs :: pairs + 1, :, : 2 * bits] == -1).all()

    expected = torch.zeros(len(inputs), dtype=torch.bool)
    sides: list[tuple[Tensor, Tensor]] = [(keys, values), (values, keys)][: phases - 1]
    for phase, (known, sought) in enumerate(sides, start=1):
        rows = slice(phase * (pairs + 1), phase * (pairs + 1) + pairs)
        expected[rows] = True
        for sample in range(inputs.shape[1]):
            asked = []
            for question, answer in zip(
                inputs[rows, sample, :bits], targets[rows, sample], strict=True
            ):
                [match] = (known[:, sample] == question).all(-1).nonzero().flatten().tolist()
                assert torch.equal(2 * answer - 1, sought[match, sample])
                asked.append(match)
            assert sorted(asked) == list(range(pairs))  # each once
    assert torch.equal(answers, expected)
    assert not targets[~answers].any()
    return pairs


@given(
    bits=st.integers(1, 6),
    least=st.integers(1, 6),
    more=st.integers(0, 6),
    two_way=st.booleans(),
    batch_size=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_the_layout(
    bits: int, least: int, more: int, two_way: bool, batch_size: int, seed: int
) -> None:
    most = min(least + more, 2**bits)
    task = KeyValue(
        bits=bits,
        min_pairs=min(least, most),
        max_pairs=most,
        two_way=two_way,
        batch_size=batch_size,
    )
    assert task.min_pairs <= check(task, seed) <= task.max_pairs


def test_the_papers_sizes() -> None:
    assert (PAPER.input_size, PAPER.output_size) == (18, 8)
    assert (ONE_WAY.input_size, ONE_WAY.output_size) == (17, 8)
    assert {check(PAPER, seed) for seed in range(200)} == set(range(2, 17))


def test_orders_of_the_phases_differ() -> None:
    """Shown in one order, asked in another, asked back in a third."""
    orders = set()
    for seed in range(30):
        inputs, targets, _ = BitmapStream(KeyValue(min_pairs=16, batch_size=1), seed=seed).batch()
        shown, forth, back = inputs[:16, 0, :8], inputs[17:33, 0, :8], 2 * targets[34:50, 0] - 1
        orders.add((torch.equal(shown, forth), torch.equal(shown, back), torch.equal(forth, back)))
    assert orders == {(False, False, False)}


def test_values_may_repeat_only_where_nobody_asks_them_back() -> None:
    repeated = 0
    for seed in range(50):
        inputs, _, _ = BitmapStream(ONE_WAY, seed=seed).batch()
        pairs = len(inputs) // 2 - 1
        values = inputs[:pairs, :, 8:16]
        repeated += sum(len(values[:, s].unique(dim=0)) < pairs for s in range(16))
    assert repeated > 0
