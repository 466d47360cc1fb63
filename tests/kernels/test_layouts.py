"""What both layouts of the kernels must do: the reference's numbers, whoever asks and however."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from kernels.support import (
    OPTIONS,
    Case,
    Results,
    assert_agrees,
    assert_same_bits,
    errors,
    named,
    problem_of,
    random_case,
    run_layout,
    zero_state,
)
from support import SWITCHES

import dnclab
from dnclab.kernels import lanes, records, room, rows, rows_links, rows_plan
from dnclab.kernels.problem import EVERYTHING, FOR_BACKWARD, NOTHING, Options, States
from dnclab.tasks.repeat_copy import RepeatCopy
from dnclab.tasks.stream import random_source

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "memory_unit.npz", allow_pickle=False)
GOLDEN_CASES = {case["name"]: case for case in json.loads(str(GOLDEN["meta"]))}

DECIDED_BY_ROUNDING = {"n16_w16_r1_dnc"}
"""Here the last bit of two usages says which of two cells, alike in everything, is taken first:
what is read is the same, and so is the memory but for the order of its cells."""


@pytest.fixture(params=[lanes, rows], ids=lambda module: module.__name__.rpartition(".")[2])
def layout(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


@pytest.fixture(autouse=True)
def _poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is allocated and not yet written is not a number."""
    empty, empty_like = np.empty, np.empty_like

    def poisoned(array: Any) -> Any:
        if array.ndim:
            array.view(np.uint8).fill(0xFF)  # every float of these bytes is a NaN
        return array

    monkeypatch.setattr(room, "KEPT_BYTES", 0)
    monkeypatch.setattr(np, "empty", lambda *a, **k: poisoned(empty(*a, **k)))
    monkeypatch.setattr(np, "empty_like", lambda *a, **k: poisoned(empty_like(*a, **k)))


def make(seed: int = 0, **settings: Any) -> dnclab.DNC:
    """A small model; its interface is stirred so that no gate stands in the middle."""
    sizes = {"hidden_size": 6, "cells": 5, "word_size": 4, "read_heads": 2}
    torch.manual_seed(seed)
    model = dnclab.DNC(3, 2, dtype=torch.float64, **(sizes | settings))
    with torch.no_grad():
        model.interface.bias.add_(torch.randn_like(model.interface.bias) * 0.5)
    return model


def handing_on(**settings: Any) -> dnclab.DNC:
    """A model whose inputs are [ξ; -ξ], which a layer of ReLU units hands on to the memory as they
    are, and whose outputs are what was read.
    """
    size = dnclab.DNC(1, 1, **settings).interface.out_features
    reads = settings["word_size"] * settings["read_heads"]
    model = dnclab.DNC(
        2 * size, reads, hidden_size=2 * size, controller="feedforward", dtype=torch.float64,
        **settings,
    )  # fmt: skip
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.controller.layers[0].weight[:, : 2 * size] = torch.eye(2 * size)
        model.interface.weight[:] = torch.cat([torch.eye(size), -torch.eye(size)], dim=1)
        model.read_output.weight[:] = torch.eye(reads)
    return model


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


# --- the same numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize("controller", ["lstm", "feedforward"])
@pytest.mark.parametrize("variant", SWITCHES)
def test_every_variant(layout: ModuleType, variant: str, controller: str) -> None:
    model = make(variant=variant, controller=controller)
    assert_agrees(layout, model, random_case(model, 6, 3, rng()))


SIZES = [
    # steps, batch, cells, word, heads, hidden, inputs, outputs
    (1, 1, 1, 1, 1, 1, 1, 1),
    (7, 1, 1, 3, 2, 4, 2, 3),
    (1, 5, 4, 1, 1, 2, 1, 1),
    (9, 2, 17, 5, 1, 7, 3, 2),
    (5, 19, 3, 2, 3, 9, 4, 9),
    (4, 3, 33, 16, 8, 17, 5, 6),
    (6, 8, 16, 16, 1, 32, 9, 9),
    (3, 2, 70, 20, 4, 12, 18, 33),
]


@pytest.mark.parametrize("usage_gradient", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sizes(layout: ModuleType, sizes: tuple[int, ...], usage_gradient: bool) -> None:
    steps, batch, cells, word, heads, hidden, inputs, outputs = sizes
    torch.manual_seed(2)
    model = dnclab.DNC(
        inputs, outputs, hidden_size=hidden, cells=cells, word_size=word, read_heads=heads,
        usage_gradient=usage_gradient, dtype=torch.float64,
    )  # fmt: skip
    assert_agrees(layout, model, random_case(model, steps, batch, rng()))


def test_drawn_sizes(layout: ModuleType) -> None:
    """Twenty problems nobody has chosen."""
    draw = np.random.default_rng(11)
    for number in range(20):
        hidden, cells, word = (int(draw.integers(1, 24)) for _ in range(3))
        model = make(
            number,
            hidden_size=hidden,
            cells=cells,
            word_size=word,
            read_heads=int(draw.integers(1, 9)),
            variant=str(draw.choice(list(SWITCHES))),
            controller=str(draw.choice(["lstm", "feedforward"])),
            mask_min=float(draw.choice([0.0, 0.1])),
        )
        case = random_case(model, int(draw.integers(1, 9)), int(draw.integers(1, 20)), draw)
        assert_agrees(layout, model, case)


def test_single_precision(layout: ModuleType) -> None:
    for cells, word, heads in ((16, 16, 1), (37, 9, 3)):
        model = make(cells=cells, word_size=word, read_heads=heads, hidden_size=20)
        assert_agrees(layout, model, random_case(model, 9, 5, rng(), dtype=np.float32))


def test_an_empty_memory(layout: ModuleType) -> None:
    """All cells are equal: usages tie, rows have length 0, and what flows back stays finite."""
    model = make(cells=6)
    assert_agrees(layout, model, random_case(model, 3, 4, rng(), used=False))


@pytest.mark.parametrize("clip", [20.0, None])
@pytest.mark.parametrize("scale", [20.0, 1e4])
def test_saturated_interfaces(layout: ModuleType, scale: float, clip: float | None) -> None:
    """Gates at their ends, writes to one cell, strengths beyond any sense."""
    model = make(interface_clip=clip)
    with torch.no_grad():
        model.interface.weight.mul_(scale)
    case = random_case(model, 5, 3, rng())
    problem, weights = problem_of(model)
    found = run_layout(layout, problem, weights, case)
    assert all(np.isfinite(value).all() for value in named(found).values())
    if clip is not None:
        assert_agrees(layout, model, case)


def test_zero_keys_and_flat_writes(layout: ModuleType) -> None:
    """An interface of zeros: keys of length 0, the same for every cell."""
    model = make()
    with torch.no_grad():
        model.interface.weight.zero_()
        model.interface.bias.zero_()
    assert_agrees(layout, model, random_case(model, 4, 2, rng()))


def test_links_of_a_cell_to_itself_have_no_effect(layout: ModuleType) -> None:
    model = make()
    case = random_case(model, 4, 2, rng())
    problem, weights = problem_of(model)
    expected = run_layout(layout, problem, weights, case)
    looped = case.initial._replace(links=case.initial.links + np.eye(5))
    assert_same_bits(run_layout(layout, problem, weights, case._replace(initial=looped)), expected)
    assert not expected.d_initial.links[:, np.arange(5), np.arange(5)].any()


@pytest.mark.parametrize("name", GOLDEN_CASES)
def test_golden_numbers(layout: ModuleType, name: str) -> None:
    """The authors' numbers, through the whole operation."""
    golden = GOLDEN_CASES[name]
    controls = GOLDEN[f"{name}/controls"]
    reads = golden["heads"] * golden["word"]
    letters = "".join(
        letter
        for letter, on in zip("mds", map(golden.get, ("mask", "dealloc", "sharp")), strict=True)
        if on
    )
    model = handing_on(
        cells=golden["cells"], word_size=golden["word"], read_heads=golden["heads"],
        variant=letters or "dnc", mask_min=golden["mask_min"],
    )  # fmt: skip
    problem, weights = problem_of(model)
    steps, batch = controls.shape[:2]
    inputs = np.concatenate([controls, -controls], axis=-1)
    upstream = GOLDEN[f"{name}/upstream"].reshape(steps, batch, reads)
    start = zero_state(model, batch)
    case = Case(inputs, np.full(batch, steps), start, upstream, start)
    found = run_layout(layout, problem, weights, case)
    expected = GOLDEN[f"{name}/reads"].reshape(steps, batch, reads)
    np.testing.assert_allclose(found.outputs, expected, rtol=0, atol=1e-10)
    d_plus, d_minus = np.split(found.d_inputs, 2, axis=-1)
    gradient = np.where(controls > 0, d_plus, -d_minus)
    np.testing.assert_allclose(gradient, GOLDEN[f"{name}/controls_grad"], rtol=0, atol=1e-10)

    _, _, tape = layout.forward(problem, OPTIONS, weights, start, inputs, case.lengths, EVERYTHING)
    said = layout.steps(problem, tape)
    for field, quantity in {
        "controls": "controls",
        "read_weightings": "read_weights",
        "write_weighting": "write_weights",
        "usage": "usage",
        "memory": "memory",
        "links": "link",
        "precedence": "precedence",
    }.items():
        right, value = GOLDEN[f"{name}/{quantity}"], said[field]
        if name in DECIDED_BY_ROUNDING and field != "controls":
            right, value = (np.sort(of.reshape(steps, batch, -1)) for of in (right, value))
        np.testing.assert_allclose(value, right, rtol=0, atol=1e-10, err_msg=field)


# --- however it is asked -------------------------------------------------------------------------


def test_threads_change_no_bit(layout: ModuleType) -> None:
    model = make(cells=9)
    problem, weights = problem_of(model)
    case = random_case(model, 6, 37, rng())
    alone = run_layout(layout, problem, weights, case)
    for threads in (2, 3, 16):
        several = run_layout(layout, problem, weights, case, OPTIONS._replace(threads=threads))
        assert_same_bits(several, alone)


def sample_of(case: Case, index: int) -> Case:
    """One sample of a batch, as long as it is."""
    one, length = slice(index, index + 1), int(case.lengths[index])
    return Case(
        np.ascontiguousarray(case.inputs[:length, one]),
        case.lengths[one],
        States(*(np.ascontiguousarray(part[one]) for part in case.initial)),
        np.ascontiguousarray(case.d_outputs[:length, one]),
        States(*(np.ascontiguousarray(part[one]) for part in case.d_final)),
    )


def test_a_sample_alone_and_in_company(layout: ModuleType) -> None:
    model = make(cells=9)
    problem, weights = problem_of(model)
    case = random_case(model, 8, 21, rng())
    together = run_layout(layout, problem, weights, case)
    for index in (0, 7, 20):
        alone = run_layout(layout, problem, weights, sample_of(case, index))
        length, one = case.lengths[index], slice(index, index + 1)
        np.testing.assert_array_equal(alone.outputs, together.outputs[:length, one])
        np.testing.assert_array_equal(alone.d_inputs, together.d_inputs[:length, one])
        assert not together.outputs[length:, one].any()
        assert not together.d_inputs[length:, one].any()
        for ours, theirs in (
            (alone.final, together.final),
            (alone.d_initial, together.d_initial),
        ):
            for part, whole in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(part, whole[one])


def test_a_sequence_whole_and_in_parts(layout: ModuleType) -> None:
    model = make(cells=9)
    problem, weights = problem_of(model)
    case = random_case(model, 9, 3, rng(), ragged=False)
    whole = run_layout(layout, problem, weights, case)
    state, outputs = case.initial, []
    for begin, end in ((0, 4), (4, 5), (5, 9)):
        part, state, tape = layout.forward(
            problem, OPTIONS, weights, state, np.ascontiguousarray(case.inputs[begin:end]),
            np.full(3, end - begin), NOTHING,
        )  # fmt: skip
        assert tape is None
        outputs.append(part)
    np.testing.assert_array_equal(np.concatenate(outputs), whole.outputs)
    for ours, theirs in zip(state, whole.final, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_tape_can_be_used_twice_and_less_can_be_asked(layout: ModuleType) -> None:
    model = make()
    problem, weights = problem_of(model)
    case = random_case(model, 6, 4, rng())
    outputs, final, tape = layout.forward(
        problem, OPTIONS, weights, case.initial, case.inputs, case.lengths, 1
    )
    back = [case.d_outputs, case.d_final]
    first = Results(outputs, final, *layout.backward(problem, OPTIONS, weights, tape, *back))
    again = Results(outputs, final, *layout.backward(problem, OPTIONS, weights, tape, *back))
    assert_same_bits(again, first)
    fewer = OPTIONS._replace(need_inputs=False, need_initial=False)
    d_inputs, d_weights, d_initial = layout.backward(problem, fewer, weights, tape, *back)
    assert d_inputs is None
    assert d_initial is None
    for ours, theirs in zip(d_weights, first.d_weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("where", ["inputs", "usage", "memory", "links", "read_weightings"])
def test_a_nan_stays_with_its_sample(layout: ModuleType, where: str) -> None:
    model = make(cells=9)
    problem, weights = problem_of(model)
    case = random_case(model, 5, 6, rng(), ragged=False)
    clean = run_layout(layout, problem, weights, case)
    if where == "inputs":
        case.inputs[1, 2, 0] = np.nan
    else:
        getattr(case.initial, where)[2].flat[1] = np.nan
    stained = run_layout(layout, problem, weights, case)
    assert np.isnan(stained.outputs[-1, 2]).all()
    assert np.isnan(stained.final.memory[2]).any()
    others = np.arange(6) != 2
    np.testing.assert_array_equal(stained.outputs[:, others], clean.outputs[:, others])
    np.testing.assert_array_equal(stained.d_inputs[:, others], clean.d_inputs[:, others])
    for ours, theirs in zip(stained.final, clean.final, strict=True):
        np.testing.assert_array_equal(ours[others], theirs[others])


def test_nothing_of_a_result_is_used_again(layout: ModuleType) -> None:
    model = make()
    problem, weights = problem_of(model)
    case = random_case(model, 4, 3, rng())
    first = run_layout(layout, problem, weights, case)
    kept = {name: value.copy() for name, value in named(first).items()}
    run_layout(layout, problem, weights, random_case(model, 4, 3, np.random.default_rng(5)))
    for name, value in named(first).items():
        np.testing.assert_array_equal(value, kept[name])
    for part, given in zip(first.final, case.initial, strict=True):
        assert not np.shares_memory(part, given)


# --- lanes alone ---------------------------------------------------------------------------------


def test_checkpoints_far_apart_or_at_every_step_change_no_bit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = make()
    problem, weights = problem_of(model)
    case = random_case(model, 11, 3, rng())
    whole = run_layout(lanes, problem, weights, case)
    for size in (0, 10_000):
        monkeypatch.setattr(lanes, "SEGMENT_BYTES", size)
        assert_same_bits(run_layout(lanes, problem, weights, case), whole)


# --- rows alone ----------------------------------------------------------------------------------

UNDONE = OPTIONS._replace(exact_links=False, memory_segments=False)


def far(actual: Results, expected: Results) -> float:
    """The largest relative error of all arrays."""
    return max(errors(actual, expected).values())


@pytest.mark.parametrize("variant", ["dnc", "mds"])
@pytest.mark.parametrize("cells", [5, 40])
def test_links_undone_are_the_links_kept(cells: int, variant: str) -> None:
    model = make(cells=cells, variant=variant)
    case = random_case(model, 70, 3, rng())
    assert_agrees(rows, model, case, UNDONE)
    assert_agrees(rows, model, case, UNDONE._replace(memory_segments=True))


def test_memory_kept_is_memory_rebuilt_to_the_last_bit() -> None:
    model = make(cells=9)
    problem, weights = problem_of(model)
    case = random_case(model, 11, 3, rng())
    rebuilt = run_layout(rows, problem, weights, case, OPTIONS)
    kept = run_layout(rows, problem, weights, case, OPTIONS._replace(memory_segments=False))
    assert_same_bits(kept, rebuilt)


def test_stretches_may_end_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """For want of room for patches, or because links must be kept whole."""
    model = make(cells=4)
    problem, weights = problem_of(model)
    case = random_case(model, 75, 2, rng())
    whole = run_layout(rows, problem, weights, case, UNDONE)
    monkeypatch.setattr(rows, "MOST_PATCHES", 0)
    _, _, tape = rows.forward(
        problem, UNDONE, weights, case.initial, case.inputs, case.lengths, FOR_BACKWARD
    )
    assert tape is not None
    assert max(len(sample.stretches) for sample in tape.samples) > 3
    assert_same_bits(run_layout(rows, problem, weights, case, UNDONE), whole)


@pytest.fixture
def _shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Links are worked on in shares, however few cells there are."""
    monkeypatch.setattr(rows_links, "SHARED_FROM", 1)
    rows_plan.plan_of.cache_clear()
    yield
    rows_plan.plan_of.cache_clear()


@pytest.mark.usefixtures("_shared")
@pytest.mark.parametrize("options", [OPTIONS, UNDONE], ids=["kept", "undone"])
@pytest.mark.parametrize("cells", [3, 40, 70])
def test_links_in_shares(cells: int, options: Options) -> None:
    """Fewer blocks of rows than shares, and more; nobody helps, one does, several do."""
    model = make(cells=cells)
    problem, weights = problem_of(model)
    for samples in (1, 3):
        case = random_case(model, 20, samples, rng())
        assert_agrees(rows, model, case, options)
        alone = run_layout(rows, problem, weights, case, options)
        for threads in (2, 5):
            helped = run_layout(rows, problem, weights, case, options._replace(threads=threads))
            assert_same_bits(helped, alone)


@pytest.mark.usefixtures("_shared")
def test_whoever_helps_is_let_go_when_the_work_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(cells=40)
    problem, weights = problem_of(model)
    case = random_case(model, 5, 1, rng())

    def fails(*_: object) -> None:
        raise MemoryError("no room for patches")

    monkeypatch.setattr(rows, "_room_for_patches", fails)
    with pytest.raises(MemoryError, match="no room for patches"):
        run_layout(rows, problem, weights, case, UNDONE._replace(threads=3))


# What is written to with how much, over and over: one cell, one of them after the other, two as
# much as can be undone, some, and all alike.
WRITES = {
    # write gate, share allocated, strength, cells that are alike
    "to one": (20.0, 20.0, 20.0, 1),
    "in turn": (-0.6, 20.0, 20.0, 1),
    "to two": (1.04, -20.0, 20.0, 2),
    "to some": (1.0, -1.0, 8.0, 3),
    "to all": (20.0, -20.0, -20.0, 160),
}


@pytest.mark.parametrize(
    ("dtype", "variant", "bound"),
    [(np.float32, "md", 1e-5), (np.float64, "md", 1e-12), (np.float64, "mds", 1e-7)],
)
@pytest.mark.parametrize("name", WRITES)
def test_links_undone_over_a_long_sequence_of_bad_writes(
    name: str, dtype: Any, variant: str, bound: float
) -> None:
    """1,500 steps, against links that were never undone.

    Sharpness divides by what is hardly more than 0, and over so many steps multiplies rounding by
    10⁷: in float32 such gradients are mostly that, however the links are had.
    """
    gate, allocated, strength, alike = WRITES[name]
    cells, word, steps = 160, 8, 1500
    model = handing_on(cells=cells, word_size=word, read_heads=2, variant=variant)
    problem, weights = problem_of(model.to(torch.float32 if dtype == np.float32 else torch.float64))
    draw = rng()
    case = random_case(model, steps, 1, draw, dtype=dtype)
    controls = draw.normal(size=(steps, 1, problem.interface))
    parts = records.parts_of(problem)
    key = np.zeros(word)
    key[0] = 3
    controls[..., parts.write_key : parts.write_strength] = key
    controls[..., parts.write_strength] = strength
    controls[..., parts.erase : parts.write_vector] = -20  # the cells stay alike
    controls[..., parts.write_vector : parts.free_gates] = 0
    controls[..., parts.free_gates : parts.allocation_gate] = 3  # there are always free cells
    controls[..., parts.allocation_gate] = allocated
    controls[..., parts.write_gate] = gate
    controls[..., parts.write_mask : parts.write_mask + word] = 20
    case.initial.memory[:] = draw.normal(size=case.initial.memory.shape)
    case.initial.memory[:, :, 0] = -1
    case.initial.memory[:, :alike] = key
    case = case._replace(inputs=np.concatenate([controls, -controls], axis=-1).astype(dtype))
    undone = run_layout(rows, problem, weights, case, UNDONE)
    exact = run_layout(rows, problem, weights, case, UNDONE._replace(exact_links=True))
    assert far(undone, exact) < bound


def test_links_undone_with_what_was_learnt() -> None:
    """A model that has learnt repeat copy, on a memory and a sequence ten times as large."""
    model = dnclab.DNC.from_pretrained(Path(__file__).parents[1] / "golden" / "repeat-copy")
    model = model.with_cells(160)
    problem, weights = problem_of(model)
    task = RepeatCopy(min_length=41, max_length=41, min_repeats=18, max_repeats=18, batch_size=1)
    batch = task.make_batch(random_source(0, 0))
    steps = batch.inputs.shape[0]
    assert steps > 1400
    case = random_case(model, steps, 1, rng(), dtype=np.float32)
    case = case._replace(inputs=batch.inputs.numpy())
    undone = run_layout(rows, problem, weights, case, UNDONE)
    exact = run_layout(rows, problem, weights, case, UNDONE._replace(exact_links=True))
    assert far(undone, exact) < 1e-5
