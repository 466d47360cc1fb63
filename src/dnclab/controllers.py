"""Controllers: the networks that steer the memory.

A controller is any module with two methods (:class:`Controller`). It sees the input joined with
the words read at the step before, and what it returns goes to the memory and to the output.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from dnclab.checks import check_size

LSTMState = tuple[tuple[Tensor, Tensor], ...]
"""For each layer its output and its cell, each [B, hidden_size]."""


@runtime_checkable
class Controller(Protocol):
    """The two methods that a controller of your own needs.

    Its state is any pytree (tuples, lists, dicts) of tensors; the batch is axis 0 of each, so that
    samples can be taken out and put back. It may be empty: ``()``. It stays as ``initial_state``
    made it, in structure and shapes; what autocast does to its precision is undone for you.
    """

    def initial_state(self, batch_size: int, *, dtype: torch.dtype, device: torch.device) -> Any:
        """The state before the first step."""

    def forward(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        """One step: inputs [B, input_size + read_heads · word_size] → outputs [B, hidden_size]."""


class LSTMController(nn.Module):
    """The LSTM of the DNC: every layer sees the inputs, its own past and the layer below.

    The outputs of all layers are joined: [B, num_layers · hidden_size].
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1) -> None:
        super().__init__()
        check_size("input_size", input_size)
        check_size("hidden_size", hidden_size)
        check_size("num_layers", num_layers)
        self.hidden_size = hidden_size
        self.output_size = num_layers * hidden_size
        # One matrix a layer, over [inputs; own last output; output of the layer below], to the
        # gates in PyTorch's order: input, forget, candidate, output.
        self.gates = nn.ModuleList(
            nn.Linear(input_size + min(layer + 1, 2) * hidden_size, 4 * hidden_size)
            for layer in range(num_layers)
        )
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Xavier for each gate by itself (gain of its squashing), biases 0, forget bias 1."""
        for gates in self.gates:
            assert isinstance(gates, nn.Linear)
            sigmoid, tanh = nn.init.calculate_gain("sigmoid"), nn.init.calculate_gain("tanh")
            gains = (sigmoid, sigmoid, tanh, sigmoid)
            for weight, gain in zip(gates.weight.chunk(4), gains, strict=True):
                nn.init.xavier_uniform_(weight, gain)
            nn.init.zeros_(gates.bias)
            nn.init.ones_(gates.bias.chunk(4)[1])

    def initial_state(
        self, batch_size: int, *, dtype: torch.dtype, device: torch.device
    ) -> LSTMState:
        """Zero output and zero cell in every layer."""
        return tuple(
            (
                torch.zeros(batch_size, self.hidden_size, dtype=dtype, device=device),
                torch.zeros(batch_size, self.hidden_size, dtype=dtype, device=device),
            )
            for _ in self.gates
        )

    def forward(self, inputs: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        """c' = f c + i g, h' = o tanh(c') in each layer."""
        below: list[Tensor] = []
        new_state = []
        for gates, (output, cell) in zip(self.gates, state, strict=True):
            seen = torch.cat([inputs, output, *below[-1:]], dim=-1)
            take, keep, candidate, show = gates(seen).chunk(4, dim=-1)
            cell = torch.sigmoid(keep) * cell + torch.sigmoid(take) * torch.tanh(candidate)
            output = torch.sigmoid(show) * torch.tanh(cell)
            below.append(output)
            new_state.append((output, cell))
        return torch.cat(below, dim=-1), tuple(new_state)


class FeedForwardController(nn.Module):
    """Layers of ReLU units; all that is remembered is in the memory."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1) -> None:
        super().__init__()
        check_size("input_size", input_size)
        check_size("hidden_size", hidden_size)
        check_size("num_layers", num_layers)
        self.output_size = hidden_size
        widths = [input_size] + [hidden_size] * num_layers
        self.layers = nn.ModuleList(
            nn.Linear(width, next_width) for width, next_width in pairwise(widths)
        )
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Xavier with ReLU's gain, biases 0."""
        for layer in self.layers:
            assert isinstance(layer, nn.Linear)
            nn.init.xavier_uniform_(layer.weight, nn.init.calculate_gain("relu"))
            nn.init.zeros_(layer.bias)

    def initial_state(
        self, batch_size: int, *, dtype: torch.dtype, device: torch.device
    ) -> tuple[()]:
        """Nothing."""
        del batch_size, dtype, device
        return ()

    def forward(self, inputs: Tensor, state: tuple[()]) -> tuple[Tensor, tuple[()]]:
        """h' = relu(W h + b) in each layer."""
        outputs = inputs
        for layer in self.layers:
            outputs = torch.relu(layer(outputs))
        return outputs, state


CONTROLLERS: dict[str, type[LSTMController] | type[FeedForwardController]] = {
    "lstm": LSTMController,
    "feedforward": FeedForwardController,
}
"""The controllers that have a name."""
