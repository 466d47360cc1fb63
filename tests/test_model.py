"""The DNC as a layer: forms of input, equal ways to run it, precision, trace, refusals."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import SWITCHES, used_state
from torch import Tensor
from torch.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
)
from torch.testing import assert_close
from torch.utils import _pytree as pytree

from dnclab import DNC, DNCState, Trace

F64 = torch.float64
SETTINGS: dict[str, Any] = {
    "hidden_size": 6,
    "cells": 5,
    "word_size": 4,
    "read_heads": 2,
    "dtype": F64,
}


def small(**settings: Any) -> DNC:
    return DNC(3, 2, **(SETTINGS | settings))


def leaves(state: object) -> list[Tensor]:
    return pytree.tree_leaves(state)


def assert_same(ours: object, expected: object) -> None:
    """Bit for bit."""
    for own, others in zip(leaves(ours), leaves(expected), strict=True):
        assert torch.equal(own, others)


def assert_near(ours: object, expected: object) -> None:
    """To rounding, in float64."""
    for own, others in zip(leaves(ours), leaves(expected), strict=True):
        assert_close(own, others, rtol=0, atol=1e-12)


def used(model: DNC, batch_size: int) -> DNCState:
    """A state in which no two cells are alike, so that rounding cannot swap two of them."""
    generator = torch.Generator().manual_seed(3)
    memory = used_state(model.config.memory, batch_size, generator)
    return model.initial_state(batch_size)._replace(memory=memory)


# --- the equations around the memory -------------------------------------------------------------


def test_one_step_by_hand(generator: torch.Generator) -> None:
    """[H1], [H2], [Y1] written out with the parameters, around the memory unit."""
    from dnclab import MemoryUnit

    model = small(controller="feedforward")
    unit = MemoryUnit(cells=5, word_size=4, read_heads=2)
    state = used(model, 3)
    x = torch.randn(1, 3, 3, generator=generator, dtype=F64)
    seen = torch.cat([x[0], state.memory.reads.reshape(3, 8)], dim=1)
    [layer] = model.controller.layers
    hidden = torch.relu(seen @ layer.weight.T + layer.bias)
    reads, memory = unit(hidden @ model.interface.weight.T + model.interface.bias, state.memory)
    expected = (
        hidden @ model.output.weight.T
        + model.output.bias
        + reads.reshape(3, 8) @ model.read_output.weight.T
    )
    y, after = model(x, state)
    assert_close(y[0], expected)
    assert_near(after.memory, memory)


def test_reads_of_the_last_step_reach_the_controller() -> None:
    model = small(backend="reference")
    state = model.initial_state(1)
    reads = torch.randn(1, 2, 4, dtype=F64, requires_grad=True)
    state = state._replace(memory=state.memory._replace(reads=reads))
    trace = model.trace(torch.zeros(1, 1, 3, dtype=F64), state)
    [gradient] = torch.autograd.grad(trace.hidden.sum(), reads)
    assert (gradient != 0).all()


def test_initial_parameters() -> None:
    model = DNC(3, 2, hidden_size=50, cells=5, word_size=10, read_heads=2)
    for linear in (model.interface, model.output, model.read_output):
        rows, columns = linear.weight.shape
        xavier = (6 / (rows + columns)) ** 0.5
        assert 0.9 * xavier < linear.weight.abs().max().item() <= xavier
    assert not model.output.bias.any()
    # The last 2R + W + RW numbers of the interface: masks at 1, sharpness at 0.
    bias = model.interface.bias
    masks = slice(len(bias) - 4 - 30, len(bias) - 4)
    assert torch.equal(bias[masks], torch.ones(30))
    assert not bias[: masks.start].any()
    assert not bias[masks.stop :].any()

    torch.manual_seed(5)
    model.reset_parameters()
    first = [parameter.clone() for parameter in model.parameters()]
    torch.manual_seed(5)
    model.reset_parameters()
    assert_same(list(model.parameters()), first)


# --- forms of input ------------------------------------------------------------------------------


def test_time_first_is_the_default() -> None:
    y, state = small()(torch.randn(7, 4, 3, dtype=F64))
    assert y.shape == (7, 4, 2)
    assert state.memory.memory.shape == (4, 5, 4)


def test_batch_first_is_time_first_transposed() -> None:
    time_first = small()
    batch_first = small(batch_first=True)
    batch_first.load_state_dict(time_first.state_dict())
    x = torch.randn(7, 4, 3, dtype=F64)
    (y, state), (y_batch, state_batch) = time_first(x), batch_first(x.transpose(0, 1))
    assert torch.equal(y_batch.transpose(0, 1), y)
    assert_same(state_batch, state)
    time_first.train()
    y_next, _ = time_first(x, state)
    y_next_batch, _ = batch_first(x.transpose(0, 1), state_batch)
    assert torch.equal(y_next_batch.transpose(0, 1), y_next)


@pytest.mark.parametrize("batch_first", [False, True])
def test_unbatched_is_a_batch_of_one(batch_first: bool) -> None:
    model = small(batch_first=batch_first)
    x = torch.randn(6, 3, dtype=F64)
    y, state = model(x[:4])
    assert y.shape == (4, 2)
    batched_y, batched_state = model(x[:4].unsqueeze(0 if batch_first else 1))
    assert torch.equal(y, batched_y.squeeze(0 if batch_first else 1))
    assert_same(state.map(lambda t: t.unsqueeze(0)), batched_state)
    whole, _ = model(x)
    rest, _ = model(x[4:], state)
    assert torch.equal(torch.cat([y, rest]), whole)


@pytest.mark.parametrize("enforce_sorted", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_packed_is_each_sample_alone(batch_first: bool, enforce_sorted: bool) -> None:
    model = small(batch_first=batch_first)
    lengths = [7, 5, 5, 1] if enforce_sorted else [5, 1, 7, 5]
    samples = [torch.randn(length, 3, dtype=F64) for length in lengths]
    packed = pack_sequence(samples, enforce_sorted=enforce_sorted)
    start = used(model, 4)
    y, state = model(packed, start)
    assert isinstance(y, PackedSequence)
    padded, padded_lengths = pad_packed_sequence(y, batch_first=batch_first)
    assert padded_lengths.tolist() == lengths
    for index, sample in enumerate(samples):
        alone, alone_state = model(sample, start.map(itemgetter(index)))
        ours = padded[index] if batch_first else padded[:, index]
        assert_near(ours[: len(sample)], alone)
        assert_near(state.map(itemgetter(index)), alone_state)


def test_packed_from_an_empty_memory_is_each_sample_alone() -> None:
    """Cells that are alike may be numbered otherwise: their contents are the same in some order."""
    model = small(cells=12)
    samples = [torch.randn(length, 3, dtype=F64) for length in (5, 30, 17)]
    y, state = model(pack_sequence(samples, enforce_sorted=False))
    padded, _ = pad_packed_sequence(y)
    for index, sample in enumerate(samples):
        alone, alone_state = model(sample)
        assert_near(padded[: len(sample), index], alone)
        assert_near(state.memory.reads[index], alone_state.memory.reads)
        assert_near(state.memory.usage[index].sort().values, alone_state.memory.usage.sort().values)
        ours, others = state.memory.memory[index], alone_state.memory.memory
        distances = torch.cdist(ours, others)
        assert_close(distances.min(0).values, torch.zeros(12, dtype=F64), rtol=0, atol=1e-7)
        assert_close(distances.min(1).values, torch.zeros(12, dtype=F64), rtol=0, atol=1e-7)


def test_packed_sequences_of_one_length_are_the_dense_batch() -> None:
    model = small()
    x = torch.randn(5, 3, 3, dtype=F64)
    packed = pack_padded_sequence(x, torch.full((3,), 5))
    (y, state), (y_dense, state_dense) = model(packed), model(x)
    assert torch.equal(pad_packed_sequence(y)[0], y_dense)
    assert_same(state, state_dense)


def test_gradients_of_packed_samples_do_not_touch() -> None:
    model = small()
    long = torch.randn(6, 3, dtype=F64, requires_grad=True)
    short = torch.randn(2, 3, dtype=F64, requires_grad=True)
    y, state = model(pack_sequence([short, long], enforce_sorted=False))
    padded, _ = pad_packed_sequence(y)
    [to_short, to_long] = torch.autograd.grad(padded[:2, 0].sum(), [short, long], retain_graph=True)
    assert (to_short.abs().sum(-1) > 0).all()
    assert not to_long.any()
    [from_state] = torch.autograd.grad(state.memory.memory[0].sum(), [long], allow_unused=True)
    assert from_state is None or not from_state.any()


# --- equal ways to run it ------------------------------------------------------------------------


@pytest.mark.parametrize("controller", ["lstm", "feedforward"])
@pytest.mark.parametrize("variant", SWITCHES)
def test_whole_is_step_by_step_is_split_anywhere_bit_for_bit(variant: str, controller: str) -> None:
    for dtype in (torch.float32, F64):
        model = small(variant=variant, controller=controller, dtype=dtype)
        x = torch.randn(7, 3, 3, dtype=dtype)
        whole, last = model(x)
        for cuts in ([1, 1, 1, 1, 1, 1, 1], *([cut, 7 - cut] for cut in range(1, 7)), [2, 3, 2]):
            state, outputs = None, []
            for part in x.split(cuts):
                output, state = model(part, state)
                outputs.append(output)
            assert torch.equal(torch.cat(outputs), whole)
            assert_same(state, last)


def test_the_model_remembers_nothing() -> None:
    model = small()
    x, other = torch.randn(5, 2, 3, dtype=F64), torch.randn(9, 4, 3, dtype=F64)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    y, _ = model(x)
    model(other)
    model.trace(other)
    assert torch.equal(model(x)[0], y)
    assert list(model.buffers()) == []
    assert_same(dict(model.state_dict()), before)


def test_runs_do_not_depend_on_the_random_state() -> None:
    model = small()
    x = torch.randn(5, 2, 3, dtype=F64)
    before = torch.get_rng_state()
    y, _ = model(x)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    assert torch.equal(model(x)[0], y)


def test_the_users_state_is_not_changed() -> None:
    model = small()
    start = used(model, 2)
    copies = [leaf.clone() for leaf in leaves(start)]
    model(torch.randn(4, 2, 3, dtype=F64), start)
    model.trace(torch.randn(4, 2, 3, dtype=F64), start)
    assert_same(start, copies)


@given(
    variant=st.sampled_from(list(SWITCHES)),
    controller=st.sampled_from(["lstm", "feedforward"]),
    sizes=st.tuples(*[st.integers(1, 5)] * 6),
    heads=st.integers(1, 3),
    layers=st.integers(1, 2),
    batch_first=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_size_runs_and_splits(
    variant: str,
    controller: str,
    sizes: tuple[int, ...],
    heads: int,
    layers: int,
    batch_first: bool,
    seed: int,
) -> None:
    cells, word, hidden, steps, batch, width = sizes
    torch.manual_seed(seed)
    model = DNC(
        width,
        word,
        hidden_size=hidden,
        cells=cells,
        word_size=word,
        read_heads=heads,
        variant=variant,
        controller=controller,
        num_layers=layers,
        batch_first=batch_first,
        dtype=F64,
    )
    x = torch.randn(batch, steps, width, dtype=F64)
    x = x if batch_first else x.transpose(0, 1)
    y, state = model(x)
    assert y.shape == (*x.shape[:2], word)
    assert all(torch.isfinite(leaf).all() for leaf in (y, *leaves(state)))
    time_axis = 1 if batch_first else 0
    cut = seed % (steps + 1)
    if 0 < cut < steps:
        first, middle = model(x.narrow(time_axis, 0, cut))
        second, last = model(x.narrow(time_axis, cut, steps - cut), middle)
        assert torch.equal(torch.cat([first, second], time_axis), y)
        assert_same(last, state)
    y.sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize("variant", SWITCHES)
def test_gradients_of_the_whole_model(variant: str) -> None:
    model = small(variant=variant, usage_gradient=True, hidden_size=3, cells=3, word_size=2)
    x = torch.randn(3, 1, 3, dtype=F64, requires_grad=True)
    start = used(model, 1)
    parameters = tuple(model.parameters())
    names = [name for name, _ in model.named_parameters()]

    def outputs(x: Tensor, *parameters: Tensor) -> Tensor:
        replaced = dict(zip(names, parameters, strict=True))
        y: Tensor
        y, _ = torch.func.functional_call(model, replaced, (x, start))
        return y

    assert torch.autograd.gradcheck(outputs, (x, *parameters))


# --- one sample never touches another ------------------------------------------------------------


@pytest.mark.parametrize("variant", SWITCHES)
def test_a_nan_shows_in_its_own_sample_and_nowhere_else(variant: str) -> None:
    model = small(variant=variant)
    x = torch.randn(5, 3, 3, dtype=F64)
    clean, clean_state = model(x)
    x[2, 1, 0] = torch.nan
    y, state = model(x)
    assert torch.equal(y[:, [0, 2]], clean[:, [0, 2]])
    assert torch.equal(y[:2, 1], clean[:2, 1])
    assert y[2:, 1].isnan().all()
    for part, clean_part in zip(leaves(state), leaves(clean_state), strict=True):
        assert torch.equal(part[[0, 2]], clean_part[[0, 2]])
    assert state.memory.memory[1].isnan().all()


# --- precision and devices -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, F64, torch.bfloat16, torch.float16])
def test_any_precision(dtype: torch.dtype) -> None:
    model = small(dtype=F64).to(dtype)
    x = torch.randn(5, 2, 3, dtype=dtype)
    y, state = model(x)
    assert y.dtype == dtype
    assert state.controller[0][0].dtype == dtype
    assert state.memory.memory.dtype == (F64 if dtype == F64 else torch.float32)
    first, middle = model(x[:2])
    second, _ = model(x[2:], middle)
    assert torch.equal(torch.cat([first, second]), y)
    y.float().sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


def test_float32_is_near_float64() -> None:
    model = small(hidden_size=16, cells=8)
    x = torch.randn(12, 4, 3, dtype=F64)
    y, _ = model(x)
    y32, _ = model.float()(x.float())
    assert_close(y32.double(), y, rtol=0, atol=1e-5)


def test_bfloat16_autocast() -> None:
    model = small(dtype=torch.float32, hidden_size=16)
    x = torch.randn(6, 2, 3)
    expected, _ = model(x)
    with torch.autocast("cpu", torch.bfloat16):
        y, state = model(x)
        again, _ = model(x[3:], model(x[:3])[1])
        from_half, _ = model(x.bfloat16())
    assert y.dtype == torch.bfloat16
    assert from_half.dtype == torch.bfloat16
    assert all(leaf.dtype == torch.float32 for leaf in leaves(state))
    assert torch.equal(again, y[3:])
    assert_close(y.float(), expected, rtol=0, atol=0.05)
    y.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in model.parameters())


def test_the_meta_device_gives_shapes() -> None:
    """Nothing in the model asks for a number, so that shapes can be had without memory."""
    y, state = small(device="meta")(torch.zeros(4, 2, 3, dtype=F64, device="meta"))
    assert y.shape == (4, 2, 2)
    assert state.memory.links.device.type == "meta"


# --- the trace -----------------------------------------------------------------------------------

AXES = {
    "output": (2,),
    "hidden": (6,),
    "read_keys": (2, 4),
    "read_strengths": (2,),
    "write_key": (4,),
    "write_strength": (1,),
    "erase": (4,),
    "write_vector": (4,),
    "free_gates": (2,),
    "allocation_gate": (1,),
    "write_gate": (1,),
    "read_modes": (2, 3),
    "write_mask": (4,),
    "read_masks": (2, 4),
    "forward_sharpness": (2,),
    "backward_sharpness": (2,),
    "retention": (5,),
    "allocation": (5,),
    "write_content": (5,),
    "forwards": (2, 5),
    "backwards": (2, 5),
    "read_contents": (2, 5),
    "memory": (5, 4),
    "usage": (5,),
    "links": (5, 5),
    "precedence": (5,),
    "write_weighting": (5,),
    "read_weightings": (2, 5),
    "reads": (2, 4),
}


def test_the_axes_of_a_trace() -> None:
    x = torch.randn(7, 3, 3, dtype=F64)
    for model, inputs, before in (
        (small(), x, (7, 3)),
        (small(batch_first=True), x, (7, 3)),
        (small(), x[:, 0], (7,)),
    ):
        trace = model.trace(inputs)
        assert isinstance(trace, Trace)
        shapes = {name: part.shape for name, part in trace._asdict().items() if name != "state"}
        assert shapes == {name: (*before, *axes) for name, axes in AXES.items()}


@pytest.mark.parametrize("variant", SWITCHES)
def test_a_trace_has_the_parts_of_its_variant(variant: str) -> None:
    mask, _, sharpen = SWITCHES[variant]
    trace = small(variant=variant).trace(torch.randn(3, 2, 3, dtype=F64))
    missing = {name for name, part in trace._asdict().items() if part is None}
    expected = set() if mask else {"write_mask", "read_masks"}
    expected |= set() if sharpen else {"forward_sharpness", "backward_sharpness"}
    assert missing == expected


@pytest.mark.parametrize("variant", SWITCHES)
def test_a_fused_trace_is_a_record(variant: str) -> None:
    model = small(variant=variant, backend="fused")
    start = used(model, 3)
    x = torch.randn(6, 3, 3, dtype=F64)
    y, state = model(x, start)
    trace = model.trace(x, start)
    assert torch.equal(trace.output, y)
    assert_same(trace.state, state)
    expected = model.with_backend("reference").trace(x, start)
    for name, values, right in zip(trace._fields, trace, expected, strict=True):
        if right is None:
            assert values is None, name
        elif isinstance(values, Tensor):
            assert_close(values, right)
            assert not values.requires_grad


@pytest.mark.parametrize("variant", SWITCHES)
def test_tracing_changes_nothing(variant: str) -> None:
    model = small(variant=variant, backend="reference")
    start = used(model, 3)
    x = torch.randn(6, 3, 3, dtype=F64, requires_grad=True)
    y, state = model(x, start)
    trace = model.trace(x, start)
    assert torch.equal(trace.output, y)
    assert_same(trace.state, state)
    gradients = torch.autograd.grad(y.square().sum(), [x, *model.parameters()])
    traced = torch.autograd.grad(trace.output.square().sum(), [x, *model.parameters()])
    assert_same(list(gradients), list(traced))
    assert_same(model(x, start), (y, state))


def test_a_trace_says_what_happened() -> None:
    """Its parts fit together as the equations say, at every step."""
    trace = small().trace(torch.randn(8, 2, 3, dtype=F64))
    for name in ("memory", "usage", "links", "precedence", "write_weighting", "read_weightings"):
        assert torch.equal(getattr(trace, name)[-1], getattr(trace.state.memory, name))
    mixed = trace.write_gate * (
        trace.allocation_gate * trace.allocation + (1 - trace.allocation_gate) * trace.write_content
    )
    assert_close(trace.write_weighting, mixed)
    ways = torch.stack([trace.backwards, trace.read_contents, trace.forwards], dim=-2)
    assert_close(trace.read_weightings, (trace.read_modes[..., None] * ways).sum(-2))
    assert_close(trace.reads, trace.read_weightings @ trace.memory)
    freed = (1 - trace.free_gates[1:, :, :, None] * trace.read_weightings[:-1]).prod(-2)
    assert_close(trace.retention[1:], freed)


def test_the_trace_of_a_packed_sequence_is_padded_with_zeros() -> None:
    model = small()
    samples = [torch.randn(2, 3, dtype=F64), torch.randn(5, 3, dtype=F64)]
    start = used(model, 2)
    trace = model.trace(pack_sequence(samples, enforce_sorted=False), start)
    assert trace.links.shape == (5, 2, 5, 5)
    assert not trace.links[2:, 0].any()
    alone = model.trace(samples[0], start.map(lambda t: t[0]))
    assert_near(trace.links[:2, 0], alone.links)
    assert_near(trace.state.map(lambda t: t[0]), alone.state)


# --- another number of cells ---------------------------------------------------------------------


def test_no_parameter_depends_on_the_number_of_cells() -> None:
    few, many = small(cells=2), small(cells=33)
    assert [p.shape for p in few.parameters()] == [p.shape for p in many.parameters()]


def test_with_cells_is_the_same_model_with_another_memory() -> None:
    model = small(variant="mds")
    more = model.with_cells(64)
    assert model.config.cells == 5
    assert more.config.cells == 64
    built = small(cells=64)
    built.load_state_dict(model.state_dict())
    x = torch.randn(6, 2, 3, dtype=F64)
    (y, state), (y_built, state_built) = more(x), built(x)
    assert torch.equal(y, y_built)
    assert_same(state, state_built)
    assert state.memory.memory.shape == (2, 64, 4)
    assert model(x)[1].memory.memory.shape == (2, 5, 4)

    with torch.no_grad():
        model.output.bias.add_(1.0)
    assert_close(more(x)[0], y + 1.0)  # they share their parameters
    with pytest.raises(ValueError, match="cells: expected at least 1, got 0"):
        model.with_cells(0)

    calls: list[str] = []
    more.register_forward_hook(lambda *_: calls.append("more"))
    more.read_output = torch.nn.Linear(8, 2, bias=False, dtype=F64)
    model(x)
    assert calls == []
    assert model.read_output is not more.read_output


# --- refusals ------------------------------------------------------------------------------------


def test_bad_inputs_are_refused() -> None:
    model = small(dtype=torch.float32)
    x = torch.zeros(4, 2, 3)

    def refused(error: type[Exception], message: str, inputs: Any) -> None:
        with pytest.raises(error, match=message):
            model(inputs)
        with pytest.raises(error, match=message):
            model.trace(inputs)

    shapes = r"inputs: expected shape \[time, batch, input_size=3\] or unbatched \[time, input_size"
    refused(ValueError, shapes + r".* got \[4, 2, 4\]", torch.zeros(4, 2, 4))
    refused(ValueError, shapes + r".* got \[3\]", torch.zeros(3))
    refused(ValueError, shapes + r".* got \[1, 4, 2, 3\]", x[None])
    refused(ValueError, shapes + r".* no axis empty, got \[0, 2, 3\]", x[:0])
    refused(ValueError, shapes + r".* no axis empty, got \[4, 0, 3\]", x[:, :0])
    refused(TypeError, "inputs: expected a tensor or a PackedSequence, got list", [[1.0]])
    refused(TypeError, "inputs: expected a tensor or a PackedSequence, got ndarray", np.zeros(3))
    refused(TypeError, "inputs: expected dtype torch.float32, got torch.float64", x.double())
    refused(TypeError, "inputs: expected dtype torch.float32, got torch.int64", x.long())
    refused(ValueError, "inputs: expected device cpu, got meta", x.to("meta"))
    refused(ValueError, r"inputs: expected a PackedSequence of vectors of input_size=3",
            pack_sequence([torch.zeros(4, 5)]))  # fmt: skip
    refused(TypeError, "inputs: expected dtype torch.float32, got torch.float64",
            pack_sequence([torch.zeros(4, 3, dtype=F64)]))  # fmt: skip
    with (
        torch.autocast("cpu", torch.bfloat16),
        pytest.raises(TypeError, match=r"inputs: expected one of .* got torch.int64"),
    ):
        model(x.long())
    with (
        torch.autocast("cpu", torch.bfloat16),
        pytest.raises(TypeError, match=r"inputs: expected dtype torch.float32, got torch.float64"),
    ):
        model(x.double())
    refused(TypeError, "inputs: expected a dense tensor, got one in torch.sparse_coo",
            x.to_sparse())  # fmt: skip
    for sizes in ([2, 3], [3], [], [5, 0]):
        packed = PackedSequence(torch.zeros(5, 3), torch.tensor(sizes, dtype=torch.int64))
        refused(ValueError, "inputs.batch_sizes: expected numbers that never rise", packed)
    batch_first = small(batch_first=True)
    with pytest.raises(ValueError, match=r"inputs: expected shape \[batch, time, input_size=3\]"):
        batch_first(torch.zeros(4, 2, 4, dtype=F64))


def test_a_model_shows_itself() -> None:
    shown = repr(small(variant="md"))
    assert "variant='dnc-md'" in shown
    assert "cells=5" in shown
