"""The forms in which a sequence comes: time first, batch first, unbatched, packed.

Inside, a sequence is a list of steps [B_t, X] in which samples only ever end (B_t never grows), or
one padded tensor [T, B, X] with the samples' lengths: a dense batch is the case in which none ends
early.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from dnclab.checks import check_tensor


@dataclass(frozen=True)
class Layout:
    """The form a sequence came in, to give results back in the same form."""

    batch_size: int | None
    """Samples; None for a sequence without a batch axis."""
    batch_first: bool
    """Whether the batch comes before the time."""
    packed: PackedSequence | None
    """The packed input: its lengths and order."""

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """What comes before the other axes in each tensor of the user's state."""
        return () if self.batch_size is None else (self.batch_size,)

    def join(self, steps: Sequence[Tensor]) -> Tensor | PackedSequence:
        """One tensor [B_t, ...] a step → the form of the input."""
        if self.packed is not None:
            return self.packed._replace(data=torch.cat(list(steps)))
        if self.batch_size is None:
            return torch.cat(list(steps))
        return torch.stack(list(steps), dim=1 if self.batch_first else 0)

    def join_padded(self, steps: Sequence[Tensor]) -> Tensor:
        """The same as one tensor with a time axis; zero after the end of a packed sample."""
        joined = self.join(steps)
        if isinstance(joined, PackedSequence):
            joined, _ = pad_packed_sequence(joined, batch_first=self.batch_first)
        return joined

    def values(self, inputs: Any) -> Tensor:
        """The tensor that holds the input's numbers."""
        values: Tensor = inputs if self.packed is None else inputs.data
        return values

    def steps(self, inputs: Any) -> Sequence[Tensor]:
        """The input as steps [B_t, X]."""
        if self.packed is not None:
            return torch.split(self.packed.data, self.packed.batch_sizes.tolist())
        dense: Tensor = inputs.unsqueeze(1) if self.batch_size is None else inputs
        return dense.unbind(1 if self.batch_first else 0)

    def padded(self, inputs: Any) -> tuple[Tensor, Tensor]:
        """The input as one tensor [T, B, X], and the length of each sample."""
        if self.packed is not None:
            in_order = PackedSequence(self.packed.data, self.packed.batch_sizes)
            return pad_packed_sequence(in_order)
        if self.batch_size is None:
            dense: Tensor = inputs.unsqueeze(1)
        else:
            dense = inputs.transpose(0, 1) if self.batch_first else inputs
        return dense, torch.full((dense.shape[1],), len(dense))

    def from_padded(self, outputs: Tensor) -> Tensor | PackedSequence:
        """One tensor [T, B, ...] → the form of the input."""
        if self.packed is not None:
            sizes = self.packed.batch_sizes
            real = torch.arange(outputs.shape[1]) < sizes[:, None]
            return self.packed._replace(data=outputs[real])
        if self.batch_size is None:
            return outputs.squeeze(1)
        return outputs.transpose(0, 1).contiguous() if self.batch_first else outputs

    def show_padded(self, values: Tensor) -> Tensor:
        """The same as one tensor with a time axis; values are zero after the end of a sample."""
        shown = self.from_padded(values)
        if isinstance(shown, PackedSequence):
            shown, _ = pad_packed_sequence(shown, batch_first=self.batch_first)
        return shown

    def enter(self) -> Callable[[Tensor], Tensor] | None:
        """The change from the user's state to the order of the steps, for each of its tensors.

        None where there is nothing to change.
        """
        if self.batch_size is None:
            return lambda tensor: tensor.unsqueeze(0)
        if self.packed is not None and self.packed.sorted_indices is not None:
            order = self.packed.sorted_indices
            return lambda tensor: tensor.index_select(0, order)
        return None

    def leave(self) -> Callable[[Tensor], Tensor] | None:
        """The way back."""
        if self.batch_size is None:
            return lambda tensor: tensor.squeeze(0)
        if self.packed is not None and self.packed.unsorted_indices is not None:
            order = self.packed.unsorted_indices
            return lambda tensor: tensor.index_select(0, order)
        return None


def layout_of(inputs: object, input_size: int, *, batch_first: bool) -> Layout:
    """The form of a sequence; anything that is none is refused."""
    if isinstance(inputs, PackedSequence):
        return Layout(_packed_sizes(inputs, input_size)[0], batch_first, inputs)
    if not isinstance(inputs, Tensor):
        raise TypeError(
            f"inputs: expected a tensor or a PackedSequence, got {type(inputs).__name__}"
        )
    check_tensor("inputs", inputs)
    axes = "batch, time" if batch_first else "time, batch"
    if inputs.dim() not in (2, 3) or inputs.shape[-1] != input_size or 0 in inputs.shape:
        raise ValueError(
            f"inputs: expected shape [{axes}, input_size={input_size}] or unbatched "
            f"[time, input_size={input_size}], no axis empty, got {list(inputs.shape)}"
        )
    if inputs.dim() == 2:
        return Layout(None, False, None)
    return Layout(inputs.shape[0 if batch_first else 1], batch_first, None)


def _packed_sizes(packed: PackedSequence, input_size: int) -> list[int]:
    """How many samples run at each step; samples only ever end."""
    check_tensor("inputs.data", packed.data)
    if packed.data.dim() != 2 or packed.data.shape[1] != input_size:
        raise ValueError(
            f"inputs: expected a PackedSequence of vectors of input_size={input_size}, "
            f"got its data in shape {list(packed.data.shape)}"
        )
    sizes: list[int] = packed.batch_sizes.tolist()
    falling = all(earlier >= later for earlier, later in pairwise(sizes))
    if not sizes or not falling or sizes[-1] < 1 or sum(sizes) != len(packed.data):
        raise ValueError(
            "inputs.batch_sizes: expected numbers that never rise, from 1 on, and add up to the "
            f"{len(packed.data)} vectors of the data, got {sizes}"
        )
    return sizes
