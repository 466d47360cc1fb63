"""The commands show-task and bench; `dnclab data` has a file of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from dnclab import bench
from dnclab.cli import main
from dnclab.tasks import BITMAP_TASKS
from dnclab.tasks.bitmap import BitmapStream, sample_text
from dnclab.tasks.key_value import KeyValue


@pytest.mark.parametrize("name", BITMAP_TASKS)
def test_show_task_prints_a_sample(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show-task", name, "--seed", "3"]) == 0
    expected = sample_text(BitmapStream(BITMAP_TASKS[name], seed=3).batch())
    assert capsys.readouterr().out == expected


def test_show_task_with_other_sizes_and_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sample.png"
    sizes = ["bits=3", "max_pairs=4", "two_way=false"]
    assert main(["show-task", "key-value", "--set", *sizes, "--png", str(path)]) == 0
    shown = sample_text(BitmapStream(KeyValue(bits=3, max_pairs=4, two_way=False)).batch())
    assert capsys.readouterr().out == f"{shown}drawn in {path}\n"
    assert path.stat().st_size > 1000


def test_show_task_shows_a_babi_story(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show-task", "babi", "--task", "19", "--seed", "3"]) == 0
    story, _, sequence = capsys.readouterr().out.partition("\nWhat the model reads")
    *statements, question = story.splitlines()
    assert len(statements) == 5
    assert question == "6 How do you go from the bathroom to the garden?\ts,s\t2 5"
    assert sequence.endswith("to the garden ? - - - [-:s] [-:s]\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show-task"], "the following arguments are required: NAME"),
        (["show-task", "copy"], "argument NAME: invalid choice: 'copy'"),
        (["show-task", "key-value", "--seed", "-1"], "argument --seed: expected a whole number"),
        (["show-task", "key-value", "--set", "bits"], "--set: expected SIZE=VALUE, got 'bits'"),
        (["show-task", "key-value", "--set", "colour=3"], "colour: expected one of bits"),
        (["show-task", "key-value", "--set", "bits=2"], "max_pairs: expected at most 4"),
        (["show-task", "key-value", "--task", "3"], "--task goes with babi"),
        (["show-task", "babi", "--png", "x.png"], "--png and --set go with the tasks on rows"),
        (["show-task", "babi", "--task", "21"], "argument --task: invalid choice: 21"),
        (["show-task", "key-value", "--png", "nowhere/x.png"], "nowhere/x.png"),
        (["bench", "nothing"], "argument WHAT: invalid choice: 'nothing'"),
        (["bench", "tasks", "--babi", "nowhere"], "nowhere: expected the bAbI archive"),
    ],
)
def test_what_is_refused_gives_one_line_and_exit_code_2(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench, "REPEATS", 1)
    monkeypatch.setattr(bench, "BATCHES", 2)
    try:
        code = main(arguments)
    except SystemExit as stopped:
        code = stopped.code  # type: ignore[assignment]
    assert code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_bench_tasks_prints_a_row_for_each_task(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "BATCHES", 20)
    assert main(["bench", "tasks"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("`dnclab bench tasks`: ")
    assert next(bench.tasks_table(Path("archive"))).startswith("`dnclab bench tasks --babi PATH`: ")
    rows = [line.split(" | ") for line in printed.splitlines() if "batch 16" in line]
    assert [row[0].removeprefix("| ").split(",")[0] for row in rows] == list(BITMAP_TASKS)
    # A batch of repeat copy has to be made in well under 100 microseconds; a busy machine may
    # take its time, but nothing like a millisecond.
    assert all(0 < float(row[2].removesuffix(" |")) < 1000 for row in rows)
