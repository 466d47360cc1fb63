"""The state: a plain pytree that its user carries, cuts, mixes, stores."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from torch.utils import _pytree as pytree

from dnclab import DNC, DNCState

SETTINGS: dict[str, Any] = {"hidden_size": 6, "cells": 5, "word_size": 4, "read_heads": 2}


@pytest.fixture
def model() -> DNC:
    return DNC(3, 2, num_layers=2, dtype=torch.float64, **SETTINGS)


def leaves(state: DNCState) -> list[Tensor]:
    return pytree.tree_leaves(state)


def test_the_batch_is_axis_0_of_every_tensor(model: DNC) -> None:
    assert len(leaves(model.initial_state(7))) == 4 + 7
    assert all(leaf.shape[0] == 7 for leaf in leaves(model.initial_state(7)))
    assert not any(leaf.any() for leaf in leaves(model.initial_state(7)))


def test_an_unbatched_state_has_no_batch_axis(model: DNC) -> None:
    state = model.initial_state()
    assert state.memory.links.shape == (5, 5)
    assert state.controller[0][0].shape == (6,)


def test_copied_flattened_and_stored(model: DNC) -> None:
    _, state = model(torch.randn(4, 2, 3, dtype=torch.float64))
    flat, structure = pytree.tree_flatten(state)
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    for other in (
        pytree.tree_unflatten(flat, structure),
        copy.deepcopy(state.detach()),
        torch.load(file, weights_only=True),
    ):
        assert isinstance(other, DNCState)
        for own, others in zip(leaves(state), leaves(other), strict=True):
            assert torch.equal(own, others)
        again, _ = model(torch.ones(1, 2, 3, dtype=torch.float64), other)
        expected, _ = model(torch.ones(1, 2, 3, dtype=torch.float64), state)
        assert torch.equal(again, expected)


def test_slices_by_sample_are_states_of_those_samples(model: DNC) -> None:
    x = torch.randn(6, 4, 3, dtype=torch.float64)
    _, state = model(x[:3])
    y, _ = model(x[3:], state)
    part, _ = model(x[3:, 1:3], state.map(lambda t: t[1:3]))
    assert_close(part, y[:, 1:3])


def test_where_resets_some_samples(model: DNC) -> None:
    x = torch.randn(6, 3, 3, dtype=torch.float64)
    _, state = model(x[:3])
    done = torch.tensor([False, True, False])
    mixed, _ = model(x[3:], state.where(~done, model.initial_state(3)))
    assert torch.equal(mixed[:, [0, 2]], model(x[3:], state)[0][:, [0, 2]])
    assert torch.equal(mixed[:, 1], model(x[3:])[0][:, 1])

    with pytest.raises(ValueError, match=r"condition: expected shape \[3\], got \[2\]"):
        state.where(done[:2], model.initial_state(3))
    with pytest.raises(TypeError, match=r"condition: expected dtype torch.bool"):
        state.where(done.float(), model.initial_state(3))
    nothing: Any = None
    with pytest.raises(TypeError, match="other: expected a DNCState, got NoneType"):
        state.where(done, nothing)
    for other, message in (
        (model.initial_state(4), r"other, tensor 0: expected shape \[3, 6\], got \[4, 6\]"),
        (model.initial_state(1), r"other, tensor 0: expected shape \[3, 6\], got \[1, 6\]"),
        (DNC(3, 2, dtype=torch.float64, **SETTINGS).initial_state(3), "other: expected 11 tensors"),
    ):
        with pytest.raises(ValueError, match=message):
            state.where(done, other)
    with pytest.raises(TypeError, match=r"other, tensor 0: expected dtype torch.float64"):
        state.where(done, model.initial_state(3).map(Tensor.float))
    with pytest.raises(ValueError, match="where: expected a state with a batch axis"):
        model.initial_state().where(done, model.initial_state())


def test_gradients_flow_through_the_state_until_it_is_detached(model: DNC) -> None:
    x = torch.randn(3, 2, 3, dtype=torch.float64, requires_grad=True)
    _, state = model(x)
    y, _ = model(torch.ones(2, 2, 3, dtype=torch.float64), state)
    [gradient] = torch.autograd.grad(y.sum(), x)
    assert (gradient.abs().sum(-1) > 0).all()

    assert not any(leaf.requires_grad for leaf in leaves(state.detach()))
    y, _ = model(torch.ones(2, 2, 3, dtype=torch.float64), state.detach())
    [gradient] = torch.autograd.grad(y.sum(), x, allow_unused=True)
    assert gradient is None


def test_a_start_of_ones_own_can_be_trained(model: DNC) -> None:
    """The initial memory as a parameter: gradients reach every part that matters."""
    start = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    fresh = model.initial_state(2)
    state = fresh._replace(memory=fresh.memory._replace(memory=start.expand(2, 5, 4)))
    y, _ = model(torch.randn(3, 2, 3, dtype=torch.float64), state)
    y.square().sum().backward()
    assert start.grad is not None
    assert start.grad.abs().sum() > 0


def test_states_that_do_not_fit_are_refused(model: DNC) -> None:
    x = torch.zeros(4, 2, 3, dtype=torch.float64)
    good = model.initial_state(2)
    no_memory: Any = tuple(good.memory)

    def refused(error: type[Exception], message: str, state: Any) -> None:
        with pytest.raises(error, match=message):
            model(x, state)

    refused(TypeError, "state: expected a DNCState, got Tensor", x)
    refused(TypeError, "state: expected a DNCState, got tuple", tuple(good))
    refused(TypeError, r"state.memory: expected a MemoryState, got tuple",
            DNCState(good.controller, no_memory))  # fmt: skip
    refused(ValueError, r"state.memory.memory: expected shape \[2, 5, 4\], got \[3, 5, 4\]",
            model.initial_state(3))  # fmt: skip
    refused(ValueError, r"state.memory.memory: expected shape \[2, 5, 4\], got \[5, 4\]",
            model.initial_state())  # fmt: skip
    refused(ValueError, r"state.memory.memory: expected shape \[2, 5, 4\], got \[2, 9, 4\]",
            model.with_cells(9).initial_state(2))  # fmt: skip
    one_layer = DNC(3, 2, dtype=torch.float64, **SETTINGS)
    refused(ValueError, "state.controller: expected 4 tensors arranged as in initial_state, got 2",
            one_layer.initial_state(2))  # fmt: skip
    wider = DNC(3, 2, num_layers=2, dtype=torch.float64, **(SETTINGS | {"hidden_size": 8}))
    refused(ValueError, r"state.controller, tensor 0: expected shape \[2, 6\], got \[2, 8\]",
            wider.initial_state(2))  # fmt: skip
    refused(TypeError, "state.memory.memory: expected dtype torch.float64, got torch.float32",
            good.map(Tensor.float))  # fmt: skip
    refused(ValueError, "state.memory.memory: expected device cpu, got meta",
            good.map(lambda t: t.to("meta")))  # fmt: skip
    with pytest.raises(ValueError, match="batch_size: expected at least 1, got 0"):
        model.initial_state(0)
