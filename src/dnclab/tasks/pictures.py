"""Samples of the tasks on rows of bits as pictures. Needs matplotlib: ``dnclab[figures]``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dnclab.tasks.bitmap import BitmapBatch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ANSWER_COLOUR = "#e69f00"
"""Orange of the Okabe-Ito palette, told from the grey of the bits by any eye."""


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, inches wide and high; it belongs to no window and to no global state."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'drawing needs matplotlib: pip install "dnclab[figures]"'
        ) from error

    return Figure(figsize=(width, height), layout="constrained")


def draw_sample(batch: BitmapBatch, title: str, sample: int = 0) -> Figure:
    """Input above target, time from left to right, the steps that want an answer underlaid."""
    inputs, targets = batch.inputs[:, sample].numpy(), batch.targets[:, sample].numpy()
    steps, rows = len(inputs), inputs.shape[1] + targets.shape[1]
    width = min(max(0.16 * steps + 1.2, 5), 18)
    cell = (width - 1.2) / steps
    figure = new_figure(width, max(rows * min(cell, 0.16) + 1.5, 2.4))
    upper, lower = figure.subplots(
        2, 1, sharex=True, height_ratios=[inputs.shape[1], targets.shape[1]]
    )
    for axes, name, bits in ((upper, "input", inputs > 0), (lower, "target", targets > 0)):
        axes.imshow(bits.T, cmap="Greys", vmin=0, vmax=1.25, aspect="auto", interpolation="none")
        axes.set_ylabel(name)
        axes.set_yticks(range(0, bits.shape[1], 2))
        for step in batch.answers.nonzero().flatten().tolist():
            axes.axvspan(step - 0.5, step + 0.5, color=ANSWER_COLOUR, alpha=0.25, linewidth=0)
    upper.set_title(title, loc="left")
    lower.set_xlabel("step (shaded: an answer is due)")
    return figure


def save_sample(path: Path, batch: BitmapBatch, title: str) -> None:
    """Draw the first sample of a batch into a PNG file."""
    draw_sample(batch, title).savefig(path, format="png", dpi=120)
