"""Figures of a run: its curves, what the model said, where it wrote and read. Needs matplotlib.

T steps, X numbers in an input row, Y in an output row, N cells, R read heads. Time runs from left
to right. Colours are those of Okabe and Ito, which any eye can tell apart; where a colour says
something, a shape or a label says it too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dnclab.tasks.pictures import ANSWER_COLOUR, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

BLUE = "#0072b2"
GREEN = "#009e73"
VERMILLION = "#d55e00"
MODES = {"backward": "#cc79a7", "content": "#f0e442", "forward": "#56b4e9"}
"""The read modes in the order of π [R 3], with their colours."""

ERRORS = ("eval/bit_error", "eval/error")
"""The first of these that a run has is its evaluation error."""

SMOOTH_POINTS = 400
"""The smoothed loss is computed at most at so many places: more cannot be seen."""

FEW_POINTS = 5000
"""Longer raw curves are pixels in an SVG too, which would otherwise weigh megabytes."""

Numbers = NDArray[Any]


def loss_curve(metrics: Sequence[Mapping[str, Any]], title: str) -> Figure:
    """The training loss over the steps, its running median, and below the evaluation error.

    `metrics` are the records of ``metrics.jsonl``. The median's window is a fiftieth of the run.
    """
    steps, losses = _column(metrics, "loss")
    error_name = next((name for name in ERRORS if any(name in record for record in metrics)), None)
    figure = new_figure(7.5, 5.2 if error_name else 3.8)
    ratios = [2, 1] if error_name else [1]
    panels = figure.subplots(len(ratios), 1, sharex=True, squeeze=False, height_ratios=ratios)[:, 0]

    upper: Axes = panels[0]
    upper.plot(
        steps,
        losses,
        color="0.7",
        linewidth=0.7,
        label="each record",
        rasterized=len(steps) > FEW_POINTS,
    )
    upper.plot(*_running_median(steps, losses), color=BLUE, linewidth=2, label="running median")
    if (losses > 0).any():
        upper.set_yscale("log")
    upper.set_ylabel("training loss")
    upper.legend(frameon=False)
    upper.set_title(title, loc="left")
    if error_name is not None:
        lower: Axes = panels[1]
        few = {"marker": "o", "markersize": 4} if len(metrics) < FEW_POINTS else {}
        lower.plot(*_column(metrics, error_name), color=VERMILLION, linewidth=1.5, **few)
        lower.set_ylim(bottom=0)
        lower.set_ylabel(error_name.replace("eval/", "evaluation\n").replace("_", " "))
    for axes in panels:
        axes.grid(color="0.92")
        axes.spines[["top", "right"]].set_visible(False)
    panels[-1].set_xlabel("step")
    return figure


def input_target_output(
    inputs: Numbers, targets: Numbers, outputs: Numbers, answers: Numbers, title: str
) -> Figure:
    """What a model read, what it should have said and what it said, wrong bits marked.

    `inputs` [T X] count as set above 0, `targets` [T Y] are 0 or 1, `outputs` [T Y] are
    probabilities, `answers` [T] tells the steps at which an answer was due.
    """
    due = answers.astype(bool)
    # A NaN says nothing, which is wrong whatever was asked.
    wrong = ((outputs > 0.5) != (targets > 0)) | np.isnan(outputs)
    steps, heights = len(inputs), [inputs.shape[1], targets.shape[1], outputs.shape[1]]
    width = _width(steps)
    cell = (width - 1) / steps
    figure = new_figure(width, max(sum(heights) * min(max(cell, 0.11), 0.2) + 1.6, 3.2))
    panels = figure.subplots(3, 1, sharex=True, height_ratios=heights)
    rows = {"input": inputs > 0, "target": targets > 0, "output": outputs}
    for axes, (name, values) in zip(panels, rows.items(), strict=True):
        _draw_rows(axes, values.astype(float), "Greys", most=1.25)
        axes.set_ylabel(name)
        _shade(axes, due, alpha=0.25)
    at, bits = wrong.nonzero()
    size = min(max(cell * 72 * 0.5, 2), 6)
    panels[2].scatter(
        at, bits, s=size**2, marker="x", color=VERMILLION, linewidths=max(size / 4, 0.8)
    )
    said = f"× wrong bit: {wrong[due].sum()} of {wrong[due].size} at the shaded steps, "
    said += f"where an answer is due; {wrong[~due].sum()} of {wrong[~due].size} at the others"
    panels[0].set_title(title, loc="left")
    panels[2].set_xlabel(f"step\n{said}")
    return figure


def address_weightings(
    write_weighting: Numbers,
    read_weightings: Numbers,
    read_modes: Numbers,
    answers: Numbers,
    title: str,
    allocation_gate: Numbers | None = None,
    usage: Numbers | None = None,
) -> Figure:
    """Where a model wrote and read, and by which of the read modes.

    `write_weighting` [T N], `read_weightings` [T R N], `read_modes` [T R 3] (backward, content,
    forward), `answers` [T], `allocation_gate` [T] or [T 1], `usage` [T N]: those of a trace,
    without its batch axis.
    """
    steps, heads, cells = read_weightings.shape
    due = answers.astype(bool)
    tall, low = min(max(cells * 0.09, 1.2), 2.6), 0.8
    heights = [tall]
    heights += [low] * (allocation_gate is not None) + [tall] * (usage is not None)
    heights += [tall, low] * heads
    figure = new_figure(_width(steps), sum(heights) + 0.2 * len(heights) + 1)
    panels: list[Axes] = list(
        figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    )
    for axes in panels:
        _mark_above(axes, due)
    panels[0].set_title(title, loc="left")
    panels[-1].set_xlabel("step (orange bar: an answer is due)")

    left = iter(panels)
    _draw_cells(next(left), write_weighting, BLUE, "written cells")
    if allocation_gate is not None:
        _draw_shares(next(left), allocation_gate.reshape(-1, 1), {"allocation gate": "0.6"})
    if usage is not None:
        _draw_cells(next(left), usage, "#000000", "usage of cells")
    for head in range(heads):
        of_head = f" (head {head + 1})" if heads > 1 else ""
        _draw_cells(next(left), read_weightings[:, head], GREEN, f"read cells{of_head}")
        _draw_shares(next(left), read_modes[:, head], MODES)
    return figure


def save_figure(figure: Figure, path_without_suffix: Path) -> tuple[Path, Path]:
    """Write a PNG and an SVG; the same figure gives the same bytes. Returns their paths."""
    from matplotlib import rc_context

    png, svg = (
        path_without_suffix.with_name(path_without_suffix.name + suffix)
        for suffix in (".png", ".svg")
    )
    figure.savefig(png, dpi=120, metadata={"Software": None})
    with rc_context({"svg.hashsalt": "dnclab"}):  # otherwise its identifiers are random
        figure.savefig(svg, metadata={"Date": None})
    return png, svg


# --- parts of figures ----------------------------------------------------------------------------


def _width(steps: int) -> float:
    """Inches: at least what a title needs, at most what a screen shows without shrinking text."""
    return min(max(0.2 * steps + 1.5, 6.5), 13)


def _draw_rows(
    axes: Axes, values: Numbers, colours: Any, most: float = 1, **scale: Any
) -> AxesImage:
    """Rows [T rows] as an image, time from left to right, the first row on top."""
    scale = scale or {"vmin": 0, "vmax": most}
    image = axes.imshow(values.T, cmap=colours, aspect="auto", interpolation="none", **scale)
    axes.yaxis.get_major_locator().set_params(integer=True, nbins=4)  # type: ignore[call-arg]
    return image


def _draw_cells(axes: Axes, values: Numbers, colour: str, name: str) -> None:
    """A number of 0 to 1 for each cell [T N], small ones made visible by a square-root scale."""
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    colours = LinearSegmentedColormap.from_list(name, ["white", colour])
    image = _draw_rows(axes, values, colours, norm=PowerNorm(0.5, vmin=0, vmax=1))
    axes.set_ylabel(name)
    axes.figure.colorbar(image, ax=axes, ticks=[0, 0.1, 0.5, 1], pad=0.01, fraction=0.02)


def _draw_shares(axes: Axes, shares: Numbers, colours: Mapping[str, str]) -> None:
    """Shares of 1 [T K], stacked."""
    tops = shares.cumsum(axis=1)
    bottoms = tops - shares
    edges = np.arange(len(shares) + 1) - 0.5
    for place, (name, colour) in enumerate(colours.items()):
        axes.stairs(
            tops[:, place], edges, baseline=bottoms[:, place], fill=True, color=colour, label=name
        )
    axes.set_ylim(0, 1)
    axes.set_yticks([0, 1])
    axes.set_ylabel("share")
    axes.legend(
        loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, reverse=True, handlelength=1
    )


def _spans(due: Numbers) -> list[tuple[float, float]]:
    """The stretches of steps at which an answer is due, from edge to edge."""
    changes = np.flatnonzero(np.diff(np.concatenate([[False], due, [False]]).astype(int)))
    return [(first - 0.5, last - 0.5) for first, last in changes.reshape(-1, 2).tolist()]


def _shade(axes: Axes, due: Numbers, alpha: float) -> None:
    for first, last in _spans(due):
        axes.axvspan(first, last, color=ANSWER_COLOUR, alpha=alpha, linewidth=0)


def _mark_above(axes: Axes, due: Numbers) -> None:
    for first, last in _spans(due):
        axes.axvspan(first, last, 1.0, 1.05, color=ANSWER_COLOUR, linewidth=0, clip_on=False)


def _column(metrics: Sequence[Mapping[str, Any]], name: str) -> tuple[Numbers, Numbers]:
    """Steps and values of the records that have a number of this name."""
    pairs = [(record["step"], record[name]) for record in metrics if name in record]
    steps, values = zip(*pairs, strict=True) if pairs else ((), ())
    return np.array(steps, dtype=int), np.array(values, dtype=float)


def _running_median(steps: Numbers, values: Numbers) -> tuple[Numbers, Numbers]:
    """The median of a window around each step, which is cut off at the ends of the run."""
    half = len(values) // 100
    places = np.unique(np.linspace(0, len(values) - 1, SMOOTH_POINTS).round().astype(int))
    windows = (values[max(place - half, 0) : place + half + 1] for place in places)
    finite = (window[np.isfinite(window)] for window in windows)
    medians = [np.median(window) if len(window) else np.nan for window in finite]
    return steps[places], np.array(medians)
