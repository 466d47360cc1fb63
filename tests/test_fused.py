"""The fused backend as a user meets it: when it is chosen, what it refuses, that it agrees."""

from __future__ import annotations

import copy
import threading
import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch
from support import SWITCHES
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence
from torch.testing import assert_close
from torch.utils import _pytree as pytree

import dnclab
from dnclab import DNC, DNCConfig, agreement, fused, kernels
from dnclab.kernels import BackendUnavailable

F64 = torch.float64
SIZES: dict[str, Any] = {"hidden_size": 6, "cells": 5, "word_size": 4, "read_heads": 2}


def small(**settings: Any) -> DNC:
    return DNC(3, 2, **(SIZES | {"dtype": F64} | settings))


def config(**settings: Any) -> DNCConfig:
    return DNCConfig(input_size=3, output_size=2, backend="fused", **(SIZES | settings))


class OwnController(nn.Module):
    def initial_state(self, batch_size: int, *, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.zeros(batch_size, 6, dtype=dtype, device=device)

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = torch.tanh(inputs.sum(-1, keepdim=True) + state)
        return state, state


# --- which backend, and why ----------------------------------------------------------------------


def test_a_plain_model_is_fused_and_says_so() -> None:
    assert small().backend_reason == "fused: CPU, float64"
    assert small(backend="fused").backend_reason == "fused: asked for"
    assert small(backend="reference").backend_reason == "reference: asked for"


def replaced() -> DNC:
    model = small()
    model.output = nn.Sequential(model.output)  # type: ignore[assignment]
    return model


def hooked() -> DNC:
    model = small()
    model.interface.register_forward_hook(lambda module, given, result: result * 0)
    return model


NOT_FUSED = [
    (lambda: small(controller=OwnController()), "the controller is a OwnController"),
    (lambda: small(num_layers=2), "the controller has 2 layers"),
    (lambda: small(dtype=torch.bfloat16), "parameters are in torch.bfloat16"),
    (lambda: small(device="meta"), "parameters are on meta"),
    (hooked, "a part of the model has hooks"),
]


@pytest.mark.parametrize(("make", "reason"), NOT_FUSED)
def test_what_the_kernels_do_not_know(make: Any, reason: str) -> None:
    model = make()
    assert model.backend_reason == f"reference: {reason}"
    strict = model.with_backend("fused")
    with pytest.raises(BackendUnavailable, match=f"^backend 'fused': {reason}; available: refe"):
        _ = strict.backend_reason
    if model.output.weight.device.type == "cpu":
        x = torch.randn(4, 2, 3, dtype=model.output.weight.dtype)
        model(x)
        with pytest.raises(BackendUnavailable, match=reason):
            strict(x)


def test_a_hook_is_called() -> None:
    model = hooked()
    plain = small()
    plain.load_state_dict(model.state_dict())
    x = torch.randn(4, 2, 3, dtype=F64)
    assert not torch.equal(model(x)[0], plain(x)[0])


def test_a_call_that_the_kernels_do_not_know_takes_the_reference() -> None:
    model = small(dtype=torch.float32)
    strict = model.with_backend("fused")
    x = torch.randn(4, 2, 3)
    with torch.autocast("cpu", torch.bfloat16):
        assert model(x)[0].dtype == torch.bfloat16
        with pytest.raises(BackendUnavailable, match="autocast is on"):
            strict(x)
    parameters: dict[str, Tensor] = dict(model.named_parameters())

    def loss(parameters: dict[str, Tensor]) -> Tensor:
        outputs: Tensor = torch.func.functional_call(model, parameters, x)[0]
        return outputs.square().sum()

    found = torch.func.grad(loss)(parameters)
    loss(parameters).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert_close(found[name], parameter.grad, rtol=1e-4, atol=1e-5)


def test_without_numba_auto_goes_on_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(name: str, dtype: str) -> Any:
        raise BackendUnavailable(f"backend 'fused': the {name} kernels cannot be compiled: no LLVM")

    monkeypatch.setattr(kernels, "load", fails)
    monkeypatch.setattr(fused, "_said", set())
    model, x = small(), torch.randn(4, 2, 3, dtype=F64)
    with pytest.warns(RuntimeWarning, match="cannot be compiled: no LLVM; going on with the ref"):
        y, _ = model(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again, _ = model(x)
    assert torch.equal(y, model.with_backend("reference")(x)[0])
    assert torch.equal(again, y)
    with pytest.raises(BackendUnavailable, match="no LLVM"):
        model.with_backend("fused")(x)


def test_numba_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "_has_numba", lambda: False)
    assert small().backend_reason == "reference: Numba is not installed"
    small()(torch.randn(2, 1, 3, dtype=F64))
    with pytest.raises(BackendUnavailable, match="Numba is not installed"):
        small(backend="fused")(torch.randn(2, 1, 3, dtype=F64))


def test_the_rule_of_layouts() -> None:
    assert kernels.layout_for(16, 1) == "lanes"
    assert kernels.layout_for(64, 16) == "lanes"
    assert kernels.layout_for(64, 1) == "rows"
    assert kernels.layout_for(256, 2) == "rows"


# --- agreement -----------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", kernels.LAYOUTS)
@pytest.mark.parametrize("variant", SWITCHES)
def test_agreement(variant: str, layout: str) -> None:
    errors = agreement.compare(
        config(variant=variant, layout=layout), steps=9, samples=3, dtype=F64
    )
    assert len(errors) > 20
    assert max(errors.values()) <= 1e-10


def test_a_disagreement_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = fused.weights_of

    def wrong(model: DNC) -> tuple[Tensor, ...]:
        first, *others = right(model)
        return (first * 1.001, *others)

    monkeypatch.setattr(fused, "weights_of", wrong)
    errors = agreement.compare(config(), steps=5, samples=2, dtype=F64)
    assert max(errors.values()) > 1e-5


@pytest.mark.parametrize("links", ["inverse", "exact"])
@pytest.mark.parametrize("layout", kernels.LAYOUTS)
@pytest.mark.parametrize("controller", ["lstm", "feedforward"])
def test_gradcheck(controller: str, layout: str, links: str) -> None:
    model = DNC(
        2, 2, hidden_size=3, cells=3, word_size=2, backend="fused", layout=layout, dtype=F64,
        rebuild_links=links, controller=controller, usage_gradient=True,
    )  # fmt: skip
    state = agreement.used_state(model, 2, torch.Generator().manual_seed(1))
    leaves, spec = pytree.tree_flatten(state)
    leaves = [leaf.clone().requires_grad_() for leaf in leaves]
    x = torch.randn(3, 2, 2, dtype=F64, requires_grad=True)
    names = [name for name, _ in model.named_parameters()]

    def run(x: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        parameters = dict(zip(names, others[len(leaves) :], strict=True))
        before = pytree.tree_unflatten(list(others[: len(leaves)]), spec)
        outputs, after = torch.func.functional_call(model, parameters, (x, before))
        return outputs, *pytree.tree_leaves(after)

    assert torch.autograd.gradcheck(run, (x, *leaves, *model.parameters()))


def test_gradients_of_gradients() -> None:
    model, x = small(), torch.randn(4, 2, 3, dtype=F64, requires_grad=True)
    # In an empty memory the second derivative of a length is infinite.
    state = agreement.used_state(model, 2, torch.Generator().manual_seed(1))
    found = []
    for backend in ("auto", "reference"):
        outputs, _ = model.with_backend(backend)(x, state)
        [gradient] = torch.autograd.grad(outputs.square().sum(), [x], create_graph=True)
        found.append(torch.autograd.grad(gradient.square().sum(), list(model.parameters())))
    for ours, right in zip(*found, strict=True):
        assert_close(ours, right, rtol=1e-9, atol=1e-12)
    with pytest.raises(BackendUnavailable, match="gradients of gradients"):
        torch.autograd.grad(model.with_backend("fused")(x)[0].sum(), [x], create_graph=True)


def test_weights_changed_before_the_way_back_are_noticed() -> None:
    model, x = small(backend="fused"), torch.randn(4, 2, 3, dtype=F64)
    outputs, _ = model(x)
    with torch.no_grad():
        model.interface.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        outputs.sum().backward()


def test_a_graph_that_is_kept_gives_the_same_twice() -> None:
    model, x = small(backend="fused"), torch.randn(4, 2, 3, dtype=F64)
    outputs, _ = model(x)
    first = torch.autograd.grad(outputs.sum(), list(model.parameters()), retain_graph=True)
    again = torch.autograd.grad(outputs.sum(), list(model.parameters()))
    for ours, others in zip(first, again, strict=True):
        assert torch.equal(ours, others)


def test_truncated_back_propagation() -> None:
    """Gradients flow through a state that is passed on, and stop where it is detached."""
    model = small()
    x = torch.randn(8, 2, 3, dtype=F64)
    for backend in ("fused", "reference"):
        one = model.with_backend(backend)
        first, state = one(x[:4])
        second, _ = one(x[4:], state)
        whole = torch.autograd.grad((first.sum() + second.sum()), list(one.parameters()))
        first, state = one(x[:4])
        second, _ = one(x[4:], state.detach())
        cut = torch.autograd.grad((first.sum() + second.sum()), list(one.parameters()))
        assert not torch.equal(whole[0], cut[0])
        if backend == "fused":
            ours = (whole, cut)
        else:
            for found, right in zip([*ours[0], *ours[1]], [*whole, *cut], strict=True):
                assert_close(found, right, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", ["batch first", "unbatched", "packed", "strided"])
def test_forms_of_input(form: str) -> None:
    model = small(batch_first=form == "batch first")
    inputs: Any = torch.randn(2, 5, 3, dtype=F64)
    if form == "unbatched":
        inputs = inputs[0]
    elif form == "packed":
        samples = [torch.randn(n, 3, dtype=F64) for n in (2, 6, 4)]
        inputs = pack_sequence(samples, enforce_sorted=False)
    elif form == "strided":
        inputs = torch.randn(3, 2, 10, dtype=F64).permute(2, 1, 0)[::2]
    ours, right = (model.with_backend(name)(inputs) for name in ("fused", "reference"))
    for found, expected in zip(pytree.tree_leaves(ours), pytree.tree_leaves(right), strict=True):
        assert_close(found, expected, rtol=1e-9, atol=1e-12)
    assert type(ours[0]) is type(right[0])


# --- in company ----------------------------------------------------------------------------------


def test_threads_of_torch_are_followed_and_change_nothing() -> None:
    model = small(dtype=torch.float32)
    x = torch.randn(5, 70, 3)
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        outputs, _ = model(x)
        found.append(
            [outputs, *torch.autograd.grad(outputs.square().sum(), list(model.parameters()))]
        )
    for ours, others in zip(found[0] * 2, found[1] + found[2], strict=True):
        assert torch.equal(ours, others)


def test_models_in_several_threads_do_not_disturb_each_other() -> None:
    models = [small(cells=5 + number) for number in range(4)]
    x = torch.randn(20, 6, 3, dtype=F64)

    def gradients(model: DNC) -> list[Tensor]:
        outputs, _ = model(x)
        return list(torch.autograd.grad(outputs.square().sum(), list(model.parameters())))

    expected = [gradients(model) for model in models]
    torch.set_num_threads(2)
    found: dict[int, list[list[Tensor]]] = {number: [] for number in range(4)}

    def work(number: int) -> None:
        for _ in range(10):
            found[number].append(gradients(models[number]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, right in enumerate(expected):
        assert len(found[number]) == 10
        for ours in found[number]:
            for part, expected_part in zip(ours, right, strict=True):
                assert torch.equal(part, expected_part)


def test_denormal_numbers_are_flushed_inside_and_left_alone_outside() -> None:
    tiny = torch.tensor([1e-310], dtype=F64)
    assert tiny.mul(1.0).item() != 0
    small()(torch.randn(3, 2, 3, dtype=F64))
    assert tiny.mul(1.0).item() != 0


def test_copies_and_files(tmp_path: Any) -> None:
    model, x = small(backend="fused", rebuild_links="exact"), torch.randn(4, 2, 3, dtype=F64)
    y, _ = model(x)
    assert torch.equal(copy.deepcopy(model)(x)[0], y)
    assert torch.equal(model.with_cells(5)(x)[0], y)
    model.save_pretrained(tmp_path)
    loaded = dnclab.DNC.from_pretrained(tmp_path)
    assert loaded.config == model.config
    assert torch.equal(loaded(x)[0], y)
    again = DNC.from_config(replace(model.config, backend="reference"), dtype=F64)
    again.load_state_dict(model.state_dict())
    assert_close(again(x)[0], y, rtol=1e-9, atol=1e-12)


def test_with_backend_shares_the_parameters() -> None:
    model = small()
    other = model.with_backend("reference")
    assert other.interface.weight is model.interface.weight
    assert model.config.backend == "auto"
    with pytest.raises(ValueError, match="backend: expected one of"):
        model.with_backend("cuda")
