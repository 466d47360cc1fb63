"""Pictures of samples: what they show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dnclab.tasks import BITMAP_TASKS
from dnclab.tasks.bitmap import BitmapStream
from dnclab.tasks.pictures import draw_sample, save_sample


@pytest.mark.parametrize("name", BITMAP_TASKS)
def test_a_picture_shows_the_bits(name: str) -> None:
    batch = BitmapStream(BITMAP_TASKS[name], seed=1).batch()
    figure = draw_sample(batch, "a title", sample=2)
    upper, lower = figure.axes
    for axes, label, bits in ((upper, "input", batch.inputs), (lower, "target", batch.targets)):
        [image] = axes.get_images()
        shown = image.get_array()
        assert shown is not None
        assert np.array_equal(shown, (bits[:, 2] > 0).T.numpy())
        assert axes.get_ylabel() == label
        assert len(axes.patches) == batch.answers.sum()
    assert upper.get_title(loc="left") == "a title"
    assert "step" in lower.get_xlabel()


def test_a_png_is_written(tmp_path: Path) -> None:
    path = tmp_path / "sample.png"
    save_sample(path, BitmapStream(BITMAP_TASKS["key-value"]).batch(), "key-value")
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
