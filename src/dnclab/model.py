"""The DNC as a layer: controller, memory and output, run over a sequence like ``nn.LSTM``."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as pytree

from dnclab import fused, pretrained
from dnclab.checks import (
    check_choice,
    check_device,
    check_dtype,
    check_like,
    check_model_dtype,
    check_shape,
    check_size,
    check_tensor,
)
from dnclab.config import DNCConfig, variant_name
from dnclab.controllers import (
    CONTROLLERS,
    Controller,
    FeedForwardController,
    LSTMController,
)
from dnclab.memory import reference
from dnclab.memory.interface import interface_size, interface_slices
from dnclab.memory.types import Addressing, Interface
from dnclab.sequences import Layout, layout_of
from dnclab.state import DNCState, Trace

ControllerChoice = str | nn.Module | Callable[[int, int], nn.Module]
"""A name, a module with :class:`~dnclab.controllers.Controller`'s two methods, or a function that
makes one from its input size and its output size."""


class _Step(NamedTuple):
    """One step of the model, with all that happened on the way."""

    output: Tensor
    hidden: Tensor
    interface: Interface
    addressing: Addressing
    state: DNCState


class DNC(nn.Module):
    """The improved Differentiable Neural Computer (Csordás & Schmidhuber, ICLR 2019).

    Used like ``nn.LSTM``::

        model = dnclab.DNC(input_size=9, output_size=9, hidden_size=32, cells=16, word_size=16)
        y, state = model(x)            # x [time, batch, 9], y [time, batch, 9]
        y, state = model(x, state)     # goes on where the last call ended

    Inputs are [time, batch, input_size] ([batch, time, input_size] with ``batch_first``),
    [time, input_size], or a ``PackedSequence``; outputs come in the same form. Without a state a
    sequence starts from an empty memory; the model itself remembers nothing between calls.

    Args:
        input_size: numbers in an input vector.
        output_size: numbers in an output vector.
        hidden_size: width of the controller; for a controller of your own, of its output.
        cells: memory locations (N). No parameter depends on it: see :meth:`with_cells`.
        word_size: numbers in a cell (W).
        read_heads: read heads (R).
        variant: ``"dnc"`` or any of the letters m, d, s in this order (``"md"``, ``"dnc-mds"``):
            M masks look-ups by content, D wipes freed cells, S sharpens what comes from the links.
        mask, dealloc, sharpen: the same as switches; one that is given overrides its letter.
        controller: ``"lstm"``, ``"feedforward"``, a module with the two methods of
            :class:`Controller` that takes vectors of ``input_size + read_heads * word_size``, or a
            function ``(input_size, hidden_size) -> module`` (a class will do).
        num_layers: layers of a controller that has a name.
        mask_min: δ, the smallest value of a mask.
        interface_clip: interface vectors are clamped to ± this; None turns it off.
        usage_gradient: True gives the usage its full gradient; False stops it at the previous write
            weighting, as in the authors' implementation.
        batch_first: sequences are [batch, time, ...].
        backend: how a sequence is computed: ``"reference"`` is plain PyTorch; ``"fused"`` kernels
            for the CPU, many times as fast, which raise for what they do not know (controllers of
            your own or of several layers, other devices, gradients of gradients); ``"auto"`` the
            kernels where they can, else the reference: :attr:`backend_reason` says why.
        layout: of the kernels: ``"lanes"``, ``"rows"``, or ``"auto"`` by the number of cells and
            samples.
        rebuild_links: how the kernels have the links of earlier steps again on the way back:
            ``"exact"``, computed forwards from some that are kept; ``"inverse"``, undone backwards,
            which is faster and rounds; ``"auto"``: inverse from 128 cells on.
        rebuild_memory: True halves the room that long sequences take in rows, and takes longer.
        device, dtype: where and in what precision the parameters are. The memory itself is kept in
            at least float32.
    """

    controller: Any  # a module with Controller's two methods

    if TYPE_CHECKING:  # what a call gives, for whoever checks types

        @overload
        def __call__(
            self, inputs: Tensor, state: DNCState | None = None
        ) -> tuple[Tensor, DNCState]: ...

        @overload
        def __call__(
            self, inputs: PackedSequence, state: DNCState | None = None
        ) -> tuple[PackedSequence, DNCState]: ...

        def __call__(self, inputs: Any, state: DNCState | None = None) -> Any:
            """See forward."""

    def __init__(
        self,
        input_size: int,
        output_size: int,
        *,
        hidden_size: int = 128,
        cells: int = 64,
        word_size: int = 32,
        read_heads: int = 1,
        variant: str = "mds",
        mask: bool | None = None,
        dealloc: bool | None = None,
        sharpen: bool | None = None,
        controller: ControllerChoice = "lstm",
        num_layers: int = 1,
        mask_min: float = 0.1,
        interface_clip: float | None = 20.0,
        usage_gradient: bool = False,
        batch_first: bool = False,
        backend: str = "auto",
        layout: str = "auto",
        rebuild_links: str = "auto",
        rebuild_memory: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if dtype is not None:
            check_model_dtype("dtype", dtype)
        self.config = DNCConfig(
            input_size=input_size,
            output_size=output_size,
            hidden_size=hidden_size,
            cells=cells,
            word_size=word_size,
            read_heads=read_heads,
            variant=variant_name(variant, mask, dealloc, sharpen),
            controller=_controller_name(controller),
            num_layers=num_layers,
            mask_min=mask_min,
            interface_clip=interface_clip,
            usage_gradient=usage_gradient,
            batch_first=batch_first,
            backend=backend,
            layout=layout,
            rebuild_links=rebuild_links,
            rebuild_memory=rebuild_memory,
        )
        self.memory_config = self.config.memory
        read_size = read_heads * word_size
        self.controller, hidden_width = _make_controller(
            controller, input_size + read_size, hidden_size, num_layers
        )
        self.interface = nn.Linear(hidden_width, interface_size(self.memory_config))
        self.output = nn.Linear(hidden_width, output_size)
        self.read_output = nn.Linear(read_size, output_size, bias=False)
        self._reset_own_parameters()
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new parameters: weights by Xavier, biases 0 but for those of the masks, 1."""
        self._reset_own_parameters()
        reset = getattr(self.controller, "reset_parameters", None)
        if reset is not None:
            reset()

    @classmethod
    def from_config(
        cls,
        config: DNCConfig,
        *,
        controller: ControllerChoice | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> DNC:
        """A new model of this description; a controller of your own has to be given again."""
        settings = asdict(config)
        if controller is not None:
            settings["controller"] = controller
        return cls(**settings, device=device, dtype=dtype)

    @torch.no_grad()
    def _reset_own_parameters(self) -> None:
        for linear in (self.interface, self.output, self.read_output):
            nn.init.xavier_uniform_(linear.weight)
        nn.init.zeros_(self.interface.bias)
        nn.init.zeros_(self.output.bias)
        for name, part in interface_slices(self.memory_config).items():
            if name in ("write_mask", "read_masks"):
                nn.init.ones_(self.interface.bias[part])

    # --- state ---------------------------------------------------------------------------------

    def initial_state(self, batch_size: int | None = None) -> DNCState:
        """The state before the first step; None: of an unbatched sequence.

        On the device of the parameters and in their precision (the memory in at least float32).
        """
        if batch_size is not None:
            check_size("batch_size", batch_size)
        dtype = reference.state_dtype(self._pattern.dtype)
        batch_shape = () if batch_size is None else (batch_size,)
        memory = reference.initial_state(
            self.memory_config, batch_shape, dtype, self._pattern.device
        )
        return DNCState(self._start(batch_size), memory)

    def with_cells(self, cells: int) -> DNC:
        """This model with another number of memory cells.

        The two share their parameters and submodules: training one trains the other.
        """
        return self._with(cells=cells)

    def with_backend(self, backend: str, **options: Any) -> DNC:
        """This model computed in another way: any of the options that do not change its parameters.

        The two share their parameters and submodules, as those of :meth:`with_cells` do.
        """
        return self._with(backend=backend, **options)

    def _with(self, **changes: Any) -> DNC:
        other = copy.copy(self)
        for name, value in vars(other).items():
            if isinstance(value, dict):  # the tables of submodules, hooks and the like are its own
                setattr(other, name, value.copy())
        other.config = replace(self.config, **changes)
        other.memory_config = other.config.memory
        return other

    @property
    def backend_reason(self) -> str:
        """Which backend a plain call uses, and why."""
        return fused.choose(self).reason

    # --- running -------------------------------------------------------------------------------

    def forward(
        self, inputs: Tensor | PackedSequence, state: DNCState | None = None
    ) -> tuple[Tensor | PackedSequence, DNCState]:
        """Run over a sequence: the outputs in the form of the inputs, and the state after it.

        For a ``PackedSequence`` the state is, for each sample, the one after its own last step.
        """
        if isinstance(inputs, PackedSequence):
            # How many samples run at a step is data to a compiler: it cannot unroll over that.
            uncompiled: tuple[PackedSequence, DNCState]
            uncompiled = torch.compiler.disable(self._forward)(inputs, state)
            return uncompiled
        return self._forward(inputs, state)

    def _forward(
        self, inputs: Tensor | PackedSequence, state: DNCState | None
    ) -> tuple[Tensor | PackedSequence, DNCState]:
        layout, state, kernel = self._enter(inputs, state)
        if kernel is None:
            outputs: list[Tensor] = []
            state = self._run(layout, inputs, state, lambda step: outputs.append(step.output))
            return layout.join(outputs), state
        if torch.compiler.is_compiling():
            uncompiled: tuple[Tensor | PackedSequence, DNCState]
            uncompiled = torch.compiler.disable(self._forward_fused)(kernel, layout, inputs, state)
            return uncompiled
        return self._forward_fused(kernel, layout, inputs, state)

    def _forward_fused(
        self, kernel: ModuleType, layout: Layout, inputs: object, state: DNCState | None
    ) -> tuple[Tensor | PackedSequence, DNCState]:
        from dnclab.kernels import sequence

        padded, lengths = layout.padded(inputs)
        outputs, *final = sequence.run(
            fused.call_of(self, kernel, lengths),
            padded,
            fused.weights_of(self),
            fused.split_state(state),
        )
        return layout.from_padded(outputs), _change(fused.join_state(self, final), layout.leave())

    def trace(self, inputs: Tensor | PackedSequence, state: DNCState | None = None) -> Trace:
        """Run over a sequence and return all that happened inside: see :class:`Trace`.

        The numbers are those of ``forward``. From the reference (``backend="reference"``) they have
        gradients; from the fused kernels they are a record without. A ``PackedSequence`` comes back
        padded with zeros. The links alone take time · batch · cells² numbers.
        """
        layout, state, kernel = self._enter(inputs, state)
        if kernel is not None:
            return self._trace_fused(kernel, layout, inputs, state)
        steps: list[dict[str, Tensor | None]] = []

        def record(step: _Step) -> None:
            steps.append(
                {
                    "output": step.output,
                    "hidden": step.hidden,
                    **step.interface._asdict(),
                    **step.addressing._asdict(),
                    **step.state.memory._asdict(),
                }
            )

        state = self._run(layout, inputs, state, record)
        over_time: dict[str, Any] = {}
        for name in steps[0]:
            values = [value for step in steps if (value := step[name]) is not None]
            over_time[name] = layout.join_padded(values) if values else None
        return Trace(**over_time, state=state)

    @torch.no_grad()
    def _trace_fused(
        self, kernel: ModuleType, layout: Layout, inputs: object, state: DNCState | None
    ) -> Trace:
        from dnclab.kernels import sequence

        padded, lengths = layout.padded(inputs)
        outputs, final, steps = sequence.trace(
            fused.call_of(self, kernel, lengths),
            padded,
            fused.weights_of(self),
            fused.split_state(state),
        )
        parts = {"output": outputs} | fused.parts_of_trace(self, steps, state)
        shown: dict[str, Any] = {
            name: None if values is None else layout.show_padded(values)
            for name, values in parts.items()
        }
        return Trace(**shown, state=_change(fused.join_state(self, final), layout.leave()))

    def _enter(
        self, inputs: object, state: DNCState | None
    ) -> tuple[Layout, DNCState | None, ModuleType | None]:
        """The form of the inputs, the state before them in the order of the steps, and the fused
        kernel that computes them (None: the reference does).
        """
        layout = layout_of(inputs, self.config.input_size, batch_first=self.config.batch_first)
        values = layout.values(inputs)
        self._check_inputs(values)
        if state is not None:
            self._check_state(state, layout)
        kernel = fused.chosen_for(self, values, state, layout.batch_size or 1)
        if state is not None:
            state = _change(state, layout.enter())
        return layout, state, kernel

    def _run(
        self,
        layout: Layout,
        inputs: object,
        state: DNCState | None,
        visit: Callable[[_Step], object],
    ) -> DNCState:
        """The reference, step by step."""
        if state is None:
            state = self.initial_state(layout.batch_size or 1)
        ended: list[DNCState] = []  # the last samples of the batch end first
        running = len(state.memory.usage)
        for step_inputs in layout.steps(inputs):
            if len(step_inputs) < running:
                ended.insert(0, _samples(state, slice(len(step_inputs), running)))
                state = _samples(state, slice(len(step_inputs)))
                running = len(step_inputs)
            step = self._step(step_inputs, state)
            state = step.state
            visit(step)
        if ended:
            state = pytree.tree_map(lambda *parts: torch.cat(parts), state, *ended)
        return _change(state, layout.leave())

    def _step(self, inputs: Tensor, state: DNCState) -> _Step:
        """One step of a batch.

        ::

            h_t = controller([x_t; r_{t-1}])        [H1]
            ξ_t = W_ξ h_t + b_ξ                     [H2]
            y_t = W_y h_t + W_r r_t + b_y           [Y1]
        """
        last_reads = state.memory.reads.flatten(1).to(inputs.dtype)
        seen = torch.cat([inputs, last_reads], dim=-1)
        hidden, controller = _call_controller(self.controller, seen, state.controller)
        check_shape("controller's output", hidden, (len(inputs), self.interface.in_features))
        memory, interface, addressing = reference.step(
            self.memory_config, self.interface(hidden), state.memory
        )
        output = self.output(hidden) + self.read_output(memory.reads.flatten(1).to(hidden.dtype))
        return _Step(output, hidden, interface, addressing, DNCState(controller, memory))

    def _check_inputs(self, inputs: Tensor) -> None:
        own = self._pattern.dtype
        check_device("inputs", inputs, self._pattern.device)
        if reference.autocasts(inputs.device) and own != torch.float64:
            check_model_dtype("inputs", inputs.dtype)
            if inputs.dtype != torch.float64:
                return  # autocast brings the others together
        check_dtype("inputs", inputs, own)

    def _check_state(self, state: object, layout: Layout) -> None:
        if not isinstance(state, DNCState):
            raise TypeError(f"state: expected a DNCState, got {type(state).__name__}")
        dtype = reference.state_dtype(self._pattern.dtype)
        device = self._pattern.device
        reference.check_state(
            self.memory_config, state.memory, layout.batch_shape, dtype, device, "state.memory"
        )
        check_like("state.controller", state.controller, self._start(layout.batch_size))

    @property
    def _pattern(self) -> Tensor:
        """A parameter of our own, for its device and precision."""
        return self.output.bias

    def _start(self, batch_size: int | None) -> Any:
        """The controller's state before the first step."""
        dtype, device = self._pattern.dtype, self._pattern.device
        start = self.controller.initial_state(batch_size or 1, dtype=dtype, device=device)
        return _without_batch(start) if batch_size is None else start

    # --- saving --------------------------------------------------------------------------------

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write ``config.json`` and ``model.safetensors``, as Hugging Face users know them."""
        dtype = pretrained.dtype_name(self._pattern.dtype)
        pretrained.save(
            folder,
            self,
            {"architectures": ["DNC"], "model_type": "dnc", "torch_dtype": dtype}
            | asdict(self.config),
        )

    @classmethod
    def from_pretrained(
        cls,
        folder: str | os.PathLike[str],
        *,
        controller: nn.Module | Callable[[int, int], nn.Module] | None = None,
        device: torch.device | str | None = None,
    ) -> DNC:
        """Read a model that ``save_pretrained`` wrote, in the precision it was written in.

        A model with a controller of your own needs it again: pass the module or what makes it.
        """
        config = pretrained.load_config(folder)
        dtype = pretrained.dtype_named(config.pop("torch_dtype", None))
        for name, expected in (("architectures", ["DNC"]), ("model_type", "dnc")):
            if config.pop(name, None) != expected:
                raise ValueError(f"{folder}: {name}: expected {expected!r} in its config.json")
        known = {field.name for field in fields(DNCConfig)}
        if config.keys() != known:
            odd = ", ".join(sorted(config.keys() ^ known))
            raise ValueError(f"{folder}: missing or unknown in its config.json: {odd}")
        if controller is not None:
            config["controller"] = controller
        elif config["controller"] not in CONTROLLERS:
            raise ValueError(
                f"controller: this model was saved with {config['controller']}, a controller of "
                "its user's own; pass it as controller="
            )
        # The first numbers are drawn in vain, and somewhere where there is room for them.
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            model = cls(**config, dtype=dtype)
        pretrained.load_parameters(folder, model)
        return model.to(device)

    def extra_repr(self) -> str:
        """Sizes and variant, for ``print``."""
        return ", ".join(f"{name}={value!r}" for name, value in asdict(self.config).items())


def _call_controller(controller: nn.Module, seen: Tensor, state: Any) -> tuple[Tensor, Any]:
    """One step of any controller; the state it returns must be like the one it got."""
    returned = controller(seen, state)
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise TypeError(
            f"controller: expected (outputs, state) from forward, got {type(returned).__name__}"
        )
    hidden, new_state = returned
    if isinstance(controller, (LSTMController, FeedForwardController)):
        return hidden, new_state  # known to be right
    check_tensor("controller's output", hidden)
    check_like("controller's state", new_state, state, same_dtype=False)
    return hidden, pytree.tree_map(lambda leaf, like: leaf.to(like.dtype), new_state, state)


def _without_batch(state: Any) -> Any:
    return pytree.tree_map_only(Tensor, lambda tensor: tensor.squeeze(0), state)


def _change(state: DNCState, change: Callable[[Tensor], Tensor] | None) -> DNCState:
    return state if change is None else state.map(change)


def _samples(state: DNCState, which: slice) -> DNCState:
    return state.map(lambda tensor: tensor[which])


def _controller_name(controller: ControllerChoice) -> str:
    if isinstance(controller, str):
        check_choice("controller", controller, tuple(CONTROLLERS))
        return controller
    source = type(controller) if isinstance(controller, nn.Module) else controller
    if not callable(source):
        raise TypeError(
            f"controller: expected one of {', '.join(CONTROLLERS)}, a module or a function that "
            f"makes one, got {controller!r}"
        )
    return f"{source.__module__}.{getattr(source, '__qualname__', type(source).__qualname__)}"


def _make_controller(
    controller: ControllerChoice, input_size: int, hidden_size: int, num_layers: int
) -> tuple[nn.Module, int]:
    """The module and the width of its output."""
    if isinstance(controller, str):
        named = CONTROLLERS[controller](input_size, hidden_size, num_layers)
        return named, named.output_size
    if num_layers != 1:
        raise ValueError(
            f"num_layers: a controller of your own has its own layers; expected 1, got {num_layers}"
        )
    module = (
        controller if isinstance(controller, nn.Module) else controller(input_size, hidden_size)
    )
    if not isinstance(module, nn.Module) or not isinstance(module, Controller):
        raise TypeError(
            "controller: expected an nn.Module with the methods initial_state(batch_size, *, "
            f"dtype, device) and forward(inputs, state), got {type(module).__name__}"
        )
    return module, hidden_size
