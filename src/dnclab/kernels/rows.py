"""The rows layout: one sample at a time, its cells in the lanes, a whole sequence at once.

A sample is a job of its own. What a step leaves for the way back is its `record` (see
:class:`~dnclab.kernels.records.Places`) and its `state`, [r_t; h_t]. M is kept of every step, or of
every few steps and computed again from there. L is undone step by step on the way back: a forward
pass goes by stretches, at the end of each of which it keeps L whole where undoing it would multiply
rounding too much; or, exactly, L is kept of every few steps and computed again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dnclab.kernels.compiled import inner, kernel
from dnclab.kernels.interface import squash
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
    empty_states,
    no_states,
)
from dnclab.kernels.records import (
    CONTENT,
    EPSILON,
    FOLLOWING,
    PER_HEAD,
    PRECEDING,
    WEIGHTING,
    Adjoints,
    Scratch,
)
from dnclab.kernels.room import aligned_empty
from dnclab.kernels.rows_adjoints import Links, Room, reads_back, writes_back
from dnclab.kernels.rows_links import help_with_links, link_together, link_together_back
from dnclab.kernels.rows_memory import (
    BLOCK,
    address_write,
    amplify,
    copy,
    keep_links,
    precede,
    read_memory,
    relink,
    retain,
    write,
    zero_all,
)
from dnclab.kernels.rows_plan import (
    Back,
    Course,
    Forward,
    Held,
    Plan,
    Sample,
    Stretch,
    Tape,
    enter,
    leave,
    move,
    pack_back,
    pack_forward,
    plan_of,
)
from dnclab.kernels.rows_products import add_product, products
from dnclab.kernels.rows_weights import gradients
from dnclab.kernels.sharing import Board, close, new_board
from dnclab.kernels.simd import (
    fill,
    fused,
    get,
    lane_count,
    lanes_of,
    load_at,
    pointer,
    put,
    sigmoid,
    skip,
    store_at,
    tanh,
    where_less,
)
from dnclab.kernels.threads import run_all

CHUNK = 32
"""Steps whose products with inputs and to outputs are computed together."""

MOST_AMPLIFIED = 300.0
"""So many roundings of L may add up, each multiplied by what undoing the steps before it divides
by, before a whole L is kept."""

MOST_PATCHES = 256
"""Patches there is room for in a stretch, unless one step might need more."""


# --- forwards ------------------------------------------------------------------------------------


@inner
def _controller(problem: Problem, plan: Plan, before: Any, now: Any, hidden: Any) -> None:
    """h_t, and in the record the squashed gates and c_t; the gates hold their products."""
    unit, lanes, zero = plan.unit, lane_count(now), fill(now, 0.0)
    gates = skip(now, plan.places.gates)
    if not problem.lstm:
        for i in range(0, unit, lanes):
            value = load_at(gates, i)
            value = where_less(value, zero, zero, value)
            store_at(gates, i, value)
            store_at(hidden, i, value)
        return
    cell_before = skip(before, plan.places.cell)
    for i in range(0, unit, lanes):
        take, keep = sigmoid(load_at(gates, i)), sigmoid(load_at(gates, i + unit))
        candidate = tanh(load_at(gates, i + 2 * unit))
        show = sigmoid(load_at(gates, i + 3 * unit))
        store_at(gates, i, take)
        store_at(gates, i + unit, keep)
        store_at(gates, i + 2 * unit, candidate)
        store_at(gates, i + 3 * unit, show)
        cell = fused(keep, load_at(cell_before, i), take * candidate)
        store_at(now, plan.places.cell + i, cell)
        store_at(hidden, i, show * tanh(cell))


@inner
def _scratch(plan: Plan, squashed: Any, p: Any) -> Any:
    """Room for a step, and where it ends."""
    padded = plan.places.padded
    scaled = p
    squares = skip(scaled, plan.key)
    retained = skip(squares, plan.key)
    taken = skip(retained, padded)
    forwards = skip(taken, padded)
    backwards = skip(forwards, padded)
    return (
        Scratch(squashed, scaled, squares, retained, taken, forwards, backwards),
        skip(backwards, padded),
    )


def _scratch_size(plan: Plan) -> int:
    """Of a step, and of the sums of shares of the links."""
    return 2 * plan.key + 4 * plan.places.padded + plan.shares * plan.share_size


@kernel
def _run_forward(
    problem: Problem,
    plan: Plan,
    course: Course,
    packed: Forward,
    begin: int,
    inputs: Array,
    used: bool,
    initial: States,
    outputs: Array,
    final: States,
    records: Array,
    states: Array,
    memories: Array,
    all_links: Array,
    starts: Array,
    marks: Array,
    patches: Array,
    carried: Array,
    board: Board,
) -> tuple[int, bool]:
    """From the step `begin` to the last one, or to the end of a stretch; returns where that is and
    whether L is to be kept there. Not `used`: the memory is empty.

    `carried` [links, amplifications, memory, products and scratch] is left alone between stretches;
    what is on the `board` others may help with.
    """
    places, parts = plan.places, plan.parts
    cells, word, x, y = problem.cells, problem.word, problem.inputs, problem.outputs
    padded, keep, steps = places.padded, course.keep, course.steps
    links = pointer(carried)
    alone = skip(links, plan.links)
    paired = skip(alone, padded)
    amplified = skip(paired, padded)
    memory_room = skip(amplified, plan.lanes)
    chunk = skip(memory_room, plan.memory)
    said = skip(chunk, CHUNK * plan.gate_rows)
    squashed = skip(said, CHUNK * plan.output_rows)
    scratch, partials = _scratch(plan, squashed, skip(squashed, parts.size + 2 * plan.lanes))
    record, state, tape = pointer(records), pointer(states), pointer(memories)
    given, answers = pointer(inputs), pointer(outputs)

    if begin == 0:
        start = tape if course.memory_kept else memory_room
        zero_all(plan.memory, start)
        zero_all(plan.links, links)
        zero_all(2 * padded + plan.lanes, alone)
        zero_all(places.size, record)
        zero_all(plan.state, state)
        if used:
            held = Held(
                state, skip(state, plan.reads), skip(record, places.cell), start,
                skip(record, places.usage), links, skip(record, places.precedence),
                skip(record, places.write_weighting),
                skip(record, places.heads + WEIGHTING * padded), PER_HEAD * padded,
            )  # fmt: skip
            enter(problem, padded, initial, course.sample, held)
        if keep == EVERYTHING:
            copy(plan.links, links, pointer(all_links))

    patched = 0
    for t in range(begin, steps):
        number = t % CHUNK
        # Without a way back two records take turns, and states begin anew with each chunk.
        before = skip(record, (t if keep else t % 2) * places.size)
        now = skip(record, (t + 1 if keep else (t + 1) % 2) * places.size)
        if number == 0:
            if t > 0 and not keep:
                copy(plan.state, skip(state, CHUNK * plan.state), state)
            place = (t * course.samples + course.sample) * x
            products(
                pointer(packed.inputs), plan.gate_rows, x, pointer(packed.inputs_bias),
                min(CHUNK, steps - t), skip(given, place), course.samples * x, chunk,
                plan.gate_rows,
            )  # fmt: skip
        state_before = skip(state, (t if keep else number) * plan.state)
        state_now = skip(state_before, plan.state)
        source = skip(tape, t * plan.memory) if course.memory_kept else memory_room
        target = skip(source, plan.memory) if course.memory_kept else source
        if keep == FOR_BACKWARD and t % course.segment == 0:
            place = t // course.segment
            if not course.memory_kept:
                copy(plan.memory, memory_room, skip(tape, place * plan.memory))
            if not course.undone:
                copy(plan.links, links, skip(pointer(all_links), place * plan.links))

        gates = skip(now, places.gates)
        copy(plan.gate_rows, skip(chunk, number * plan.gate_rows), gates)
        add_product(pointer(packed.states), plan.gate_rows, plan.state, state_before, gates)
        hidden = skip(state_now, plan.reads)
        _controller(problem, plan, before, now, hidden)
        controls = skip(now, places.controls)
        copy(plan.control_rows, pointer(packed.controls_bias), controls)
        add_product(pointer(packed.controls), plan.control_rows, plan.unit, hidden, controls)
        zero_all(plan.lanes, skip(controls, plan.control_rows))
        address_write(problem, parts, places, plan.words, scratch, before, now, source)
        weighting = skip(now, places.write_weighting)
        if course.undone and keep == FOR_BACKWARD:
            put(pointer(starts), t - begin, float(patched))
            room = marks.shape[0] - patched
            count = keep_links(
                cells, padded, links, weighting, room, skip(pointer(marks), patched),
                skip(pointer(patches), 2 * patched * padded),
            )  # fmt: skip
            if count > room:
                return t, False
            patched += count
            put(pointer(starts), t + 1 - begin, float(patched))
        write(
            padded, word, problem.dealloc, source, target, weighting, scratch.retained,
            skip(squashed, parts.erase), skip(squashed, parts.write_vector),
        )  # fmt: skip
        if course.memory_kept:
            zero_all((plan.words - word) * padded, skip(target, word * padded))
        precedence_before = skip(before, places.precedence)
        link_together(
            pointer(board), plan.shares, plan.share_size, cells, padded, problem.heads, links,
            weighting, precedence_before, skip(before, places.heads), skip(now, places.heads),
            partials,
        )  # fmt: skip
        precede(padded, weighting, precedence_before, skip(now, places.precedence))
        zero_all(plan.reads, state_now)
        read_memory(problem, parts, places, plan.words, scratch, now, target, state_now)
        if keep == EVERYTHING:
            copy(plan.links, links, skip(pointer(all_links), (t + 1) * plan.links))

        if number == CHUNK - 1 or t == steps - 1:
            count = number + 1
            products(
                pointer(packed.outputs), plan.output_rows, plan.state,
                pointer(packed.outputs_bias), count, skip(state_now, -number * plan.state),
                plan.state, said, plan.output_rows,
            )  # fmt: skip
            for k in range(count):
                place = ((t - number + k) * course.samples + course.sample) * y
                move(said, k * plan.output_rows, y, answers, place)
        if t == steps - 1:
            held = Held(
                state_now, hidden, skip(now, places.cell), target, skip(now, places.usage), links,
                skip(now, places.precedence), weighting,
                skip(now, places.heads + WEIGHTING * padded), PER_HEAD * padded,
            )  # fmt: skip
            leave(problem, padded, final, course.sample, held)
        elif course.undone and keep == FOR_BACKWARD:
            # Rounding of each step so far is multiplied by all that were before it.
            most = math.exp(amplify(cells, padded, weighting, alone, paired))
            put(amplified, 0, get(amplified, 0) + most)
            if get(amplified, 0) > MOST_AMPLIFIED:
                zero_all(2 * padded + plan.lanes, alone)
                return t + 1, True
    return steps, True


def forward(
    problem: Problem,
    options: Options,
    weights: Weights,
    initial: States | None,
    inputs: Array,
    lengths: Lengths,
    keep: int,
) -> tuple[Array, States, Tape | None]:
    """Outputs, the state of each sample after its last step, and what the way back needs.

    Without an initial state the memory is empty.
    """
    dtype = inputs.dtype
    lanes = lanes_of(dtype)
    plan = plan_of(problem, lanes)
    steps, samples, _ = inputs.shape
    ragged = bool((lengths != steps).any())
    outputs = (np.zeros if ragged else np.empty)((steps, samples, problem.outputs), dtype)
    final = empty_states(problem, samples, dtype)
    start = no_states(problem, dtype) if initial is None else initial
    [all_states] = aligned_empty(
        dtype, (samples, (steps if keep else min(steps, CHUNK)) + 2, plan.state)
    )
    packed = Forward(
        *aligned_empty(
            dtype,
            (plan.gate_rows * problem.inputs,),
            (plan.gate_rows,),
            (plan.gate_rows * plan.state,),
            (plan.control_rows * plan.unit,),
            (plan.control_rows,),
            (plan.output_rows * plan.state,),
            (plan.output_rows,),
        )
    )
    run_all(
        [partial(pack_forward, part, problem, plan, weights, packed) for part in range(4)],
        options.threads,
    )
    courses = [
        _course(options, keep, int(length), _segment(steps, samples, options), samples, number)
        for number, length in enumerate(lengths)
    ]
    made = [
        _make_sample(plan, course, all_states[number], dtype)
        for number, course in enumerate(courses)
    ]

    def job(number: int, board: Board) -> None:
        course, sample = courses[number], made[number]
        [carried] = aligned_empty(dtype, (_room_forward(plan),))
        begin = 0
        while begin < course.steps:
            starts, marks, patches = _room_for_patches(problem, plan, course, begin, dtype)
            end, keeps_links = _run_forward(
                problem, plan, course, packed, begin, inputs, initial is not None, start, outputs,
                final, sample.records, sample.states, sample.memory, sample.links, starts, marks,
                patches, carried, board,
            )  # fmt: skip
            if keep == FOR_BACKWARD:
                links = carried[: plan.links].copy() if course.undone and keeps_links else None
                sample.stretches.append(Stretch(begin, end, starts, marks, patches, links))
            begin = end

    _run_samples(job, samples, problem, plan, options, dtype)
    return outputs, final, None if keep == NOTHING else Tape(made, inputs, lengths, all_states)


def _run_samples(
    job: Callable[[int, Board], None],
    samples: int,
    problem: Problem,
    plan: Plan,
    options: Options,
    dtype: np.dtype[Any],
) -> None:
    """A job for each sample; threads that have none help with links, if they are large."""
    boards = [new_board() for _ in range(samples)]
    like = np.empty(0, dtype)

    def lead(number: int) -> None:
        try:
            job(number, boards[number])
        finally:
            close(boards[number])

    def help_out(number: int) -> None:
        help_with_links(
            boards[number],
            plan.shares,
            plan.share_size,
            problem.cells,
            plan.places.padded,
            problem.heads,
            like,
        )

    helpers = max(options.threads - samples, 0) if plan.shares > 1 else 0
    jobs = [partial(lead, number) for number in range(samples)]
    jobs += [partial(help_out, number % samples) for number in range(helpers)]
    run_all(jobs, options.threads)


def _room_forward(plan: Plan) -> int:
    """How much a sample's way there carries from step to step, with its scratch."""
    return (
        plan.links + 2 * plan.places.padded + plan.lanes + plan.memory
        + CHUNK * (plan.gate_rows + plan.output_rows)
        + plan.parts.size + 2 * plan.lanes + _scratch_size(plan)
    )  # fmt: skip


def _segment(steps: int, samples: int, options: Options) -> int:
    """Steps between two M or L that are kept: as many for all samples as need the least room, for
    those between are computed again for as many samples at a time as there are threads.
    """
    at_once = max(1, min(options.threads, samples))
    return max(1, min(steps, math.isqrt(steps * samples // at_once)))


def _course(
    options: Options, keep: int, steps: int, segment: int, samples: int, sample: int
) -> Course:
    """How a sample is gone through, by the options."""
    return Course(
        keep=keep,
        undone=not options.exact_links,
        memory_kept=keep == EVERYTHING or (keep == FOR_BACKWARD and not options.memory_segments),
        segment=segment,
        steps=steps,
        samples=samples,
        sample=sample,
    )


def _make_sample(plan: Plan, course: Course, states: Array, dtype: np.dtype[Any]) -> Sample:
    steps, keep = course.steps, course.keep
    segments = -(-steps // course.segment) if keep == FOR_BACKWARD else 0
    memories = steps + 1 if course.memory_kept else segments
    all_links = steps + 1 if keep == EVERYTHING else 0 if course.undone else segments
    records, memory, links = aligned_empty(
        dtype,
        (steps + 1 if keep else 2, plan.places.size),
        (memories, plan.memory),
        (all_links, plan.links),
    )
    return Sample(steps, records, states, memory, links, course.segment, [])


def _room_for_patches(
    problem: Problem, plan: Plan, course: Course, begin: int, dtype: np.dtype[Any]
) -> list[Array]:
    """For two patches a step, more of them than any one step can need."""
    left = course.steps - begin if course.undone and course.keep == FOR_BACKWARD else 0
    count = max(problem.cells, min(2 * left, MOST_PATCHES)) if left else 0
    return aligned_empty(dtype, (left + 1,), (count,), (count, 2, plan.places.padded))


# --- backwards -----------------------------------------------------------------------------------


@inner
def _controller_back(
    problem: Problem, plan: Plan, before: Any, now: Any, d_hidden: Any, d_cell: Any, d_gates: Any
) -> None:
    """From the adjoint of h_t to that of the gates before they are squashed; c_t's in place."""
    unit, lanes, one, zero = plan.unit, lane_count(now), fill(now, 1.0), fill(now, 0.0)
    gates = skip(now, plan.places.gates)
    if not problem.lstm:
        for i in range(0, unit, lanes):
            store_at(d_gates, i, where_less(zero, load_at(gates, i), load_at(d_hidden, i), zero))
        return
    for i in range(0, unit, lanes):
        take, keep = load_at(gates, i), load_at(gates, i + unit)
        candidate, show = load_at(gates, i + 2 * unit), load_at(gates, i + 3 * unit)
        cell = tanh(load_at(now, plan.places.cell + i))
        d = load_at(d_hidden, i)
        d_show = d * cell * show * (one - show)
        d = fused(d * show, one - cell * cell, load_at(d_cell, i))
        d_keep = d * load_at(before, plan.places.cell + i) * keep * (one - keep)
        store_at(d_cell, i, d * keep)
        store_at(d_gates, i, d * candidate * take * (one - take))
        store_at(d_gates, i + unit, d_keep)
        store_at(d_gates, i + 2 * unit, d * take * (one - candidate * candidate))
        store_at(d_gates, i + 3 * unit, d_show)


@inner
def _rebuild(
    problem: Problem, plan: Plan, course: Course, begin: int, end: int, scratch: Scratch,
    record: Any, tape: Any, all_links: Any, memory_slots: Any, links_slots: Any,
) -> None:  # fmt: skip
    """M and L of the steps begin, ..., end of a segment, as far as they were not kept."""
    places, parts = plan.places, plan.parts
    place = begin // course.segment
    if not course.memory_kept:
        copy(plan.memory, skip(tape, place * plan.memory), memory_slots)
        rest = (plan.words - problem.word) * places.padded
        for number in range(1, end - begin + 1):
            zero_all(rest, skip(memory_slots, (number + 1) * plan.memory - rest))
    if not course.undone:
        copy(plan.links, skip(all_links, place * plan.links), links_slots)
        rest = plan.links - (problem.cells + BLOCK - 1) // BLOCK * BLOCK * places.padded
        for number in range(1, end - begin + 1):
            zero_all(rest, skip(links_slots, (number + 1) * plan.links - rest))
    for t in range(begin, end):
        before = skip(record, t * places.size)
        now = skip(before, places.size)
        weighting = skip(now, places.write_weighting)
        if not course.memory_kept:
            squash(problem, parts, 1, skip(now, places.controls), scratch.squashed)
            retain(
                places.padded, problem.heads, skip(scratch.squashed, parts.free_gates),
                skip(before, places.heads), scratch.retained,
            )  # fmt: skip
            source = skip(memory_slots, (t - begin) * plan.memory)
            write(
                places.padded, problem.word, problem.dealloc, source, skip(source, plan.memory),
                weighting, scratch.retained, skip(scratch.squashed, parts.erase),
                skip(scratch.squashed, parts.write_vector),
            )  # fmt: skip
        if not course.undone:
            source = skip(links_slots, (t - begin) * plan.links)
            relink(
                problem.cells, places.padded, source, skip(source, plan.links), weighting,
                skip(before, places.precedence),
            )  # fmt: skip


@kernel
def _run_back(
    problem: Problem,
    plan: Plan,
    course: Course,
    packed: Back,
    begin: int,
    end: int,
    need_inputs: bool,
    need_initial: bool,
    d_outputs: Array,
    continued: bool,
    d_final: States,
    d_inputs: Array,
    d_initial: States,
    records: Array,
    memories: Array,
    all_links: Array,
    starts: Array,
    marks: Array,
    patches: Array,
    links_now: Array,
    d_gates_kept: Array,
    d_controls_kept: Array,
    slots: Array,
    carried: Array,
    board: Board,
) -> None:
    """From the last step of a stretch to its first.

    `links_now` holds L after the last step if L is undone. `slots` takes M and L of the steps of a
    segment, `d_gates_kept` and `d_controls_kept` the adjoints of what products gave. Not
    `continued`: nothing flows back into the final state. `carried` is left alone between stretches.
    """
    places, parts = plan.places, plan.parts
    x, y, heads = problem.inputs, problem.outputs, problem.heads
    padded, steps, lanes = places.padded, course.steps, plan.lanes
    p = pointer(carried)
    d_memory = p
    d_links = skip(d_memory, plan.memory)
    d_usage = skip(d_links, plan.links)
    d_precedence = skip(d_usage, padded)
    d_late = skip(d_precedence, padded)
    d_readings = skip(d_late, padded)
    d_cell = skip(d_readings, 2 * heads * padded)
    d_state = skip(d_cell, plan.unit)
    handed_on = plan.memory + plan.links + (3 + 2 * heads) * padded + plan.unit
    handed_on += plan.state_rows + plan.hidden_rows
    nothing = skip(p, handed_on)
    widest = max(plan.state_rows, plan.input_rows)
    chunk = skip(nothing, widest)
    squashed = skip(chunk, CHUNK * widest)
    d_squashed = skip(squashed, parts.size + 2 * lanes)
    d_following = skip(d_squashed, parts.size + 2 * lanes)
    d_preceding = skip(d_following, heads * padded)
    weighting_room = skip(d_preceding, heads * padded)
    sums = skip(weighting_room, 4 * padded)
    d_scaled = skip(sums, 3 * padded)
    d_squares = skip(d_scaled, plan.key)
    totals = skip(d_squares, plan.key)
    scratch, partials = _scratch(plan, squashed, skip(totals, 2 * lanes))
    room = Room(
        d_squashed, d_following, d_preceding, weighting_room, skip(weighting_room, padded),
        skip(weighting_room, 2 * padded), skip(weighting_room, 3 * padded), sums, d_scaled,
        d_squares, totals,
    )  # fmt: skip
    record, tape = pointer(records), pointer(memories)
    memory_slots = pointer(slots)
    links_slots = skip(
        memory_slots, 0 if course.memory_kept else (course.segment + 1) * plan.memory
    )
    given = pointer(d_outputs)
    if end == steps:
        zero_all(handed_on, p)
        zero_all(widest, nothing)
        if continued:
            held = Held(
                d_state, skip(d_state, plan.reads), d_cell, d_memory, d_usage, d_links,
                d_precedence, d_late, skip(d_readings, (steps - 1) % 2 * heads * padded), padded,
            )  # fmt: skip
            enter(problem, padded, d_final, course.sample, held)

    for t in range(end - 1, begin - 1, -1):
        number, inside = t % CHUNK, t % course.segment
        if t == steps - 1 or number == CHUNK - 1:
            place = ((t - number) * course.samples + course.sample) * y
            products(
                pointer(packed.outputs), plan.state_rows, y, nothing, number + 1,
                skip(given, place), course.samples * y, chunk, plan.state_rows,
            )  # fmt: skip
        if t == steps - 1 or inside == course.segment - 1:
            _rebuild(
                problem, plan, course, t - inside, t + 1, scratch, record, tape,
                pointer(all_links), memory_slots, links_slots,
            )  # fmt: skip
        before = skip(record, t * places.size)
        now = skip(before, places.size)
        if course.memory_kept:
            memory_before = skip(tape, t * plan.memory)
        else:
            memory_before = skip(memory_slots, inside * plan.memory)
        links_before = skip(links_slots, 0 if course.undone else inside * plan.links)
        links = pointer(links_now) if course.undone else skip(links_before, plan.links)
        first, last = 0, 0
        if course.undone:
            first = int(get(pointer(starts), t - begin))
            last = int(get(pointer(starts), t + 1 - begin))
        given_links = Links(
            links, d_links, skip(now, places.write_weighting), skip(before, places.precedence),
            skip(before, places.heads), d_following, d_preceding, course.undone, links_before,
            last - first, skip(pointer(marks), first), skip(pointer(patches), 2 * first * padded),
        )  # fmt: skip
        own = skip(chunk, number * plan.state_rows)
        for i in range(0, plan.state, lanes):
            store_at(d_state, i, load_at(d_state, i) + load_at(own, i))
        squash(problem, parts, 1, skip(now, places.controls), squashed)
        adjoints = Adjoints(
            d_memory, d_links, d_usage, d_precedence, d_late,
            skip(d_readings, t % 2 * heads * padded),
            skip(d_readings, (t + 1) % 2 * heads * padded),
        )  # fmt: skip
        d_controls = skip(pointer(d_controls_kept), t * (plan.control_rows + lanes))
        reads_back(
            problem, parts, places, plan.words, scratch, room, adjoints, before, now,
            skip(memory_before, plan.memory), d_state,
        )  # fmt: skip
        link_together_back(
            pointer(board), plan.shares, plan.share_size, problem.cells, padded, heads, given_links,
            room, adjoints, partials,
        )  # fmt: skip
        writes_back(
            problem, parts, places, plan.words, scratch, room, adjoints, before, now,
            memory_before, d_controls,
        )  # fmt: skip
        put(d_controls, problem.interface, 0.0)
        d_hidden = skip(d_state, plan.reads)
        add_product(
            pointer(packed.controls), plan.hidden_rows, plan.control_columns, d_controls, d_hidden
        )
        d_gates = skip(pointer(d_gates_kept), t * plan.gates)
        _controller_back(problem, plan, before, now, d_hidden, d_cell, d_gates)
        zero_all(plan.state_rows, d_state)
        add_product(pointer(packed.states), plan.state_rows, plan.gates, d_gates, d_state)
        if need_inputs and number == 0:
            # The products for outputs that are left in the chunk have been used by now.
            count = min(CHUNK, steps - t)
            products(
                pointer(packed.inputs), plan.input_rows, plan.gates, nothing, count, d_gates,
                plan.gates, chunk, plan.input_rows,
            )  # fmt: skip
            for k in range(count):
                place = ((t + k) * course.samples + course.sample) * x
                move(chunk, k * plan.input_rows, x, pointer(d_inputs), place)
    if begin == 0 and need_initial:
        held = Held(
            d_state, skip(d_state, plan.reads), d_cell, d_memory, d_usage, d_links, d_precedence,
            d_late, skip(d_readings, heads * padded), padded,
        )  # fmt: skip
        leave(problem, padded, d_initial, course.sample, held)


def backward(
    problem: Problem,
    options: Options,
    weights: Weights,
    tape: Tape,
    d_outputs: Array,
    d_final: States | None,
) -> tuple[Array | None, Weights, States | None]:
    """The gradients of the inputs, the weights and the initial state."""
    dtype = d_outputs.dtype
    lanes = lanes_of(dtype)
    plan = plan_of(problem, lanes)
    steps, samples, _ = d_outputs.shape
    d_inputs = np.zeros((steps, samples, problem.inputs if options.need_inputs else 0), dtype)
    wanted = options.need_initial
    d_initial = empty_states(problem, samples, dtype) if wanted else no_states(problem, dtype)
    d_end = no_states(problem, dtype) if d_final is None else d_final
    *packed, d_gates, d_controls = aligned_empty(
        dtype,
        (plan.input_rows * plan.gates,),
        (plan.state_rows * plan.gates,),
        (plan.hidden_rows * plan.control_columns,),
        (plan.state_rows * problem.outputs,),
        (samples, steps, plan.gates),
        (samples, steps, plan.control_rows + lanes),
    )
    back = Back(*packed)
    run_all(
        [partial(pack_back, part, problem, plan, weights, back) for part in range(4)],
        options.threads,
    )

    def job(number: int, board: Board) -> None:
        sample = tape.samples[number]
        course = _course(options, FOR_BACKWARD, sample.steps, sample.segment, samples, number)
        slot = (not course.memory_kept) * plan.memory + (not course.undone) * plan.links
        carried, slots, links_now = aligned_empty(
            dtype,
            (_room_back(problem, plan),),
            ((course.segment + 1) * slot,),
            (plan.links if course.undone else 0,),
        )
        for stretch in reversed(sample.stretches):
            if stretch.links is not None:
                np.copyto(links_now, stretch.links)
            _run_back(
                problem, plan, course, back, stretch.begin, stretch.end, options.need_inputs,
                options.need_initial, d_outputs, d_final is not None, d_end, d_inputs, d_initial,
                sample.records, sample.memory, sample.links, stretch.starts, stretch.marks,
                stretch.patches, links_now, d_gates[number], d_controls[number], slots, carried,
                board,
            )  # fmt: skip

    _run_samples(job, samples, problem, plan, options, dtype)
    d_weights = gradients(
        problem, plan, weights, tape, d_outputs, d_gates, d_controls, options.threads
    )
    return (
        d_inputs if options.need_inputs else None,
        d_weights,
        d_initial if options.need_initial else None,
    )


def _room_back(problem: Problem, plan: Plan) -> int:
    """How much a sample's way back carries from step to step, with its scratch."""
    padded, heads, widest = plan.places.padded, problem.heads, max(plan.state_rows, plan.input_rows)
    return (
        plan.memory + plan.links + (3 + 2 * heads) * padded + plan.unit
        + plan.state_rows + plan.hidden_rows + (CHUNK + 1) * widest
        + 2 * (plan.parts.size + 2 * plan.lanes) + 2 * heads * padded + 7 * padded
        + 2 * plan.key + 2 * plan.lanes + _scratch_size(plan)
    )  # fmt: skip


# --- for the trace -------------------------------------------------------------------------------


def steps(problem: Problem, tape: Tape) -> dict[str, Array]:
    """All that a forward pass that kept everything went through; 0 after the end of a sample."""
    dtype = tape.inputs.dtype
    plan = plan_of(problem, lanes_of(dtype))
    places, cells, heads = plan.places, problem.cells, problem.heads
    longest, samples = int(tape.lengths.max()), len(tape.samples)
    found: dict[str, Array] = {}
    for number, sample in enumerate(tape.samples):
        records, states = sample.records[1:], sample.states[1 : sample.steps + 1]

        def put_in(name: str, values: Array, shape: tuple[int, ...], number: int = number) -> None:
            """values [T, ...]"""
            if name not in found:
                found[name] = np.zeros((longest, samples, *shape), dtype)
            found[name][: len(values), number] = values.reshape(len(values), *shape)

        def part(begin: int, count: int, records: Array = records) -> Array:
            return records[:, begin : begin + count]

        size = PER_HEAD * places.padded
        of_heads = part(places.heads, heads * size)
        of_heads = of_heads.reshape(sample.steps, heads, PER_HEAD, places.padded)
        put_in("hidden", states[:, plan.reads :][:, : problem.hidden], (problem.hidden,))
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
            put_in(name, of_heads[:, :, which, :cells], (heads, cells))
        put_in("reads", states[:, : heads * problem.word], (heads, problem.word))
        memory = sample.memory[1:].reshape(sample.steps, plan.words, places.padded)
        memory = memory[:, : problem.word, :cells].transpose(0, 2, 1)
        put_in("memory", memory, (cells, problem.word))
        links = sample.links[1:].reshape(sample.steps, places.padded, places.padded)
        put_in("links", links[:, :cells, :cells], (cells, cells))
    return found
