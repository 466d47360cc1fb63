"""Figures of many runs: they show the numbers that were given, with names on everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from made_up import recording, run_result
from matplotlib.axes import Axes
from matplotlib.collections import FillBetweenPolyCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dnclab.config import VARIANTS
from dnclab.reports import plots
from dnclab.reports.plots import bands, evaluation_band, forward_links, loss_band, read_masks

Numbers = NDArray[Any]


def test_a_band_by_hand() -> None:
    runs = [run_result(curve=(4.0, 2.0)), run_result(seed=1, curve=(2.0, 2.0))]
    band = loss_band(runs)
    assert band.steps.tolist() == [500, 1000]
    assert band.mean.tolist() == [3, 2]
    assert band.deviation.tolist() == [pytest.approx(np.sqrt(2)), 0]  # of a sample, not of all
    assert band.runs == 2
    alone = loss_band(runs[:1])
    assert alone.deviation.tolist() == [0, 0]


def test_a_band_covers_the_steps_that_all_runs_have() -> None:
    runs = [run_result(curve=(4.0, None, 1.0, 1.0)), run_result(seed=1, curve=(2.0, 2.0, 3.0))]
    longer = loss_band([runs[0], run_result(seed=2, curve=(1.0, 1.0, 1.0, 1.0))])
    assert longer.steps.tolist() == [250, 750, 1000]
    evaluated = evaluation_band([run_result(errors=(0.5, None)), run_result(seed=1)], "bit_error")
    assert (evaluated.steps.tolist(), evaluated.mean.tolist()) == ([500], [0.5])
    nothing = evaluation_band([], "bit_error")
    assert (len(nothing.steps), nothing.runs) == (0, 0)


def test_means_and_bands_are_drawn() -> None:
    runs = [run_result(curve=(4.0, 2.0)), run_result(seed=1, curve=(2.0, 2.0))]
    figure = bands({"DNC": loss_band(runs), "DNC-S": loss_band(runs[:1])}, "a title", "loss")
    [axes] = figure.axes
    lines = [line for line in axes.get_lines() if line.get_label() in ("DNC (2 seeds)",)]
    assert np.asarray(lines[0].get_ydata()).tolist() == [3, 2]
    assert np.asarray(lines[0].get_xdata()).tolist() == [500, 1000]
    filled = [own for own in axes.collections if isinstance(own, FillBetweenPolyCollection)]
    heights = np.asarray(filled[0].get_paths()[0].vertices)[:, 1]
    assert heights.max() == pytest.approx(3 + 2 * np.sqrt(2))
    assert heights.min() == pytest.approx(3 - 2 * np.sqrt(2))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("iteration", "loss, mean ± 2σ")
    assert axes.get_title(loc="left") == "a title"
    legend = axes.get_legend()
    assert legend is not None
    assert [own.get_text() for own in legend.get_texts()] == ["DNC (2 seeds)", "DNC-S (1 seed)"]


def test_every_variant_has_a_line_of_its_own() -> None:
    styles = {plots.style(variant.upper()) for variant in VARIANTS}
    assert len(styles) == len({colour for colour, _ in styles}) == 8
    assert plots.style("DNC-MD, δ=0") == (plots.COLOURS["DNC-MD"], ":")
    assert plots.style("DNC-MDS")[1] == "--"


def image(axes: Axes) -> Numbers:
    shown = axes.get_images()[0].get_array()
    assert shown is not None
    values: Numbers = np.ma.filled(shown.astype(float), np.nan).T
    return values


def texts(figure: Figure) -> list[str]:
    return [own.get_text() for axes in figure.axes for own in axes.texts]


def test_masks_are_drawn_with_their_phases() -> None:
    own = recording("key-value", "dnc-m")
    figure = read_masks(own)
    masks = own.arrays["read_masks"]
    assert np.allclose(image(figure.axes[0]), masks[:, 0])
    assert np.allclose(image(figure.axes[1]), masks[:, 1])
    assert texts(figure) == ["in", "q1", "q2"] * 2
    edges = [float(np.asarray(line.get_xdata())[0]) for line in figure.axes[0].get_lines()]
    assert edges == [-0.5, 2.5, 3.5, 4.5, 5.5, 6.5]
    assert figure.axes[1].get_xlabel() == "step"


def test_forward_links_stand_side_by_side_above_their_modes() -> None:
    pair = [recording(variant="dnc-d"), recording(variant="dnc-ds")]
    figure = forward_links(pair)
    for place, own in enumerate(pair):
        upper = figure.axes[place]
        assert np.allclose(image(upper), own.arrays["forwards"][:, 0])
        assert upper.get_title(loc="left") == own.title
    lower = figure.axes[3]
    legend = figure.axes[5].get_legend()
    assert legend is not None
    assert {own.get_text() for own in legend.get_texts()} == {"backward", "content", "forward"}
    assert lower.get_ylabel() == "read mode"


def test_a_sequence_is_drawn_from_its_recording() -> None:
    own = recording()
    figure = plots.sequence(own)
    assert [axes.get_ylabel() for axes in figure.axes] == ["input", "target", "output"]
    assert figure.axes[0].get_title(loc="left") == "repeat-copy, DNC, seed 0, step 7"
    assert np.allclose(image(figure.axes[2]), own.arrays["output"])
