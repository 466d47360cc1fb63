"""What a model carries between steps, and what it shows of itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from dnclab.checks import check_dtype, check_like, check_shape, check_tensor
from dnclab.memory.types import MemoryState


class DNCState(NamedTuple):
    """All that a model carries from one step to the next; the batch is axis 0 of every tensor.

    A plain pytree of tensors. Yours to keep, store, slice and change: the model remembers nothing.
    """

    controller: Any
    """The controller's own state: for an LSTM, a pair (output, cell) for each layer."""
    memory: MemoryState
    """The memory's state."""

    def map(self, function: Callable[[Tensor], Tensor]) -> DNCState:
        """The state with `function` applied to every tensor: ``state.map(lambda t: t[2:5])``."""
        mapped: DNCState = pytree.tree_map_only(Tensor, function, self)
        return mapped

    def detach(self) -> DNCState:
        """The same numbers, cut from the graph that computed them (truncated back-propagation)."""
        return self.map(Tensor.detach)

    def where(self, condition: Tensor, other: DNCState) -> DNCState:
        """This state for the samples where `condition` [B] is true, `other` for the rest.

        ``state.where(~done, model.initial_state(batch_size))`` resets the samples that are done.
        """
        if self.memory.usage.dim() != 2:
            raise ValueError("where: expected a state with a batch axis, got an unbatched one")
        check_tensor("condition", condition)
        check_dtype("condition", condition, torch.bool)
        check_shape("condition", condition, self.memory.usage.shape[:1])
        if not isinstance(other, DNCState):
            raise TypeError(f"other: expected a DNCState, got {type(other).__name__}")
        check_like("other", other, self)

        def choose(own: Tensor, others: Tensor) -> Tensor:
            return torch.where(condition.view(-1, *[1] * (own.dim() - 1)), own, others)

        chosen: DNCState = pytree.tree_map(choose, self, other)
        return chosen


class Trace(NamedTuple):
    """Everything that happened inside a model, step by step.

    Each field has the axes of the output: a time axis and, unless the sequence is unbatched, a
    batch axis, in the input's order; after them come the axes given below. N cells, W word size,
    R read heads. Parts that the variant does not have are None.
    """

    output: Tensor
    """y_t [Y]."""
    hidden: Tensor
    """h_t [H], what the controller gave."""
    read_keys: Tensor
    """k_t^{r,i} [R W]."""
    read_strengths: Tensor
    """β_t^{r,i} [R]."""
    write_key: Tensor
    """k_t^w [W]."""
    write_strength: Tensor
    """β_t^w [1]."""
    erase: Tensor
    """e_t [W]."""
    write_vector: Tensor
    """v_t [W]."""
    free_gates: Tensor
    """f_t^i [R]."""
    allocation_gate: Tensor
    """g_t^a [1]."""
    write_gate: Tensor
    """g_t^w [1]."""
    read_modes: Tensor
    """π_t^i [R 3]: backward links, content, forward links."""
    write_mask: Tensor | None
    """m_t^w [W]; M only."""
    read_masks: Tensor | None
    """m_t^{r,i} [R W]; M only."""
    forward_sharpness: Tensor | None
    """s_t^{f,i} [R]; S only."""
    backward_sharpness: Tensor | None
    """s_t^{b,i} [R]; S only."""
    retention: Tensor
    """ψ_t [N]."""
    allocation: Tensor
    """a_t [N]."""
    write_content: Tensor
    """c_t^w [N]."""
    forwards: Tensor
    """f_t^i [R N], as mixed into the read weightings: sharpened with S."""
    backwards: Tensor
    """b_t^i [R N], likewise."""
    read_contents: Tensor
    """c_t^{r,i} [R N]."""
    memory: Tensor
    """M_t [N W]."""
    usage: Tensor
    """u_t [N]."""
    links: Tensor
    """L_t [N N]."""
    precedence: Tensor
    """p_t [N]."""
    write_weighting: Tensor
    """w_t^w [N]."""
    read_weightings: Tensor
    """w_t^{r,i} [R N]."""
    reads: Tensor
    """r_t^i [R W]."""
    state: DNCState
    """The state after the last step, as ``forward`` returns it."""


# What torch.load(weights_only=True) may build besides tensors: three tuples.
torch.serialization.add_safe_globals([DNCState, MemoryState, Trace])
