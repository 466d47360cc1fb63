"""The smallest sequence there is: running it compiles a layout, or reads it from Numba's cache."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from dnclab.kernels.problem import FOR_BACKWARD, Options, Problem, States, Weights


def run_once(layout: ModuleType, dtype: np.dtype[np.floating]) -> None:
    """One step of one sample, there and back, all sizes 1."""
    problem = Problem(
        inputs=1, outputs=1, hidden=1, cells=1, word=1, heads=1, interface=13, lstm=True,
        mask=True, dealloc=True, sharpen=True, usage_gradient=False, mask_min=0.1, clip=20.0,
    )  # fmt: skip
    shapes = ((4, 3), (4,), (13, 1), (13,), (1, 1), (1,), (1, 1))
    weights = Weights(*(np.zeros(shape, dtype) for shape in shapes))
    shapes_of_state = ((1,), (1,), (1, 1), (1,), (1, 1), (1,), (1,), (1, 1), (1, 1))
    initial = States(*(np.zeros((1, *shape), dtype) for shape in shapes_of_state))
    inputs, lengths = np.zeros((1, 1, 1), dtype), np.ones(1, np.int64)
    options = Options(
        threads=1, exact_links=True, memory_segments=False, need_inputs=True, need_initial=True
    )
    outputs, _, tape = layout.forward(
        problem, options, weights, initial, inputs, lengths, FOR_BACKWARD
    )
    layout.backward(problem, options, weights, tape, outputs, initial)
