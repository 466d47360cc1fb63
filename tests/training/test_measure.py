"""Measures of trained models against cases by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import tiny_config

from dnclab.reports.recordings import Phase
from dnclab.reports.results import read_measures
from dnclab.runs import RunError
from dnclab.training import measure, observe, session
from dnclab.training.observe import Observation
from dnclab.training.tasks import build_task

ADDRESSING = {"forward_entropy", "forward_peak", "link_reads", "freed_cells"}


def test_entropy_from_one_cell_to_all_alike() -> None:
    one, two, all_alike, none = (
        [1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25] * 4, [0.0] * 4,
    )  # fmt: skip
    shares = measure.entropy_share(np.array([one, two, all_alike, none]))
    assert shares == pytest.approx([0, 0.5, 1, 1], abs=1e-4)
    assert measure.entropy_share(np.array([[0.2, 0.2, 0, 0]])) == pytest.approx([0.5], abs=1e-4)


def test_a_cell_is_freed_when_its_usage_has_fallen_and_not_when_it_is_written() -> None:
    #                used        free    free, written   in use      never used
    usage = np.array([[0.9, 0.0], [0.05, 0.0], [0.05, 0.0], [1.0, 0.05], [0.0, 0.05]])
    writes = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    freed = measure.freed_cells(usage[:, None], writes[:, None])
    expected = [[False, False], [True, False], [False, False], [False, False], [True, False]]
    assert freed[:, 0].tolist() == expected


def observation(**trace: Any) -> Observation:
    """Three steps of one sample, one head, two cells; the last two are answers."""
    values = {
        "usage": np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]),
        "write_weighting": np.zeros((3, 2)),
        "read_contents": np.array([[[0.9, 0.1]], [[0.3, 0.7]], [[0.1, 0.9]]]),
        "read_modes": np.array([[[1.0, 0, 0]], [[0.1, 0.5, 0.4]], [[0.0, 0.9, 0.1]]]),
        "forwards": np.array([[[1.0, 0.0]], [[0.5, 0.5]], [[0.0, 0.8]]]),
    } | trace
    answers = np.array([[False], [True], [True]])
    return Observation(None, answers, {name: array[:, None] for name, array in values.items()})


def test_addressing_by_hand() -> None:
    found = measure.of_addressing(observation())
    assert found["forward_entropy"].ravel() == pytest.approx([1, 0], abs=1e-4)
    assert found["forward_peak"].ravel().tolist() == [0.5, 0.8]
    assert found["link_reads"].ravel() == pytest.approx([0.5, 0.1])
    assert found["freed_content"].ravel() == pytest.approx([0.3, 0.1])  # the first cell is freed
    assert found["freed_cells"].ravel().tolist() == [0.5, 0.5]
    never = measure.of_addressing(observation(usage=np.zeros((3, 2))))
    assert never["freed_content"].size == 0


def test_the_first_and_the_last_repeat_are_told_apart() -> None:
    forwards = np.array([[1.0, 0], [1, 0], [0.5, 0.5], [0.5, 0.5]])[:, None, None]
    seen = Observation(
        None,
        np.array([[True], [False], [False], [True]]),
        {
            "usage": np.zeros((4, 1, 2)),
            "write_weighting": np.zeros((4, 1, 2)),
            "read_contents": forwards,
            "read_modes": np.ones((4, 1, 1, 3)) / 3,
            "forwards": forwards,
        },
    )
    found = measure.of_addressing(seen)
    assert found["forward_entropy_first"].mean() == pytest.approx(0, abs=1e-4)
    assert found["forward_entropy_last"].mean() == pytest.approx(1, abs=1e-4)


def test_masks_by_hand() -> None:
    opened = np.zeros((6, 1, 1, 4))
    opened[1:3, 0, 0] = [1, 1, 0, 0]
    opened[4:6, 0, 0] = [0, 0, 1, 1]
    parts = measure.masks_of(opened, [Phase("q1", 1, 3), Phase("q2", 4, 6)])
    assert measure.of_masks(parts) == {
        "mask_overlap": 0.0, "mask_overlap_same": 1.0, "mask_correlation": pytest.approx(-1.0),
    }  # fmt: skip
    opened[4:6, 0, 0] = [1, 0.5, 0.5, 0]
    values = measure.of_masks(measure.masks_of(opened, [Phase("", 1, 3), Phase("", 4, 6)]))
    assert values["mask_overlap"] == pytest.approx(1.5 / 2.5)
    assert values["mask_correlation"] == pytest.approx(1 / np.sqrt(2))
    opened[4:6] = 0.7  # of no direction, so no correlation
    assert "mask_correlation" not in measure.of_masks(
        measure.masks_of(opened, [Phase("", 1, 3), Phase("", 4, 6)])
    )
    assert measure.of_masks({}) == {}


@pytest.mark.parametrize(
    ("task", "variant", "more"),
    [
        ("key-value", "dnc-m", {"mask_overlap", "mask_overlap_same", "mask_correlation"}),
        ("key-value", "dnc-s", set()),
        ("repeat-copy", "dnc-mds", set()),
        ("babi", "dnc-md", set()),
    ],
)
def test_every_task_and_variant_has_its_measures(task: str, variant: str, more: set[str]) -> None:
    config = tiny_config(task, variant)
    torch.manual_seed(1)
    made = build_task(config.task)
    model = made.model(config.model)
    values = measure.measures(config, made, model)
    optional = {"freed_content", "forward_entropy_first", "forward_entropy_last"}
    assert values.keys() - optional == ADDRESSING | more
    assert all(-1 <= value <= 1 for value in values.values())
    assert values == measure.measures(config, made, model)


def test_the_measures_of_a_run_are_written(tmp_path: Path) -> None:
    assert read_measures(tmp_path) == {}
    session.start(tmp_path / "run", tiny_config(), quiet=True)
    values = measure.measure(tmp_path / "run")
    assert read_measures(tmp_path / "run") == values
    assert values.keys() > ADDRESSING


def test_stories_are_taken_of_all_tasks_in_turn() -> None:
    config = tiny_config("babi")
    task = build_task(config.task)
    model = task.model(config.model)
    stories = [int(seen.batch.tasks[0]) for seen in observe.observations(task, model, 5)]
    assert stories[:3] == [1, 4, 19]
    with pytest.raises(RunError, match="only tasks on rows of bits and bAbI"):
        next(observe.observations(task, torch.nn.Linear(2, 2), 1))
