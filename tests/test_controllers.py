"""LSTM, feed-forward, and a controller of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from dnclab import DNC, Controller, FeedForwardController, LSTMController

F64 = torch.float64


class GRUController(nn.Module):
    """A controller as a user would write it: two methods, no base class of ours."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(input_size, hidden_size)

    def initial_state(self, batch_size: int, *, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.zeros(batch_size, self.cell.hidden_size, dtype=dtype, device=device)

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = self.cell(inputs, state)
        return state, state


@pytest.mark.parametrize("input_size", [1, 5])
def test_one_layer_is_pytorchs_lstm(input_size: int) -> None:
    ours = LSTMController(input_size, 4)
    ours.double()
    theirs = nn.LSTMCell(input_size, 4, dtype=F64)
    gates: Any = ours.gates[0]
    with torch.no_grad():
        theirs.weight_ih.copy_(gates.weight[:, :input_size])
        theirs.weight_hh.copy_(gates.weight[:, input_size:])
        theirs.bias_ih.copy_(gates.bias)
        theirs.bias_hh.zero_()
    state = ours.initial_state(3, dtype=F64, device=torch.device("cpu"))
    h = c = torch.zeros(3, 4, dtype=F64)
    for _ in range(3):
        inputs = torch.randn(3, input_size, dtype=F64)
        output, state = ours(inputs, state)
        h, c = theirs(inputs, (h, c))
        assert_close(output, h)
        assert_close(state, ((h, c),))


def test_each_layer_sees_the_inputs_and_the_layer_below() -> None:
    controller = LSTMController(2, 3, num_layers=3)
    controller.double()
    assert [gates.in_features for gates in controller.gates] == [2 + 3, 2 + 3 + 3, 2 + 3 + 3]
    state = controller.initial_state(1, dtype=F64, device=torch.device("cpu"))
    output, state = controller(torch.randn(1, 2, dtype=F64), state)
    assert output.shape == (1, 9)
    assert controller.output_size == 9
    assert_close(output, torch.cat([layer_output for layer_output, _ in state], dim=-1))
    inputs = torch.randn(1, 2, dtype=F64, requires_grad=True)
    layers: list[Any] = list(controller.gates)
    blind = [nn.Parameter(gates.weight.detach().clone()) for gates in layers]
    with torch.no_grad():
        blind[0][:, :2] = 0  # the first layer no longer sees the inputs, the others still do
        for gates, weight in zip(layers, blind, strict=True):
            gates.weight.copy_(weight)
    output, _ = controller(inputs, state)
    for layer in (1, 2):
        [gradient] = torch.autograd.grad(output[0, 3 * layer], inputs, retain_graph=True)
        assert gradient.abs().sum() > 0


def test_lstm_initialisation() -> None:
    controller = LSTMController(50, 40)
    gates: Any = controller.gates[0]
    assert torch.equal(gates.bias.chunk(4)[1], torch.ones(40))
    for other in (0, 2, 3):
        assert not gates.bias.chunk(4)[other].any()
    xavier = (6 / (90 + 40)) ** 0.5
    for index, gain in enumerate((1, 1, 5 / 3, 1)):
        largest = gates.weight.chunk(4)[index].abs().max().item()
        assert 0.95 * gain * xavier < largest <= gain * xavier * (1 + 1e-6)


def test_feed_forward_by_hand() -> None:
    controller = FeedForwardController(2, 2, num_layers=2)
    assert controller.output_size == 2
    with torch.no_grad():
        layer: Any
        for layer in controller.layers:
            layer.weight.copy_(torch.tensor([[1.0, -1.0], [2.0, 0.5]]))
            layer.bias.copy_(torch.tensor([0.0, -1.0]))
    outputs, state = controller(torch.tensor([[3.0, 1.0]]), ())
    # [3, 1] → [2, 5.5] → [-3.5, 5.75], negative numbers cut off
    assert outputs.tolist() == [[0.0, 5.75]]
    assert state == ()


def test_both_follow_the_protocol() -> None:
    assert isinstance(LSTMController(2, 3), Controller)
    assert isinstance(FeedForwardController(2, 3), Controller)
    assert isinstance(GRUController(2, 3), Controller)
    assert not isinstance(nn.Linear(2, 3), Controller)


SETTINGS: dict[str, Any] = {
    "hidden_size": 6,
    "cells": 5,
    "word_size": 4,
    "read_heads": 2,
    "dtype": F64,
}


@pytest.mark.parametrize(("controller", "layers"), [("lstm", 1), ("lstm", 3), ("feedforward", 2)])
def test_named_controllers_in_a_model(controller: str, layers: int) -> None:
    model = DNC(3, 2, controller=controller, num_layers=layers, **SETTINGS)
    y, state = model(torch.randn(4, 2, 3, dtype=F64))
    assert y.shape == (4, 2, 2)
    again, _ = model(torch.randn(4, 2, 3, dtype=F64), state)
    (y.sum() + again.sum()).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


@pytest.mark.parametrize("as_module", [False, True])
def test_a_controller_of_ones_own(as_module: bool, tmp_path: Path) -> None:
    gru = GRUController(3 + 2 * 4, 6) if as_module else GRUController
    model = DNC(3, 2, controller=gru, **SETTINGS)
    x = torch.randn(6, 3, 3, dtype=F64)
    y, state = model(x)
    assert y.shape == (6, 3, 2)
    assert state.controller.shape == (3, 6)

    first, middle = model(x[:2])
    second, last = model(x[2:], middle)
    assert torch.equal(torch.cat([first, second]), y)
    assert torch.equal(last.controller, state.controller)

    packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([2, 6, 3]), enforce_sorted=False)
    _, packed_state = model(packed)
    _, alone = model(x[:3, 2:])
    assert_close(packed_state.controller[2], alone.controller[0])

    unbatched, state_alone = model(x[:, 1])
    assert_close(unbatched, y[:, 1])
    assert state_alone.controller.shape == (6,)

    model.save_pretrained(tmp_path)
    loaded = DNC.from_pretrained(tmp_path, controller=GRUController)
    assert torch.equal(loaded(x)[0], y)
    with pytest.raises(ValueError, match=r"was saved with .*GRUController"):
        DNC.from_pretrained(tmp_path)


def test_a_controller_that_breaks_the_protocol_is_refused() -> None:
    with pytest.raises(TypeError, match=r"controller: expected an nn.Module with the methods"):
        DNC(3, 2, controller=nn.Linear(11, 6), **SETTINGS)
    no_maker: Any = torch.zeros
    with pytest.raises(TypeError, match=r"got Tensor"):
        DNC(3, 2, controller=no_maker, **SETTINGS)
    number: Any = 7
    with pytest.raises(TypeError, match=r"controller: expected one of lstm, feedforward, a module"):
        DNC(3, 2, controller=number, **SETTINGS)
    with pytest.raises(ValueError, match=r"controller: expected one of lstm, feedforward; got 'g"):
        DNC(3, 2, controller="gru", **SETTINGS)
    with pytest.raises(ValueError, match=r"num_layers: a controller of your own"):
        DNC(3, 2, controller=GRUController, num_layers=2, **SETTINGS)
    wrong_width = DNC(3, 2, controller=GRUController(11, 7), **SETTINGS)
    with pytest.raises(
        ValueError, match=r"controller's output: expected shape \[2, 6\], got \[2, 7\]"
    ):
        wrong_width(torch.zeros(4, 2, 3, dtype=F64))


class Plain(nn.Module):
    """A controller of one linear layer; what it returns as its state can be set."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.layer = nn.Linear(input_size + hidden_size, hidden_size)
        self.answer: Any = lambda hidden: (hidden, [hidden])

    def initial_state(self, batch_size: int, *, dtype: torch.dtype, device: torch.device) -> Any:
        return [torch.zeros(batch_size, self.layer.out_features, dtype=dtype, device=device)]

    def forward(self, inputs: Tensor, state: list[Tensor]) -> Any:
        return self.answer(torch.tanh(self.layer(torch.cat([inputs, *state], dim=-1))))


def test_autocast_does_not_change_the_precision_of_a_controllers_state() -> None:
    model = DNC(3, 2, controller=Plain, **(SETTINGS | {"dtype": torch.float32}))
    x = torch.randn(4, 2, 3)
    with torch.autocast("cpu", torch.bfloat16):
        whole, _ = model(x)
        first, state = model(x[:2])
        second, _ = model(x[2:], state)
    assert state.controller[0].dtype == torch.float32
    assert torch.equal(torch.cat([first, second]), whole)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (lambda hidden: hidden, TypeError, r"controller: expected \(outputs, state\)"),
        (lambda hidden: (hidden, (hidden,)), ValueError, "controller's state: expected 1 tensors"),
        (lambda hidden: (hidden, [hidden] * 2), ValueError, "controller's state: expected 1"),
        (lambda hidden: (hidden, [hidden[:, 1:]]), ValueError,
         r"controller's state, tensor 0: expected shape \[2, 6\], got \[2, 5\]"),
        (lambda hidden: (hidden, [None]), TypeError, "controller's state, tensor 0: expected a"),
        (lambda hidden: (None, [hidden]), TypeError, "controller's output: expected a tensor"),
    ],
)  # fmt: skip
def test_what_a_controller_must_not_return(
    answer: Any, error: type[Exception], message: str
) -> None:
    model = DNC(3, 2, controller=Plain, **SETTINGS)
    model.controller.answer = answer
    with pytest.raises(error, match=message):
        model(torch.zeros(4, 2, 3, dtype=F64))


@pytest.mark.parametrize("controller", [LSTMController, FeedForwardController])
@pytest.mark.parametrize("name", ["input_size", "hidden_size", "num_layers"])
def test_bad_sizes_are_refused(controller: type[nn.Module], name: str) -> None:
    sizes = {"input_size": 2, "hidden_size": 3, "num_layers": 1}
    with pytest.raises(ValueError, match=f"{name}: expected at least 1, got 0"):
        controller(**(sizes | {name: 0}))
