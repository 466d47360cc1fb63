"""The kernels beside the reference: the same numbers in, everything that comes out compared."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import dnclab
from dnclab.kernels.problem import FOR_BACKWARD, Array, Options, Problem, States, Weights
from dnclab.memory.interface import interface_size
from dnclab.memory.types import MemoryState, state_shapes
from dnclab.state import DNCState

OPTIONS = Options(
    threads=1, exact_links=True, memory_segments=True, need_inputs=True, need_initial=True
)

TOLERANCE = {np.dtype("float64"): 1e-10, np.dtype("float32"): 1e-4}
"""Norm of the error over norm of what is expected; both against the reference in float64."""


class Results(NamedTuple):
    """All that a sequence gives, forwards and backwards."""

    outputs: Array
    final: States
    d_inputs: Array
    d_weights: Weights
    d_initial: States


class Case(NamedTuple):
    """A sequence and what flows back into it."""

    inputs: Array
    lengths: np.ndarray[Any, np.dtype[np.int64]]
    initial: States
    d_outputs: Array
    d_final: States


def problem_of(model: dnclab.DNC) -> tuple[Problem, Weights]:
    """What the kernels get of a model."""
    config = model.config
    memory = model.memory_config
    lstm = config.controller == "lstm"
    layer = model.controller.gates[0] if lstm else model.controller.layers[0]
    clip = memory.interface_clip
    problem = Problem(
        inputs=config.input_size,
        outputs=config.output_size,
        hidden=config.hidden_size,
        cells=memory.cells,
        word=memory.word_size,
        heads=memory.read_heads,
        interface=interface_size(memory),
        lstm=lstm,
        mask=memory.mask,
        dealloc=memory.dealloc,
        sharpen=memory.sharpen,
        usage_gradient=memory.usage_gradient,
        mask_min=float(memory.mask_min),
        clip=math.inf if clip is None else float(clip),
    )
    parameters = (
        layer.weight,
        layer.bias,
        model.interface.weight,
        model.interface.bias,
        model.output.weight,
        model.output.bias,
        model.read_output.weight,
    )
    return problem, Weights(*(_array(parameter) for parameter in parameters))


def _array(tensor: Tensor) -> Array:
    array: Array = tensor.detach().numpy().copy()
    return array


def state_sizes(model: dnclab.DNC) -> dict[str, tuple[int, ...]]:
    """The shape of each part of a state, without the batch axis."""
    hidden = (model.config.hidden_size if model.config.controller == "lstm" else 0,)
    return {"hidden": hidden, "cell": hidden} | state_shapes(model.memory_config)


def zero_state(model: dnclab.DNC, batch: int, dtype: Any = np.float64) -> States:
    """An empty memory."""
    return States(
        **{name: np.zeros((batch, *shape), dtype) for name, shape in state_sizes(model).items()}
    )


def used_state(
    model: dnclab.DNC, batch: int, rng: np.random.Generator, dtype: Any = np.float64
) -> States:
    """A state in the midst of a sequence: no two cells alike, weightings that sum to 0.9."""

    def drawn(name: str, shape: tuple[int, ...]) -> Array:
        if name in ("usage", "links", "precedence", "write_weighting", "read_weightings"):
            numbers = rng.uniform(0.05, 1, (batch, *shape))
            if name == "links":
                return numbers / shape[-1] * (1 - np.eye(shape[-1]))
            return numbers if name == "usage" else 0.9 * numbers / numbers.sum(-1, keepdims=True)
        return rng.normal(size=(batch, *shape)) * 0.5

    return States(
        **{
            name: np.ascontiguousarray(drawn(name, shape), dtype)
            for name, shape in state_sizes(model).items()
        }
    )


def random_case(
    model: dnclab.DNC,
    steps: int,
    batch: int,
    rng: np.random.Generator,
    *,
    dtype: Any = np.float64,
    used: bool = True,
    ragged: bool = True,
) -> Case:
    """A sequence with numbers of ordinary size, its samples of different lengths."""
    lengths = rng.integers(1, steps + 1, batch) if ragged else np.full(batch, steps)
    lengths[rng.integers(batch)] = steps
    start = used_state(model, batch, rng, dtype) if used else zero_state(model, batch, dtype)
    d_final = States(
        *(rng.normal(size=part.shape).astype(dtype) for part in zero_state(model, batch))
    )
    return Case(
        inputs=rng.normal(size=(steps, batch, model.config.input_size)).astype(dtype),
        lengths=lengths.astype(np.int64),
        initial=start,
        d_outputs=rng.normal(size=(steps, batch, model.config.output_size)).astype(dtype),
        d_final=d_final,
    )


# --- the reference -------------------------------------------------------------------------------


def _sample(model: dnclab.DNC, state: States, index: int) -> list[Tensor]:
    """One sample's state in float64, as leaves that take a gradient."""
    parts = [torch.from_numpy(np.asarray(part[index : index + 1], np.float64)) for part in state]
    return [part.clone().requires_grad_() for part in parts]


def _as_state(model: dnclab.DNC, parts: list[Tensor]) -> DNCState:
    controller = ((parts[0], parts[1]),) if model.config.controller == "lstm" else ()
    return DNCState(controller, MemoryState(*parts[2:]))


def _parts(model: dnclab.DNC, state: DNCState) -> list[Tensor]:
    none = torch.zeros(1, 0, dtype=torch.float64)
    layers = state.controller if model.config.controller == "lstm" else ((none, none),)
    return [*layers[0], *state.memory]


def reference(model: dnclab.DNC, case: Case) -> Results:
    """Every sample by itself through the plain model in float64, and back by autograd."""
    model = model.double().with_backend("reference")
    parameters = [parameter for _, parameter in sorted(_parameters(model).items())]
    names = sorted(_parameters(model))
    steps, batch = case.inputs.shape[:2]
    outputs = np.zeros((steps, batch, model.config.output_size))
    d_inputs = np.zeros(case.inputs.shape)
    d_weights = {name: np.zeros(tuple(p.shape)) for name, p in _parameters(model).items()}
    finals, d_initials = [], []
    for index, length in enumerate(case.lengths):
        inputs = torch.from_numpy(np.asarray(case.inputs[:length, index : index + 1], np.float64))
        inputs = inputs.clone().requires_grad_()
        start = _sample(model, case.initial, index)
        y, state = model(inputs, _as_state(model, start))
        ends = _parts(model, state)
        upstream = [case.d_outputs[:length, index : index + 1]]
        upstream += [part[index : index + 1] for part in case.d_final]
        gradients = torch.autograd.grad(
            [end for end in (y, *ends) if end.requires_grad],
            [inputs, *start, *parameters],
            [
                torch.from_numpy(np.asarray(gradient, np.float64))
                for end, gradient in zip((y, *ends), upstream, strict=True)
                if end.requires_grad
            ],
            allow_unused=True,
        )
        found = [
            np.zeros(tuple(leaf.shape)) if gradient is None else gradient.numpy()
            for leaf, gradient in zip([inputs, *start, *parameters], gradients, strict=True)
        ]
        outputs[:length, index : index + 1] = y.detach().numpy()
        d_inputs[:length, index : index + 1] = found[0]
        finals.append([end.detach().numpy() for end in ends])
        d_initials.append(found[1 : 1 + len(start)])
        for name, gradient in zip(names, found[1 + len(start) :], strict=True):
            d_weights[name] += gradient
    return Results(
        outputs,
        States(*(np.concatenate(parts) for parts in zip(*finals, strict=True))),
        d_inputs,
        Weights(**d_weights),
        States(*(np.concatenate(parts) for parts in zip(*d_initials, strict=True))),
    )


def _parameters(model: dnclab.DNC) -> dict[str, Tensor]:
    lstm = model.config.controller == "lstm"
    layer = model.controller.gates[0] if lstm else model.controller.layers[0]
    return {
        "gates": layer.weight,
        "gates_bias": layer.bias,
        "interface": model.interface.weight,
        "interface_bias": model.interface.bias,
        "output": model.output.weight,
        "output_bias": model.output.bias,
        "read_output": model.read_output.weight,
    }


# --- a layout of the kernels ---------------------------------------------------------------------


def run_layout(
    layout: ModuleType,
    problem: Problem,
    weights: Weights,
    case: Case,
    options: Options = OPTIONS,
) -> Results:
    """Forwards and backwards through one layout."""
    outputs, final, tape = layout.forward(
        problem, options, weights, case.initial, case.inputs, case.lengths, FOR_BACKWARD
    )
    d_inputs, d_weights, d_initial = layout.backward(
        problem, options, weights, tape, case.d_outputs, case.d_final
    )
    return Results(outputs, final, d_inputs, d_weights, d_initial)


def named(results: Results) -> dict[str, Array]:
    """Every array by its name."""
    return {
        "outputs": results.outputs,
        **{f"final {name}": part for name, part in results.final._asdict().items()},
        "d_inputs": results.d_inputs,
        **{f"d_{name}": part for name, part in results.d_weights._asdict().items()},
        **{f"d_initial {name}": part for name, part in results.d_initial._asdict().items()},
    }


def errors(actual: Results, expected: Results) -> dict[str, float]:
    """Norm of the error over norm of what is expected, for each array."""
    found = {}
    for name, right in named(expected).items():
        value = named(actual)[name]
        assert value.shape == right.shape, f"{name}: {value.shape}, expected {right.shape}"
        assert value.flags.c_contiguous, name
        size = float(np.linalg.norm(right))
        error = float(np.linalg.norm(value.astype(np.float64) - right))
        found[name] = error / size if size > 0 else error
    return found


def assert_agrees(
    layout: ModuleType,
    model: dnclab.DNC,
    case: Case,
    options: Options = OPTIONS,
    tolerance: float | None = None,
) -> None:
    """A layout gives what autograd gives, in the precision of the case's numbers."""
    dtype = case.inputs.dtype
    problem, weights = problem_of(model.to(torch.float32 if dtype == np.float32 else torch.float64))
    actual = run_layout(layout, problem, weights, case, options)
    for name, value in named(actual).items():
        assert value.dtype == dtype, f"{name}: {value.dtype}"
    expected = reference(model, case)
    bound = TOLERANCE[dtype] if tolerance is None else tolerance
    wrong = {name: error for name, error in errors(actual, expected).items() if not error <= bound}
    assert not wrong, f"{model.extra_repr()}: {wrong}"


def assert_same_bits(actual: Results, expected: Results) -> None:
    """Not one bit differs."""
    for name, right in named(expected).items():
        np.testing.assert_array_equal(named(actual)[name], right, err_msg=name, strict=True)
