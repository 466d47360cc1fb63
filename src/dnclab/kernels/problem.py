"""What a layout of the kernels gets and gives: sizes, weights and states as NumPy arrays.

T steps · B samples · X input_size · Y output_size · H hidden_size · N cells · W word_size ·
R read heads · I interface size · G = 4H rows of the LSTM's gates, or H of a ReLU layer.
All arrays are C-contiguous and of one dtype, float32 or float64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Lengths = NDArray[np.int64]


class Problem(NamedTuple):
    """Sizes and switches; kernels take it as it is."""

    inputs: int
    """X."""
    outputs: int
    """Y."""
    hidden: int
    """H."""
    cells: int
    """N."""
    word: int
    """W."""
    heads: int
    """R."""
    interface: int
    """I, the length of ξ_t."""
    lstm: bool
    """True: an LSTM of one layer; False: one layer of ReLU units."""
    mask: bool
    """M."""
    dealloc: bool
    """D."""
    sharpen: bool
    """S."""
    usage_gradient: bool
    """Whether gradients flow from the usage into the previous write weighting."""
    mask_min: float
    """δ."""
    clip: float
    """ξ_t is clamped to ± this; infinity: not at all."""


class Weights(NamedTuple):
    """The parameters, and in the same form their gradients."""

    gates: Array
    """[G, X+RW+H] over [x_t; r_{t-1}; h_{t-1}], rows: input, forget, candidate, output gate.
    Without an LSTM [H, X+RW]."""
    gates_bias: Array
    """[G]."""
    interface: Array
    """[I, H]."""
    interface_bias: Array
    """[I]."""
    output: Array
    """[Y, H]."""
    output_bias: Array
    """[Y]."""
    read_output: Array
    """[Y, RW]."""


class States(NamedTuple):
    """The state of every sample, and in the same form its gradient. Without an LSTM hidden and
    cell are [B, 0].
    """

    hidden: Array
    """h_t [B, H]."""
    cell: Array
    """c_t [B, H]."""
    memory: Array
    """M_t [B, N, W]."""
    usage: Array
    """u_t [B, N]."""
    links: Array
    """L_t [B, N, N]."""
    precedence: Array
    """p_t [B, N]."""
    write_weighting: Array
    """w_t^w [B, N]."""
    read_weightings: Array
    """w_t^{r,i} [B, R, N]."""
    reads: Array
    """r_t^i [B, R, W]."""


def state_shapes(problem: Problem) -> tuple[tuple[int, ...], ...]:
    """The shapes of States without the batch axis."""
    hidden = (problem.hidden,) if problem.lstm else (0,)
    cells, word, heads = problem.cells, problem.word, problem.heads
    return (
        hidden, hidden, (cells, word), (cells,), (cells, cells), (cells,), (cells,),
        (heads, cells), (heads, word),
    )  # fmt: skip


def empty_states(problem: Problem, samples: int, dtype: np.dtype[Any]) -> States:
    """Room for the states of so many samples."""
    return States(*(np.empty((samples, *shape), dtype) for shape in state_shapes(problem)))


NOTHING, FOR_BACKWARD, EVERYTHING = 0, 1, 2
"""What a forward pass keeps: for inference; for the backward pass; memory and links of every step
too, for a trace."""


class Options(NamedTuple):
    """How a layout goes about it; the numbers it gives are the same but for rounding."""

    threads: int
    """How many may run at once. Results do not depend on it."""
    exact_links: bool
    """Rows: whether the links are rebuilt forwards from checkpoints, to the last bit, or undone
    backwards. Lanes always rebuild."""
    memory_segments: bool
    """Rows: whether the memory is rebuilt forwards too, or kept of every step. Lanes rebuild."""
    need_inputs: bool
    """Whether the gradient of the inputs is wanted."""
    need_initial: bool
    """Whether the gradient of the initial state is wanted."""
