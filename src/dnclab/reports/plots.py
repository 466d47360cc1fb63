"""Figures of many runs and of recordings. Needs matplotlib.

T steps of a sequence, R read heads, N cells, W word size. A label has the same colour and the same
line everywhere: colours are those of Okabe and Ito, lines tell apart what colours do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dnclab.reports import figures
from dnclab.reports.figures import MODES, SIDE
from dnclab.reports.recordings import Phase, Recording
from dnclab.reports.results import RunResult
from dnclab.tasks.pictures import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "DNC": "#000000",
    "DNC-D": "#56b4e9",
    "DNC-S": "#999999",
    "DNC-M": "#e69f00",
    "DNC-DS": "#0072b2",
    "DNC-MS": "#cc79a7",
    "DNC-MD": "#d55e00",
    "DNC-MDS": "#009e73",
}
"""By variant."""

MASK_COLOURS = "cividis"
"""From dark blue to yellow, the same to every eye."""

SIGMAS = 2
"""Standard deviations to each side of a mean that a band covers."""

Numbers = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Band:
    """A curve of several runs: their mean and how far they spread."""

    steps: Numbers
    mean: Numbers
    deviation: Numbers
    """The standard deviation over runs, 0 for one run."""
    runs: int


def loss_band(runs: Sequence[RunResult]) -> Band:
    """The training loss."""
    return _band([(run.curve_steps, run.curve) for run in runs])


def evaluation_band(runs: Sequence[RunResult], name: str) -> Band:
    """A figure of the evaluations."""
    return _band(
        [
            (run.evaluations["step"], run.evaluations[name])
            for run in runs
            if name in run.evaluations
        ]
    )


def _band(curves: Sequence[tuple[Sequence[Any], Sequence[Any]]]) -> Band:
    """Mean and spread at the steps that all the curves have."""
    by_step = [
        {step: value for step, value in zip(*curve, strict=True) if value is not None}
        for curve in curves
    ]
    shared = sorted(set.intersection(*(set(own) for own in by_step))) if by_step else []
    values = np.array([[own[step] for step in shared] for own in by_step], dtype=float)
    several = len(curves) > 1 and len(shared) > 0
    return Band(
        steps=np.array(shared, dtype=int),
        mean=values.mean(0) if shared else np.zeros(0),
        deviation=values.std(0, ddof=1) if several else np.zeros(len(shared)),
        runs=len(curves),
    )


def bands(curves: Mapping[str, Band], title: str, measure: str) -> Figure:
    """Means with bands of ±2σ over the steps of training, by label."""
    figure = new_figure(7.5, 4.6)
    axes: Axes = figure.subplots()
    for label, band in curves.items():
        colour, line = style(label)
        axes.fill_between(
            band.steps,
            np.maximum(band.mean - SIGMAS * band.deviation, 0),
            band.mean + SIGMAS * band.deviation,
            color=colour,
            alpha=0.15,
            linewidth=0,
        )
        seeds = f"{band.runs} seed{'s' if band.runs > 1 else ''}"
        axes.plot(
            band.steps,
            band.mean,
            color=colour,
            linestyle=line,
            linewidth=1.8,
            marker="o" if len(band.steps) == 1 else "",
            label=f"{label} ({seeds})",
        )
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.set_xlabel("iteration")
    axes.set_ylabel(f"{measure}, mean ± {SIGMAS}σ")
    axes.set_title(title, loc="left")
    axes.grid(color="0.92")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return figure


def style(label: str) -> tuple[str, str]:
    """Colour and line of a label: dashed with S, dotted with another δ."""
    variant, _, rest = label.partition(",")
    letters = variant.removeprefix("DNC")
    return COLOURS[variant], ":" if rest else "--" if "S" in letters else "-"


def read_masks(recording: Recording) -> Figure:
    """The read masks over time, a panel for each head, the phases of the sequence marked."""
    masks = recording.arrays["read_masks"]
    heads = masks.shape[1]
    width = figures.figure_width(recording.steps)
    figure = new_figure(width, 2.8 * heads + 1)
    panels = figure.subplots(heads, 1, sharex=True, squeeze=False)[:, 0]
    for head, axes in enumerate(panels):
        image = figures.draw_rows(axes, masks[:, head], MASK_COLOURS, vmin=0, vmax=1)
        axes.set_ylabel("place in the word" + (f"\n(head {head + 1})" if heads > 1 else ""))
        mark_phases(axes, recording.phases)
        figure.colorbar(image, ax=axes, label="read mask")
    panels[0].set_title(recording.title, loc="left", pad=22)
    panels[-1].set_xlabel("step")
    return figure


def mark_phases(axes: Axes, phases: Sequence[Phase]) -> None:
    """Lines where a phase begins and ends, its name above."""
    for phase in phases:
        for edge in (phase.start, phase.stop):
            axes.axvline(edge - 0.5, color="white", linewidth=1.5)
        axes.annotate(
            phase.name,
            ((phase.start + phase.stop - 1) / 2, 1),
            xycoords=axes.get_xaxis_transform(),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            annotation_clip=False,
        )


def forward_links(recordings: Sequence[Recording]) -> Figure:
    """Side by side: the forward distributions of the first head, and its read modes."""
    steps = max(recording.steps for recording in recordings)
    width = min(figures.figure_width(steps), 7) * len(recordings)
    figure = new_figure(width + SIDE, 4.6)
    grid = figure.subplots(
        2,
        len(recordings) + 1,
        squeeze=False,
        height_ratios=[2, 1],
        width_ratios=[width / len(recordings)] * len(recordings) + [SIDE],
    )
    for column, recording in zip(grid.T, recordings, strict=False):
        upper, lower = column
        due = np.array(recording.answers)
        forwards, modes = (recording.arrays[name][:, 0] for name in ("forwards", "read_modes"))
        figures.draw_cells((upper, grid[0, -1]), forwards, figures.BLUE, "cells", "forward weight")
        figures.draw_shares(lower, modes, MODES)
        lower.sharex(upper)
        lower.set_ylabel("read mode")
        lower.set_xlabel("step (orange bar: an answer is due)")
        for axes in column:
            figures.mark_above(axes, due)
        upper.set_title(recording.title, loc="left", pad=12, fontsize="medium")
    for axes in grid[:, -1]:
        axes.set_axis_off()
    handles, names = grid[1, 0].get_legend_handles_labels()
    grid[1, -1].legend(handles, names, loc="center left", frameon=False, reverse=True)
    return figure


def sequence(recording: Recording) -> Figure:
    """Input, target and output of a recording."""
    arrays = recording.arrays
    return figures.input_target_output(
        arrays["input"],
        arrays["target"],
        arrays["output"],
        np.array(recording.answers),
        recording.title,
    )
