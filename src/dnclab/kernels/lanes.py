"""The lanes layout: a sample in each lane, a whole sequence at once.

Samples go by groups of as many as lanes hold; a group is a job of its own. What a step leaves for
the way back is its `record` (see :class:`~dnclab.kernels.lanes_memory.Places`) and what its
products see, [x_t; r_{t-1}; h_{t-1}; 1]. M and L are kept every few steps only, and computed again
from there, to the last bit, when the way back comes to them.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from dnclab.kernels.compiled import inner, kernel
from dnclab.kernels.interface import squash
from dnclab.kernels.lanes_adjoints import Room, step_back, zero_all
from dnclab.kernels.lanes_memory import BLOCK, relink, retain, step, write
from dnclab.kernels.problem import (
    EVERYTHING,
    NOTHING,
    Array,
    Lengths,
    Options,
    Problem,
    States,
    Weights,
    empty_states,
    no_states,
)
from dnclab.kernels.products import COLUMNS, ROWS, multiply, pack, sum_outer
from dnclab.kernels.records import (
    CONTENT,
    EPSILON,
    FOLLOWING,
    PER_HEAD,
    PRECEDING,
    WEIGHTING,
    Adjoints,
    Parts,
    Places,
    Scratch,
    parts_of,
    places_of,
    round_up,
)
from dnclab.kernels.room import aligned_empty
from dnclab.kernels.simd import (
    advance,
    fill,
    fused,
    get,
    lane_count,
    lanes_of,
    load,
    pointer,
    put,
    sigmoid,
    skip,
    store,
    tanh,
    where_less,
)
from dnclab.kernels.threads import run_all

SEGMENT_BYTES = 1280 * 1024
"""M and L of so many steps are kept at a time on the way back: they stay in the second cache."""


class Plan(NamedTuple):
    """Sizes that follow from the problem, in lanes."""

    gates: int
    """G: 4H, or H without an LSTM."""
    gate_rows: int
    """G in whole blocks, as all rows below."""
    control_rows: int
    output_rows: int
    state_rows: int
    """RW + H, with room for the rows that fill H's last block."""
    hidden_rows: int
    input_rows: int
    columns: int
    """X + RW + H + 1, what a step's products see."""
    seen: int
    """From one step's to the next's."""
    reads: int
    """RW."""
    parts: Parts
    places: Places


@lru_cache(maxsize=64)
def plan_of(problem: Problem) -> Plan:
    """Everything that can be known without the numbers."""
    reads = problem.heads * problem.word
    gates = 4 * problem.hidden if problem.lstm else problem.hidden
    columns = problem.inputs + reads + problem.hidden + 1
    gate_rows, control_rows = round_up(gates, ROWS), round_up(problem.interface, ROWS)
    return Plan(
        gates=gates,
        gate_rows=gate_rows,
        control_rows=control_rows,
        output_rows=round_up(problem.outputs, ROWS),
        state_rows=round_up(reads + round_up(problem.hidden, ROWS), ROWS),
        hidden_rows=round_up(problem.hidden, ROWS),
        input_rows=round_up(problem.inputs, ROWS),
        columns=columns,
        seen=columns + COLUMNS - 1,
        reads=reads,
        parts=parts_of(problem),
        places=places_of(
            problem,
            padded=round_up(problem.cells, BLOCK),
            gates=gate_rows,
            controls=control_rows,
            hidden=problem.hidden,
        ),
    )


class Forward(NamedTuple):
    """Weights packed for the way there."""

    gates: Array
    controls: Array
    outputs: Array


class Back(NamedTuple):
    """Weights packed for the way back."""

    states: Array
    """From gates to [r; h]."""
    inputs: Array
    """From gates to x."""
    controls: Array
    """From ξ to h."""
    outputs: Array
    """From y to [r; h]."""


class Group(NamedTuple):
    """What the forward pass of a group of samples leaves behind."""

    steps: int
    lengths: Array
    """Of the sample in each lane; 0 where there is none. As floats."""
    records: Array
    """[T+1, record]; the first one holds the initial state. Two of them without a way back."""
    seen: Array
    """[T+1, seen]."""
    memory: Array
    """M_t before every `segment`-th step."""
    links: Array
    """L_t likewise."""
    segment: int


class Gradients(NamedTuple):
    """Sums over a group, in whole tiles, transposed; the last row is that of the 1, the bias."""

    gates: Array
    controls: Array
    outputs: Array


# --- packing -------------------------------------------------------------------------------------


@inner
def _pack_forward(problem: Problem, plan: Plan, weights: Weights, packed: Forward) -> None:
    x, h, reads = problem.inputs, problem.hidden, plan.reads
    seen = x + reads + (h if problem.lstm else 0)
    packed.gates[:] = 0
    into = pointer(packed.gates)
    pack(pointer(weights.gates), plan.gates, seen, seen, 1, into, 0, 0, plan.columns)
    pack(pointer(weights.gates_bias), plan.gates, 1, 1, 1, into, 0, plan.columns - 1, plan.columns)
    packed.controls[:] = 0
    into = pointer(packed.controls)
    pack(pointer(weights.interface), problem.interface, h, h, 1, into, 0, 0, h + 1)
    pack(pointer(weights.interface_bias), problem.interface, 1, 1, 1, into, 0, h, h + 1)
    packed.outputs[:] = 0
    into, columns = pointer(packed.outputs), reads + h + 1
    pack(pointer(weights.read_output), problem.outputs, reads, reads, 1, into, 0, 0, columns)
    pack(pointer(weights.output), problem.outputs, h, h, 1, into, 0, reads, columns)
    pack(pointer(weights.output_bias), problem.outputs, 1, 1, 1, into, 0, reads + h, columns)


@inner
def _pack_back(problem: Problem, plan: Plan, weights: Weights, packed: Back) -> None:
    x, h, reads = problem.inputs, problem.hidden, plan.reads
    seen = x + reads + (h if problem.lstm else 0)
    gates = pointer(weights.gates)
    packed.inputs[:] = 0
    pack(gates, x, plan.gates, 1, seen, pointer(packed.inputs), 0, 0, plan.gates)
    packed.states[:] = 0
    into = pointer(packed.states)
    pack(skip(gates, x), seen - x, plan.gates, 1, seen, into, 0, 0, plan.gates)
    packed.controls[:] = 0
    into, columns = pointer(packed.controls), problem.interface
    pack(pointer(weights.interface), h, columns, 1, h, into, 0, 0, columns)
    packed.outputs[:] = 0
    into, columns = pointer(packed.outputs), problem.outputs
    pack(pointer(weights.read_output), reads, columns, 1, reads, into, 0, 0, columns)
    pack(pointer(weights.output), h, columns, 1, h, into, reads, 0, columns)


# --- states in and out of lanes ------------------------------------------------------------------


@inner
def _put_lane(source: Any, start: int, count: int, target: Any, lane: int) -> None:
    lanes = lane_count(target)
    for i in range(count):
        put(target, i * lanes + lane, get(source, start + i))


@inner
def _get_lane(source: Any, lane: int, count: int, target: Any, start: int) -> None:
    lanes = lane_count(source)
    for i in range(count):
        put(target, start + i, get(source, i * lanes + lane))


class Lanes(NamedTuple):
    """Where the parts of a state lie in lanes: pointers."""

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
def _enter(problem: Problem, states: States, sample: int, lanes: Lanes, lane: int) -> None:
    """A sample's state, or its adjoint, into its lane."""
    n, word, heads, h = problem.cells, problem.word, problem.heads, problem.hidden
    _put_lane(pointer(states.reads), sample * heads * word, heads * word, lanes.reads, lane)
    if problem.lstm:
        _put_lane(pointer(states.hidden), sample * h, h, lanes.hidden, lane)
        _put_lane(pointer(states.cell), sample * h, h, lanes.cell, lane)
    _put_lane(pointer(states.memory), sample * n * word, n * word, lanes.memory, lane)
    _put_lane(pointer(states.usage), sample * n, n, lanes.usage, lane)
    _put_lane(pointer(states.links), sample * n * n, n * n, lanes.links, lane)
    for i in range(n):  # no cell follows itself, whatever was given
        put(lanes.links, i * (n + 1) * lane_count(lanes.links) + lane, 0.0)
    _put_lane(pointer(states.precedence), sample * n, n, lanes.precedence, lane)
    _put_lane(pointer(states.write_weighting), sample * n, n, lanes.write_weighting, lane)
    for head in range(heads):
        start = (sample * heads + head) * n
        mine = advance(lanes.weightings, head * lanes.apart)
        _put_lane(pointer(states.read_weightings), start, n, mine, lane)


@inner
def _leave(problem: Problem, states: States, sample: int, lanes: Lanes, lane: int) -> None:
    """A sample's state, or its adjoint, out of its lane."""
    n, word, heads, h = problem.cells, problem.word, problem.heads, problem.hidden
    _get_lane(lanes.reads, lane, heads * word, pointer(states.reads), sample * heads * word)
    if problem.lstm:
        _get_lane(lanes.hidden, lane, h, pointer(states.hidden), sample * h)
        _get_lane(lanes.cell, lane, h, pointer(states.cell), sample * h)
    _get_lane(lanes.memory, lane, n * word, pointer(states.memory), sample * n * word)
    _get_lane(lanes.usage, lane, n, pointer(states.usage), sample * n)
    _get_lane(lanes.links, lane, n * n, pointer(states.links), sample * n * n)
    _get_lane(lanes.precedence, lane, n, pointer(states.precedence), sample * n)
    _get_lane(lanes.write_weighting, lane, n, pointer(states.write_weighting), sample * n)
    for head in range(heads):
        start = (sample * heads + head) * n
        mine = advance(lanes.weightings, head * lanes.apart)
        _get_lane(mine, lane, n, pointer(states.read_weightings), start)


@inner
def _copy(count: int, source: Any, target: Any) -> None:
    for i in range(count):
        store(target, i, load(source, i))


# --- forwards ------------------------------------------------------------------------------------


@inner
def _controller(
    problem: Problem, plan: Plan, packed: Forward, alive: Any, before: Any, now: Any, seen: Any,
    hidden: Any,
) -> None:  # fmt: skip
    """h_t, and in the record the squashed gates and c_t; h_t is 0 where no sample lives."""
    h, zero = problem.hidden, fill(now, 0.0)
    gates = advance(now, plan.places.gates)
    multiply(pointer(packed.gates), plan.gate_rows, plan.columns, seen, gates, False)
    if not problem.lstm:
        for i in range(h):
            value = load(gates, i)
            value = where_less(value, zero, zero, value)
            store(gates, i, value)
            store(hidden, i, where_less(zero, alive, value, zero))
        return
    cell_before = advance(before, plan.places.cell)
    for i in range(h):
        take, keep = sigmoid(load(gates, i)), sigmoid(load(gates, i + h))
        candidate, show = tanh(load(gates, i + 2 * h)), sigmoid(load(gates, i + 3 * h))
        store(gates, i, take)
        store(gates, i + h, keep)
        store(gates, i + 2 * h, candidate)
        store(gates, i + 3 * h, show)
        cell = fused(keep, load(cell_before, i), take * candidate)
        store(now, plan.places.cell + i, cell)
        store(hidden, i, where_less(zero, alive, show * tanh(cell), zero))


@inner
def _see_inputs(
    problem: Problem, plan: Plan, inputs: Any, samples: int, first: int, lengths: Any, t: int,
    seen: Any,
) -> None:  # fmt: skip
    """x_t of every lane; 0 where no sample lives. And the 1 behind what is seen."""
    x, lanes = problem.inputs, lane_count(seen)
    for lane in range(lanes):
        if t < get(lengths, lane):
            _put_lane(inputs, (t * samples + first + lane) * x, x, seen, lane)
        else:
            for i in range(x):
                put(seen, i * lanes + lane, 0.0)
    store(seen, plan.columns - 1, fill(seen, 1.0))
    for i in range(plan.columns, plan.seen):
        store(seen, i, fill(seen, 0.0))


@kernel
def _run_forward(
    problem: Problem,
    plan: Plan,
    weights: Weights,
    packed: Forward,
    group: Group,
    first: int,
    keep: int,
    inputs: Array,
    used: bool,
    initial: States,
    outputs: Array,
    final: States,
    room: Array,
) -> None:
    """A group of samples, from its `first` on. Not `used`: all begin with an empty memory."""
    _pack_forward(problem, plan, weights, packed)
    parts, places = plan.parts, plan.places
    n, word, h, x, reads = problem.cells, problem.word, problem.hidden, problem.inputs, plan.reads
    padded, samples = places.padded, inputs.shape[1]
    p = pointer(room)
    squashed = p
    p = advance(p, parts.size)
    scaled = p
    p = advance(p, word)
    squares = p
    p = advance(p, word)
    retained = p
    p = advance(p, padded)
    taken = p
    p = advance(p, padded)
    forwards = p
    p = advance(p, padded)
    backwards = p
    p = advance(p, padded)
    memory = p
    p = advance(p, padded * word)
    links = p
    p = advance(p, padded * n)
    said = p
    scratch = Scratch(squashed, scaled, squares, retained, taken, forwards, backwards)

    lanes, lengths = lane_count(p), pointer(group.lengths)
    records, seen = pointer(group.records), pointer(group.seen)
    given, answers = pointer(inputs), pointer(outputs)
    zero = fill(p, 0.0)
    zero_all(padded * word, memory)
    zero_all(padded * n, links)
    zero_all(places.size, records)
    zero_all(plan.seen, seen)
    apart = PER_HEAD * padded
    start = Lanes(
        advance(seen, x), advance(seen, x + reads), advance(records, places.cell), memory,
        advance(records, places.usage), links, advance(records, places.precedence),
        advance(records, places.write_weighting),
        advance(records, places.heads + WEIGHTING * padded), apart,
    )  # fmt: skip
    for lane in range(lanes):
        if used and get(lengths, lane) > 0:
            _enter(problem, initial, first + lane, start, lane)

    for t in range(group.steps):
        # Without a way back two records take turns.
        here, there = (t, t + 1) if keep else (t % 2, (t + 1) % 2)
        before, now = advance(records, here * places.size), advance(records, there * places.size)
        seen_now, seen_next = advance(seen, here * plan.seen), advance(seen, there * plan.seen)
        if keep and t % group.segment == 0:
            place = t // group.segment
            _copy(padded * word, memory, advance(pointer(group.memory), place * padded * word))
            _copy(padded * n, links, advance(pointer(group.links), place * padded * n))
        alive = where_less(fill(p, t), load(lengths, 0), fill(p, 1.0), zero)
        _see_inputs(problem, plan, given, samples, first, lengths, t, seen_now)
        state = advance(seen_next, x)
        hidden = advance(state, reads)
        for i in range(h, plan.seen - x - reads):
            store(hidden, i, fill(p, 1.0) if i == h else zero)
        _controller(problem, plan, packed, alive, before, now, seen_now, hidden)
        multiply(
            pointer(packed.controls), plan.control_rows, h + 1, hidden,
            advance(now, places.controls), False,
        )  # fmt: skip
        step(problem, parts, places, scratch, before, now, memory, links, state)
        for i in range(reads):
            store(state, i, where_less(zero, alive, load(state, i), zero))
        multiply(pointer(packed.outputs), plan.output_rows, reads + h + 1, state, said, False)
        for lane in range(min(lanes, samples - first)):
            place = (t * samples + first + lane) * problem.outputs
            length = get(lengths, lane)
            if t < length:
                _get_lane(said, lane, problem.outputs, answers, place)
            if t + 1 == length:
                end = Lanes(
                    state, hidden, advance(now, places.cell), memory, advance(now, places.usage),
                    links, advance(now, places.precedence), advance(now, places.write_weighting),
                    advance(now, places.heads + WEIGHTING * padded), apart,
                )  # fmt: skip
                _leave(problem, final, first + lane, end, lane)
    if keep == EVERYTHING:
        _copy(padded * word, memory, advance(pointer(group.memory), group.steps * padded * word))
        _copy(padded * n, links, advance(pointer(group.links), group.steps * padded * n))


def forward(
    problem: Problem,
    options: Options,
    weights: Weights,
    initial: States | None,
    inputs: Array,
    lengths: Lengths,
    keep: int,
) -> tuple[Array, States, list[Group] | None]:
    """Outputs, the state of each sample after its last step, and what the way back needs.

    Without an initial state the memory is empty.
    """
    plan, dtype = plan_of(problem), inputs.dtype
    steps, samples, _ = inputs.shape
    lanes = lanes_of(dtype)
    ragged = bool((lengths != steps).any())
    outputs = (np.zeros if ragged else np.empty)((steps, samples, problem.outputs), dtype)
    final = empty_states(problem, samples, dtype)
    start = no_states(problem, dtype) if initial is None else initial
    groups = [
        _make_group(plan, problem, lengths[first : first + lanes], lanes, dtype, keep)
        for first in range(0, samples, lanes)
    ]
    padded, word = plan.places.padded, problem.word
    room = plan.parts.size + 2 * word + 4 * padded + padded * (word + problem.cells)

    def job(number: int) -> None:
        *packed, scratch = aligned_empty(
            dtype,
            (plan.gate_rows * plan.columns,),
            (plan.control_rows * (problem.hidden + 1),),
            (plan.output_rows * (plan.reads + problem.hidden + 1),),
            (room + plan.output_rows, lanes),
        )
        _run_forward(
            problem, plan, weights, Forward(*packed), groups[number], number * lanes, keep,
            inputs, initial is not None, start, outputs, final, scratch,
        )  # fmt: skip

    run_all([partial(job, number) for number in range(len(groups))], options.threads)
    return outputs, final, None if keep == NOTHING else groups


def _make_group(
    plan: Plan, problem: Problem, lengths: Lengths, lanes: int, dtype: np.dtype[Any], keep: int
) -> Group:
    steps = int(lengths.max())
    padded = plan.places.padded
    memory, links = padded * problem.word, padded * problem.cells
    bytes_of_step = (memory + links) * lanes * dtype.itemsize
    segment = 1 if keep == EVERYTHING else max(1, min(steps, SEGMENT_BYTES // bytes_of_step))
    kept = 0 if keep == NOTHING else -(-steps // segment) + (keep == EVERYTHING)
    slots = 2 if keep == NOTHING else steps + 1
    living = np.zeros((lanes,), dtype)
    living[: len(lengths)] = lengths
    records, seen, memories, all_links = aligned_empty(
        dtype,
        (slots, plan.places.size, lanes),
        (slots, plan.seen, lanes),
        (kept, memory, lanes),
        (kept, links, lanes),
    )
    return Group(steps, living, records, seen, memories, all_links, segment)


# --- backwards -----------------------------------------------------------------------------------


@inner
def _controller_back(
    problem: Problem, plan: Plan, alive: Any, before: Any, now: Any, d_hidden: Any, d_cell: Any,
    d_gates: Any,
) -> None:  # fmt: skip
    """From the adjoint of h_t to that of the gates before they are squashed; c_t's in place."""
    h, one, zero = problem.hidden, fill(now, 1.0), fill(now, 0.0)
    gates = advance(now, plan.places.gates)
    if not problem.lstm:
        for i in range(h):
            value = where_less(zero, load(gates, i), load(d_hidden, i), zero)
            store(d_gates, i, where_less(zero, alive, value, zero))
        return
    for i in range(h):
        take, keep = load(gates, i), load(gates, i + h)
        candidate, show = load(gates, i + 2 * h), load(gates, i + 3 * h)
        cell = tanh(load(now, plan.places.cell + i))
        d = load(d_hidden, i)
        d_show = d * cell * show * (one - show)
        d = fused(d * show, one - cell * cell, load(d_cell, i))
        d_take = d * candidate * take * (one - take)
        d_keep = d * load(before, plan.places.cell + i) * keep * (one - keep)
        d_candidate = d * take * (one - candidate * candidate)
        store(d_cell, i, d * keep)
        store(d_gates, i, where_less(zero, alive, d_take, zero))
        store(d_gates, i + h, where_less(zero, alive, d_keep, zero))
        store(d_gates, i + 2 * h, where_less(zero, alive, d_candidate, zero))
        store(d_gates, i + 3 * h, where_less(zero, alive, d_show, zero))


@kernel
def _run_back(
    problem: Problem,
    plan: Plan,
    weights: Weights,
    packed: Back,
    group: Group,
    first: int,
    need_inputs: bool,
    need_initial: bool,
    d_outputs: Array,
    continued: bool,
    d_final: States,
    d_inputs: Array,
    d_initial: States,
    gradients: Gradients,
    d_products: Array,
    slots: Array,
    room: Array,
) -> None:
    """A group of samples, from its last step to its first.

    `d_products` [T, gates, controls, outputs] takes the adjoints of what products gave; `slots` the
    memory, links and squashed interface of the steps of a segment. Not `continued`: nothing flows
    back into the final states.
    """
    _pack_back(problem, plan, weights, packed)
    parts, places = plan.parts, plan.places
    n, word, h, x, reads = problem.cells, problem.word, problem.hidden, problem.inputs, plan.reads
    padded, samples, heads = places.padded, d_outputs.shape[1], problem.heads
    p = pointer(room)
    scaled = p
    p = advance(p, word)
    squares = p
    p = advance(p, word)
    retained = p
    p = advance(p, padded)
    taken = p
    p = advance(p, padded)
    forwards = p
    p = advance(p, padded)
    backwards = p
    p = advance(p, padded)
    d_squashed = p
    p = advance(p, parts.size)
    d_following = p
    p = advance(p, heads * padded)
    d_preceding = p
    p = advance(p, heads * padded)
    d_weighting = p
    p = advance(p, padded)
    d_content = p
    p = advance(p, padded)
    d_retained = p
    p = advance(p, padded)
    shares = p
    p = advance(p, padded)
    work = Room(
        d_squashed, d_following, d_preceding, d_weighting, d_content, d_retained, shares, scaled,
        squares,
    )  # fmt: skip
    d_memory = p
    p = advance(p, padded * word)
    d_links = p
    p = advance(p, padded * n)
    d_usage = p
    p = advance(p, padded)
    d_precedence = p
    p = advance(p, padded)
    d_late = p
    p = advance(p, padded)
    d_reading = p
    p = advance(p, heads * padded)
    d_reading_before = p
    p = advance(p, heads * padded)
    d_cell = p
    p = advance(p, h)
    d_state = p
    p = advance(p, plan.state_rows)
    d_x = p
    handed_on = padded * (word + n + 3 + 2 * heads) + h + plan.state_rows
    zero_all(handed_on, d_memory)

    lanes, lengths = lane_count(p), pointer(group.lengths)
    records, seen = pointer(group.records), pointer(group.seen)
    given, one, zero = pointer(d_outputs), fill(p, 1.0), fill(p, 0.0)
    slot_size = padded * (word + n) + parts.size
    step_size = plan.gate_rows + plan.control_rows + plan.output_rows
    slot = pointer(slots)
    for number in range(group.segment + 1):  # rows that pad
        here = advance(slot, number * slot_size)
        zero_all((padded - n) * word, advance(here, n * word))
        zero_all((padded - n) * n, advance(here, padded * word + n * n))
    for t in range(group.steps - 1, -1, -1):
        number = t % group.segment
        if t == group.steps - 1 or number == group.segment - 1:
            # A new segment, from the back: compute its M, L and interfaces again.
            begin = t - number
            place = begin // group.segment
            _copy(padded * word, advance(pointer(group.memory), place * padded * word), slot)
            _copy(
                padded * n, advance(pointer(group.links), place * padded * n),
                advance(slot, padded * word),
            )  # fmt: skip
            for again in range(begin, t + 1):
                before = advance(records, again * places.size)
                now = advance(before, places.size)
                source = advance(slot, (again - begin) * slot_size)
                target = advance(source, slot_size)
                squashed = advance(source, padded * (word + n))
                squash(problem, parts, lanes, advance(now, places.controls), squashed)
                retain(
                    n, padded, heads, advance(squashed, parts.free_gates),
                    advance(before, places.heads), retained,
                )  # fmt: skip
                weighting = advance(now, places.write_weighting)
                write(
                    n, word, problem.dealloc, source, target, weighting, retained,
                    advance(squashed, parts.erase), advance(squashed, parts.write_vector),
                )  # fmt: skip
                if again < t:  # the last L_t is computed on the way
                    relink(
                        n, advance(source, padded * word), advance(target, padded * word),
                        weighting, advance(before, places.precedence),
                    )  # fmt: skip
        before = advance(records, t * places.size)
        now = advance(before, places.size)
        memory_before = advance(slot, number * slot_size)
        links_before = advance(memory_before, padded * word)
        squashed = advance(links_before, padded * n)
        memory = advance(memory_before, slot_size)
        scratch = Scratch(squashed, scaled, squares, retained, taken, forwards, backwards)
        d_gates = advance(pointer(d_products), t * step_size)
        d_controls = advance(d_gates, plan.gate_rows)
        d_said = advance(d_controls, plan.control_rows)
        d_hidden = advance(d_state, reads)
        alive = where_less(fill(p, t), load(lengths, 0), one, zero)

        handed = Lanes(
            d_state, d_hidden, d_cell, d_memory, d_usage, d_links, d_precedence, d_late,
            d_reading, padded,
        )  # fmt: skip
        for lane in range(min(lanes, samples - first)):
            if t + 1 == get(lengths, lane):
                # Whatever the steps after the sample's end have made of its lane is forgotten.
                for i in range(handed_on if t + 1 < group.steps else 0):
                    put(d_memory, i * lanes + lane, 0.0)
                if continued:
                    _enter(problem, d_final, first + lane, handed, lane)
        zero_all(plan.output_rows, d_said)
        for i in range(plan.gates, plan.gate_rows):
            store(d_gates, i, zero)
        for i in range(problem.interface, plan.control_rows):
            store(d_controls, i, zero)
        for lane in range(min(lanes, samples - first)):
            if t < get(lengths, lane):
                place = (t * samples + first + lane) * problem.outputs
                _put_lane(given, place, problem.outputs, d_said, lane)
        multiply(pointer(packed.outputs), plan.state_rows, problem.outputs, d_said, d_state, True)
        adjoints = Adjoints(
            d_memory, d_links, d_usage, d_precedence, d_late, d_reading, d_reading_before
        )
        step_back(
            problem, parts, places, scratch, work, adjoints, alive, before, now, memory_before,
            memory, links_before, d_state, d_controls,
        )  # fmt: skip
        d_reading, d_reading_before = d_reading_before, d_reading
        multiply(
            pointer(packed.controls), plan.hidden_rows, problem.interface, d_controls, d_hidden,
            True,
        )  # fmt: skip
        _controller_back(problem, plan, alive, before, now, d_hidden, d_cell, d_gates)
        multiply(pointer(packed.states), plan.state_rows, plan.gates, d_gates, d_state, False)
        if need_inputs:
            multiply(pointer(packed.inputs), plan.input_rows, plan.gates, d_gates, d_x, False)
            for lane in range(min(lanes, samples - first)):
                if t < get(lengths, lane):
                    place = (t * samples + first + lane) * x
                    _get_lane(d_x, lane, x, pointer(d_inputs), place)
    if need_initial:
        handed = Lanes(
            d_state, advance(d_state, reads), d_cell, d_memory, d_usage, d_links, d_precedence,
            d_late, d_reading, padded,
        )  # fmt: skip
        for lane in range(min(lanes, samples - first)):
            _leave(problem, d_initial, first + lane, handed, lane)

    d_gates = pointer(d_products)
    d_controls = advance(d_gates, plan.gate_rows)
    d_said = advance(d_controls, plan.control_rows)
    after = advance(seen, plan.seen + x)  # [r_t; h_t; 1]
    sum_outer(
        group.steps, d_gates, step_size, plan.gate_rows, seen, plan.seen,
        gradients.gates.shape[0], pointer(gradients.gates),
    )  # fmt: skip
    sum_outer(
        group.steps, d_controls, step_size, plan.control_rows, advance(after, reads), plan.seen,
        gradients.controls.shape[0], pointer(gradients.controls),
    )  # fmt: skip
    sum_outer(
        group.steps, d_said, step_size, plan.output_rows, after, plan.seen,
        gradients.outputs.shape[0], pointer(gradients.outputs),
    )  # fmt: skip


def backward(
    problem: Problem,
    options: Options,
    weights: Weights,
    tape: list[Group],
    d_outputs: Array,
    d_final: States | None,
) -> tuple[Array | None, Weights, States | None]:
    """The gradients of the inputs, the weights and the initial state."""
    plan, dtype = plan_of(problem), d_outputs.dtype
    steps, samples, _ = d_outputs.shape
    lanes = lanes_of(dtype)
    hidden, reads, inputs = problem.hidden, plan.reads, problem.inputs
    d_inputs = np.zeros((steps, samples, inputs if options.need_inputs else 0), dtype)
    wanted = options.need_initial
    d_initial = empty_states(problem, samples, dtype) if wanted else no_states(problem, dtype)
    d_end = no_states(problem, dtype) if d_final is None else d_final
    sums = [
        Gradients(
            *(
                np.empty((round_up(columns, COLUMNS), rows), dtype)
                for rows, columns in (
                    (plan.gate_rows, plan.columns),
                    (plan.control_rows, hidden + 1),
                    (plan.output_rows, reads + hidden + 1),
                )
            )
        )
        for _ in tape
    ]
    parts, padded = plan.parts, plan.places.padded
    cells, word, heads = problem.cells, problem.word, problem.heads
    room = (
        2 * word + 8 * padded + parts.size + 2 * heads * padded
        + padded * (word + cells + 3 + 2 * heads) + hidden + plan.state_rows + plan.input_rows
    )  # fmt: skip
    slot = padded * (word + cells) + parts.size
    products = plan.gate_rows + plan.control_rows + plan.output_rows

    def job(number: int) -> None:
        group = tape[number]
        *packed, d_products, slots, scratch = aligned_empty(
            dtype,
            (plan.state_rows * plan.gates,),
            (plan.input_rows * plan.gates,),
            (plan.hidden_rows * problem.interface,),
            (plan.state_rows * problem.outputs,),
            (group.steps, products, lanes),
            (group.segment + 1, slot, lanes),
            (room, lanes),
        )
        _run_back(
            problem, plan, weights, Back(*packed), group, number * lanes, options.need_inputs,
            options.need_initial, d_outputs, d_final is not None, d_end, d_inputs, d_initial,
            sums[number], d_products, slots, scratch,
        )  # fmt: skip

    run_all([partial(job, number) for number in range(len(tape))], options.threads)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows shows by itself
        gates, controls, outputs = (
            sum(part[1:], start=part[0]) for part in zip(*sums, strict=True)
        )
    seen = inputs + reads + (hidden if problem.lstm else 0)
    d_weights = Weights(
        gates=_transposed(gates[:seen, : plan.gates]),
        gates_bias=gates[plan.columns - 1, : plan.gates].copy(),
        interface=_transposed(controls[:hidden, : problem.interface]),
        interface_bias=controls[hidden, : problem.interface].copy(),
        output=_transposed(outputs[reads : reads + hidden, : problem.outputs]),
        output_bias=outputs[reads + hidden, : problem.outputs].copy(),
        read_output=_transposed(outputs[:reads, : problem.outputs]),
    )
    return (
        d_inputs if options.need_inputs else None,
        d_weights,
        d_initial if options.need_initial else None,
    )


def _transposed(matrix: Array) -> Array:
    return np.ascontiguousarray(matrix.T)


# --- for the trace -------------------------------------------------------------------------------


def steps(problem: Problem, tape: list[Group]) -> dict[str, Array]:
    """All that a forward pass that kept everything went through; 0 after the end of a sample."""
    plan = plan_of(problem)
    places, cells, heads = plan.places, problem.cells, problem.heads
    longest = max(group.steps for group in tape)
    samples = sum(int((group.lengths > 0).sum()) for group in tape)
    found: dict[str, Array] = {}
    first = 0
    for group in tape:
        count = int((group.lengths > 0).sum())
        records, seen = group.records[1:], group.seen[1:]
        living = np.arange(group.steps)[:, None] < group.lengths[None, :count]

        def put_in(
            name: str, values: Array, shape: tuple[int, ...], first: int = first,
            count: int = count, living: Any = living,
        ) -> None:  # fmt: skip
            """values [T, numbers, lanes]"""
            if name not in found:
                found[name] = np.zeros((longest, samples, *shape), values.dtype)
            taken = values.transpose(0, 2, 1)[:, :count].reshape(len(values), count, *shape)
            found[name][: len(values), first : first + count][living] = taken[living]

        def part(begin: int, count: int, records: Array = records) -> Array:
            return records[:, begin : begin + count]

        of_heads = part(places.heads, heads * PER_HEAD * places.padded)
        of_heads = of_heads.reshape(group.steps, heads, PER_HEAD, places.padded, -1)
        state = problem.inputs
        put_in("hidden", seen[:, state + plan.reads :][:, : problem.hidden], (problem.hidden,))
        put_in("controls", part(places.controls, problem.interface), (problem.interface,))
        usage = part(places.usage, cells)
        put_in("usage", usage, (cells,))
        free = 1 - (usage * (1 - EPSILON) + EPSILON)
        put_in("allocation", free * part(places.before, cells), (cells,))
        put_in("write_content", part(places.write_content, cells), (cells,))
        put_in("write_weighting", part(places.write_weighting, cells), (cells,))
        put_in("precedence", part(places.precedence, cells), (cells,))
        for name, which in (
            ("following", FOLLOWING),
            ("preceding", PRECEDING),
            ("read_contents", CONTENT),
            ("read_weightings", WEIGHTING),
        ):
            of_all = of_heads[:, :, which, :cells].reshape(group.steps, heads * cells, -1)
            put_in(name, of_all, (heads, cells))
        put_in("reads", seen[:, state:][:, : plan.reads], (heads, problem.word))
        memory = group.memory[1:, : cells * problem.word]
        put_in("memory", memory, (cells, problem.word))
        put_in("links", group.links[1:, : cells * cells], (cells, cells))
        first += count
    return found
