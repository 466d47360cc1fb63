"""Results: what is kept of many runs, small enough to be committed. Read from run folders or files.

A folder of results::

    results.json        the runs' thinned loss curves, evaluations, measures, configurations, where
                        they ran; the command; which folders were skipped and why. A run a line
    recordings/         a thinned recording for each task and label, of its run with the best loss

Numbers have six significant digits. Figures and tables are made from these files alone, so that who
has the files has the same figures and tables, to the last digit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dnclab import runs
from dnclab.reports.recordings import (
    RECORDING_NAME,
    Numbers,
    Recording,
    full_name,
    load_recording,
    save_recording,
)
from dnclab.runs import RunError, write_whole

RESULTS_VERSION = 1
RESULTS_NAME = "results.json"
RECORDINGS_NAME = "recordings"

MEASURES_VERSION = 1
MEASURES_NAME = "measures.json"

PLAN_NAME = "plan.json"
"""A folder that has it is a sweep; its ``runs`` have names, and folders of these names."""

CURVE_POINTS = 200
"""A loss curve is thinned to at most so many means."""

SOLVED = {"bit_error": 0.001, "error": 0.05}
"""A run has solved its task at the first evaluation whose figure of this name is not above this."""

DEFAULT_MASK_MIN = 0.1
"""Another delta is part of a label."""

FREE_SETTINGS = (
    ("model", "variant"), ("model", "mask_min"), ("model", "backend"), ("course", "seed"),
    ("course", "threads"), ("course", "checkpoint_every"), ("course", "keep_checkpoints"),
)  # fmt: skip
"""In all other settings runs of a task must agree to be compared."""

KEPT_ARRAYS = (
    "input", "target", "output", "usage", "write_weighting", "read_weightings", "read_modes",
    "forwards", "read_masks",
)  # fmt: skip
"""Of a recording, what figures show."""

Config = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class RunResult:
    """What is kept of a run."""

    name: str
    """Its folder's."""
    config: Config
    """As in config.json, the variant by its full name."""
    environment: Config
    """As in environment.json."""
    step: int
    """Updates made."""
    reason: str
    """finished, target reached, or interrupted."""
    curve_every: int
    """Steps that a point of the curve is the mean of."""
    curve: tuple[float | None, ...]
    """Mean training losses; None where none was finite."""
    evaluations: Mapping[str, tuple[float | None, ...]]
    """By name; ``step`` tells when."""
    measures: Mapping[str, float]
    """See dnclab.training.measure; empty if none were taken."""

    @property
    def task(self) -> str:
        """Its name."""
        return str(self.config["task"]["name"])

    @property
    def seed(self) -> int:
        """Of parameters and batches."""
        return int(self.config["course"]["seed"])

    @property
    def steps(self) -> int:
        """Updates that were asked for."""
        return int(self.config["course"]["steps"])

    @property
    def label(self) -> str:
        """The variant in the paper's way of writing, with its δ where that is not 0.1."""
        model = self.config["model"]
        name, smallest = str(model["variant"]).upper(), model["mask_min"]
        masked = "M" in name.removeprefix("DNC")
        return f"{name}, δ={smallest:g}" if masked and smallest != DEFAULT_MASK_MIN else name

    @property
    def curve_steps(self) -> tuple[int, ...]:
        """The last step of each point of the curve."""
        every = self.curve_every
        return tuple(min(every * (n + 1), self.steps) for n in range(len(self.curve)))

    @property
    def error_name(self) -> str | None:
        """The evaluation's figure that counts; a task of the user's own may have none."""
        return next((name for name in SOLVED if name in self.evaluations), None)

    @property
    def solved_at(self) -> int | None:
        """The step of the first evaluation at which the task was solved."""
        if self.error_name is None:
            return None
        found = zip(self.evaluations["step"], self.evaluations[self.error_name], strict=True)
        limit = SOLVED[self.error_name]
        steps = (step for step, error in found if error is not None and error <= limit)
        return next((int(step) for step in steps if step is not None), None)

    def best(self, name: str) -> float:
        """The least figure of all evaluations; infinite if none was finite."""
        return min((v for v in self.evaluations[name] if v is not None), default=math.inf)

    def final(self, name: str) -> float:
        """A figure of the last evaluation; infinite if it was not finite."""
        value = self.evaluations[name][-1]
        return math.inf if value is None else value


@dataclass(frozen=True)
class Skipped:
    """A folder that was passed over."""

    name: str
    reason: str


@dataclass(frozen=True, eq=False)
class Results:
    """What is kept of many runs."""

    runs: tuple[RunResult, ...] = ()
    """By task, label and seed."""
    skipped: tuple[Skipped, ...] = ()
    recordings: tuple[Recording, ...] = ()
    """One for each task and label."""
    commands: tuple[str, ...] = ()
    """What made the runs."""

    def of_task(self, task: str) -> dict[str, tuple[RunResult, ...]]:
        """The runs of a task by label."""
        found: dict[str, list[RunResult]] = {}
        for run in self.runs:
            if run.task == task:
                found.setdefault(run.label, []).append(run)
        return {label: tuple(own) for label, own in found.items()}

    def recording(self, task: str, label: str) -> Recording | None:
        """That of a task and label, if there is one."""
        own = (r for r in self.recordings if (r.task, r.variant.upper()) == (task, label))
        return next(own, None)


# --- the measures of a run -----------------------------------------------------------------------


def write_measures(folder: Path, step: int, values: Mapping[str, float]) -> None:
    """Write ``measures.json``: the measures of the model of a step."""
    content = {"measures_version": MEASURES_VERSION, "step": step, "values": dict(values)}
    write_whole(folder / MEASURES_NAME, (json.dumps(content, indent=2) + "\n").encode())


def read_measures(folder: Path) -> dict[str, float]:
    """The measures of a run; empty if none were taken."""
    path = folder / MEASURES_NAME
    if not path.exists():
        return {}
    content = runs.read_object(path)
    if content.get("measures_version") != MEASURES_VERSION:
        raise RunError(f"{path}: expected measures_version {MEASURES_VERSION}")
    return {name: float(value) for name, value in content["values"].items()}


# --- from run folders ----------------------------------------------------------------------------


def collect(
    folders: Iterable[Path], *, unfinished: bool = False, command: str | None = None
) -> Results:
    """Results from run folders, from sweeps, or from folders of runs; what cannot be used is named.

    Runs that have not finished are passed over, unless `unfinished`.
    """
    found: list[tuple[RunResult, Path]] = []
    skipped: list[Skipped] = []
    for folder in run_folders(folders):
        read = _run_or_reason(folder, unfinished)
        if isinstance(read, Skipped):
            skipped.append(read)
        else:
            found.append((read, folder))
    found.sort(key=lambda pair: (pair[0].task, _order(pair[0].label), pair[0].seed))
    comparable: list[tuple[RunResult, Path]] = []
    for run, folder in found:
        reason = _why_not_with([other for other, _ in comparable], run)
        if reason is None:
            comparable.append((run, folder))
        else:
            skipped.append(Skipped(run.name, reason))
    recordings, broken = _thin_recordings(comparable)
    return Results(
        runs=tuple(run for run, _ in comparable),
        skipped=(*skipped, *broken),
        recordings=recordings,
        commands=() if command is None else (command,),
    )


def run_folders(folders: Iterable[Path]) -> list[Path]:
    """Those that are named, and those of the runs in sweeps and in folders of runs."""
    found: list[Path] = []
    for folder in folders:
        if (folder / PLAN_NAME).exists():
            found += [
                folder / str(run["name"]) for run in runs.read_object(folder / PLAN_NAME)["runs"]
            ]
        elif (folder / runs.CONFIG_NAME).exists() or not folder.is_dir():
            found.append(folder)
        else:
            inside = sorted(path for path in folder.iterdir() if path.is_dir())
            has_runs = any((path / runs.CONFIG_NAME).exists() for path in inside)
            found += inside if has_runs else [folder]
    return found


def _run_or_reason(folder: Path, unfinished: bool) -> RunResult | Skipped:
    """A run, or why its folder cannot be used; the reason names no place outside of it."""
    try:
        return _read_run(folder, unfinished)
    except RunError as error:
        reason = str(error).replace(str(folder), folder.name).removeprefix(f"{folder.name}: ")
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        reason = f"its files are not as a run's are: {error!r}"
    return Skipped(folder.name, reason)


def _read_run(folder: Path, unfinished: bool) -> RunResult:
    if not folder.is_dir():
        raise RunError(f"{folder}: not started")
    config, environment = runs.read_config(folder), runs.read_environment(folder)
    metrics = runs.read_metrics(folder)
    course = config["course"]
    config["model"]["variant"] = full_name(config["model"]["variant"])
    outcome = runs.read_outcome(folder)
    step = max((record["step"] for record in metrics), default=0)
    if not unfinished and (outcome is None or outcome["reason"] == "interrupted"):
        raise RunError(f"{folder}: not finished: step {step:,} of {course['steps']:,}")
    evaluations = [record for record in metrics if "eval/loss" in record]
    if not evaluations:
        raise RunError(f"{folder}: no evaluation yet: step {step:,} of {course['steps']:,}")
    every = max(math.ceil(course["steps"] / CURVE_POINTS), course["log_every"])
    return RunResult(
        name=folder.name,
        config=config,
        environment=environment,
        step=step,
        reason="interrupted" if outcome is None else outcome["reason"],
        curve_every=every,
        curve=_thinned(metrics, every),
        evaluations={
            name.removeprefix("eval/"): tuple(_short(record.get(name)) for record in evaluations)
            for name in evaluations[-1]
        },
        measures={name: _digits(value) for name, value in read_measures(folder).items()},
    )


def _thinned(metrics: Sequence[Mapping[str, Any]], every: int) -> tuple[float | None, ...]:
    """The mean loss of each stretch of steps; None where there is none."""
    stretches: list[list[float]] = []
    for record in metrics:
        if "loss" in record:
            place = (record["step"] - 1) // every
            stretches += [[] for _ in range(place + 1 - len(stretches))]
            if record["loss"] is not None:
                stretches[place].append(record["loss"])
    return tuple(_digits(math.fsum(own) / len(own)) if own else None for own in stretches)


def _short(value: Any) -> Any:
    return _digits(value) if isinstance(value, float) else value


def _digits(value: float) -> float:
    """Six significant digits."""
    return float(f"{value:.6g}")


def _order(label: str) -> tuple[int, str]:
    """The paper's order: fewer changes first."""
    return len(label), label


def _why_not_with(others: Sequence[RunResult], run: RunResult) -> str | None:
    """The reason why a run cannot stand beside the others; None if it can."""
    own = [other for other in others if other.task == run.task]
    if any((other.label, other.seed) == (run.label, run.seed) for other in own):
        return f"a second run of {run.label}, seed {run.seed}"
    if own:
        ours, theirs = _settled(run.config), _settled(own[0].config)
        for name in sorted(ours.keys() | theirs.keys()):
            if ours.get(name) != theirs.get(name):
                expected = f"{theirs.get(name)!r} as in {own[0].name}"
                return f"{name}: expected {expected}, got {ours.get(name)!r}"
    return None


def _settled(config: Config) -> dict[str, Any]:
    """The settings in which runs must agree, by name."""
    return {
        f"{part}.{name}": value
        for part, values in config.items()
        for name, value in values.items()
        if (part, name) not in FREE_SETTINGS
    }


def _thin_recordings(
    found: Sequence[tuple[RunResult, Path]],
) -> tuple[tuple[Recording, ...], list[Skipped]]:
    """For each task and label with δ as usual the best recording, without what figures need not."""
    usual = [
        ((run.task, run.label), run.best("loss"), folder)
        for run, folder in found
        if run.label == str(run.config["model"]["variant"]).upper()
    ]
    best, broken = best_recordings(usual)
    return tuple(replace(own, arrays=_kept(own.arrays)) for own in best), broken


def best_recordings(
    candidates: Sequence[tuple[Any, float, Path]],
) -> tuple[list[Recording], list[Skipped]]:
    """Of run folders with keys and losses: for each key the recording of the least loss.

    Those that cannot be read are passed over, and named.
    """
    chosen: dict[Any, Recording] = {}
    broken: list[Skipped] = []
    for key, _, folder in sorted(candidates, key=lambda candidate: candidate[1]):
        path = folder / RECORDING_NAME
        if key not in chosen and path.exists():
            try:
                chosen[key] = load_recording(path)
            except RunError as error:
                name = f"{folder.name}/{RECORDING_NAME}"
                broken.append(Skipped(name, str(error).removeprefix(f"{path}: ")))
    keys = dict.fromkeys(key for key, _, _ in candidates)
    return [chosen[key] for key in keys if key in chosen], broken


def _kept(arrays: Mapping[str, Numbers]) -> dict[str, Numbers]:
    return {name: array for name, array in arrays.items() if name in KEPT_ARRAYS}


# --- as files ------------------------------------------------------------------------------------


def save_results(folder: Path, results: Results) -> None:
    """Write a folder of results."""
    folder.mkdir(parents=True, exist_ok=True)
    configs: list[Config] = []
    environments: list[Config] = []
    lines = [
        json.dumps(_run_values(run, configs, environments), allow_nan=False) for run in results.runs
    ]
    head = {
        "results_version": RESULTS_VERSION,
        "commands": list(results.commands),
        "skipped": [vars(skipped) for skipped in results.skipped],
        "configs": configs,
        "environments": environments,
    }
    text = json.dumps(head, indent=1, allow_nan=False, ensure_ascii=False)
    rows = ",\n".join(lines)
    text = f'{text[:-2]},\n "runs": [\n{rows}\n ]\n}}\n'
    write_whole(folder / RESULTS_NAME, text.encode())
    place = folder / RECORDINGS_NAME
    for path in place.glob("*.json"):
        path.unlink()
    for recording in results.recordings:
        place.mkdir(exist_ok=True)
        name = f"{recording.task}-{recording.variant}".replace(":", "-")
        save_recording(place / f"{name}.json", recording)


def _run_values(
    run: RunResult, configs: list[Config], environments: list[Config]
) -> dict[str, Any]:
    """A run's line; what many runs share is put into the tables."""
    config = {part: dict(values) for part, values in run.config.items()}
    own = {"variant": config["model"].pop("variant"), "seed": config["course"].pop("seed")}
    environment = dict(run.environment)
    return {
        "name": run.name,
        **own,
        "date": environment.pop("date", None),
        "step": run.step,
        "reason": run.reason,
        "config": _place(configs, config),
        "environment": _place(environments, environment),
        "measures": dict(run.measures),
        "evaluations": {name: list(values) for name, values in run.evaluations.items()},
        "curve_every": run.curve_every,
        "curve": list(run.curve),
    }


def _place(table: list[Config], value: Config) -> int:
    if value not in table:
        table.append(value)
    return table.index(value)


def load_results(folder: Path) -> Results:
    """The results of a folder, or of all its subfolders together.

    A run that two of them have counts once.
    """
    if (folder / RESULTS_NAME).exists():
        return _load_one(folder)
    parts = [path.parent for path in sorted(folder.glob(f"*/{RESULTS_NAME}"))]
    if not parts:
        raise RunError(f"{folder}: no results: neither it nor a folder in it has a {RESULTS_NAME}")
    return merged(_load_one(part) for part in parts)


def merged(many: Iterable[Results]) -> Results:
    """Several results as one; of runs and recordings that are the same the first counts."""
    found: dict[Any, RunResult] = {}
    recordings: dict[Any, Recording] = {}
    skipped: list[Skipped] = []
    commands: list[str] = []
    for results in many:
        for run in results.runs:
            found.setdefault((run.task, run.label, run.seed), run)
        for recording in results.recordings:
            recordings.setdefault((recording.task, recording.variant), recording)
        skipped += results.skipped
        commands += results.commands
    return Results(
        tuple(found.values()), tuple(skipped), tuple(recordings.values()), tuple(commands)
    )


def _load_one(folder: Path) -> Results:
    path = folder / RESULTS_NAME
    values = runs.read_object(path)
    if values.get("results_version") != RESULTS_VERSION:
        found = values.get("results_version")
        raise RunError(f"{path}: expected results_version {RESULTS_VERSION}, got {found!r}")
    try:
        return Results(
            runs=tuple(_run_result(values, line) for line in values["runs"]),
            skipped=tuple(Skipped(**own) for own in values["skipped"]),
            recordings=_in_order(map(load_recording, (folder / RECORDINGS_NAME).glob("*.json"))),
            commands=tuple(values["commands"]),
        )
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise RunError(f"{path}: not as results are: {error!r}") from error


def _in_order(recordings: Iterable[Recording]) -> tuple[Recording, ...]:
    """As their runs are, wherever they were read from."""
    return tuple(sorted(recordings, key=lambda own: (own.task, _order(own.variant.upper()))))


def _run_result(values: Mapping[str, Any], line: Mapping[str, Any]) -> RunResult:
    shared = values["configs"][line["config"]]
    config = {part: dict(own) for part, own in shared.items()}
    config["model"]["variant"] = line["variant"]
    config["course"]["seed"] = line["seed"]
    return RunResult(
        name=line["name"],
        config=config,
        environment={"date": line["date"], **values["environments"][line["environment"]]},
        step=line["step"],
        reason=line["reason"],
        curve_every=line["curve_every"],
        curve=tuple(line["curve"]),
        evaluations={name: tuple(own) for name, own in line["evaluations"].items()},
        measures=line["measures"],
    )
