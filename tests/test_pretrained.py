"""Saving and loading: the same outputs, readable files, plain refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from dnclab import DNC


def small(**settings: Any) -> DNC:
    return DNC(3, 2, **({"hidden_size": 6, "cells": 5, "word_size": 4, "read_heads": 2} | settings))


@pytest.mark.parametrize("variant", ["dnc", "mds"])
@pytest.mark.parametrize("controller", ["lstm", "feedforward"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_loaded_model_gives_the_same_outputs(
    variant: str, controller: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    model = small(variant=variant, controller=controller, dtype=dtype, num_layers=2, mask_min=0.25)
    model.save_pretrained(tmp_path / "new" / "folder")
    loaded = DNC.from_pretrained(tmp_path / "new" / "folder")
    assert loaded.config == model.config
    x = torch.randn(4, 2, 3, dtype=dtype)
    (y, state), (y_loaded, state_loaded) = model(x), loaded(x)
    assert y.dtype == dtype
    assert torch.equal(y, y_loaded)
    assert torch.equal(state.memory.memory, state_loaded.memory.memory)
    assert all(p.requires_grad for p in loaded.parameters())


def test_the_folder_is_the_usual_one(tmp_path: Path) -> None:
    model = small()
    model.save_pretrained(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == ["DNC"]
    assert config["model_type"] == "dnc"
    assert config["torch_dtype"] == "float32"
    assert config["variant"] == "dnc-mds"
    assert config["cells"] == 5
    tensors = safetensors.torch.load_file(tmp_path / "model.safetensors")
    assert tensors.keys() == model.state_dict().keys()


def test_loading_draws_no_random_numbers(tmp_path: Path) -> None:
    small().save_pretrained(tmp_path)
    before = torch.get_rng_state()
    DNC.from_pretrained(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)


def test_saving_over_an_old_folder_leaves_nothing_else(tmp_path: Path) -> None:
    small(cells=3).save_pretrained(tmp_path)
    second = small(cells=9)
    second.save_pretrained(str(tmp_path))
    assert len(list(tmp_path.iterdir())) == 2
    assert DNC.from_pretrained(tmp_path).config.cells == 9


def test_a_failed_write_leaves_the_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small()
    model.save_pretrained(tmp_path)
    old = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail(model: object, path: str, metadata: object) -> None:
        Path(path).write_bytes(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(safetensors.torch, "save_model", fail)
    with pytest.raises(OSError, match="no space left"):
        small().save_pretrained(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == old


class Tied(torch.nn.Module):
    """A controller whose two layers are one."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.input = torch.nn.Linear(input_size, hidden_size)
        self.first = torch.nn.Linear(hidden_size, hidden_size)
        self.second = self.first

    def initial_state(
        self, batch_size: int, *, dtype: torch.dtype, device: torch.device
    ) -> tuple[()]:
        del batch_size, dtype, device
        return ()

    def forward(self, inputs: torch.Tensor, state: tuple[()]) -> tuple[torch.Tensor, tuple[()]]:
        return self.second(torch.relu(self.first(self.input(inputs)))), state


def test_shared_parameters_are_stored_once_and_stay_shared(tmp_path: Path) -> None:
    model = small(controller=Tied)
    model.save_pretrained(tmp_path)
    loaded = DNC.from_pretrained(tmp_path, controller=Tied)
    x = torch.randn(4, 2, 3)
    assert torch.equal(loaded(x)[0], model(x)[0])
    assert loaded.controller.first.weight is loaded.controller.second.weight


def test_a_refused_file_leaves_the_users_controller_as_it_was(tmp_path: Path) -> None:
    small(controller=Tied).save_pretrained(tmp_path)
    mine = Tied(3 + 2 * 4, 6)
    mine.first = torch.nn.Linear(6, 6)  # one parameter more than the file has
    before = {name: value.clone() for name, value in mine.state_dict().items()}
    with pytest.raises(ValueError, match=r"missing or unknown: controller.second"):
        DNC.from_pretrained(tmp_path, controller=mine)
    assert all(torch.equal(value, before[name]) for name, value in mine.state_dict().items())


def test_loading_inside_a_meta_context_gives_a_real_model(tmp_path: Path) -> None:
    model = small()
    model.save_pretrained(tmp_path)
    with torch.device("meta"):
        loaded = DNC.from_pretrained(tmp_path)
    x = torch.randn(4, 2, 3)
    assert torch.equal(loaded(x)[0], model(x)[0])


def test_what_cannot_be_loaded_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no config.json: not a saved model"):
        DNC.from_pretrained(tmp_path / "nowhere")

    small().save_pretrained(tmp_path)
    config_path, parameters_path = tmp_path / "config.json", tmp_path / "model.safetensors"
    config = json.loads(config_path.read_text())

    def refused(message: str, **changes: object) -> None:
        changed = {key: value for key, value in (config | changes).items() if value is not None}
        config_path.write_text(json.dumps(changed))
        with pytest.raises(ValueError, match=message):
            DNC.from_pretrained(tmp_path)

    refused("expected format_version 1, got 2", format_version=2)
    refused("expected format_version 1, got None", format_version=None)
    refused("missing or unknown in its config.json: colour", colour="red")
    refused("missing or unknown in its config.json: cells", cells=None)
    refused("cells: expected at least 1, got 0", cells=0)
    refused("variant: expected one of", variant="dnc-x")
    refused("torch_dtype: expected the name of a floating dtype, got 'int64'", torch_dtype="int64")
    refused("torch_dtype: expected the name of a floating dtype, got 'nn'", torch_dtype="nn")
    refused("model_type: expected 'dnc'", model_type="bert")
    refused("does not fit the model of its config.json", hidden_size=7)
    refused("does not fit the model of its config.json", num_layers=2)

    refused("expected .* in torch.bfloat16, got .* in torch.float32", torch_dtype="bfloat16")
    refused("expected format_version 1, got True", format_version=True)

    config_path.write_text("{")
    with pytest.raises(ValueError, match="not JSON"):
        DNC.from_pretrained(tmp_path)
    config_path.write_text("[]")
    with pytest.raises(ValueError, match="expected a JSON object, got list"):
        DNC.from_pretrained(tmp_path)

    config_path.write_text(json.dumps(config))
    parameters_path.write_bytes(parameters_path.read_bytes()[:-40])
    with pytest.raises(ValueError, match="does not fit the model"):
        DNC.from_pretrained(tmp_path)
    parameters_path.unlink()
    with pytest.raises(FileNotFoundError, match=r"has no model.safetensors"):
        DNC.from_pretrained(tmp_path)


def test_whoever_may_read_the_configuration_may_read_the_parameters(tmp_path: Path) -> None:
    small().save_pretrained(tmp_path)
    modes = {path.name: path.stat().st_mode for path in tmp_path.iterdir()}
    assert modes["model.safetensors"] == modes["config.json"]
