"""Recordings of runs: what is written is what the model did; damaged files are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import tiny_config
from torch import nn

from dnclab.model import DNC
from dnclab.reports.recordings import (
    RECORDING_NAME,
    REQUIRED,
    encoded,
    load_recording,
    save_recording,
)
from dnclab.runs import RunError
from dnclab.training import measure, observe, record, session
from dnclab.training.config import RunConfig
from dnclab.training.tasks import Bitmaps, Trainable, WordModel, build_task


def parts(config: RunConfig) -> tuple[RunConfig, Trainable, nn.Module, int]:
    torch.manual_seed(3)
    task = build_task(config.task)
    return config, task, task.model(config.model), 7


@pytest.mark.parametrize("variant", ["dnc", "dnc-mds"])
def test_what_is_read_back_is_what_the_model_did(variant: str, tmp_path: Path) -> None:
    made = parts(tiny_config("key-value", variant))
    recording = record.make_recording(*made)
    save_recording(tmp_path / "recording.json", recording)
    loaded = load_recording(tmp_path / "recording.json")

    _, task, model, _ = made
    assert isinstance(task, Bitmaps)
    assert isinstance(model, DNC)
    batch = record._sequence(task)
    with torch.no_grad():
        trace = model.trace(batch.inputs)._asdict()
    assert loaded.steps == len(batch.inputs)
    assert loaded.arrays["memory"].shape == (loaded.steps, loaded.cells, loaded.word_size)
    assert (loaded.cells, loaded.word_size, loaded.read_heads) == (6, 5, 2)
    assert set(REQUIRED) < loaded.arrays.keys()
    assert ("read_masks" in loaded.arrays) == ("forward_sharpness" in loaded.arrays)
    assert ("read_masks" in loaded.arrays) == (variant == "dnc-mds")
    for name in set(record.RECORDED) & loaded.arrays.keys():
        expected = trace[name][:, 0].numpy().reshape(loaded.arrays[name].shape)
        # Half a step: a 255th of the range, a 127th for signed numbers.
        step = np.abs(expected).max() / 127 if name == "memory" else max(expected.max(), 1) / 255
        error = np.abs(loaded.arrays[name] - expected).max()
        assert error <= 0.501 * step, name
        assert (loaded.arrays[name][expected == 0] == 0).all(), name
    assert (loaded.arrays["input"] == (batch.inputs[:, 0].numpy() > 0)).all()
    assert (loaded.arrays["target"] == batch.targets[:, 0].numpy()).all()
    assert loaded.answers == tuple(batch.answers.tolist())
    assert (loaded.task, loaded.variant, loaded.seed, loaded.step) == ("key-value", variant, 0, 7)
    assert encoded(loaded) == encoded(load_recording(tmp_path / "recording.json"))


def test_a_long_sequence_of_large_memory_stays_small() -> None:
    """200 steps at N=64 in under 5 MB, base64 included."""
    config = tiny_config("associative-recall")
    sizes: dict[str, Any] = {"bits": 8, "block_length": 3, "min_blocks": 48, "max_blocks": 48}
    config = replace(
        config,
        task=replace(config.task, sizes=sizes),
        model=replace(config.model, cells=64, word_size=32),
    )
    recording = record.make_recording(*parts(config))
    assert recording.steps == 199
    assert recording.arrays["links"].shape == (199, 64, 64)
    assert len(encoded(recording)) < 3_000_000


def test_links_that_would_be_too_large_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "LINKS_BYTES", 10)
    recording = record.make_recording(*parts(tiny_config()))
    assert "links" not in recording.arrays
    assert set(REQUIRED) <= recording.arrays.keys()


def test_words_are_recorded_as_words() -> None:
    made = parts(tiny_config("babi"))
    recording = record.make_recording(*made)
    assert isinstance(made[2], WordModel)
    assert recording.words is not None
    texts = recording.words["input"]
    assert len(texts) == recording.steps
    assert "?" in texts
    asked = [text is not None for text in recording.words["target"]]
    assert tuple(asked) == recording.answers
    assert any(asked)
    assert "input" not in recording.arrays
    assert recording.phases == ()


def test_the_recording_of_a_run(tmp_path: Path) -> None:
    config = tiny_config()
    session.start(tmp_path / "run", config, quiet=True)
    measure.measure(tmp_path / "run")
    assert (
        load_recording(tmp_path / "run" / RECORDING_NAME).title
        == "key-value, DNC-MDS, seed 0, step 6"
    )


def test_variants_are_recorded_with_the_same_sequence() -> None:
    recordings = [
        record.make_recording(*parts(tiny_config("repeat-copy", variant)))
        for variant in ("dnc-d", "dnc-ds")
    ]
    assert (recordings[0].arrays["input"] == recordings[1].arrays["input"]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recording_version": 2}, "expected recording_version 1, got 2"),
        ({"steps": 3}, r"expected 3 steps, got \d+"),
        ({"arrays": {"memory": {"shape": [1], "scale": 1, "zero": 0, "bytes": "AAAA"}}},
         "memory: expected 1 bytes, got 3"),
        ({"answers": None}, "recording.json: "),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "recording.json"
    save_recording(path, record.make_recording(*parts(tiny_config())))
    values = json.loads(path.read_text())
    path.write_text(json.dumps(values | change))
    with pytest.raises(RunError, match=message):
        load_recording(path)
    del values["task"]
    path.write_text(json.dumps(values))
    with pytest.raises(RunError, match="it has no 'task'"):
        load_recording(path)
    path.write_text("{")
    with pytest.raises(RunError, match="not JSON"):
        load_recording(path)
    path.write_text("[]")
    with pytest.raises(RunError, match="expected a JSON object, got list"):
        load_recording(path)
    with pytest.raises(FileNotFoundError):
        load_recording(tmp_path / "absent.json")


def test_numbers_that_are_not_finite_are_refused() -> None:
    recording = record.make_recording(*parts(tiny_config()))
    broken = replace(recording, arrays={"usage": np.full((recording.steps, 1), np.nan)})
    with pytest.raises(RunError, match="usage: expected finite numbers"):
        encoded(broken)


def names(config: RunConfig, answers: str) -> list[tuple[str, int, int]]:
    given = np.array([letter == "^" for letter in answers])
    found = observe.phases(build_task(config.task), given)
    return [(phase.name, phase.start, phase.stop) for phase in found]


def test_phases_by_hand() -> None:
    copied = [("read 1", 0, 3), ("repeat 1", 3, 6), ("read 2", 6, 8), ("repeat 2", 8, 10)]
    assert names(tiny_config("repeat-copy"), "...^^^..^^") == copied
    asked = [("in", 0, 2), ("q1", 3, 5), ("q2", 6, 8)]
    assert names(tiny_config("key-value"), "...^^.^^.") == asked
    recalled = [("read", 0, 4), ("answer", 4, 6)]
    assert names(tiny_config("associative-recall"), "....^^") == recalled
    assert names(tiny_config("repeat-copy"), "....") == []
