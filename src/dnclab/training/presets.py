"""Runs by name: the paper's, and small ones that a laptop learns in minutes."""

from __future__ import annotations

from dnclab.training.config import CourseConfig, ModelConfig, OptimiserConfig, RunConfig, TaskConfig

DEMO = "repeat-copy-demo"
"""What `dnclab demo` trains."""

_FASTER = OptimiserConfig(learning_rate=1e-3)
_SHORT = CourseConfig(
    steps=3000,
    evaluate_every=100,
    checkpoint_every=100,
    evaluation_batches=4,
    stop_metric="eval/faulty",
    stop_at=0.0,
)

PRESETS = {
    "repeat-copy": RunConfig(
        task=TaskConfig(name="repeat-copy"),
        model=ModelConfig(hidden_size=32, cells=16, word_size=16),
    ),
    "associative-recall": RunConfig(
        task=TaskConfig(name="associative-recall"),
        model=ModelConfig(hidden_size=128, cells=64, word_size=32),
    ),
    "key-value": RunConfig(
        task=TaskConfig(name="key-value"),
        model=ModelConfig(hidden_size=32, cells=16, word_size=32),
    ),
    "babi": RunConfig(
        task=TaskConfig(name="babi"),
        model=ModelConfig(hidden_size=256, cells=256, word_size=64, read_heads=4),
        course=CourseConfig(steps=500_000, evaluate_every=5000, best_metric="eval/error"),
    ),
    "repeat-copy-demo": RunConfig(
        task=TaskConfig(name="repeat-copy"),
        model=ModelConfig(hidden_size=32, cells=16, word_size=16),
        course=CourseConfig(
            seed=1,
            evaluate_every=250,
            checkpoint_every=500,
            evaluation_batches=4,
            stop_metric="eval/faulty",
            stop_at=0.0,
        ),
    ),
    "repeat-copy-small": RunConfig(
        task=TaskConfig(
            name="repeat-copy",
            sizes={"min_length": 2, "max_length": 8, "min_repeats": 1, "max_repeats": 4},
        ),
        model=ModelConfig(hidden_size=32, cells=16, word_size=16),
        optimiser=_FASTER,
        course=_SHORT,
    ),
    "associative-recall-small": RunConfig(
        task=TaskConfig(
            name="associative-recall", sizes={"bits": 4, "block_length": 2, "max_blocks": 4}
        ),
        model=ModelConfig(hidden_size=32, cells=16, word_size=16),
        optimiser=_FASTER,
        course=_SHORT,
    ),
    "key-value-small": RunConfig(
        task=TaskConfig(name="key-value", sizes={"bits": 4, "max_pairs": 4}),
        model=ModelConfig(hidden_size=32, cells=16, word_size=16),
        optimiser=_FASTER,
        course=_SHORT,
    ),
    "babi-small": RunConfig(
        task=TaskConfig(name="babi", sizes={"generated": 1000, "tasks": 20, "batch_size": 16}),
        model=ModelConfig(hidden_size=64, cells=16, word_size=32, embedding_size=32),
        optimiser=_FASTER,
        course=CourseConfig(
            steps=2000,
            evaluate_every=200,
            checkpoint_every=200,
            best_metric="eval/error",
            stop_metric="eval/error",
            stop_at=0.03,
        ),
    ),
}
"""By name. The first four are the paper's, but for the number of steps where it is silent. The
demonstration is the first one until it is solved; the small ones are learnt in minutes."""
