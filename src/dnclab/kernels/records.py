"""Where things lie: the parts of the interface, what a step leaves for the way back, what it hands
to the step before it.

Lanes count in lanes, one for each entry; rows count in numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dnclab.kernels.problem import Problem

EPSILON = 1e-6


class Parts(NamedTuple):
    """Where each part of the interface begins once it is squashed; absent masks are there too."""

    read_keys: int
    read_strengths: int
    write_key: int
    write_strength: int
    erase: int
    write_vector: int
    free_gates: int
    allocation_gate: int
    write_gate: int
    read_modes: int
    write_mask: int
    read_masks: int
    sharpness: int
    """s^f of all heads, then s^b."""
    size: int
    raw_sharpness: int
    """Where they begin in ξ_t, which has no masks without M."""


def parts_of(problem: Problem) -> Parts:
    """The paper's order."""
    word, heads = problem.word, problem.heads
    sizes = (heads * word, heads, word, 1, word, word, heads, 1, 1, 3 * heads)
    starts = [sum(sizes[:index]) for index in range(len(sizes) + 1)]
    write_mask = starts[-1]
    sharpness = write_mask + word + heads * word
    raw_sharpness = sharpness if problem.mask else write_mask
    return Parts._make(
        [*starts, write_mask + word, sharpness, sharpness + 2 * heads, raw_sharpness]
    )


class Places(NamedTuple):
    """Where the parts of a step's record begin; the record of a state before the first step has
    usage, write_weighting, precedence, read weightings and cell.
    """

    controls: int
    """ξ_t before it is clamped."""
    usage: int
    before: int
    """∏_{i<j} x[φ_i] of the allocation: how full the cells are that come first."""
    write_content: int
    """c_t^w, then its similarities D, then the masked lengths of the cells."""
    write_weighting: int
    precedence: int
    heads: int
    """For each head: L_t w, L_tᵀ w, c_t^r, similarities, lengths, w_t^r."""
    gates: int
    """Squashed."""
    cell: int
    size: int
    padded: int
    """Cells, padded."""


FOLLOWING, PRECEDING, CONTENT, SIMILARITY, LENGTH, WEIGHTING, PER_HEAD = range(7)
"""The order of a head's part of the record, in multiples of `padded`."""


def round_up(number: int, multiple: int) -> int:
    """The next multiple."""
    return -(-number // multiple) * multiple


def places_of(problem: Problem, *, padded: int, gates: int, controls: int, hidden: int) -> Places:
    """The record's order; cells, gates, controls and hidden units are padded."""
    sizes = (
        controls,
        padded,
        padded,
        3 * padded,
        padded,
        padded,
        PER_HEAD * problem.heads * padded,
        gates,
        hidden,
    )
    starts = [sum(sizes[:index]) for index in range(len(sizes) + 1)]
    return Places._make([*starts, padded])


class Scratch(NamedTuple):
    """Room for what a step needs on its way: pointers."""

    squashed: Any
    scaled: Any
    squares: Any
    retained: Any
    taken: Any
    forwards: Any
    backwards: Any


class Adjoints(NamedTuple):
    """What one step backwards hands to the step before it: pointers."""

    memory: Any
    """Of M_t."""
    links: Any
    """Of L_t."""
    usage: Any
    """Of u_t."""
    precedence: Any
    """Of p_t."""
    write_weighting: Any
    """Of w_t^w, as far as later steps saw it."""
    read_weightings: Any
    """Of w_t^{r,i}, padded."""
    read_weightings_before: Any
    """The same of the step before; the two change places from step to step."""
