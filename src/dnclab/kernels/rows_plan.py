"""What the rows layout lies in: sizes, packed weights, what is left behind, states in and out."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from dnclab.kernels.compiled import inner, kernel
from dnclab.kernels.problem import Array, Lengths, Problem, States, Weights
from dnclab.kernels.products import pack
from dnclab.kernels.records import Parts, Places, parts_of, places_of, round_up
from dnclab.kernels.rows_links import share_size_of, shares_of
from dnclab.kernels.rows_memory import BLOCK
from dnclab.kernels.rows_products import BLOCK_LANES, TILE_LANES, TILE_ROWS
from dnclab.kernels.simd import get, pointer, put, skip


class Plan(NamedTuple):
    """Sizes that follow from the problem and the lanes, in numbers."""

    lanes: int
    unit: int
    """H in whole lanes."""
    gate_rows: int
    """Four units, or one without an LSTM, in whole blocks."""
    gates: int
    """Of which so many are gates."""
    seen: int
    """X + RW + H, columns of the gates' weights; without an LSTM X + RW."""
    control_rows: int
    control_columns: int
    """I, made even."""
    output_rows: int
    state_rows: int
    hidden_rows: int
    input_rows: int
    input_copy: int
    """X in whole tiles of a gradient."""
    reads: int
    """Where h begins in a state: behind RW and what is written beyond it."""
    state: int
    """From one state to the next; columns of products."""
    words: int
    """W in whole blocks."""
    key: int
    """W in whole lanes and blocks."""
    memory: int
    """Numbers of M, padded."""
    links: int
    """Numbers of L, padded."""
    shares: int
    """In how many shares L is worked on."""
    share_size: int
    """Numbers that a share sums for itself."""
    parts: Parts
    places: Places


@lru_cache(maxsize=64)
def plan_of(problem: Problem, lanes: int) -> Plan:
    """Everything that can be known without the numbers."""
    block = BLOCK_LANES * lanes
    unit = round_up(problem.hidden, max(lanes, TILE_ROWS))
    gates = (4 if problem.lstm else 1) * unit
    word, words = problem.word, round_up(problem.word, BLOCK)
    reads = round_up(problem.heads * word + words - word, max(lanes, 2))
    padded = round_up(problem.cells, max(lanes, BLOCK))
    gate_rows, control_rows = round_up(gates, block), round_up(problem.interface, block)
    return Plan(
        lanes=lanes,
        unit=unit,
        gate_rows=gate_rows,
        gates=gates,
        seen=problem.inputs + problem.heads * word + (problem.hidden if problem.lstm else 0),
        control_rows=control_rows,
        control_columns=round_up(problem.interface, 2),
        output_rows=round_up(problem.outputs, block),
        state_rows=round_up(reads + unit, block),
        hidden_rows=round_up(problem.hidden, block),
        input_rows=round_up(problem.inputs, block),
        input_copy=round_up(problem.inputs, TILE_LANES * lanes),
        reads=reads,
        state=reads + unit,
        words=words,
        key=round_up(words, lanes),
        memory=words * padded,
        links=padded * padded,
        shares=shares_of(padded),
        share_size=share_size_of(padded, problem.heads, lanes),
        parts=parts_of(problem),
        # Interfaces are read and written by whole lanes, beyond their end.
        places=places_of(
            problem,
            padded=padded,
            gates=gate_rows,
            controls=control_rows + lanes,
            hidden=unit,
        ),
    )


class Forward(NamedTuple):
    """Weights packed for the way there."""

    inputs: Array
    """From x to gates, and the bias."""
    inputs_bias: Array
    states: Array
    """From [r; h] to gates."""
    controls: Array
    """From h to ξ."""
    controls_bias: Array
    outputs: Array
    """From [r; h] to y."""
    outputs_bias: Array


class Back(NamedTuple):
    """Weights packed for the way back."""

    inputs: Array
    """From gates to x."""
    states: Array
    """From gates to [r; h]."""
    controls: Array
    """From ξ to h."""
    outputs: Array
    """From y to [r; h]."""


class Stretch(NamedTuple):
    """Steps after which L was kept, or the room for patches was full."""

    begin: int
    end: int
    starts: Array
    """[end - begin + 1]: the first patch of each step, as floats."""
    marks: Array
    """[patches]: the cell of each patch, as floats."""
    patches: Array
    """[patches, 2, padded]: row and column of L before the step."""
    links: Array | None
    """L after the last step, if it was kept."""


class Sample(NamedTuple):
    """What the forward pass of a sample leaves behind."""

    steps: int
    records: Array
    """[T+1, record]; the first one holds the initial state. Two of them without a way back."""
    states: Array
    """[T+2, state]; the last one is not used."""
    memory: Array
    """M_0, ..., M_T, or M before every `segment`-th step."""
    links: Array
    """L_0, ..., L_T, or before every `segment`-th step, or nothing."""
    segment: int
    """Steps between those M and L that are kept."""
    stretches: list[Stretch]


class Tape(NamedTuple):
    """What the forward pass leaves behind."""

    samples: list[Sample]
    inputs: Array
    lengths: Lengths
    states: Array
    """[B, T+2, state]; those of the samples are parts of it."""


# --- packing -------------------------------------------------------------------------------------


@inner
def _pack_gates(problem: Problem, plan: Plan, gates: Array, begin: int, count: int, target: Array,
                columns: int, first: int) -> None:  # fmt: skip
    """`count` columns of the gates' weights; each gate begins at whole lanes."""
    h, seen, block = problem.hidden, plan.seen, BLOCK_LANES * plan.lanes
    for gate in range(4 if problem.lstm else 1):
        source = skip(pointer(gates), gate * h * seen + begin)
        pack(source, h, count, seen, 1, pointer(target), gate * plan.unit, first, columns, block)


@kernel
def pack_forward(
    part: int, problem: Problem, plan: Plan, weights: Weights, packed: Forward
) -> None:
    """One of four parts, so that threads can share the work."""
    x, h, reads = problem.inputs, problem.hidden, problem.heads * problem.word
    block = BLOCK_LANES * plan.lanes
    if part == 0:
        packed.states[:] = 0
        _pack_gates(problem, plan, weights.gates, x, reads, packed.states, plan.state, 0)
        if problem.lstm:
            begin = x + reads
            _pack_gates(
                problem, plan, weights.gates, begin, h, packed.states, plan.state, plan.reads
            )
    elif part == 1:
        packed.inputs[:] = 0
        _pack_gates(problem, plan, weights.gates, 0, x, packed.inputs, x, 0)
        packed.inputs_bias[:] = 0
        for gate in range(4 if problem.lstm else 1):
            for i in range(h):
                packed.inputs_bias[gate * plan.unit + i] = weights.gates_bias[gate * h + i]
    elif part == 2:
        packed.controls[:] = 0
        into, rows = pointer(packed.controls), problem.interface
        pack(pointer(weights.interface), rows, h, h, 1, into, 0, 0, plan.unit, block)
        packed.controls_bias[:] = 0
        packed.controls_bias[:rows] = weights.interface_bias
    else:
        packed.outputs[:] = 0
        into, rows = pointer(packed.outputs), problem.outputs
        pack(pointer(weights.read_output), rows, reads, reads, 1, into, 0, 0, plan.state, block)
        pack(pointer(weights.output), rows, h, h, 1, into, 0, plan.reads, plan.state, block)
        packed.outputs_bias[:] = 0
        packed.outputs_bias[:rows] = weights.output_bias


@inner
def _pack_gates_turned(problem: Problem, plan: Plan, gates: Array, begin: int, count: int,
                       target: Array, first: int) -> None:  # fmt: skip
    """From gates to `count` of what they see."""
    h, seen, block = problem.hidden, plan.seen, BLOCK_LANES * plan.lanes
    for gate in range(4 if problem.lstm else 1):
        source = skip(pointer(gates), gate * h * seen + begin)
        into = pointer(target)
        pack(source, count, h, 1, seen, into, first, gate * plan.unit, plan.gates, block)


@kernel
def pack_back(part: int, problem: Problem, plan: Plan, weights: Weights, packed: Back) -> None:
    """One of four parts."""
    x, h, reads = problem.inputs, problem.hidden, problem.heads * problem.word
    block = BLOCK_LANES * plan.lanes
    if part == 0:
        packed.states[:] = 0
        _pack_gates_turned(problem, plan, weights.gates, x, reads, packed.states, 0)
        if problem.lstm:
            begin = x + reads
            _pack_gates_turned(problem, plan, weights.gates, begin, h, packed.states, plan.reads)
    elif part == 1:
        packed.inputs[:] = 0
        _pack_gates_turned(problem, plan, weights.gates, 0, x, packed.inputs, 0)
    elif part == 2:
        packed.controls[:] = 0
        into, columns = pointer(packed.controls), problem.interface
        source = pointer(weights.interface)
        pack(source, h, columns, 1, h, into, 0, 0, plan.control_columns, block)
    else:
        packed.outputs[:] = 0
        into, columns = pointer(packed.outputs), problem.outputs
        source = pointer(weights.read_output)
        pack(source, reads, columns, 1, reads, into, 0, 0, columns, block)
        pack(pointer(weights.output), h, columns, 1, h, into, plan.reads, 0, columns, block)


# --- states in and out ---------------------------------------------------------------------------


class Held(NamedTuple):
    """Where the parts of a state, or their adjoints, lie: pointers."""

    reads: Any
    hidden: Any
    cell: Any
    memory: Any
    usage: Any
    links: Any
    precedence: Any
    write_weighting: Any
    weightings: Any
    """Of the first head."""
    apart: int
    """From one head's to the next's."""


@inner
def move(source: Any, begin: int, count: int, target: Any, place: int) -> None:
    """Numbers, not whole lanes."""
    for i in range(count):
        put(target, place + i, get(source, begin + i))


@inner
def enter(problem: Problem, padded: int, states: States, sample: int, held: Held) -> None:
    """A sample's state, or its adjoint, into padded room that is 0."""
    n, word, heads, h = problem.cells, problem.word, problem.heads, problem.hidden
    move(pointer(states.reads), sample * heads * word, heads * word, held.reads, 0)
    if problem.lstm:
        move(pointer(states.hidden), sample * h, h, held.hidden, 0)
        move(pointer(states.cell), sample * h, h, held.cell, 0)
    memory, links = pointer(states.memory), pointer(states.links)
    for i in range(n):
        for w in range(word):
            put(held.memory, w * padded + i, get(memory, (sample * n + i) * word + w))
        move(links, (sample * n + i) * n, n, held.links, i * padded)
        put(held.links, i * padded + i, 0.0)  # no cell follows itself, whatever was given
    move(pointer(states.usage), sample * n, n, held.usage, 0)
    move(pointer(states.precedence), sample * n, n, held.precedence, 0)
    move(pointer(states.write_weighting), sample * n, n, held.write_weighting, 0)
    for head in range(heads):
        start = (sample * heads + head) * n
        move(pointer(states.read_weightings), start, n, held.weightings, head * held.apart)


@inner
def leave(problem: Problem, padded: int, states: States, sample: int, held: Held) -> None:
    """A sample's state, or its adjoint, out of padded room."""
    n, word, heads, h = problem.cells, problem.word, problem.heads, problem.hidden
    move(held.reads, 0, heads * word, pointer(states.reads), sample * heads * word)
    if problem.lstm:
        move(held.hidden, 0, h, pointer(states.hidden), sample * h)
        move(held.cell, 0, h, pointer(states.cell), sample * h)
    memory, links = pointer(states.memory), pointer(states.links)
    for i in range(n):
        for w in range(word):
            put(memory, (sample * n + i) * word + w, get(held.memory, w * padded + i))
        move(held.links, i * padded, n, links, (sample * n + i) * n)
    move(held.usage, 0, n, pointer(states.usage), sample * n)
    move(held.precedence, 0, n, pointer(states.precedence), sample * n)
    move(held.write_weighting, 0, n, pointer(states.write_weighting), sample * n)
    for head in range(heads):
        start = (sample * heads + head) * n
        move(held.weightings, head * held.apart, n, pointer(states.read_weightings), start)


class Course(NamedTuple):
    """How a sample is gone through."""

    keep: int
    """NOTHING, FOR_BACKWARD or EVERYTHING."""
    undone: bool
    """Whether L is undone on the way back."""
    memory_kept: bool
    """Whether M is kept of every step."""
    segment: int
    steps: int
    samples: int
    """B."""
    sample: int
    """Which of them."""
