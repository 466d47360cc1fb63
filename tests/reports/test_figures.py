"""Figures of a run: they show the values that were given, with names on everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.patches import StepPatch
from numpy.typing import NDArray

import dnclab
from dnclab.reports.figures import (
    address_weightings,
    input_target_output,
    loss_curve,
    save_figure,
)
from dnclab.tasks.bitmap import BitmapStream
from dnclab.tasks.pictures import ANSWER_COLOUR
from dnclab.tasks.repeat_copy import RepeatCopy

Numbers = NDArray[Any]


def line(axes: Axes, place: int) -> tuple[list[float], list[float]]:
    steps, values = axes.get_lines()[place].get_data()
    return np.asarray(steps).tolist(), np.asarray(values).tolist()


def image(axes: Axes, place: int = 0) -> Numbers:
    shown = axes.get_images()[place].get_array()
    assert shown is not None
    values: Numbers = np.ma.filled(shown.astype(float), np.nan).T
    return values


def answer_spans(axes: Axes) -> list[tuple[float, float]]:
    """Where the orange bars above a panel begin and end."""
    bars = [bar for bar in axes.get_lines() if bar.get_color() == ANSWER_COLOUR]
    return [tuple(np.asarray(bar.get_xdata()).tolist()) for bar in bars]


def shares(axes: Axes) -> dict[str, Numbers]:
    """The heights of stacked areas, by name."""
    patches = [patch for patch in axes.patches if isinstance(patch, StepPatch)]
    found = {}
    for patch in patches:
        top, edges, bottom = patch.get_data()
        assert edges.tolist() == (np.arange(len(top) + 1) - 0.5).tolist()
        found[str(patch.get_label())] = top - np.asarray(bottom)
    return found


# --- the loss ------------------------------------------------------------------------------------


def records(losses: list[float]) -> list[dict[str, Any]]:
    return [{"step": 10 * place, "loss": loss} for place, loss in enumerate(losses, start=1)]


def test_the_loss_is_drawn_with_its_median() -> None:
    losses = [8.0, 1.0, 4.0, 2.0, 100.0, 3.0, 5.0, 6.0]
    figure = loss_curve(records(losses), "a title")
    [axes] = figure.axes
    assert line(axes, 0) == (list(range(10, 90, 10)), losses)
    medians = [np.median(losses[max(place - 3, 0) : place + 4]) for place in range(8)]
    assert line(axes, 1) == (list(range(10, 90, 10)), medians)
    assert axes.get_yscale() == "log"
    assert axes.get_title(loc="left") == "a title"
    assert axes.get_xlabel() == "step"
    assert axes.get_ylabel() == "training loss"
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["each record", "running median"]


def test_a_long_run_is_smoothed_over_a_fiftieth_of_it() -> None:
    losses = np.random.default_rng(0).lognormal(size=10_000)
    figure = loss_curve(records(losses.tolist()), "long")
    steps, medians = line(figure.axes[0], 1)
    assert len(steps) == 400
    assert (steps[0], steps[-1]) == (10, 100_000)
    place = int(steps[200]) // 10 - 1
    assert medians[200] == np.median(losses[place - 100 : place + 101])
    assert len(line(figure.axes[0], 0)[0]) == 10_000


@pytest.mark.parametrize("name", ["eval/bit_error", "eval/error"])
def test_the_evaluation_stands_below(name: str) -> None:
    metrics = records([3.0, 2.0, 1.0])
    metrics += [{"step": 10, "eval/loss": 3.0, name: 0.5}, {"step": 30, name: 0.25}]
    upper, lower = loss_curve(metrics, "a title").axes
    assert line(upper, 0) == ([10, 20, 30], [3, 2, 1])
    assert line(lower, 0) == ([10, 30], [0.5, 0.25])
    assert lower.get_ylabel() == name.replace("eval/", "evaluation\n").replace("_", " ")
    assert lower.get_xlabel() == "step"
    assert lower.get_ylim()[0] == 0


@pytest.mark.parametrize("losses", [[np.nan] * 9, [0.0, 0.0], [2.0], [3.0] + [np.inf] * 9])
def test_strange_losses_can_be_drawn(losses: list[float], tmp_path: Path) -> None:
    save_figure(loss_curve(records(losses), "strange"), tmp_path / "loss")


def test_a_run_without_a_loss_is_refused() -> None:
    with pytest.raises(ValueError, match="metrics: expected at least one record with a loss"):
        loss_curve([{"step": 1, "eval/loss": 3.0}], "empty")


# --- input, target, output -----------------------------------------------------------------------


def test_wrong_bits_are_marked() -> None:
    inputs = np.array([[1, -1, -1], [-1, 1, -1], [-1, -1, -1], [-1, -1, -1]])
    targets = np.array([[0, 0], [0, 0], [1, 0], [0, 1]])
    outputs = np.array([[0.1, 0.6], [0.2, 0.0], [0.4, 0.3], [np.nan, 0.9]])
    answers = np.array([False, False, True, True])
    figure = input_target_output(inputs, targets, outputs, answers, "a title")
    upper, middle, lower = figure.axes
    assert np.array_equal(image(upper), inputs > 0)
    assert np.array_equal(image(middle), targets)
    assert np.array_equal(image(lower), outputs, equal_nan=True)

    wrong = [[0, 1], [2, 0], [3, 0]]  # step, bit
    [crosses] = [found for found in lower.collections if isinstance(found, PathCollection)]
    assert np.asarray(crosses.get_offsets()).tolist() == wrong
    assert np.argwhere(image(lower, 1) == 1).tolist() == wrong
    assert "× wrong: 2 of 4 bits of answers, 1 of 4 others" in lower.get_xlabel()

    assert [axes.get_ylabel() for axes in figure.axes] == ["input", "target", "output"]
    assert upper.get_title(loc="left") == "a title"
    assert lower.get_xlabel().startswith("step (orange bar: an answer is due)")
    assert all(answer_spans(axes) == [(1.5, 3.5)] for axes in figure.axes)


@pytest.mark.parametrize(
    "task", [RepeatCopy(max_length=3, max_repeats=2), RepeatCopy(min_repeats=8, min_length=9)]
)
def test_batches_can_be_drawn(task: RepeatCopy) -> None:
    batch = BitmapStream(task, seed=1).batch()
    targets = batch.targets[:, 0].numpy()
    outputs = np.random.default_rng(0).random(targets.shape)
    figure = input_target_output(
        batch.inputs[:, 0].numpy(), targets, outputs, batch.answers.numpy(), "repeat-copy"
    )
    lower = figure.axes[2]
    [crosses] = [found for found in lower.collections if isinstance(found, PathCollection)]
    assert np.array_equal(crosses.get_offsets(), np.argwhere((outputs > 0.5) != (targets > 0)))
    covered = np.zeros(len(targets), dtype=bool)
    for first, last in answer_spans(lower):
        covered[round(first + 0.5) : round(last + 0.5)] = True
    assert np.array_equal(covered, batch.answers.numpy())
    assert 6 <= figure.get_size_inches()[0] <= 12


# --- addresses -----------------------------------------------------------------------------------


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("everything", [False, True])
def test_addresses_of_a_trace(heads: int, everything: bool) -> None:
    model = dnclab.DNC(3, 2, hidden_size=8, cells=7, word_size=5, read_heads=heads)
    with torch.no_grad():
        trace = model.trace(torch.randn(11, 2, 3))
    answers = np.arange(11) % 4 == 3
    write, reads, modes, gate, usage = (
        part[:, 0].numpy()
        for part in (
            trace.write_weighting,
            trace.read_weightings,
            trace.read_modes,
            trace.allocation_gate,
            trace.usage,
        )
    )
    more = {"allocation_gate": gate, "usage": usage} if everything else {}
    figure = address_weightings(write, reads, modes, answers, "a title", **more)
    panels = {axes.get_ylabel(): axes for axes in figure.axes if axes.axison}

    assert np.array_equal(image(panels["cells written"]), write)
    if everything:
        assert np.array_equal(image(panels["cells in use"]), usage)
        assert np.array_equal(shares(panels["allocation\ngate"])["allocation gate"], gate[:, 0])
    for head in range(heads):
        of_head = f"\n(head {head + 1})" if heads > 1 else ""
        assert np.array_equal(image(panels[f"cells read{of_head}"]), reads[:, head])
        drawn = shares(panels[f"read mode{of_head}"])
        assert list(drawn) == ["backward", "content", "forward"]
        for place, share in enumerate(drawn.values()):
            np.testing.assert_allclose(share, modes[:, head, place], atol=1e-6)  # float32 sums

    assert len(panels) == (3 if everything else 1) + 2 * heads
    scales = [scale.get_ylabel() for axes in figure.axes for scale in axes.child_axes]
    assert scales == ["weight", *(["usage"] if everything else []), *(["weight"] * heads)]
    legends = [legend for axes in figure.axes if (legend := axes.get_legend()) is not None]
    assert len(legends) == heads
    assert [text.get_text() for text in legends[0].get_texts()] == list(drawn)[::-1]
    upper = panels["cells written"]
    assert upper.get_title(loc="left") == "a title"
    assert answer_spans(upper) == [(2.5, 3.5), (6.5, 7.5)]
    assert any("step (orange bar" in axes.get_xlabel() for axes in panels.values())


# --- files ---------------------------------------------------------------------------------------


def test_the_same_figure_gives_the_same_files(tmp_path: Path) -> None:
    written = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        png, svg = save_figure(loss_curve(records([3.0, 2.0, 1.0]), "a title"), folder / "v1.5")
        assert (png, svg) == (folder / "v1.5.png", folder / "v1.5.svg")
        written.append((png.read_bytes(), svg.read_bytes()))
    assert written[0] == written[1]
    assert written[0][0].startswith(b"\x89PNG\r\n\x1a\n")
    assert b"<svg" in written[0][1]
    assert b"dc:date" not in written[0][1]
