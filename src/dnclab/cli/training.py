"""``dnclab train``, ``resume``, ``eval``, ``info``, ``presets`` and ``demo``."""

# ruff: noqa: T201  # a command prints

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

from dnclab import runs
from dnclab.cli.parsing import whole_number
from dnclab.training import session
from dnclab.training.config import RunConfig
from dnclab.training.loop import Outcome
from dnclab.training.presets import DEMO, PRESETS
from dnclab.training.settings import help_text, with_settings
from dnclab.training.workers import is_first

INTERRUPTED = 130

PICTURES = ("curve", "sequence", "addresses")
"""What may have been drawn of a run; a task with words has the curve alone."""


def add_train(parser: argparse.ArgumentParser) -> None:
    """The options of ``dnclab train``."""
    parser.set_defaults(run=run_train, command=parser.prog, refuse=parser.error)
    parser.add_argument("preset", metavar="PRESET", help="see dnclab presets")
    parser.add_argument("--variant", help="dnc, or any of m, d, s: mds")
    parser.add_argument("--seed", type=whole_number(0), help="of parameters and batches")
    parser.add_argument("--steps", type=whole_number(1), help="updates of the parameters")
    parser.add_argument(
        "--set",
        nargs="+",
        default=[],
        metavar="NAME=VALUE",
        help="as model.cells=32; see --settings",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="the run folder, a new one")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument("--settings", action="store_true", help="list all settings of the preset")


def run_train(chosen: argparse.Namespace) -> int:
    """Train a preset in a new folder."""
    if chosen.preset not in PRESETS:
        raise ValueError(f"PRESET: expected one of {', '.join(PRESETS)}; got {chosen.preset!r}")
    config = _configured(PRESETS[chosen.preset], chosen)
    if chosen.settings:
        print(help_text(config))
        return 0
    folder = chosen.out or Path("runs") / _run_name(chosen.preset, config)
    return _tell(folder, session.start(folder, config, quiet=chosen.quiet))


def _configured(config: RunConfig, chosen: argparse.Namespace) -> RunConfig:
    settings = list(chosen.set)
    if chosen.variant is not None:
        settings.append(f"model.variant={chosen.variant}")
    if chosen.seed is not None:
        settings.append(f"course.seed={chosen.seed}")
    if chosen.steps is not None:
        settings.append(f"course.steps={chosen.steps}")
    return with_settings(config, settings)


def _run_name(preset: str, config: RunConfig) -> str:
    variant = config.model.variant.lower().removeprefix("dnc-")
    return f"{preset}-{variant}-seed{config.course.seed}-{time.strftime('%Y%m%d-%H%M%S')}"


def _tell(folder: Path, outcome: Outcome) -> int:
    """Say what was reached and where to look; of several processes one speaks."""
    if not is_first():
        return INTERRUPTED if outcome.reason == "interrupted" else 0
    figures = "  ".join(f"{name} {value:.4g}" for name, value in outcome.evaluation.items())
    print(f"{outcome.reason} at step {outcome.step:,}: {figures or 'not evaluated yet'}")
    if outcome.reason == "interrupted":
        print(f"saved; go on with: dnclab resume {folder}")
        return INTERRUPTED
    drawn = [name for name in PICTURES if (folder / "pictures" / f"{name}.png").exists()]
    pictures = f"pictures/ ({', '.join(drawn)}), " if drawn else ""
    print(f"in {folder}: {pictures}metrics.jsonl, checkpoints/")
    print(f"next: dnclab info {folder}   dnclab eval {folder}   tensorboard --logdir {folder}")
    return 0


def add_resume(parser: argparse.ArgumentParser) -> None:
    """The options of ``dnclab resume``."""
    parser.set_defaults(run=run_resume, command=parser.prog, refuse=parser.error)
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run folder")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def run_resume(chosen: argparse.Namespace) -> int:
    """Go on with a run."""
    return _tell(chosen.folder, session.resume(chosen.folder, quiet=chosen.quiet))


def add_eval(parser: argparse.ArgumentParser) -> None:
    """The options of ``dnclab eval``."""
    parser.set_defaults(run=run_eval, command=parser.prog, refuse=parser.error)
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run folder")
    parser.add_argument("--batches", type=whole_number(1), help="held-out batches")
    parser.add_argument("--longer", type=_times, metavar="2x", help="up to so much longer ones")
    parser.add_argument("--repeats", type=_times, metavar="2x", help="up to so many more repeats")
    parser.add_argument("--cells", type=whole_number(1), help="memory cells of the model")


def run_eval(chosen: argparse.Namespace) -> int:
    """Print the figures of a run's best model as JSON."""
    figures = session.evaluate(
        chosen.folder,
        batches=chosen.batches,
        longer=chosen.longer,
        repeats=chosen.repeats,
        cells=chosen.cells,
    )
    print(json.dumps(figures, indent=2))
    return 0


def _times(text: str) -> float:
    try:
        return float(text.removesuffix("x"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a factor, as 2x, got {text!r}") from None


def add_info(parser: argparse.ArgumentParser) -> None:
    """The options of ``dnclab info``."""
    parser.set_defaults(run=run_info, command=parser.prog, refuse=parser.error)
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run folder")


def run_info(chosen: argparse.Namespace) -> int:
    """Print what a run is and how far it has come."""
    for line in session.describe(chosen.folder):
        print(line)
    return 0


def add_presets(parser: argparse.ArgumentParser) -> None:
    """``dnclab presets`` has no options."""
    parser.set_defaults(run=run_presets, command=parser.prog, refuse=parser.error)


def run_presets(chosen: argparse.Namespace) -> int:
    """Print a line for each preset."""
    del chosen
    width = max(map(len, PRESETS))
    for name, config in PRESETS.items():
        model = config.model
        print(
            f"{name:{width}}  {config.task.name}, {model.controller} {model.hidden_size}, "
            f"N{model.cells} W{model.word_size} R{model.read_heads}, {config.course.steps:,} steps"
        )
    return 0


def add_demo(parser: argparse.ArgumentParser) -> None:
    """The options of ``dnclab demo``."""
    parser.set_defaults(run=run_demo, command=parser.prog, refuse=parser.error)
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), metavar="DIR")
    parser.add_argument("--steps", type=whole_number(1), help="at most so many")


def run_demo(chosen: argparse.Namespace) -> int:
    """Train the demonstration until it is solved; an earlier one is gone on with or told again."""
    if (chosen.out / runs.CONFIG_NAME).exists():
        return _tell(chosen.out, session.resume(chosen.out))
    config = PRESETS[DEMO]
    if chosen.steps is not None:
        config = replace(config, course=replace(config.course, steps=chosen.steps))
    return _tell(chosen.out, session.start(chosen.out, config))
