"""The plan of a sweep: which runs, as plain data in a file; how far each has come.

The folder of a sweep::

    plan.json      the runs: their names and whole configurations, in the order in which they start
    NAME/          the run folder of each
    logs/NAME.log  what its process had to say
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dnclab import runs
from dnclab.config import VARIANTS, variant_name
from dnclab.reports.results import MEASURES_NAME, PLAN_NAME
from dnclab.runs import RunError
from dnclab.training.presets import PRESETS
from dnclab.training.settings import to_dict, with_settings

PLAN_VERSION = 1

UNFINISHED = "interrupted"
"""The one outcome after which there is more to do."""

LEFT_BY_CREATE = {runs.LOCK_NAME, runs.ENVIRONMENT_NAME, runs.CHECKPOINTS_NAME}
"""What a run folder holds whose making was cut short: its config.json comes last."""


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed alone."""

    variant: str
    """Of the model."""
    settings: tuple[str, ...] = ()
    """What else is not as in the preset, as model.mask_min=0."""
    tag: str = ""
    """Tells it from others of its variant."""


@dataclass(frozen=True)
class PlannedRun:
    """A run of a sweep."""

    name: str
    """Of its folder."""
    config: Mapping[str, Any]
    """Its whole configuration, for JSON."""

    @property
    def kind(self) -> str:
        """What it shares with the same run of other seeds, which take as long."""
        return re.sub(r"-seed\d+$", "", self.name)

    @property
    def steps(self) -> int:
        """Updates of the parameters."""
        return int(self.config["course"]["steps"])


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep."""

    command: str
    """What made it."""
    runs: tuple[PlannedRun, ...]
    """In the order in which they start."""


def make_plan(
    preset: str,
    groups: Sequence[Group],
    seeds: Sequence[int],
    *,
    settings: Sequence[str] = (),
    command: str = "",
) -> Plan:
    """Every group with every seed; seed after seed, so that a sweep cut short has whole ones."""
    if preset not in PRESETS:
        raise ValueError(f"PRESET: expected one of {', '.join(PRESETS)}; got {preset!r}")
    if not groups or not seeds:
        raise ValueError("expected at least one variant and one seed")
    planned = []
    bases = [
        (
            group,
            to_dict(
                with_settings(
                    PRESETS[preset], [f"model.variant={group.variant}", *group.settings, *settings]
                )
            ),
        )
        for group in groups
    ]
    for seed in seeds:
        for group, base in bases:
            config = {**base, "course": {**base["course"], "seed": seed}}
            planned.append(PlannedRun(f"{group.variant}{group.tag}-seed{seed}", config))
    return Plan(command, tuple(planned))


def variants_named(text: str) -> list[str]:
    """``all``, or names with commas between: ``dnc,md,dnc-mds``."""
    if text == "all":
        return list(VARIANTS)
    names = [variant_name(name) for name in text.split(",")]
    return list(dict.fromkeys(names))


def save_plan(folder: Path, plan: Plan) -> None:
    """Write ``plan.json``."""
    values = {
        "plan_version": PLAN_VERSION,
        "command": plan.command,
        "runs": [{"name": run.name, "config": run.config} for run in plan.runs],
    }
    runs.write_whole(folder / PLAN_NAME, (json.dumps(values, indent=1) + "\n").encode())


def load_plan(folder: Path) -> Plan:
    """Read ``plan.json``."""
    path = folder / PLAN_NAME
    values = runs.read_object(path)
    version = values.get("plan_version")
    if version != PLAN_VERSION:
        raise RunError(f"{path}: expected plan_version {PLAN_VERSION}, got {version!r}")
    try:
        planned = (PlannedRun(run["name"], run["config"]) for run in values["runs"])
        return Plan(values["command"], tuple(planned))
    except (KeyError, TypeError) as error:
        raise RunError(f"{path}: not as a plan is: {error!r}") from error


def extended(folder: Path, plan: Plan) -> Plan:
    """The plan together with the one that the folder has: no run is planned in two ways."""
    if not (folder / PLAN_NAME).exists():
        return plan
    planned = {run.name: run for run in load_plan(folder).runs}
    for run in plan.runs:
        before = planned.setdefault(run.name, run)
        if before.config != run.config:
            raise RunError(
                f"{folder}: {run.name} is planned already, with {_difference(before, run)}; "
                "choose another --out"
            )
    chosen = {run.name for run in plan.runs}
    others = (run for name, run in planned.items() if name not in chosen)
    return Plan(plan.command, (*plan.runs, *others))


def _difference(before: PlannedRun, run: PlannedRun) -> str:
    """Which setting is another than before."""
    for part, values in run.config.items():
        for name, value in values.items():
            known = before.config.get(part, {}).get(name)
            if known != value:
                return f"{part}.{name}={known}, not {value}"
    return "other settings"


# --- how far it has come -------------------------------------------------------------------------


@dataclass(frozen=True)
class Standing:
    """How far a run has come."""

    state: Literal["done", "begun", "new", "wrong"]
    step: int = 0
    """The newest checkpoint's."""
    reason: str = ""
    """Why it is wrong."""


def standing(folder: Path, run: PlannedRun) -> Standing:
    """How far a run of a sweep has come."""
    place = folder / run.name
    if not place.exists():
        return Standing("new")
    if not (place / runs.CONFIG_NAME).exists():
        if place.is_dir() and _cut_short(place):
            return Standing("new")
        return Standing("wrong", reason="it is not a run folder")
    try:
        config, outcome = runs.read_config(place), runs.read_outcome(place)
    except RunError as error:
        return Standing("wrong", reason=str(error).removeprefix(f"{place}: "))
    if config != run.config:
        difference = _difference(PlannedRun(run.name, config), run)
        return Standing("wrong", reason=f"the plan's run is another: here {difference}")
    step = max(map(_step_of, (place / runs.CHECKPOINTS_NAME).glob("step-*")), default=0)
    over = outcome is not None and outcome["reason"] != UNFINISHED
    measured = (place / MEASURES_NAME).exists()
    return Standing("done" if over and measured else "begun", step)


def _cut_short(place: Path) -> bool:
    """Whether a folder holds no more than what the making of a run has left."""
    left = {path.name for path in place.iterdir() if not path.name.endswith(".part")}
    checkpoints = place / runs.CHECKPOINTS_NAME
    return left <= LEFT_BY_CREATE and not (checkpoints.is_dir() and any(checkpoints.iterdir()))


def clear_cut_short(place: Path) -> None:
    """Remove what a run left that was killed while its folder was made."""
    if not place.exists() or (place / runs.CONFIG_NAME).exists() or not _cut_short(place):
        return
    for path in place.iterdir():
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()


def _step_of(checkpoint: Path) -> int:
    digits = checkpoint.name.removeprefix("step-")
    return int(digits) if digits.isdecimal() else 0


def speeds(folder: Path, planned: Iterable[PlannedRun]) -> dict[str, float]:
    """Steps a second by kind of run, from all sessions of the sweep so far."""
    sums: dict[str, tuple[int, float]] = {}
    for run in planned:
        for session in runs.read_sessions(folder / run.name):
            steps, seconds = sums.get(run.kind, (0, 0.0))
            made = session["last_step"] - session["first_step"]
            sums[run.kind] = (steps + made, seconds + session["seconds"])
    return {kind: steps / spent for kind, (steps, spent) in sums.items() if steps and spent}


def expected_seconds(
    to_do: Sequence[tuple[PlannedRun, int]], speed: Mapping[str, float], jobs: int
) -> float | None:
    """The time for runs that stand at a step each; None as long as no speed was measured.

    A kind that has not run yet counts as the mean of those that have.
    """
    if not to_do:
        return 0.0
    if not speed:
        return None
    usual = sum(speed.values()) / len(speed)
    each = [(run.steps - step) / speed.get(run.kind, usual) for run, step in to_do]
    return max(sum(each) / jobs, *each)


def describe(folder: Path, plan: Plan, jobs: int) -> list[str]:
    """The plan in lines: what is done, what there is to do, how long it may take."""
    standings = {run.name: standing(folder, run) for run in plan.runs}
    count = {
        state: sum(own.state == state for own in standings.values())
        for state in ("done", "begun", "new", "wrong")
    }
    kinds = ", ".join(dict.fromkeys(run.kind for run in plan.runs))
    lines = [
        f"{len(plan.runs)} runs in {folder}: {count['done']} done, {count['begun']} begun, "
        f"{count['new']} new" + (f", {count['wrong']} wrong" if count["wrong"] else ""),
        f"{kinds}; {_steps(plan)} steps each",
    ]
    lines += [
        f"skipped: {name}: {own.reason}"
        for name, own in standings.items()
        if own.state == "wrong"
    ]  # fmt: skip
    to_do = [
        (run, own.step)
        for run in plan.runs
        if (own := standings[run.name]).state in ("new", "begun")
    ]
    speed = speeds(folder, plan.runs)
    seconds = expected_seconds(to_do, speed, jobs)
    if seconds is None:
        lines.append("expected time: known once the first runs have shown their speed")
    elif to_do:
        rates = ", ".join(f"{kind} {rate:.3g}" for kind, rate in speed.items())
        lines.append(f"expected time: {duration(seconds)} with {jobs} jobs; steps/s: {rates}")
    return lines


def _steps(plan: Plan) -> str:
    return " or ".join(f"{steps:,}" for steps in sorted({run.steps for run in plan.runs}))


def duration(seconds: float) -> str:
    """``1:05:09``"""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
