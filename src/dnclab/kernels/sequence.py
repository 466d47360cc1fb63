"""A whole sequence as one operation of autograd: tensors in, tensors out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dnclab.kernels import BackendUnavailable
from dnclab.kernels.problem import (
    EVERYTHING,
    FOR_BACKWARD,
    NOTHING,
    Array,
    Lengths,
    Options,
    Problem,
    States,
    Weights,
    state_shapes,
)

Recompute = Callable[[Sequence[Tensor]], Sequence[Tensor]]
"""The same in plain PyTorch: inputs, weights, initial state → outputs and final state."""


WEIGHTS = len(Weights._fields)


class Call(NamedTuple):
    """What a sequence is run with besides tensors."""

    layout: ModuleType
    problem: Problem
    options: Options
    lengths: Lengths
    recompute: Recompute | None
    """For gradients of gradients; None: refuse them."""


def run(call: Call, inputs: Tensor, weights: Sequence[Tensor], initial: Sequence[Tensor]) -> Any:
    """Outputs [T B Y], then the parts of the final state in the order of :class:`States`.

    An empty sequence for the initial state: the memory is empty.
    """
    tensors = (inputs, *weights, *initial)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return _Sequence.apply(call, *tensors)  # type: ignore[no-untyped-call]
    outputs, final, _ = _forward(call, tensors, NOTHING)
    return outputs, *final


def trace(
    call: Call, inputs: Tensor, weights: Sequence[Tensor], initial: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor], dict[str, Tensor]]:
    """Outputs, final state, and all that a layout's `steps` tells."""
    outputs, final, tape = _forward(call, (inputs, *weights, *initial), EVERYTHING)
    steps = call.layout.steps(call.problem, tape)
    return outputs, final, {name: torch.from_numpy(values) for name, values in steps.items()}


def _forward(call: Call, tensors: Sequence[Tensor], keep: int) -> tuple[Tensor, list[Tensor], Any]:
    inputs, weights, initial = _arrays(tensors)
    with denormals_flushed():
        outputs, final, tape = call.layout.forward(
            call.problem, call.options, weights, initial, inputs, call.lengths, keep
        )
    return torch.from_numpy(outputs), [torch.from_numpy(part) for part in final], tape


def _arrays(tensors: Sequence[Tensor]) -> tuple[Array, Weights, States | None]:
    """The same numbers for the kernels; no copy where they lie in order."""
    arrays = [tensor.numpy(force=True) for tensor in tensors]
    inputs, *others = (
        array if array.flags.c_contiguous else np.ascontiguousarray(array) for array in arrays
    )
    weights, initial = others[:WEIGHTS], others[WEIGHTS:]
    return inputs, Weights(*weights), States(*initial) if initial else None


class _Sequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: Call, *tensors: Tensor) -> Any:
        outputs, final, tape = _forward(call, tensors, FOR_BACKWARD)
        ctx.call, ctx.tape = call, tape
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        return outputs, *final

    @staticmethod
    def backward(ctx: Any, *d_results: Tensor | None) -> Any:
        call, tensors = ctx.call, ctx.saved_tensors
        wanted = ctx.needs_input_grad[1:]
        if torch.is_grad_enabled():  # a graph of the gradient is asked for
            return None, *_differentiable(call, tensors, wanted, d_results)
        options = call.options._replace(
            need_inputs=wanted[0], need_initial=any(wanted[1 + WEIGHTS :])
        )
        inputs, weights, _ = _arrays(tensors)
        d_outputs, *d_final = d_results
        with denormals_flushed():
            d_inputs, d_weights, d_initial = call.layout.backward(
                call.problem,
                options,
                weights,
                ctx.tape,
                _gradient(d_outputs, (*inputs.shape[:2], call.problem.outputs), inputs.dtype),
                _gradients_of_states(call.problem, d_final, inputs),
            )
        given = (d_inputs, *d_weights, *(d_initial or [None] * len(States._fields)))
        return None, *(
            torch.from_numpy(d) if want and d is not None else None
            for d, want in zip(given, wanted, strict=False)  # no initial state, no gradient of it
        )


def _gradient(tensor: Tensor | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    if tensor is None:
        return np.zeros(shape, dtype)
    return np.ascontiguousarray(tensor.numpy(force=True))


def _gradients_of_states(
    problem: Problem, tensors: Sequence[Tensor | None], inputs: Array
) -> States | None:
    """None if nothing flows back into the final state."""
    if all(tensor is None for tensor in tensors):
        return None
    return States(
        *(
            _gradient(tensor, (inputs.shape[1], *shape), inputs.dtype)
            for tensor, shape in zip(tensors, state_shapes(problem), strict=True)
        )
    )


def _differentiable(
    call: Call,
    tensors: Sequence[Tensor],
    wanted: Sequence[bool],
    d_results: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """The gradient by way of plain PyTorch, which can be differentiated again."""
    if call.recompute is None:
        raise BackendUnavailable(
            "backend 'fused': gradients of gradients (create_graph=True) need the reference; "
            "use backend='auto' or 'reference'"
        )
    results = call.recompute(tensors)
    pairs = [
        (result, d)
        for result, d in zip(results, d_results, strict=True)
        if d is not None and result.requires_grad
    ]
    asked = [tensor for tensor, want in zip(tensors, wanted, strict=True) if want]
    found = iter(
        torch.autograd.grad(
            [result for result, _ in pairs],
            asked,
            [d for _, d in pairs],
            create_graph=True,
            allow_unused=True,
        )
    )
    return [next(found) if want else None for want in wanted]


_TINY, _ONE = 5e-324, 1.0


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Denormal numbers count as 0 in this thread: long products of usages are full of them, and a
    processor takes its time over each. Afterwards as it was before.
    """
    flushed_before = _TINY * _ONE == 0.0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(flushed_before)
