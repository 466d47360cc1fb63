"""Between a model and the fused kernels: whether they know it, and what they need of it.

The kernels compute a whole sequence as one operation, controller and output included. They know an
LSTM of one layer and one layer of ReLU units, float32 and float64, on the CPU.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch.utils import _pytree as pytree

from dnclab import kernels
from dnclab.controllers import FeedForwardController, LSTMController
from dnclab.kernels import BackendUnavailable
from dnclab.memory.equations import retention, sharpen
from dnclab.memory.interface import interface_size, read_interface
from dnclab.memory.reference import autocasts
from dnclab.memory.types import Addressing, Interface, MemoryState
from dnclab.state import DNCState

if TYPE_CHECKING:
    from types import ModuleType

    from dnclab.config import DNCConfig
    from dnclab.kernels.problem import Problem
    from dnclab.kernels.sequence import Call
    from dnclab.model import DNC

INVERSE_FROM = 128
"""Cells from which on links are undone backwards: below, keeping some and computing the others
again is as quick, and exact."""


class Choice(NamedTuple):
    """A backend and why it is the one."""

    fused: bool
    reason: str


def choose(model: DNC) -> Choice:
    """What a plain call of the model uses."""
    asked = model.config.backend
    if asked == "reference":
        return Choice(False, "reference: asked for")
    why_not = _obstacle(model)
    if why_not is None:
        dtype = str(model.output.weight.dtype).removeprefix("torch.")
        return Choice(True, f"fused: {'asked for' if asked == 'fused' else f'CPU, {dtype}'}")
    if asked == "fused":
        raise BackendUnavailable(f"backend 'fused': {why_not}; available: reference")
    return Choice(False, f"reference: {why_not}")


def chosen_for(
    model: DNC, inputs: Tensor, state: DNCState | None, samples: int
) -> ModuleType | None:
    """The layout that computes this call; None for the reference."""
    asked = model.config.backend
    if asked == "reference":
        return None
    why_not = _obstacle_of_call(model, inputs, state) or _obstacle(model)
    if why_not is None:
        name = model.config.layout
        if name == "auto":
            name = kernels.layout_for(model.config.cells, samples)
        try:
            return kernels.load(name, "float32" if inputs.dtype == torch.float32 else "float64")
        except BackendUnavailable as error:
            if asked == "fused":
                raise
            _say_once(str(error))
            return None
    if asked == "fused":
        raise BackendUnavailable(f"backend 'fused': {why_not}; available: reference")
    return None


_said: set[str] = set()


def _say_once(trouble: str) -> None:
    if trouble not in _said:
        _said.add(trouble)
        warnings.warn(f"{trouble}; going on with the reference", RuntimeWarning, stacklevel=2)


@cache
def _has_numba() -> bool:
    return importlib.util.find_spec("numba") is not None


def _obstacle(model: DNC) -> str | None:
    """What of the model the kernels do not know."""
    if not _has_numba():
        return "Numba is not installed"
    controller = model.controller
    if type(controller) not in (LSTMController, FeedForwardController):
        return f"the controller is a {type(controller).__name__}"
    if model.config.num_layers != 1:
        return f"the controller has {model.config.num_layers} layers"
    device, dtype = model.output.weight.device, model.output.weight.dtype
    if device.type != "cpu":
        return f"parameters are on {device}"
    if dtype not in (torch.float32, torch.float64):
        return f"parameters are in {dtype}"
    if _hooked(controller):
        return "a part of the model has hooks"
    for layer in (_first_layer(model), model.interface, model.output, model.read_output):
        if type(layer) is not nn.Linear:
            return "a linear layer has been replaced"
        if _hooked(layer):
            return "a part of the model has hooks"
        for weight in layer.parameters():
            if type(weight) not in PLAIN:
                return "parameters are of a type of their own"
            if weight.dtype != dtype or weight.device != device:
                return "parameters are of several precisions or devices"
    return None


PLAIN = (Tensor, nn.Parameter)


def _obstacle_of_call(model: DNC, inputs: Tensor, state: DNCState | None) -> str | None:
    """What of a call the kernels do not know."""
    if torch.compiler.is_compiling() and model.config.backend == "auto":
        return "torch.compile traces the reference"
    given = () if state is None else pytree.tree_leaves(state)
    if type(inputs) not in PLAIN or any(type(tensor) not in PLAIN for tensor in given):
        return "tensors are of a type of their own"
    if autocasts(inputs.device):
        return "autocast is on"
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return "torch.func or forward-mode differentiation is at work"
    return None


def _hooked(module: nn.Module) -> bool:
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


def _first_layer(model: DNC) -> nn.Linear:
    controller = model.controller
    layers: Any = controller.gates if isinstance(controller, LSTMController) else controller.layers
    layer: nn.Linear = layers[0]
    return layer


def weights_of(model: DNC) -> tuple[Tensor, ...]:
    """The parameters in the order of the kernels' Weights."""
    first = _first_layer(model)
    return (
        first.weight, first.bias, model.interface.weight, model.interface.bias,
        model.output.weight, model.output.bias, model.read_output.weight,
    )  # fmt: skip


def _weight_names(model: DNC) -> tuple[str, ...]:
    first = "gates" if isinstance(model.controller, LSTMController) else "layers"
    return (
        f"controller.{first}.0.weight", f"controller.{first}.0.bias", "interface.weight",
        "interface.bias", "output.weight", "output.bias", "read_output.weight",
    )  # fmt: skip


def problem_of(model: DNC) -> Problem:
    """The sizes and switches that kernels are given."""
    return _problem(model.config)


@lru_cache(maxsize=64)
def _problem(config: DNCConfig) -> Problem:
    from dnclab.kernels.problem import Problem

    memory = config.memory
    return Problem(
        inputs=config.input_size,
        outputs=config.output_size,
        hidden=config.hidden_size,
        cells=memory.cells,
        word=memory.word_size,
        heads=memory.read_heads,
        interface=interface_size(memory),
        lstm=config.controller == "lstm",
        mask=memory.mask,
        dealloc=memory.dealloc,
        sharpen=memory.sharpen,
        usage_gradient=memory.usage_gradient,
        mask_min=float(memory.mask_min),
        clip=float("inf") if memory.interface_clip is None else float(memory.interface_clip),
    )


def call_of(model: DNC, layout: ModuleType, lengths: Tensor) -> Call:
    """What a sequence is run with besides tensors."""
    from dnclab.kernels.problem import Options
    from dnclab.kernels.sequence import Call

    config = model.config
    inverse = config.rebuild_links == "inverse" or (
        config.rebuild_links == "auto" and config.cells >= INVERSE_FROM
    )
    options = Options(
        threads=torch.get_num_threads(),
        exact_links=not inverse,
        memory_segments=config.rebuild_memory,
        need_inputs=True,
        need_initial=True,
    )

    def recompute(tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        return _in_plain_torch(model, lengths, tensors)

    return Call(
        layout=layout,
        problem=problem_of(model),
        options=options,
        lengths=lengths.numpy(),
        recompute=recompute if config.backend == "auto" else None,
    )


def _in_plain_torch(model: DNC, lengths: Tensor, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """The same sequence by the reference, with these very tensors."""
    names = _weight_names(model)
    inputs, weights, initial = tensors[0], tensors[1 : 1 + len(names)], tensors[1 + len(names) :]
    plain = model.with_backend("reference", batch_first=False)
    packed = pack_padded_sequence(inputs, lengths, enforce_sorted=False)
    before = join_state(model, initial) if initial else None
    outputs, state = functional_call(
        plain, dict(zip(names, weights, strict=True)), (packed, before)
    )
    assert isinstance(outputs, PackedSequence)
    padded, _ = pad_packed_sequence(outputs, total_length=len(inputs))
    return padded, *split_state(state)


def split_state(state: DNCState | None) -> tuple[Tensor, ...]:
    """The parts of a state in the order of the kernels' States; none of none."""
    if state is None:
        return ()
    memory = state.memory
    if state.controller:
        ((hidden, cell),) = state.controller
    else:
        hidden = cell = memory.usage.new_empty(len(memory.usage), 0)
    return (hidden, cell, *memory)


def join_state(model: DNC, parts: Sequence[Tensor]) -> DNCState:
    """The way back."""
    hidden, cell, *memory = parts
    controller = ((hidden, cell),) if isinstance(model.controller, LSTMController) else ()
    return DNCState(controller, MemoryState(*memory))


def parts_of_trace(
    model: DNC, steps: dict[str, Tensor], state: DNCState | None
) -> dict[str, Tensor | None]:
    """The fields of a trace but for the output: [T B ...] each, from what the kernels kept."""
    config = model.memory_config
    times, samples = steps["controls"].shape[:2]

    def in_one(values: Tensor) -> Tensor:
        return values.flatten(0, 1)

    def over_time(values: Tensor | None) -> Tensor | None:
        return None if values is None else values.unflatten(0, (times, samples))

    interface = read_interface(config, in_one(steps["controls"]))
    read_weightings = steps["read_weightings"]
    first = torch.zeros_like(read_weightings[0]) if state is None else state.memory.read_weightings
    before = torch.cat([first[None], read_weightings[:-1]])
    forwards, backwards = in_one(steps["following"]), in_one(steps["preceding"])
    if interface.forward_sharpness is not None and interface.backward_sharpness is not None:
        forwards = sharpen(forwards, interface.forward_sharpness)
        backwards = sharpen(backwards, interface.backward_sharpness)
    addressing = Addressing(
        retention=retention(interface.free_gates, in_one(before)),
        allocation=in_one(steps["allocation"]),
        write_content=in_one(steps["write_content"]),
        forwards=forwards,
        backwards=backwards,
        read_contents=in_one(steps["read_contents"]),
    )
    derived: dict[str, Tensor | None] = {**Interface._asdict(interface), **addressing._asdict()}
    return (
        {"hidden": steps["hidden"]}
        | {name: over_time(values) for name, values in derived.items()}
        | {name: steps[name] for name in MemoryState._fields}
    )
