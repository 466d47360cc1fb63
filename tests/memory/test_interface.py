"""The interface vector: sizes, order, squashing."""

from __future__ import annotations

import math

import pytest
import torch
from support import SWITCHES, memory_config
from torch.testing import assert_close

from dnclab.memory.interface import (
    interface_shapes,
    interface_size,
    interface_slices,
    read_interface,
)


@pytest.mark.parametrize("variant", SWITCHES)
@pytest.mark.parametrize(("word", "heads"), [(1, 1), (5, 1), (3, 4), (64, 4)])
def test_size_is_the_papers_formula(variant: str, word: int, heads: int) -> None:
    mask, _, sharpen = SWITCHES[variant]
    expected = heads * word + 3 * word + 5 * heads + 3
    expected += (word + heads * word) * mask + 2 * heads * sharpen
    assert interface_size(memory_config(variant, 7, word, heads)) == expected


def test_the_full_model_has_the_papers_number() -> None:
    """Appendix A: 2WR + 4W + 7R + 3."""
    assert interface_size(memory_config("dnc-mds", 16, 10, 3)) == 2 * 10 * 3 + 4 * 10 + 7 * 3 + 3


def test_parts_are_in_the_papers_order() -> None:
    assert list(interface_shapes(memory_config("dnc-mds", 4, 3, 2))) == [
        "read_keys",
        "read_strengths",
        "write_key",
        "write_strength",
        "erase",
        "write_vector",
        "free_gates",
        "allocation_gate",
        "write_gate",
        "read_modes",
        "write_mask",
        "read_masks",
        "forward_sharpness",
        "backward_sharpness",
    ]


@pytest.mark.parametrize("variant", SWITCHES)
def test_slices_cover_the_vector_once(variant: str) -> None:
    config = memory_config(variant, 4, 3, 2)
    covered = [
        position
        for part in interface_slices(config).values()
        for position in range(part.start, part.stop)
    ]
    assert covered == list(range(interface_size(config)))


def test_every_number_lands_in_its_place_and_is_squashed() -> None:
    config = memory_config("dnc-mds", 4, 2, 2)
    size = interface_size(config)
    controls = torch.linspace(-3, 3, size, dtype=torch.float64)[None]
    raw = {
        name: controls[0, part].reshape(interface_shapes(config)[name])
        for name, part in interface_slices(config).items()
    }
    interface = read_interface(config, controls)

    for name in ("read_keys", "write_key", "write_vector"):
        assert torch.equal(getattr(interface, name)[0], raw[name])
    for name in ("erase", "free_gates", "allocation_gate", "write_gate"):
        assert_close(getattr(interface, name)[0], 1 / (1 + torch.exp(-raw[name])))
    for name in ("write_mask", "read_masks"):
        assert_close(getattr(interface, name)[0], 0.9 / (1 + torch.exp(-raw[name])) + 0.1)
    for name in ("read_strengths", "write_strength", "forward_sharpness", "backward_sharpness"):
        assert_close(getattr(interface, name)[0], 1 + torch.log(1 + torch.exp(raw[name])))
    powers = torch.exp(raw["read_modes"])
    assert_close(interface.read_modes[0], powers / powers.sum(-1, keepdim=True))


def test_absent_features_have_no_part() -> None:
    config = memory_config("dnc", 4, 2, 2)
    interface = read_interface(config, torch.zeros(1, interface_size(config)))
    assert interface.write_mask is None
    assert interface.read_masks is None
    assert interface.forward_sharpness is None
    assert interface.backward_sharpness is None


def test_clamping_and_its_gradient() -> None:
    config = memory_config("dnc", 4, 1, 1, interface_clip=2.0)
    controls = torch.zeros(1, interface_size(config))
    controls[0, 0], controls[0, 2] = 5.0, 1.5  # read key, write key
    controls.requires_grad_()
    interface = read_interface(config, controls)
    assert interface.read_keys.item() == 2.0
    assert interface.write_key.item() == 1.5
    (interface.read_keys + interface.write_key).sum().backward()
    assert controls.grad is not None
    assert controls.grad[0, :3].tolist() == [0.0, 0.0, 1.0]

    unclamped = memory_config("dnc", 4, 1, 1, interface_clip=None)
    assert read_interface(unclamped, controls).read_keys.item() == 5.0


def test_strengths_of_saturated_controls_are_finite() -> None:
    config = memory_config("dnc-s", 4, 1, 1, interface_clip=None)
    interface = read_interface(config, torch.full((1, interface_size(config)), 1e4))
    assert interface.read_strengths.item() == pytest.approx(10001.0)
    assert math.isfinite(interface.read_modes.sum().item())
