"""What the memory unit is made of: the legend of symbols, its configuration, interface and state.

B batch · N cells · W word size · R read heads, all at step t:

==========================  =======  ==================  ==========================================
the paper's symbol          shape    name                meaning
==========================  =======  ==================  ==========================================
M_t                         B N W    memory              the cells
u_t                         B N      usage               how far each cell is taken
L_t                         B N N    links               [i, j]: i was written right after j
p_t                         B N      precedence          how far each cell was the last one written
w_t^w                       B N      write_weighting     where the write head writes
w_t^{r,i}                   B R N    read_weightings     where each read head reads
r_t^i                       B R W    reads               the words read
ψ_t                         B N      retention           what the free gates leave of each cell
a_t                         B N      allocation          the write head's choice of a free cell
c_t^w, c_t^{r,i}            B N,     write_content,      look-up by content
                            B R N    read_contents
f_t^i, b_t^i                B R N    forwards,           one step along the links
                                     backwards
==========================  =======  ==================  ==========================================

The names of the interface vector's parts (ξ_t) stand at :class:`Interface`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from dnclab.checks import check_flag, check_number, check_size

if TYPE_CHECKING:
    from jaxtyping import Float
else:
    try:
        from jaxtyping import Float
    except ModuleNotFoundError:  # shapes are checked by the tests; a user needs no checker

        class Float:
            """``Float[Tensor, "B N"]`` is a plain ``Tensor`` to whoever runs no shape checker."""

            def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
                """Drop the shape."""
                return item[0]


Controls = Float[Tensor, "B X"]
Memory = Float[Tensor, "B N W"]
HeadMemories = Float[Tensor, "B #R N W"]  # the memory as each head sees it, or one for all
Usage = Float[Tensor, "B N"]
Links = Float[Tensor, "B N N"]
Weighting = Float[Tensor, "B N"]
ReadWeightings = Float[Tensor, "B R N"]
Word = Float[Tensor, "B W"]
HeadWords = Float[Tensor, "B R W"]
HeadScalars = Float[Tensor, "B R"]
HeadModes = Float[Tensor, "B R 3"]
Gate = Float[Tensor, "B 1"]
AnyShape = Float[Tensor, "*shape"]


@dataclass(frozen=True, kw_only=True)
class MemoryConfig:
    """Sizes and variant of a memory unit."""

    cells: int
    """Memory locations, N in the paper."""
    word_size: int
    """Numbers in a cell, W in the paper."""
    read_heads: int = 1
    """Read heads, R in the paper."""
    mask: bool = True
    """M: look-ups by content see key and memory through a mask of their own."""
    dealloc: bool = True
    """D: freeing a cell also wipes its content."""
    sharpen: bool = True
    """S: the distributions that come from the links are sharpened."""
    mask_min: float = 0.1
    """δ, the smallest value of a mask; has no effect without M."""
    interface_clip: float | None = 20.0
    """Interface vectors are clamped to ± this before they are squashed; None: not at all."""
    usage_gradient: bool = False
    """True: gradients also flow from the usage into the previous write weighting."""

    def __post_init__(self) -> None:
        for name in ("cells", "word_size", "read_heads"):
            check_size(name, getattr(self, name))
        for name in ("mask", "dealloc", "sharpen", "usage_gradient"):
            check_flag(name, getattr(self, name))
        check_number("mask_min", self.mask_min)
        if not 0 <= self.mask_min < 1:
            raise ValueError(f"mask_min: expected 0 <= mask_min < 1, got {self.mask_min}")
        if self.interface_clip is not None:
            check_number("interface_clip", self.interface_clip)
            if self.interface_clip <= 0:
                raise ValueError(
                    f"interface_clip: expected a number above 0 or None, got {self.interface_clip}"
                )


class Interface(NamedTuple):
    """ξ_t, the controller's orders to the memory, split and squashed; in the paper's order.

    A part that the variant does not have is None.
    """

    read_keys: Tensor
    """k_t^{r,i} [B R W]: what each read head looks for."""
    read_strengths: Tensor
    """β_t^{r,i} in [1, ∞) [B R]: how strictly."""
    write_key: Tensor
    """k_t^w [B W]: what the write head looks for."""
    write_strength: Tensor
    """β_t^w in [1, ∞) [B 1]: how strictly."""
    erase: Tensor
    """e_t in (0, 1) [B W]: how far each component is erased before it is written."""
    write_vector: Tensor
    """v_t [B W]: what is written."""
    free_gates: Tensor
    """f_t^i in (0, 1) [B R]: 1 frees what head i read at the previous step."""
    allocation_gate: Tensor
    """g_t^a in (0, 1) [B 1]: 1 writes to a free cell, 0 to one found by content."""
    write_gate: Tensor
    """g_t^w in (0, 1) [B 1]: 0 writes nothing."""
    read_modes: Tensor
    """π_t^i [B R 3]: shares of backward links, content, forward links."""
    write_mask: Tensor | None
    """m_t^w in (δ, 1) [B W]: which components count in the write head's look-up; M only."""
    read_masks: Tensor | None
    """m_t^{r,i} in (δ, 1) [B R W]: the same for each read head; M only."""
    forward_sharpness: Tensor | None
    """s_t^{f,i} in [1, ∞) [B R]: exponent for the forward distribution; S only."""
    backward_sharpness: Tensor | None
    """s_t^{b,i} in [1, ∞) [B R]: exponent for the backward distribution; S only."""


class MemoryState(NamedTuple):
    """All that the memory carries from one step to the next; the batch is axis 0 everywhere.

    A plain tuple of tensors: a pytree, copied, stored and sliced like one.
    """

    memory: Tensor
    """M_t [B N W]."""
    usage: Tensor
    """u_t [B N]."""
    links: Tensor
    """L_t [B N N]."""
    precedence: Tensor
    """p_t [B N]."""
    write_weighting: Tensor
    """w_t^w [B N]."""
    read_weightings: Tensor
    """w_t^{r,i} [B R N]."""
    reads: Tensor
    """r_t^i [B R W]."""

    def map(self, function: Callable[[Tensor], Tensor]) -> MemoryState:
        """The state with `function` applied to every tensor: ``state.map(lambda t: t[2:5])``."""
        return MemoryState(*(function(tensor) for tensor in self))

    def detach(self) -> MemoryState:
        """The same numbers, cut from the graph that computed them."""
        return self.map(Tensor.detach)


class Addressing(NamedTuple):
    """The distributions over the cells that one step went through on its way to the new state."""

    retention: Tensor
    """ψ_t [B N]: what the free gates leave of each cell."""
    allocation: Tensor
    """a_t [B N]: the free cells, the least used first."""
    write_content: Tensor
    """c_t^w [B N]: the cells that match the write key."""
    forwards: Tensor
    """f_t^i [B R N]: the cells written after the ones read before, sharpened with S."""
    backwards: Tensor
    """b_t^i [B R N]: the cells written before the ones read before, sharpened with S."""
    read_contents: Tensor
    """c_t^{r,i} [B R N]: the cells that match each read key."""


def state_shapes(config: MemoryConfig) -> dict[str, tuple[int, ...]]:
    """The shape of each part of a state, without the batch axis."""
    cells, word, heads = config.cells, config.word_size, config.read_heads
    return {
        "memory": (cells, word),
        "usage": (cells,),
        "links": (cells, cells),
        "precedence": (cells,),
        "write_weighting": (cells,),
        "read_weightings": (heads, cells),
        "reads": (heads, word),
    }
