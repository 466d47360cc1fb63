"""How a model is described: its sizes, its variant, its options."""

from __future__ import annotations

from dataclasses import dataclass

from dnclab.checks import check_choice, check_flag, check_size
from dnclab.memory.types import MemoryConfig

VARIANTS = ("dnc", "dnc-d", "dnc-s", "dnc-m", "dnc-ds", "dnc-ms", "dnc-md", "dnc-mds")
"""The paper's names: M masks look-ups, D wipes freed cells, S sharpens what the links give."""

BACKENDS = ("auto", "reference", "fused")
"""The ways to compute a sequence: plain PyTorch, kernels for the CPU, or what fits."""

LAYOUTS = ("auto", "lanes", "rows")
"""What the kernels have in the lanes of the processor: samples, or the cells of one sample."""

REBUILDS = ("auto", "exact", "inverse")
"""How the kernels get the links of earlier steps again."""


@dataclass(frozen=True, kw_only=True)
class DNCConfig:
    """All that it takes to build a model again, but for its numbers."""

    input_size: int
    """Numbers in an input vector, X in the paper."""
    output_size: int
    """Numbers in an output vector, Y in the paper."""
    hidden_size: int = 128
    """Width of a layer of the controller, H."""
    cells: int = 64
    """Memory locations, N; no parameter depends on it."""
    word_size: int = 32
    """Numbers in a cell, W."""
    read_heads: int = 1
    """Read heads, R."""
    variant: str = "dnc-mds"
    """One of VARIANTS."""
    controller: str = "lstm"
    """A name from CONTROLLERS, or where a controller of the user's own comes from."""
    num_layers: int = 1
    """Layers of the controller."""
    mask_min: float = 0.1
    """δ, the smallest value of a mask."""
    interface_clip: float | None = 20.0
    """Interface vectors are clamped to ± this; None: not at all."""
    usage_gradient: bool = False
    """True: gradients also flow from the usage into the previous write weighting."""
    batch_first: bool = False
    """Whether sequences come as [batch, time, ...] instead of [time, batch, ...]."""
    backend: str = "auto"
    """One of BACKENDS."""
    layout: str = "auto"
    """One of LAYOUTS."""
    rebuild_links: str = "auto"
    """One of REBUILDS."""
    rebuild_memory: bool = False
    """Whether kernels in rows compute the memory of earlier steps again instead of keeping it."""

    def __post_init__(self) -> None:
        for name in ("input_size", "output_size", "hidden_size", "num_layers"):
            check_size(name, getattr(self, name))
        if not isinstance(self.controller, str):
            raise TypeError(f"controller: expected a str, got {self.controller!r}")
        check_flag("batch_first", self.batch_first)
        check_choice("variant", self.variant, VARIANTS)
        check_choice("backend", self.backend, BACKENDS)
        check_choice("layout", self.layout, LAYOUTS)
        check_choice("rebuild_links", self.rebuild_links, REBUILDS)
        check_flag("rebuild_memory", self.rebuild_memory)
        _ = self.memory  # refuses what a memory refuses

    @property
    def memory(self) -> MemoryConfig:
        """The memory's part."""
        letters = self.variant.removeprefix("dnc").removeprefix("-")
        return MemoryConfig(
            cells=self.cells,
            word_size=self.word_size,
            read_heads=self.read_heads,
            mask="m" in letters,
            dealloc="d" in letters,
            sharpen="s" in letters,
            mask_min=self.mask_min,
            interface_clip=self.interface_clip,
            usage_gradient=self.usage_gradient,
        )


def variant_name(
    variant: str, mask: bool | None = None, dealloc: bool | None = None, sharpen: bool | None = None
) -> str:
    """The full name of a variant: ``"md"``, ``"DNC-MD"`` and ``("dnc", mask=True, dealloc=True)``
    are all ``"dnc-md"``. A switch that is given overrides its letter.
    """
    if not isinstance(variant, str):
        raise TypeError(
            f"variant: expected a str, got {variant!r} of type {type(variant).__name__}"
        )
    name = variant.lower()
    name = name if name.startswith("dnc") else f"dnc-{name}"
    if name not in VARIANTS:
        raise ValueError(f"variant: expected one of {', '.join(VARIANTS)}; got {variant!r}")
    letters = ""
    for letter, switch_name, switch in (
        ("m", "mask", mask),
        ("d", "dealloc", dealloc),
        ("s", "sharpen", sharpen),
    ):
        if switch is not None:
            check_flag(switch_name, switch)
        if switch or (switch is None and letter in name.removeprefix("dnc")):
            letters += letter
    return f"dnc-{letters}" if letters else "dnc"
