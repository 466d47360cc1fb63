"""The presets: the paper's numbers, and a configuration that text can change."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from dnclab.tasks import BITMAP_TASKS
from dnclab.tasks.associative_recall import AssociativeRecall
from dnclab.tasks.key_value import KeyValue
from dnclab.tasks.repeat_copy import RepeatCopy
from dnclab.training.config import OptimiserConfig, RunConfig
from dnclab.training.presets import DEMO, PRESETS
from dnclab.training.settings import from_dict, help_text, to_dict, with_settings
from dnclab.training.tasks import Bitmaps, build_task

# LSTM, N, W, R, batch: the paper's section 4 and appendix B.
PAPER = {
    "repeat-copy": (32, 16, 16, 1),
    "associative-recall": (128, 64, 32, 1),
    "key-value": (32, 16, 32, 1),
    "babi": (256, 256, 64, 4),
}


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_runs(name: str) -> None:
    config = PRESETS[name]
    model = config.model
    assert (model.hidden_size, model.cells, model.word_size, model.read_heads) == PAPER[name]
    assert (model.controller, model.num_layers, model.mask_min) == ("lstm", 1, 0.1)
    assert (model.variant, model.embedding_size) == ("dnc-mds", 256)
    assert config.optimiser == OptimiserConfig()  # whose numbers test_loop.py compares
    assert config.task.sizes == {}
    assert config.course.stop_metric is None
    if name == "babi":
        assert config.course.steps == 500_000


def test_the_papers_tasks() -> None:
    """What the presets get when they set no sizes."""
    assert BITMAP_TASKS["repeat-copy"] == RepeatCopy(
        bits=8, min_length=2, max_length=14, min_repeats=1, max_repeats=8, batch_size=16
    )
    assert BITMAP_TASKS["associative-recall"] == AssociativeRecall(
        bits=8, block_length=3, min_blocks=2, max_blocks=16, batch_size=16
    )
    assert BITMAP_TASKS["key-value"] == KeyValue(
        bits=8, min_pairs=2, max_pairs=16, two_way=True, batch_size=16
    )


def test_every_preset_can_be_built_and_has_a_small_one_beside_it() -> None:
    assert set(PRESETS) == set(PAPER) | {f"{name}-small" for name in PAPER} | {DEMO}
    for name, config in PRESETS.items():
        if not config.task.name.startswith("babi"):  # whose files the reader has or has not
            assert isinstance(build_task(config.task), Bitmaps), name


@pytest.mark.parametrize("name", PRESETS)
def test_a_configuration_comes_back_from_json(name: str) -> None:
    assert from_dict(to_dict(PRESETS[name])) == PRESETS[name]


def test_settings_change_what_they_name_and_nothing_else() -> None:
    before = PRESETS["key-value-small"]
    after = with_settings(
        before,
        ["model.cells=7", "task.sizes.bits=3", "optimiser.clip_gradient=null", "course.truncate=9"],
    )
    changed = {
        (group, name): value
        for group, values in asdict(after).items()
        for name, value in values.items()
        if value != asdict(before)[group][name]
    }
    assert changed == {
        ("model", "cells"): 7,
        ("task", "sizes"): {"bits": 3, "max_pairs": 4},
        ("optimiser", "clip_gradient"): None,
        ("course", "truncate"): 9,
    }


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("cells", "--set: expected NAME=VALUE, as model.cells=32, got 'cells'"),
        ("--model.cells=3", "--set: expected NAME=VALUE"),
        ("model.cell=3", "no such setting: model.cell=3"),  # not an abbreviation of model.cells
        ("course.step=3", "no such setting: course.step=3"),
        ("model.cells=three", '"model.cells": Expected a'),
        ("model.cells=3.5", '"model.cells": Expected a'),
        ("optimiser.name=lion", '"optimiser.name": Expected a'),
        ("optimiser.learning_rate=0", "learning_rate: expected above 0, got 0"),
        ("optimiser.clip_gradient=-1", "clip_gradient: expected above 0 or null, got -1"),
        ("course.seed=-1", "seed: expected at least 0, got -1"),
        ("course.seed=18446744073709551616", "seed: expected 0 to 2"),
        ("course.truncate=0", "truncate: expected at least 1, got 0"),
        ("course.steps=0", "steps: expected at least 1, got 0"),
    ],
)
def test_bad_settings_are_refused_by_name(setting: str, message: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011  # the message is compared below
        with_settings(PRESETS["key-value-small"], [setting])
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_unknown_names_in_a_file_are_refused() -> None:
    values = to_dict(RunConfig())
    values["model"]["colour"] = "red"
    with pytest.raises(ValueError, match="colour"):
        from_dict(values)


def test_help_lists_every_setting_with_its_value_and_meaning() -> None:
    config = PRESETS["associative-recall"]
    text = "".join(help_text(config).split())  # long lines are broken anywhere
    for group, values in asdict(config).items():
        for name, value in values.items():
            if not isinstance(value, dict):
                assert f"--{group}.{name}" in text
                assert f"default:{'null' if value is None else value}" in text
    assert "Memorylocations,N." in text
