"""Names of variants, settings and their refusals."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, asdict
from typing import Any

import pytest
import torch
from support import SWITCHES

from dnclab import DNC, DNCConfig
from dnclab.config import VARIANTS, variant_name


def test_there_are_eight_variants() -> None:
    assert set(VARIANTS) == set(SWITCHES)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_way_to_name_a_variant(name: str) -> None:
    mask, dealloc, sharpen = SWITCHES[name]
    short = name.removeprefix("dnc-")
    for written in (name, name.upper(), short, short.upper()):
        memory = DNC(2, 2, hidden_size=3, cells=2, word_size=2, variant=written).config.memory
        assert (memory.mask, memory.dealloc, memory.sharpen) == SWITCHES[name]
    by_switches = DNC(
        2, 2, hidden_size=3, cells=2, word_size=2, mask=mask, dealloc=dealloc, sharpen=sharpen
    )
    assert by_switches.config.variant == name


def test_a_switch_overrides_its_letter_and_no_other() -> None:
    assert variant_name("mds", mask=False) == "dnc-ds"
    assert variant_name("dnc", dealloc=True) == "dnc-d"
    assert variant_name("md", sharpen=True, dealloc=False) == "dnc-ms"


def test_the_default_is_the_full_model() -> None:
    model = DNC(2, 2)
    assert model.config == DNCConfig(input_size=2, output_size=2)
    assert model.config.variant == "dnc-mds"


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"variant": "xyz"}, ValueError, "variant: expected one of dnc, dnc-d, .* got 'xyz'"),
    ({"variant": "dm"}, ValueError, "variant: expected one of"),
    ({"variant": ""}, ValueError, "variant: expected one of"),
    ({"variant": 3}, TypeError, "variant: expected a str, got 3 of type int"),
    ({"mask": 1}, TypeError, "mask: expected a bool"),
    ({"cells": 0}, ValueError, "cells: expected at least 1, got 0"),
    ({"cells": 1.5}, TypeError, "cells: expected an int, got 1.5"),
    ({"word_size": -1}, ValueError, "word_size: expected at least 1"),
    ({"read_heads": 0}, ValueError, "read_heads: expected at least 1"),
    ({"hidden_size": 0}, ValueError, "hidden_size: expected at least 1"),
    ({"num_layers": 0}, ValueError, "num_layers: expected at least 1"),
    ({"input_size": 0}, ValueError, "input_size: expected at least 1"),
    ({"output_size": "9"}, TypeError, "output_size: expected an int, got '9' of type str"),
    ({"mask_min": 2}, ValueError, "mask_min: expected 0 <= mask_min < 1"),
    ({"interface_clip": -1}, ValueError, "interface_clip: expected a number above 0"),
    ({"batch_first": "no"}, TypeError, "batch_first: expected a bool"),
    ({"usage_gradient": None}, TypeError, "usage_gradient: expected a bool"),
    (
        {"backend": "cuda"},
        ValueError,
        "backend: expected one of auto, reference, fused; got 'cuda'",
    ),
    ({"backend": None}, TypeError, "backend: expected a str"),
    ({"dtype": "float32"}, TypeError, "dtype: expected one of torch.float32, .*; got float32"),
    ({"dtype": torch.int64}, TypeError, "dtype: expected one of .*; got torch.int64"),
    ({"dtype": torch.float8_e4m3fn}, TypeError, "dtype: expected one of .* got torch.float8_e4m3"),
]


@pytest.mark.parametrize(("settings", "error", "message"), BAD)
def test_bad_settings_are_refused(
    settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        DNC(**({"input_size": 2, "output_size": 2} | settings))


def test_the_configuration_is_frozen_and_complete() -> None:
    config = DNC(2, 3, cells=7, variant="md", mask_min=0.0, interface_clip=None).config
    with pytest.raises(FrozenInstanceError):
        config.cells = 3  # type: ignore[misc]
    assert DNC(**asdict(config)).config == config
    number: Any = 5
    with pytest.raises(TypeError, match="controller: expected a str, got 5"):
        DNCConfig(input_size=2, output_size=2, controller=number)
