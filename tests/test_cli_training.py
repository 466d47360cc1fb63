"""The commands that train: what they print, and what they refuse in one line with exit code 2."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dnclab import runs
from dnclab.cli import build_parser, main
from dnclab.training.presets import PRESETS

Printed = pytest.CaptureFixture[str]

TRAIN = ["train", "key-value-small", "--quiet", "--steps", "2", "--set"]
SMALL = ["course.evaluation_batches=1", "course.checkpoint_every=1", "model.cells=4"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps; not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "finished"
    assert main([*TRAIN, *SMALL, "--out", str(folder)]) == 0
    return folder


def run(arguments: list[str], capsys: Printed) -> tuple[int, str, str]:
    """Exit code, output, errors."""
    capsys.readouterr()
    try:
        code = main(arguments)
    except SystemExit as stopped:
        code = int(str(stopped.code))
    out, err = capsys.readouterr()
    return code, out, err


def assert_refused(arguments: list[str], message: str, capsys: Printed) -> None:
    code, out, err = run(arguments, capsys)
    assert message in err
    assert (code, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["trian"], "argument COMMAND: invalid choice: 'trian'"),
        (["train"], "the following arguments are required: PRESET"),
        (["train", "copy"], "PRESET: expected one of repeat-copy, "),
        ([*TRAIN[:2], "--steps", "0"], "argument --steps: expected a whole number from 1, got '0'"),
        ([*TRAIN[:2], "--steps", "1e3"], "argument --steps: expected a whole number from 1"),
        ([*TRAIN[:2], "--seed", "-1"], "argument --seed: expected"),
        ([*TRAIN[:2], "--seed", f"{2**64}"], "seed: expected 0 to 2^64 - 1"),
        ([*TRAIN[:2], "--step", "3"], "unrecognized arguments: --step 3"),
        ([*TRAIN[:2], "--variant", "x"], "variant: expected one of dnc, dnc-d"),
        ([*TRAIN[:2], "--set"], "argument --set: expected at least one argument"),
        ([*TRAIN, "cells"], "--set: expected NAME=VALUE, as model.cells=32, got 'cells'"),
        ([*TRAIN, "model.cell=3"], "no such setting: model.cell=3"),
        ([*TRAIN, "model.cells=x"], '"model.cells": Expected a'),
        ([*TRAIN, "model.cells=0"], "cells: expected at least 1, got 0"),
        ([*TRAIN, "optimiser.learning_rate=1e300"], "learning_rate: expected within float32"),
        ([*TRAIN, "model.backend=abacus"], "backend: expected one of auto, "),
        (
            [*TRAIN, "model.backend=fused", "model.num_layers=2"],
            "backend 'fused': the controller has",
        ),
        ([*TRAIN, "model.controller=torch.nn:GRUCell"], "model: controller: expected an nn.Module"),
        ([*TRAIN, "optimiser.weight_decay=-1"], "weight_decay: expected at least 0, got -1.0"),
        ([*TRAIN, "optimiser.alpha=1"], "alpha: expected 0 <= alpha < 1, got 1.0"),
        ([*TRAIN, "course.threads=1025"], "threads: expected at most 1024, got 1025"),
        ([*TRAIN, "model.controller=nobody"], "controller: expected one of lstm, feedforward"),
        ([*TRAIN, "task.name=nothing"], "task: expected one of repeat-copy, "),
        ([*TRAIN, "task.name=no_such:thing"], "no_such:thing cannot be imported: No module"),
        ([*TRAIN, "task.sizes.bitz=3"], "task.sizes: "),
        ([*TRAIN, "task.sizes.bits=1"], "max_pairs: expected at most 2"),
        ([*TRAIN, "course.stop_metric=loss"], "course.stop_metric: expected one of eval/loss"),
        ([*TRAIN[:2], "--out", "file/run"], "file/run: cannot be made a run folder: Not a dir"),
        (["resume"], "the following arguments are required: RUN"),
        (["resume", "nowhere"], "nowhere: not a run folder: it has no config.json"),
        (["resume", "file"], "file: not a run folder: it has no config.json"),
        (["info", "nowhere"], "nowhere: not a run folder: it has no config.json"),
        (["eval", "nowhere"], "nowhere: not a run folder: it has no config.json"),
        (["eval", "nowhere", "--longer", "twice"], "--longer: expected a factor, as 2x, got 'twi"),
        (["eval", "nowhere", "--cells", "0"], "argument --cells: expected a whole number from 1"),
        (["presets", "all"], "unrecognized arguments: all"),
        (["demo", "--steps", "0"], "argument --steps: expected a whole number from 1"),
        (["bench", "loop", "copy"], "argument PRESET: invalid choice: 'copy'"),
    ],
)
def test_what_is_refused(
    arguments: list[str],
    message: str,
    capsys: Printed,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("", encoding="utf-8")
    assert_refused(arguments, message, capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]  # no folder was begun


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--longer", "1x"], "factor: expected one that makes max_pairs=4 greater, got 1.0"),
        (["--longer", "inf"], "factor: expected one that makes max_pairs=4 greater, got inf"),
        (["--longer", "nan"], "factor: expected one that makes max_pairs=4 greater, got nan"),
        (["--longer", "9x"], "max_pairs: expected at most 16"),
        (["--repeats", "2x"], "KeyValue: nothing is repeated in it"),
    ],
)
def test_evaluations_that_are_refused(
    arguments: list[str], message: str, finished: Path, capsys: Printed
) -> None:
    assert_refused(["eval", str(finished), *arguments], message, capsys)


def newer_run(folder: Path) -> None:
    edit_config(folder, lambda config: config | {"run_version": 2})


def unknown_setting(folder: Path) -> None:
    edit_config(folder, lambda config: config | {"model": config["model"] | {"colour": "red"}})


def another_model(folder: Path) -> None:
    edit_config(folder, lambda config: config | {"model": config["model"] | {"word_size": 5}})


def edit_config(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    path = folder / runs.CONFIG_NAME
    path.write_text(json.dumps(change(json.loads(path.read_text()))), encoding="utf-8")


def torn_config(folder: Path) -> None:
    path = folder / runs.CONFIG_NAME
    path.write_bytes(path.read_bytes()[:40])


def other_checkpoint_version(folder: Path) -> None:
    for path in folder.glob("checkpoints/*/state.json"):
        state = path.read_text().replace('"checkpoint_version": 1', '"checkpoint_version": 7')
        path.write_text(state)


def all_checkpoints_torn(folder: Path) -> None:
    for path in folder.glob("checkpoints/*/tensors.safetensors"):
        path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("command", ["resume", "eval"])
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (newer_run, "written by a newer dnclab (run_version 2, this one reads 1): update dnclab"),
        (unknown_setting, "its config.json does not fit this version: "),
        (another_model, "its checkpoint is of another model than config.json says"),
        (torn_config, "config.json: not JSON"),
        (other_checkpoint_version, "none of 2 can be used; the first, step-00000002: state.json: "
         "expected checkpoint_version 1, got 7"),
        (all_checkpoints_torn, "its content and its SHA-256 differ"),
    ],
)  # fmt: skip
def test_runs_that_cannot_be_read(
    command: str,
    spoil: Callable[[Path], None],
    message: str,
    finished: Path,
    tmp_path: Path,
    capsys: Printed,
) -> None:
    folder = Path(shutil.copytree(finished, tmp_path / "run"))
    spoil(folder)
    assert_refused([command, str(folder)], message, capsys)


def test_a_run_in_use_and_a_folder_with_a_run(finished: Path, capsys: Printed) -> None:
    with runs.locked(finished):
        assert_refused(["resume", str(finished)], "is in use by process", capsys)
    assert_refused([*TRAIN[:2], "--out", str(finished)], "exists and is not empty", capsys)


def test_trouble_is_one_line_with_its_name_and_place(
    capsys: Printed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = [*TRAIN, "optimiser.name=sgd", "optimiser.learning_rate=1e38", "--out", "run"]
    message = "step 2: the first quantity that is not finite is "
    assert_refused(arguments, message, capsys)
    assert list(Path("run/trouble").glob("step-*/report.json"))


def test_a_damaged_checkpoint_is_one_line_of_warning(finished: Path, tmp_path: Path) -> None:
    """As a user sees it: no file name and no line of our source."""
    folder = Path(shutil.copytree(finished, tmp_path / "run"))
    (folder / "checkpoints/step-00000002/state.json").write_text("{")
    resumed = subprocess.run(
        [sys.executable, "-m", "dnclab", "resume", str(folder), "--quiet"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert re.fullmatch(
        r"dnclab resume: warning: checkpoint \S+/step-00000002 is damaged: state.json: not JSON: "
        r"[^\n]*; using step-00000001\n",
        resumed.stderr,
    )
    assert "finished at step 2" in resumed.stdout


def test_training_tells_what_was_reached_and_where(finished: Path, capsys: Printed) -> None:
    code, out, err = run(["resume", str(finished), "--quiet"], capsys)
    assert (code, err) == (0, "")
    reached, place, following = out.splitlines()
    assert re.fullmatch(r"finished at step 2: eval/loss \S+  eval/bit_error \S+  eval/.*", reached)
    assert place.startswith(f"in {finished}: pictures/")
    assert f"dnclab eval {finished}" in following


def test_only_pictures_that_were_drawn_are_told(tmp_path: Path, capsys: Printed) -> None:
    """A task with words has no sequence of bits to draw."""
    sizes = ["task.name=babi", 'task.sizes={"generated":2,"tasks":1}', "course.stop_metric=null"]
    arguments = [*TRAIN, *SMALL, *sizes, "--out", str(tmp_path / "run")]
    code, out, _ = run(arguments, capsys)
    assert code == 0
    assert f"in {tmp_path / 'run'}: pictures/ (curve), metrics.jsonl, checkpoints/\n" in out


def block(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it were not installed."""
    for name in {library, *(name for name in sys.modules if library in name.split("."))}:
        monkeypatch.setitem(sys.modules, name, None)


def test_without_matplotlib_a_run_ends_well(
    tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    block("matplotlib", monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        code, out, err = run([*TRAIN, *SMALL, "--out", str(tmp_path / "run")], capsys)
    assert (code, out.splitlines()[0][:18]) == (0, "finished at step 2")
    assert f"in {tmp_path / 'run'}: metrics.jsonl, checkpoints/\n" in out
    needed = 'no pictures: drawing needs matplotlib: pip install "dnclab[figures]"'
    assert err == f"dnclab train: warning: {needed}\n"


def test_without_tensorboard_no_folder_is_begun(
    tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    block("tensorboard", monkeypatch)
    remedy = 'needs tensorboard: pip install "dnclab[train]"'
    assert_refused([*TRAIN, *SMALL, "--out", str(tmp_path / "run")], remedy, capsys)
    assert not (tmp_path / "run").exists()


def test_without_quiet_there_are_lines(tmp_path: Path, capsys: Printed) -> None:
    arguments = [argument for argument in TRAIN if argument != "--quiet"]
    code, _, err = run([*arguments, *SMALL, "--out", str(tmp_path / "run")], capsys)
    assert code == 0
    assert re.search(r"^step 2/2  loss \S+  error \S+%  eval loss ", err, re.MULTILINE)


def test_eval_prints_json(finished: Path, capsys: Printed) -> None:
    code, out, _ = run(["eval", str(finished), "--longer", "2x", "--cells", "9"], capsys)
    assert code == 0
    assert json.loads(out).keys() == {"loss", "bit_error", "faulty"}


def test_the_presets_are_listed(capsys: Printed) -> None:
    _, out, _ = run(["presets"], capsys)
    assert [line.split()[0] for line in out.splitlines()] == list(PRESETS)
    assert re.search(r"^babi +babi, lstm 256, N256 W64 R4, 500,000 steps$", out, re.MULTILINE)


def test_the_readmes_table_has_every_command() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| `dnclab ([a-z-]+)", readme, re.MULTILINE)
    subparsers = build_parser()._subparsers
    assert subparsers is not None
    [commands] = [action.choices for action in subparsers._group_actions]
    assert sorted(table) == sorted(commands or ())


def test_a_model_too_large_for_any_memory_gives_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = "train repeat-copy --steps 1 --set model.hidden_size=100000000 --out"
    assert main([*command.split(), str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("dnclab train: too large for the memory: ")
    assert error.count("\n") == 1


def test_other_errors_show_where_they_come_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("dnclab.cli.training.session.start", fails)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["train", "repeat-copy", "--out", str(tmp_path / "run")])
