"""The memory unit as a whole: golden numbers, gradients, invariants, extremes, refusals."""

from __future__ import annotations

import copy
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import SWITCHES, memory_config, used_state
from torch import Tensor
from torch.testing import assert_close
from torch.utils import _pytree as pytree

from dnclab import MemoryConfig, MemoryState, MemoryUnit
from dnclab.memory import reference
from dnclab.memory.interface import interface_size, interface_slices

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "memory_unit.npz", allow_pickle=False)
CASES = {case["name"]: case for case in json.loads(str(GOLDEN["meta"]))}


def run(config: MemoryConfig, controls: Tensor, state: MemoryState) -> list[MemoryState]:
    """The states after each step."""
    states = []
    for step_controls in controls:
        state, _, _ = reference.step(config, step_controls, state)
        states.append(state)
    return states


def unit_of(config: MemoryConfig) -> MemoryUnit:
    return MemoryUnit(
        cells=config.cells,
        word_size=config.word_size,
        read_heads=config.read_heads,
        mask=config.mask,
        dealloc=config.dealloc,
        sharpen=config.sharpen,
        interface_clip=config.interface_clip,
        usage_gradient=config.usage_gradient,
    )


# --- golden numbers ------------------------------------------------------------------------------


def test_there_are_24_golden_cases() -> None:
    assert len(CASES) == 24


@pytest.mark.parametrize("name", CASES)
def test_golden_numbers(name: str) -> None:
    """Values and gradients of the authors' implementation, to 1e-10 in float64."""
    case = CASES[name]

    def golden(quantity: str) -> Tensor:
        return torch.from_numpy(GOLDEN[f"{name}/{quantity}"])

    unit = MemoryUnit(
        cells=case["cells"],
        word_size=case["word"],
        read_heads=case["heads"],
        mask=case["mask"],
        dealloc=case["dealloc"],
        sharpen=case["sharp"],
        mask_min=case["mask_min"],
    )
    controls = golden("controls").requires_grad_()
    state = unit.initial_state(controls.shape[1], dtype=torch.float64)
    steps: list[MemoryState] = []
    loss = torch.zeros((), dtype=torch.float64)
    for step_controls, upstream in zip(controls, golden("upstream"), strict=True):
        reads, state = unit(step_controls, state)
        assert reads is state.reads
        loss = loss + (reads * upstream).sum()
        steps.append(state)
    loss.backward()

    for field, quantity in {
        "reads": "reads",
        "read_weightings": "read_weights",
        "write_weighting": "write_weights",
        "usage": "usage",
        "memory": "memory",
        "links": "link",
        "precedence": "precedence",
    }.items():
        ours = torch.stack([getattr(step, field) for step in steps])
        assert_close(ours, golden(quantity), rtol=0, atol=1e-10)
    assert controls.grad is not None
    assert_close(controls.grad, golden("controls_grad"), rtol=0, atol=1e-10)


# --- gradients -----------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", SWITCHES)
def test_gradients_through_two_steps(variant: str, generator: torch.Generator) -> None:
    config = memory_config(variant, 3, 2, 2, usage_gradient=True)
    controls = torch.randn(
        2, 2, interface_size(config), generator=generator, dtype=torch.float64, requires_grad=True
    )
    state = used_state(config, 2, generator).map(Tensor.requires_grad_)

    def everything(controls: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        steps = run(config, controls, MemoryState(*state))
        return (*steps[-1], steps[0].reads)

    assert torch.autograd.gradcheck(everything, (controls, *state))


def test_the_usage_gives_the_write_weighting_a_gradient_only_if_asked(
    generator: torch.Generator,
) -> None:
    for usage_gradient in (False, True):
        config = memory_config("dnc-mds", 4, 3, 2, usage_gradient=usage_gradient)
        state = used_state(config, 2, generator)
        state.write_weighting.requires_grad_()
        controls = torch.zeros(2, interface_size(config), dtype=torch.float64)
        after, _, _ = reference.step(config, controls, state)
        assert after.usage.requires_grad == usage_gradient


# --- what the paper promises ---------------------------------------------------------------------


def orders(config: MemoryConfig, **parts: float | list[float]) -> Tensor:
    """An interface vector [1, X] with the named raw parts set, the rest at -800: gates closed."""
    vector = torch.full((1, interface_size(config)), -800.0, dtype=torch.float64)
    for name, values in parts.items():
        vector[0, interface_slices(config)[name]] = torch.tensor(values, dtype=torch.float64)
    return vector


@pytest.mark.parametrize("dealloc", [False, True])
def test_a_freed_cell_is_found_by_content_without_d_and_not_with_d(dealloc: bool) -> None:
    """Section 3.2: a cell has been read; free it and look for its content again."""
    config = MemoryConfig(
        cells=4, word_size=4, mask=False, dealloc=dealloc, sharpen=False, interface_clip=None
    )
    words = 3 * torch.eye(4, dtype=torch.float64)
    state = reference.initial_state(config, (1,), torch.float64, "cpu")._replace(
        memory=words[None], usage=torch.ones(1, 4, dtype=torch.float64)
    )
    seek: dict[str, Any] = {
        "read_keys": words[2].tolist(),
        "read_strengths": 50,
        "read_modes": [-800, 800, -800],
    }
    read = orders(config, **seek, write_key=0, write_vector=0)
    free = orders(config, **seek, write_key=0, write_vector=0, free_gates=800)
    before, after = run(config, torch.stack([read, free]), state)

    assert before.read_weightings[0, 0, 2] > 0.999
    assert after.usage[0].tolist() == pytest.approx([1, 1, 0, 1])  # it is free in either case ...
    if dealloc:  # ... but only D makes it forgotten
        assert_close(after.read_weightings, torch.full((1, 1, 4), 0.25, dtype=torch.float64))
        assert not after.memory[0, 2].abs().max() > 1e-12
    else:
        assert after.read_weightings[0, 0, 2] > 0.999
        assert torch.equal(after.memory[0], words)


def test_the_write_looks_up_the_memory_as_it_was_before_the_wipe() -> None:
    config = MemoryConfig(cells=2, word_size=2, mask=False, sharpen=False, interface_clip=None)
    state = reference.initial_state(config, (1,), torch.float64, "cpu")._replace(
        memory=torch.tensor([[[1.0, 0.0], [0.0, 1.0]]], dtype=torch.float64),
        read_weightings=torch.tensor([[[1.0, 0.0]]], dtype=torch.float64),
    )
    free_and_overwrite = orders(
        config,
        free_gates=800,
        write_key=[1.0, 0.0],
        write_strength=100,
        write_gate=800,
        write_vector=[5.0, 5.0],
        read_keys=0,
    )
    after, _, addressing = reference.step(config, free_and_overwrite, state)
    assert addressing.retention[0, 0] == 0
    assert addressing.write_content[0, 0] > 0.999  # found, although it is being wiped
    assert_close(after.memory[0, 0], torch.tensor([5.0, 5.0], dtype=torch.float64))


@pytest.mark.parametrize("variant", ["dnc", "dnc-s"])
def test_links_of_an_unwritten_memory(variant: str) -> None:
    """With S what comes from empty links is uniform, without S it is zero."""
    config = memory_config(variant, 5, 2, 2)
    controls = torch.zeros(1, interface_size(config), dtype=torch.float64)
    controls[:, interface_slices(config)["write_gate"]] = -800
    config_open = memory_config(variant, 5, 2, 2, interface_clip=None)
    state = reference.initial_state(config, (1,), torch.float64, "cpu")
    _, _, addressing = reference.step(config_open, controls, state)
    expected = torch.full((1, 2, 5), 0.2 if variant == "dnc-s" else 0.0, dtype=torch.float64)
    assert_close(addressing.forwards, expected)
    assert_close(addressing.backwards, expected)


def test_reads_follow_the_order_of_writing() -> None:
    """Write four words, look the first one up, then read on along the forward links."""
    config = MemoryConfig(cells=6, word_size=4, read_heads=1, interface_clip=None)
    words = torch.eye(4, dtype=torch.float64) * 5
    opened = {"write_mask": 800, "read_masks": 800}
    steps = [
        orders(config, write_vector=word.tolist(), write_gate=800, allocation_gate=800,
               write_key=0, read_keys=0, **opened)
        for word in words
    ]  # fmt: skip
    steps.append(
        orders(config, read_keys=words[0].tolist(), read_strengths=100, write_key=0,
               write_vector=0, read_modes=[-800, 800, -800], **opened)
    )  # fmt: skip
    onwards = orders(config, read_keys=0, write_key=0, write_vector=0, forward_sharpness=10,
                     read_modes=[-800, -800, 800], **opened)  # fmt: skip
    state = reference.initial_state(config, (1,), torch.float64, "cpu")
    states = run(config, torch.stack([*steps, onwards, onwards, onwards]), state)
    reads = torch.stack([state.reads[0, 0] for state in states[4:]])
    assert_close(reads, words, rtol=0, atol=1e-3)


sizes = st.integers(1, 6)


@given(
    variant=st.sampled_from(list(SWITCHES)),
    cells=sizes,
    word=sizes,
    heads=st.integers(1, 4),
    batch=st.integers(1, 3),
    steps=st.integers(1, 5),
    scale=st.sampled_from([0.1, 1.0, 10.0, 1000.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_invariants(
    variant: str, cells: int, word: int, heads: int, batch: int, steps: int, scale: float, seed: int
) -> None:
    """Whatever the controls: distributions stay distributions, usages stay shares."""
    config = memory_config(variant, cells, word, heads)
    generator = torch.Generator().manual_seed(seed)
    controls = scale * torch.randn(
        steps, batch, interface_size(config), generator=generator, dtype=torch.float64
    )
    state = reference.initial_state(config, (batch,), torch.float64, "cpu")
    for step_controls in controls:
        state, interface, addressing = reference.step(config, step_controls, state)
        rounding = 1e-12
        for weighting in (
            state.write_weighting,
            state.read_weightings,
            state.precedence,
            addressing.allocation,
            addressing.write_content,
            addressing.read_contents,
            addressing.forwards,
            addressing.backwards,
        ):
            assert (weighting >= -rounding).all()
            assert (weighting.sum(-1) <= 1 + rounding).all()
        ones = torch.ones(batch, heads, dtype=torch.float64)
        assert_close(addressing.read_contents.sum(-1), ones)
        assert_close(interface.read_modes.sum(-1), ones)
        if config.sharpen:
            assert_close(addressing.forwards.sum(-1), ones)
            assert_close(addressing.backwards.sum(-1), ones)
        assert (state.usage >= 0).all()
        assert (state.usage <= 1).all()
        assert (addressing.retention >= 0).all()
        assert (addressing.retention <= 1).all()
        assert torch.equal(
            state.links.diagonal(dim1=1, dim2=2), torch.zeros(batch, cells, dtype=torch.float64)
        )
        free = 1 - (1e-6 + (1 - 1e-6) * state.usage).prod(-1)
        assert_close(addressing.allocation.sum(-1), free, rtol=0, atol=1e-12)
        assert_close(state.reads, torch.einsum("brn,bnw->brw", state.read_weightings, state.memory))


# --- extremes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("interface_clip", [20.0, None])
@pytest.mark.parametrize("magnitude", [20.0, 1e4])
@pytest.mark.parametrize("variant", SWITCHES)
def test_saturated_controls_give_finite_values_and_gradients(
    variant: str,
    magnitude: float,
    interface_clip: float | None,
    dtype: torch.dtype,
    generator: torch.Generator,
) -> None:
    config = memory_config(variant, 5, 3, 2, interface_clip=interface_clip, usage_gradient=True)
    signs = torch.randint(0, 2, (8, 4, interface_size(config)), generator=generator) * 2 - 1
    signs[:, 0], signs[:, 1] = 1, -1
    controls = (magnitude * signs).to(dtype).requires_grad_()
    states = run(config, controls, reference.initial_state(config, (4,), dtype, "cpu"))
    assert all(torch.isfinite(part).all() for state in states for part in state)
    torch.stack([state.reads for state in states]).sum().backward()
    assert controls.grad is not None
    assert torch.isfinite(controls.grad).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mask_min", [0.0, 0.1])
@pytest.mark.parametrize("variant", ["dnc", "dnc-mds"])
def test_values_stay_finite_over_long_saturated_runs(
    variant: str, mask_min: float, dtype: torch.dtype, generator: torch.Generator
) -> None:
    """Gradients do not: through S each step can multiply them by s / (d + ε), in truth."""
    config = replace(memory_config(variant, 40, 3, 2, interface_clip=None), mask_min=mask_min)
    state = reference.initial_state(config, (8,), dtype, "cpu")
    for _ in range(100):
        shape = (8, interface_size(config))
        signs = torch.randint(0, 2, shape, generator=generator) * 2 - 1
        magnitudes = torch.tensor([20.0, 90.0, 1e4], dtype=dtype)[
            torch.randint(0, 3, shape, generator=generator)
        ]
        state, _, _ = reference.step(config, signs * magnitudes, state)
        assert all(torch.isfinite(part).all() for part in state)


@pytest.mark.parametrize("variant", SWITCHES)
def test_zero_controls_on_a_zero_memory(variant: str) -> None:
    config = memory_config(variant, 4, 3, 2)
    controls = torch.zeros(3, 1, interface_size(config), requires_grad=True)
    states = run(config, controls, reference.initial_state(config, (1,), torch.float32, "cpu"))
    assert all(torch.isfinite(part).all() for state in states for part in state)
    torch.stack([state.reads for state in states]).sum().backward()
    assert controls.grad is not None
    assert torch.isfinite(controls.grad).all()


@pytest.mark.parametrize("variant", SWITCHES)
def test_a_nan_stays_in_its_sample_and_is_seen_there(
    variant: str, generator: torch.Generator
) -> None:
    config = memory_config(variant, 4, 3, 2)
    controls = torch.randn(3, 3, interface_size(config), generator=generator)
    clean = run(config, controls, reference.initial_state(config, (3,), torch.float32, "cpu"))
    for position in range(interface_size(config)):
        spoiled = controls.clone()
        spoiled[0, 1, position] = torch.nan
        states = run(config, spoiled, reference.initial_state(config, (3,), torch.float32, "cpu"))
        for state, expected in zip(states, clean, strict=True):
            for part, expected_part in zip(state, expected, strict=True):
                assert torch.equal(part[[0, 2]], expected_part[[0, 2]])
        assert any(part[1].isnan().any() for part in states[-1])


def test_autocast_leaves_the_memory_in_its_own_precision(generator: torch.Generator) -> None:
    config = memory_config("dnc-mds", 6, 4, 2)
    unit = unit_of(config)
    controls = torch.randn(2, unit.interface_size, generator=generator).bfloat16()
    expected, _ = unit(controls.float(), unit.initial_state(2))
    with torch.autocast("cpu", torch.bfloat16):
        reads, state = unit(controls, unit.initial_state(2))
    assert all(part.dtype == torch.float32 for part in state)
    assert torch.equal(reads, expected)


# --- the unit as a user meets it -----------------------------------------------------------------


def test_the_unit_has_no_parameters_and_shows_itself() -> None:
    unit = MemoryUnit(cells=4, word_size=3, read_heads=2, sharpen=False)
    assert list(unit.parameters()) == []
    assert unit.state_dict() == {}
    assert "cells=4" in repr(unit)
    assert "sharpen=False" in repr(unit)
    assert next(iter(unit.interface_shapes.items())) == ("read_keys", (2, 3))


def test_initial_state_is_empty() -> None:
    unit = MemoryUnit(cells=4, word_size=3, read_heads=2)
    state = unit.initial_state(5, dtype=torch.float64)
    assert {field: tuple(part.shape) for field, part in state._asdict().items()} == {
        "memory": (5, 4, 3),
        "usage": (5, 4),
        "links": (5, 4, 4),
        "precedence": (5, 4),
        "write_weighting": (5, 4),
        "read_weightings": (5, 2, 4),
        "reads": (5, 2, 3),
    }
    assert all(part.dtype == torch.float64 and not part.any() for part in state)
    assert unit.initial_state(1).memory.dtype == torch.float32


def test_the_state_is_a_plain_pytree(generator: torch.Generator) -> None:
    state = used_state(memory_config("dnc-mds", 3, 2, 1), 2, generator)
    leaves, structure = pytree.tree_flatten(state)
    assert len(leaves) == 7
    assert isinstance(pytree.tree_unflatten(leaves, structure), MemoryState)
    copied = copy.deepcopy(state)
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    for other in (copied, loaded):
        assert isinstance(other, MemoryState)
        assert all(torch.equal(a, b) for a, b in zip(other, state, strict=True))
    second = state.map(lambda part: part[1:])
    assert torch.equal(second.links, state.links[1:])
    assert not state.map(Tensor.requires_grad_).detach().memory.requires_grad


BAD_SETTINGS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"cells": 0}, ValueError, "cells: expected at least 1, got 0"),
    ({"cells": -3}, ValueError, "cells: expected at least 1, got -3"),
    ({"cells": 2.0}, TypeError, "cells: expected an int, got 2.0 of type float"),
    ({"cells": True}, TypeError, "cells: expected an int"),
    ({"word_size": 0}, ValueError, "word_size: expected at least 1"),
    ({"read_heads": 0}, ValueError, "read_heads: expected at least 1"),
    ({"mask": 1}, TypeError, "mask: expected a bool, got 1 of type int"),
    ({"dealloc": None}, TypeError, "dealloc: expected a bool"),
    ({"sharpen": "yes"}, TypeError, "sharpen: expected a bool"),
    ({"usage_gradient": 0}, TypeError, "usage_gradient: expected a bool"),
    ({"mask_min": 1.0}, ValueError, "mask_min: expected 0 <= mask_min < 1, got 1.0"),
    ({"mask_min": -0.1}, ValueError, "mask_min: expected 0 <= mask_min < 1"),
    ({"mask_min": float("nan")}, ValueError, "mask_min: expected a finite number"),
    ({"mask_min": "0.1"}, TypeError, "mask_min: expected a number, got '0.1' of type str"),
    ({"interface_clip": 0.0}, ValueError, "interface_clip: expected a number above 0 or None"),
    ({"interface_clip": True}, TypeError, "interface_clip: expected a number"),
]


@pytest.mark.parametrize(("settings", "error", "message"), BAD_SETTINGS)
def test_bad_settings_are_refused(
    settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        MemoryUnit(**({"cells": 4, "word_size": 3} | settings))


def test_bad_calls_are_refused() -> None:
    unit = MemoryUnit(cells=4, word_size=3, read_heads=2)
    state = unit.initial_state(5)
    controls = torch.zeros(5, unit.interface_size)
    nothing: Any = None

    def refused(error: type[Exception], message: str, *arguments: object) -> None:
        with pytest.raises(error, match=message):
            unit(*arguments)

    refused(TypeError, "controls: expected a tensor, got list", [1.0], state)
    refused(ValueError, r"controls: expected shape \[batch, interface_size=41\], got \[5, 40\]",
            controls[:, 1:], state)  # fmt: skip
    refused(ValueError, r"controls: expected shape .* got \[41\]", controls[0], state)
    refused(TypeError, "controls: expected dtype torch.float32, got torch.float64",
            controls.double(), state)  # fmt: skip
    refused(TypeError, "controls: expected dtype torch.float32, got torch.int64",
            controls.long(), state)  # fmt: skip
    refused(TypeError, "state: expected a MemoryState, got NoneType", controls, None)
    refused(TypeError, "state: expected a MemoryState, got tuple", controls, tuple(state))
    refused(ValueError, r"state.memory: expected shape \[5, 4, 3\], got \[6, 4, 3\]",
            controls, unit.initial_state(6))  # fmt: skip
    other = MemoryUnit(cells=7, word_size=3, read_heads=2).initial_state(5)
    refused(ValueError, r"state.memory: expected shape \[5, 4, 3\], got \[5, 7, 3\]",
            controls, other)  # fmt: skip
    refused(ValueError, r"state.usage: expected shape \[5, 4\], got \[5, 5\]",
            controls, state._replace(usage=torch.zeros(5, 5)))  # fmt: skip
    refused(TypeError, "state.links: expected dtype torch.float32, got torch.float64",
            controls, state._replace(links=state.links.double()))  # fmt: skip
    refused(TypeError, "state.reads: expected a tensor, got NoneType",
            controls, state._replace(reads=nothing))  # fmt: skip
    refused(TypeError, "state.memory: the memory is kept in float32 or float64",
            controls, state.map(Tensor.bfloat16))  # fmt: skip
    refused(ValueError, "state.usage: expected device cpu, got meta",
            controls, state._replace(usage=state.usage.to("meta")))  # fmt: skip
    with pytest.raises(ValueError, match="batch_size: expected at least 1, got 0"):
        unit.initial_state(0)
    with pytest.raises(TypeError, match="dtype: the memory is kept in float32 or float64"):
        unit.initial_state(1, dtype=torch.float16)
