"""The interface vector ξ_t: which numbers mean what, and how they are squashed."""

from __future__ import annotations

import math

import torch

from dnclab.memory.equations import bounded_mask, oneplus
from dnclab.memory.types import Controls, Interface, MemoryConfig


def interface_shapes(config: MemoryConfig) -> dict[str, tuple[int, ...]]:
    """The parts of ξ_t in the paper's order, each with its shape; absent features have no part.

    ::

        ξ_t = [k^r; β^r; k^w; β^w; e; v; f; g^a; g^w; π; (M: m^w; m^r); (S: s^f; s^b)]    [I2]
    """
    word, heads = config.word_size, config.read_heads
    shapes: dict[str, tuple[int, ...]] = {
        "read_keys": (heads, word),
        "read_strengths": (heads,),
        "write_key": (word,),
        "write_strength": (1,),
        "erase": (word,),
        "write_vector": (word,),
        "free_gates": (heads,),
        "allocation_gate": (1,),
        "write_gate": (1,),
        "read_modes": (heads, 3),
    }
    if config.mask:
        shapes |= {"write_mask": (word,), "read_masks": (heads, word)}
    if config.sharpen:
        shapes |= {"forward_sharpness": (heads,), "backward_sharpness": (heads,)}
    return shapes


def interface_size(config: MemoryConfig) -> int:
    """RW + 3W + 5R + 3 numbers, W + RW more with M, 2R more with S."""
    return sum(math.prod(shape) for shape in interface_shapes(config).values())


def interface_slices(config: MemoryConfig) -> dict[str, slice]:
    """Where each part lies in the vector."""
    slices, start = {}, 0
    for name, shape in interface_shapes(config).items():
        slices[name] = slice(start, start + math.prod(shape))
        start = slices[name].stop
    return slices


def read_interface(config: MemoryConfig, controls: Controls) -> Interface:
    """The interface from raw numbers.

    ::

        ξ_t ← max(-clip, min(clip, ξ_t))                                              [I1]
        σ for e, f, g^a and g^w, softmax for π; keys and v stay as they are           [I5]
        oneplus for β and s, a bounded σ for the masks: both in equations.py
    """
    if config.interface_clip is not None:
        controls = controls.clamp(-config.interface_clip, config.interface_clip)
    shapes = interface_shapes(config)
    pieces = torch.split(controls, [math.prod(shape) for shape in shapes.values()], dim=-1)
    raw = {
        name: piece.reshape(-1, *shape)
        for (name, shape), piece in zip(shapes.items(), pieces, strict=True)
    }
    return Interface(
        read_keys=raw["read_keys"],
        read_strengths=oneplus(raw["read_strengths"]),
        write_key=raw["write_key"],
        write_strength=oneplus(raw["write_strength"]),
        erase=torch.sigmoid(raw["erase"]),
        write_vector=raw["write_vector"],
        free_gates=torch.sigmoid(raw["free_gates"]),
        allocation_gate=torch.sigmoid(raw["allocation_gate"]),
        write_gate=torch.sigmoid(raw["write_gate"]),
        read_modes=torch.softmax(raw["read_modes"], dim=-1),
        write_mask=bounded_mask(raw["write_mask"], config.mask_min) if config.mask else None,
        read_masks=bounded_mask(raw["read_masks"], config.mask_min) if config.mask else None,
        forward_sharpness=oneplus(raw["forward_sharpness"]) if config.sharpen else None,
        backward_sharpness=oneplus(raw["backward_sharpness"]) if config.sharpen else None,
    )
