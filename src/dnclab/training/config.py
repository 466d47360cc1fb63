"""What a run is: its task, model, optimiser and course. Written into the run, read back from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dnclab.checks import check_count, check_number, check_size

FLOAT32_MAX = 3.4e38
"""What parameters are computed in goes no further."""

MOST_THREADS = 1024
"""More than any machine has cores; where threads cannot be started, PyTorch ends the process."""

Size = int | float | bool | str | None


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """What is learnt."""

    name: str = "repeat-copy"
    """A task that has a name, or one of your own as module:object."""
    sizes: dict[str, Size] = field(default_factory=dict)
    """Its sizes, where they differ from the task's own."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The model that learns; what the task decides (input and output size) is left out."""

    variant: str = "dnc-mds"
    """dnc, or any of m, d, s behind it."""
    hidden_size: int = 32
    """Width of a layer of the controller."""
    cells: int = 16
    """Memory locations, N."""
    word_size: int = 16
    """Numbers in a cell, W."""
    read_heads: int = 1
    """Read heads, R."""
    controller: str = "lstm"
    """lstm, feedforward, or one of your own as module:object."""
    num_layers: int = 1
    """Layers of the controller."""
    mask_min: float = 0.1
    """The smallest value of a mask, delta."""
    interface_clip: float | None = 20.0
    """Interface vectors are clamped to plus and minus this."""
    usage_gradient: bool = False
    """Whether gradients flow from the usage into the previous write weighting."""
    embedding_size: int = 256
    """Numbers in the vector of a word; for tasks with words."""
    backend: str = "auto"
    """How a sequence is computed: reference, fused, or auto."""
    layout: str = "auto"
    """Of the fused kernels: lanes, rows, or auto."""
    rebuild_links: str = "auto"
    """How fused kernels get earlier links again: exact, inverse, or auto."""
    rebuild_memory: bool = False
    """Whether fused kernels in rows compute earlier memories again: slower, half the room."""


@dataclass(frozen=True, kw_only=True)
class OptimiserConfig:
    """How parameters follow their gradients; the defaults are the paper's."""

    name: Literal["rmsprop", "adam", "adamw", "sgd"] = "rmsprop"
    """The rule."""
    learning_rate: float = 1e-4
    """At the start, or after the warm-up."""
    momentum: float = 0.9
    """Of rmsprop and sgd."""
    alpha: float = 0.99
    """How slowly rmsprop's mean square forgets."""
    epsilon: float = 1e-10
    """Of rmsprop; adam and adamw keep PyTorch's own."""
    weight_decay: float = 1e-5
    """On all parameters but biases and embeddings."""
    clip_gradient: float | None = 10.0
    """The largest norm of the gradient of all parameters together."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the learning rate falls towards 0 at the last step."""
    warmup_steps: int = 0
    """Steps over which the learning rate rises from 0."""

    def __post_init__(self) -> None:
        for name in ("learning_rate", "momentum", "alpha", "epsilon", "weight_decay"):
            check_number(name, getattr(self, name))
            if abs(getattr(self, name)) > FLOAT32_MAX:
                raise ValueError(f"{name}: expected within float32, got {getattr(self, name)}")
        if self.weight_decay < 0:
            raise ValueError(f"weight_decay: expected at least 0, got {self.weight_decay}")
        if not 0 <= self.alpha < 1:
            raise ValueError(f"alpha: expected 0 <= alpha < 1, got {self.alpha}")
        if self.learning_rate <= 0:
            raise ValueError(f"learning_rate: expected above 0, got {self.learning_rate}")
        if self.clip_gradient is not None and not self.clip_gradient > 0:
            raise ValueError(f"clip_gradient: expected above 0 or null, got {self.clip_gradient}")
        if self.warmup_steps < 0:
            raise ValueError(f"warmup_steps: expected at least 0, got {self.warmup_steps}")


@dataclass(frozen=True, kw_only=True)
class CourseConfig:
    """How long, how often, and when to stop."""

    steps: int = 40_000
    """Updates of the parameters."""
    seed: int = 0
    """Of the parameters and of the batches."""
    accumulate: int = 1
    """Batches whose gradients are averaged for one update."""
    truncate: int | None = None
    """Time steps through which gradients flow; the state is carried on. null: all."""
    log_every: int = 1
    """Steps between two records of the loss."""
    evaluate_every: int = 1000
    """Steps between two evaluations."""
    evaluation_batches: int = 16
    """Held-out batches of an evaluation; bAbI takes all its test stories."""
    checkpoint_every: int = 1000
    """Steps between two checkpoints."""
    keep_checkpoints: int = 3
    """The last ones kept; the best one is kept beside them."""
    stop_metric: str | None = None
    """What ends the run early, as eval/bit_error."""
    stop_at: float = 0.0
    """At which value of it, or below."""
    best_metric: str = "eval/loss"
    """What decides which checkpoint is the best; lower is better."""
    non_finite: Literal["stop", "skip"] = "stop"
    """What a loss or gradient that is not finite does: end the run, or skip the update."""
    threads: int = 1
    """Of PyTorch. Small models are fastest on one."""

    def __post_init__(self) -> None:
        for name in (
            "steps", "accumulate", "log_every", "evaluate_every", "evaluation_batches",
            "checkpoint_every", "keep_checkpoints", "threads",
        ):  # fmt: skip
            check_size(name, getattr(self, name))
        if self.threads > MOST_THREADS:
            raise ValueError(f"threads: expected at most {MOST_THREADS}, got {self.threads}")
        check_count("seed", self.seed)
        if self.seed >= 2**64:
            raise ValueError(f"seed: expected 0 to 2^64 - 1, got {self.seed}")
        check_number("stop_at", self.stop_at)
        if self.truncate is not None:
            check_size("truncate", self.truncate)


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """A whole run."""

    task: TaskConfig = field(default_factory=TaskConfig)
    """What is learnt."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """What learns it."""
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    """By which rule."""
    course: CourseConfig = field(default_factory=CourseConfig)
    """For how long."""
