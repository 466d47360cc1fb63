"""How far a backend is from the reference: outputs, final state, every gradient."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from dnclab.config import DNCConfig
from dnclab.memory.types import MemoryState, state_shapes
from dnclab.model import DNC
from dnclab.state import DNCState

BOUNDS = {torch.float64: 1e-10, torch.float32: 1e-4}
"""Norm of the error over norm of what is right. In float32 a long sequence adds up some hundred
roundings of 6e-8 on the way, and as many on the way back."""


def compare(
    config: DNCConfig, *, steps: int, samples: int, dtype: torch.dtype, seed: int = 0
) -> dict[str, float]:
    """The relative error of everything that a random sequence gives and gets back.

    The reference computes in float64. The memory has been used before: in an empty one cells are
    alike, and the last bit of a sum decides which of them is taken first.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        right = DNC.from_config(replace(config, backend="reference"), dtype=torch.float64)
    model = DNC.from_config(config, dtype=dtype)
    model.load_state_dict(right.state_dict())
    inputs = torch.randn(
        steps, samples, config.input_size, generator=generator, dtype=torch.float64
    )
    state = used_state(right, samples, generator)
    expected = _everything(right, inputs, state, seed)
    given = state.map(lambda tensor: tensor.to(dtype))
    found = _everything(model, inputs.to(dtype), given, seed)
    return {name: _relative(found[name], value) for name, value in expected.items()}


def used_state(model: DNC, samples: int, generator: torch.Generator) -> DNCState:
    """A state in the midst of a sequence, float64: no two cells alike."""
    config = model.memory_config

    def drawn(name: str, shape: tuple[int, ...]) -> Tensor:
        numbers = torch.rand(samples, *shape, generator=generator, dtype=torch.float64)
        if name in ("memory", "reads"):
            return numbers - 0.5
        if name == "usage":
            return numbers
        if name == "links":
            own = torch.eye(config.cells, dtype=torch.bool)
            return (numbers / config.cells).masked_fill(own, 0)
        return 0.9 * numbers / numbers.sum(-1, keepdim=True)

    memory = MemoryState(**{name: drawn(name, of) for name, of in state_shapes(config).items()})
    return model.initial_state(samples)._replace(memory=memory)


def _everything(model: DNC, inputs: Tensor, state: DNCState, seed: int) -> dict[str, Tensor]:
    inputs = inputs.detach().requires_grad_()
    state = state.map(lambda tensor: tensor.detach().requires_grad_())
    outputs, final = model(inputs, state)
    ends = [outputs, *pytree.tree_leaves(final)]
    generator = torch.Generator().manual_seed(seed + 1)
    flows = [
        torch.randn(end.shape, generator=generator, dtype=torch.float64).to(end.dtype)
        for end in ends
    ]
    torch.autograd.backward(ends, flows)
    leaves = {"inputs": inputs, **dict(model.named_parameters())}
    for number, leaf in enumerate(pytree.tree_leaves(state)):
        leaves[f"initial state {number}"] = leaf
    named = {"outputs": outputs}
    named |= {f"final state {number}": end for number, end in enumerate(ends[1:])}
    named |= {
        f"gradient of {name}": torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        for name, leaf in leaves.items()
    }
    return named


def _relative(found: Tensor, expected: Tensor) -> float:
    expected = expected.detach()
    size = float(expected.norm())
    error = float((found.detach().double() - expected).norm())
    return error / size if size > 0 else error
