"""Each task is learnt, by the plain DNC and by DNC-MDS: a small size here, the presets if asked.

``pytest -m slow tests/training/test_learning.py`` trains the small presets, minutes each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dnclab import runs
from dnclab.tasks.babi import encoding
from dnclab.tasks.babi.stories import generate_stories
from dnclab.training.config import CourseConfig, ModelConfig, OptimiserConfig, RunConfig, TaskConfig
from dnclab.training.loop import train
from dnclab.training.presets import PRESETS
from dnclab.training.settings import to_dict, with_settings
from dnclab.training.tasks import Babi


class ShortStories(Babi):
    """bAbI's task 20, of each story the first lines: who is thirsty will go to the kitchen."""

    def __init__(self, **sizes: Any) -> None:
        super().__init__(generated=1, tasks=20, **sizes)
        options = encoding.EncodingOptions()
        splits = {
            split: {20: [story[:4] for story in generate_stories(20, count, 1, split)]}
            for split, count in (("train", 2000), ("test", 200))
        }
        stories = [story for split in splits.values() for story in split[20]]
        self.vocabulary = encoding.make_vocabulary(stories, options)
        self.train = encoding.encode_stories(splits["train"], self.vocabulary, options)
        self.test = encoding.encode_stories(splits["test"], self.vocabulary, options)


SMALL = {
    "repeat-copy": TaskConfig(
        name="repeat-copy", sizes={"bits": 3, "min_length": 1, "max_length": 2, "max_repeats": 2}
    ),
    "associative-recall": TaskConfig(
        name="associative-recall", sizes={"bits": 2, "block_length": 1, "max_blocks": 3}
    ),
    "key-value": TaskConfig(name="key-value", sizes={"bits": 2, "min_pairs": 1, "max_pairs": 2}),
    "babi": TaskConfig(name=f"{__name__}:ShortStories", sizes={"batch_size": 16}),
}

REACHED = {"repeat-copy": 0.05, "associative-recall": 0.1, "key-value": 0.1, "babi": 0.05}
"""The share of wrong bits, or of wrong answers, by which a task counts as learnt here."""


@pytest.mark.parametrize("variant", ["dnc", "dnc-mds"])
@pytest.mark.parametrize("task", SMALL)
def test_a_small_size_is_learnt_in_seconds(task: str, variant: str, tmp_path: Path) -> None:
    """Held-out batches, of which training cannot draw any."""
    name = "eval/error" if task == "babi" else "eval/bit_error"
    config = RunConfig(
        task=SMALL[task],
        model=ModelConfig(variant=variant, hidden_size=32, cells=8, word_size=8, embedding_size=16),
        optimiser=OptimiserConfig(learning_rate=3e-3),
        course=CourseConfig(
            steps=1500,
            evaluate_every=50,
            evaluation_batches=8,
            checkpoint_every=1500,
            stop_metric=name,
            stop_at=REACHED[task],
            best_metric=name,
        ),
    )
    runs.create(tmp_path / "run", to_dict(config))
    outcome = train(tmp_path / "run", config)
    assert outcome.reason == "target reached", outcome
    assert outcome.evaluation[name] <= REACHED[task]


PRESET_REACHES = {
    "repeat-copy-small": {"dnc": 0.0, "dnc-mds": 0.0},
    "associative-recall-small": {"dnc": 0.1, "dnc-mds": 0.02},
    "key-value-small": {"dnc": 0.0, "dnc-mds": 0.0},
    "babi-small": {"dnc": 0.05, "dnc-mds": 0.03},
}
"""The share of wrong bits, or of wrong answers, by which a preset counts as learnt."""


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["dnc", "dnc-mds"])
@pytest.mark.parametrize("preset", PRESET_REACHES)
def test_a_preset_is_learnt_in_minutes(preset: str, variant: str, tmp_path: Path) -> None:
    target = PRESET_REACHES[preset][variant]
    name = "eval/error" if preset.startswith("babi") else "eval/bit_error"
    settings = [f"model.variant={variant}", "course.seed=1", f"course.stop_at={target}",
                f"course.stop_metric={name}"]  # fmt: skip
    config = with_settings(PRESETS[preset], settings)
    runs.create(tmp_path / "run", to_dict(config))
    outcome = train(tmp_path / "run", config)
    assert outcome.reason == "target reached", outcome
