"""The memory unit: the equations in the paper's order. This file defines what is right."""

from __future__ import annotations

from dataclasses import asdict

import torch
from torch import Tensor, nn

from dnclab.checks import (
    STATE_DTYPES,
    check_device,
    check_dtype,
    check_shape,
    check_size,
    check_tensor,
)
from dnclab.memory import equations
from dnclab.memory.interface import interface_shapes, interface_size, read_interface
from dnclab.memory.types import Addressing, Interface, MemoryConfig, MemoryState, state_shapes


def step(
    config: MemoryConfig, controls: Tensor, state: MemoryState
) -> tuple[MemoryState, Interface, Addressing]:
    """One step of the memory, and what it did on the way, in the state's own precision.

    Autocast stays outside: in bfloat16 ε would vanish beside 1, and usages near 1 would be 1.
    """
    controls = controls.to(state.memory.dtype)
    if autocasts(controls.device):
        with torch.autocast(controls.device.type, enabled=False):
            return _step(config, controls, state)
    return _step(config, controls, state)


def _step(
    config: MemoryConfig, controls: Tensor, state: MemoryState
) -> tuple[MemoryState, Interface, Addressing]:
    """The equations in order; the one place where the variant branches.

    Free and allocate, look up where to write (in the memory as it was), write, link (with the
    precedence as it was), then follow the links and look up where to read (in the memory as it is).
    """
    interface = read_interface(config, controls)

    retained = equations.retention(interface.free_gates, state.read_weightings)
    written = state.write_weighting if config.usage_gradient else state.write_weighting.detach()
    usage = equations.update_usage(state.usage, written, retained)
    allocated = equations.allocation(usage)

    write_content = _look_up(
        state.memory,
        interface.write_key[:, None],
        interface.write_strength,
        None if interface.write_mask is None else interface.write_mask[:, None],
    ).squeeze(1)
    write_weighting = equations.write_weighting(
        interface.write_gate, interface.allocation_gate, allocated, write_content
    )
    kept = equations.wipe(state.memory, retained) if config.dealloc else state.memory
    memory = equations.write(kept, write_weighting, interface.erase, interface.write_vector)

    links = equations.update_links(state.links, state.precedence, write_weighting)
    precedence = equations.update_precedence(state.precedence, write_weighting)
    forwards = equations.follow_forwards(links, state.read_weightings)
    backwards = equations.follow_backwards(links, state.read_weightings)
    if interface.forward_sharpness is not None and interface.backward_sharpness is not None:
        forwards = equations.sharpen(forwards, interface.forward_sharpness)
        backwards = equations.sharpen(backwards, interface.backward_sharpness)

    read_contents = _look_up(
        memory, interface.read_keys, interface.read_strengths, interface.read_masks
    )
    read_weightings = equations.read_weightings(
        interface.read_modes, backwards, read_contents, forwards
    )
    reads = equations.read(memory, read_weightings)

    return (
        MemoryState(memory, usage, links, precedence, write_weighting, read_weightings, reads),
        interface,
        Addressing(retained, allocated, write_content, forwards, backwards, read_contents),
    )


def _look_up(memory: Tensor, keys: Tensor, strengths: Tensor, masks: Tensor | None) -> Tensor:
    """C(M, k, β) or, with M, C(M, k, β, m), for all heads at once."""
    memories = memory[:, None]
    if masks is None:
        similarities = equations.similarity(memories, keys)
    else:
        similarities = equations.masked_similarity(memories, keys, masks)
    return equations.content_weighting(similarities, strengths)


def autocasts(device: torch.device) -> bool:
    """Whether autocast is on; the meta device has none, and asking there is an error."""
    return device.type != "meta" and torch.is_autocast_enabled(device.type)


def state_dtype(dtype: torch.dtype) -> torch.dtype:
    """The precision of the memory of a model whose parameters are of `dtype`: at least float32."""
    return torch.promote_types(dtype, torch.float32)


def initial_state(
    config: MemoryConfig,
    batch_shape: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device | str | None,
) -> MemoryState:
    """An empty memory: everything is zero."""
    return MemoryState(
        **{
            name: torch.zeros(*batch_shape, *shape, dtype=dtype, device=device)
            for name, shape in state_shapes(config).items()
        }
    )


def check_state(
    config: MemoryConfig,
    state: object,
    batch_shape: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device,
    name: str = "state",
) -> None:
    """Refuse a state of another batch size, of another model, or that is none at all."""
    if not isinstance(state, MemoryState):
        raise TypeError(f"{name}: expected a MemoryState, got {type(state).__name__}")
    for (field, shape), tensor in zip(state_shapes(config).items(), state, strict=True):
        check_tensor(f"{name}.{field}", tensor)
        check_shape(f"{name}.{field}", tensor, (*batch_shape, *shape))
        check_dtype(f"{name}.{field}", tensor, dtype)
        check_device(f"{name}.{field}", tensor, device)


class MemoryUnit(nn.Module):
    """The memory alone, for whoever brings a controller of their own. It has no parameters.

    Each call is one step::

        unit = MemoryUnit(cells=16, word_size=8, read_heads=2)
        controls = nn.Linear(hidden_size, unit.interface_size)
        state = unit.initial_state(batch_size)
        reads, state = unit(controls(hidden), state)

    ``controls`` [B, interface_size] are raw numbers in the paper's order (``interface_shapes``
    lists it); the unit clamps and squashes them. ``reads`` are [B, read_heads, word_size].
    """

    def __init__(
        self,
        *,
        cells: int,
        word_size: int,
        read_heads: int = 1,
        mask: bool = True,
        dealloc: bool = True,
        sharpen: bool = True,
        mask_min: float = 0.1,
        interface_clip: float | None = 20.0,
        usage_gradient: bool = False,
    ) -> None:
        super().__init__()
        self.config = MemoryConfig(
            cells=cells,
            word_size=word_size,
            read_heads=read_heads,
            mask=mask,
            dealloc=dealloc,
            sharpen=sharpen,
            mask_min=mask_min,
            interface_clip=interface_clip,
            usage_gradient=usage_gradient,
        )

    @property
    def interface_size(self) -> int:
        """How many numbers a step takes from the controller."""
        return interface_size(self.config)

    @property
    def interface_shapes(self) -> dict[str, tuple[int, ...]]:
        """The parts of these numbers in order, with their shapes."""
        return interface_shapes(self.config)

    def initial_state(
        self,
        batch_size: int,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> MemoryState:
        """The state before the first step: all zero, in float32 or float64."""
        check_size("batch_size", batch_size)
        dtype = state_dtype(torch.get_default_dtype()) if dtype is None else dtype
        _check_state_dtype("dtype", dtype)
        return initial_state(self.config, (batch_size,), dtype, device)

    def forward(self, controls: Tensor, state: MemoryState) -> tuple[Tensor, MemoryState]:
        """One step: what is read, and the next state."""
        check_tensor("controls", controls)
        if controls.dim() != 2 or controls.shape[1] != self.interface_size or not len(controls):
            raise ValueError(
                f"controls: expected shape [batch, interface_size={self.interface_size}], "
                f"got {list(controls.shape)}"
            )
        if not isinstance(state, MemoryState):
            raise TypeError(f"state: expected a MemoryState, got {type(state).__name__}")
        check_tensor("state.memory", state.memory)
        _check_state_dtype("state.memory", state.memory.dtype)
        if controls.dtype not in (torch.bfloat16, torch.float16):  # these are raised to float32
            check_dtype("controls", controls, state.memory.dtype)
        check_state(self.config, state, controls.shape[:1], state.memory.dtype, controls.device)
        state, _, _ = step(self.config, controls, state)
        return state.reads, state

    def extra_repr(self) -> str:
        """Sizes and variant, for ``print``."""
        return ", ".join(f"{field}={value}" for field, value in asdict(self.config).items())


def _check_state_dtype(name: str, dtype: torch.dtype) -> None:
    if dtype not in STATE_DTYPES:
        raise TypeError(f"{name}: the memory is kept in float32 or float64, got {dtype}")
