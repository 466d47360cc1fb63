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
    from matplotlib.ticker import Locator

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

SIDE = 1.3
"""Inches to the right of a panel for its scale or legend."""

Numbers = NDArray[Any]


def loss_curve(metrics: Sequence[Mapping[str, Any]], title: str) -> Figure:
    """The training loss over the steps, its running median, and below the evaluation error.

    `metrics` are the records of ``metrics.jsonl``. The median is that of a fiftieth of the run.
    """
    steps, losses = _column(metrics, "loss")
    if not len(losses):
        raise ValueError("metrics: expected at least one record with a loss, got none")
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
        steps, errors = _column(metrics, error_name)
        marker = "o" if len(steps) <= 100 else ""
        lower.plot(steps, errors, color=VERMILLION, linewidth=1.5, marker=marker, markersize=4)
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
    width = figure_width(steps)
    cell = (width - 0.7) / steps
    figure = new_figure(width, max(sum(heights) * min(max(cell, 0.12), 0.2) + 1.8, 3.4))
    panels = figure.subplots(3, 1, sharex=True, height_ratios=heights)
    rows = {"input": inputs > 0, "target": targets > 0, "output": outputs}
    for axes, (name, values) in zip(panels, rows.items(), strict=True):
        draw_rows(axes, values.astype(float), "Greys", vmin=0, vmax=1.25)
        axes.set_ylabel(name)
        mark_above(axes, due)
    _mark_cells(panels[2], wrong, size=min(max(cell * 72 * 0.6, 2), 6))
    panels[0].set_title(title, loc="left", pad=12)
    panels[2].set_xlabel(
        "step (orange bar: an answer is due)\n"
        f"× wrong: {wrong[due].sum()} of {wrong[due].size} bits of answers, "
        f"{wrong[~due].sum()} of {wrong[~due].size} others"
    )
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
    tall, low = min(max(cells * 0.09, 1.2), 1.9), 0.7
    heights = [tall]
    heights += [low] * (allocation_gate is not None) + [tall] * (usage is not None)
    heights += [tall, low] * heads
    width = figure_width(steps) + SIDE
    figure = new_figure(width, sum(heights) + 0.25 * len(heights) + 0.8)
    grid = figure.subplots(
        len(heights),
        2,
        sharex="col",
        squeeze=False,
        height_ratios=heights,
        width_ratios=[width - SIDE, SIDE],
    )
    for axes, side in grid:
        mark_above(axes, due)
        side.set_axis_off()
    grid[0, 0].set_title(title, loc="left", pad=12)
    grid[-1, 0].set_xlabel("step (orange bar: an answer is due)")

    panels = iter(grid)
    draw_cells(next(panels), write_weighting, BLUE, "cells written", "weight")
    if allocation_gate is not None:
        axes, _ = next(panels)
        draw_shares(axes, allocation_gate.reshape(-1, 1), {"allocation gate": "0.6"})
        axes.set_ylabel("allocation\ngate")
    if usage is not None:
        draw_cells(next(panels), usage, "#000000", "cells in use", "usage", exponent=1)
    for head in range(heads):
        of_head = f"\n(head {head + 1})" if heads > 1 else ""
        draw_cells(next(panels), read_weightings[:, head], GREEN, f"cells read{of_head}", "weight")
        axes, side = next(panels)
        draw_shares(axes, read_modes[:, head], MODES)
        axes.set_ylabel(f"read mode{of_head}")
        handles, names = axes.get_legend_handles_labels()
        side.legend(handles, names, loc="center left", frameon=False, reverse=True, handlelength=1)
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


def figure_width(steps: int) -> float:
    """Inches: at least what a title needs, at most what a screen shows without shrinking text."""
    return min(max(0.2 * steps + 0.7, 6), 12)


def draw_rows(axes: Axes, values: Numbers, colours: Any, **scale: Any) -> AxesImage:
    """Rows [T rows] as an image, time from left to right, the first row on top."""
    image = axes.imshow(values.T, cmap=colours, aspect="auto", interpolation="none", **scale)
    for axis, most in ((axes.xaxis, 10), (axes.yaxis, 4)):
        axis.set_major_locator(_whole_numbers(most))
    return image


def draw_cells(
    panel: Sequence[Axes],
    values: Numbers,
    colour: str,
    name: str,
    measure: str,
    exponent: float = 0.5,
) -> None:
    """A number of 0 to 1 for each cell [T N], the scale beside it.

    The exponent makes small numbers visible: attention spread over 64 cells is 0.016 for each.
    """
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    axes, side = panel
    colours = LinearSegmentedColormap.from_list(name, ["white", colour])
    image = draw_rows(axes, values, colours, norm=PowerNorm(exponent, vmin=0, vmax=1))
    axes.set_ylabel(name)
    place = side.inset_axes((0.02, 0.05, 0.1, 0.9))
    ticks = [0, 0.1, 0.5, 1] if exponent < 1 else [0, 0.5, 1]
    bar = axes.figure.colorbar(image, cax=place, ticks=ticks, format="%g")
    bar.set_label(measure)


def draw_shares(axes: Axes, shares: Numbers, colours: Mapping[str, str]) -> None:
    """Shares of 1 [T K], stacked."""
    tops = shares.cumsum(axis=1)
    edges = np.arange(len(shares) + 1) - 0.5
    for place, (name, colour) in enumerate(colours.items()):
        top, bottom = tops[:, place], tops[:, place] - shares[:, place]
        axes.stairs(top, edges, baseline=bottom, fill=True, color=colour, label=name)
    axes.set_ylim(0, 1)
    axes.set_yticks([0, 1])


def _whole_numbers(most: int) -> Locator:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(most, integer=True)


def _spans(due: Numbers) -> list[tuple[float, float]]:
    """The stretches of steps at which an answer is due, from edge to edge."""
    changes = np.flatnonzero(np.diff(np.concatenate([[False], due, [False]]).astype(int)))
    return [(first - 0.5, last - 0.5) for first, last in changes.reshape(-1, 2).tolist()]


def mark_above(axes: Axes, due: Numbers) -> None:
    """An orange bar above the panel at the steps at which an answer is due."""
    from matplotlib.transforms import ScaledTranslation

    lift = ScaledTranslation(0, 4 / 72, axes.figure.dpi_scale_trans)
    for span in _spans(due):
        axes.plot(
            span,
            (1, 1),
            transform=axes.get_xaxis_transform() + lift,
            color=ANSWER_COLOUR,
            linewidth=5,
            solid_capstyle="butt",
            clip_on=False,
            scalex=False,
            scaley=False,
        )


def _mark_cells(axes: Axes, marked: Numbers, size: float) -> None:
    """A tint and a cross, `size` points wide, over some cells [T Y] of an image."""
    from matplotlib.colors import ListedColormap

    tint = np.ma.masked_array(np.ones(marked.shape), ~marked)
    draw_rows(axes, tint, ListedColormap([VERMILLION]), alpha=0.65)
    steps, bits = marked.nonzero()
    axes.scatter(steps, bits, s=size**2, marker="x", color="black", linewidths=max(size / 5, 0.7))


def _column(metrics: Sequence[Mapping[str, Any]], name: str) -> tuple[Numbers, Numbers]:
    """Steps and values of the records that have a number of this name."""
    records = [record for record in metrics if name in record]
    return (
        np.array([record["step"] for record in records], dtype=int),
        np.array([record[name] for record in records], dtype=float),
    )


def _running_median(steps: Numbers, values: Numbers) -> tuple[Numbers, Numbers]:
    """The median of a window around each step, which is cut off at the ends of the run."""
    half = max(len(values) // 100, 3)
    places = np.unique(np.linspace(0, len(values) - 1, SMOOTH_POINTS).round().astype(int))
    windows = (values[max(place - half, 0) : place + half + 1] for place in places)
    finite = (window[np.isfinite(window)] for window in windows)
    medians = [np.median(window) if len(window) else np.nan for window in finite]
    return steps[places], np.array(medians)
