"""``dnclab data babi``: its table, and one line for whatever it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from dnclab import cli
from dnclab.tasks.babi.format import SPLITS, TASK_NAMES, file_name

ROOT = Path(__file__).resolve().parents[1]


def write_some_files(folder: Path, seed: int, stories: int) -> None:
    """Stands in for the generator: ``stories`` training stories of ``seed`` questions."""
    folder.mkdir(parents=True, exist_ok=True)
    questions = "".join(f"{n + 2} Is it?\tyes\t1\n" for n in range(seed))
    for task in TASK_NAMES:
        for split in SPLITS:
            copies = stories if split == "train" else 1
            (folder / file_name(task, split)).write_text(("1 It is.\n" + questions) * copies)


@pytest.fixture
def _generator(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("dnclab.tasks.babi.stories")
    module.write_files = write_some_files  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DNCLAB_CACHE", str(tmp_path / "cache"))


Printed = pytest.CaptureFixture[str]


def refused(capsys: Printed, *arguments: str) -> str:
    """The one line that a refused command writes."""
    try:
        code: object = cli.main(arguments)
    except SystemExit as exit_:
        code = exit_.code
    printed = capsys.readouterr()
    assert code == 2
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.endswith("\n")
    return printed.err


@pytest.mark.usefixtures("_generator")
def test_generating(tmp_path: Path, capsys: Printed) -> None:
    out = tmp_path / "new" / "stories"
    arguments = ["data", "babi", "--generate", "--seed", "3", "--stories", "1200"]
    assert cli.main([*arguments, "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "task  name                    train stories  questions  test stories  questions"
    )
    assert lines[1] == (
        "   1  single-supporting-fact          1,200      3,600             1          3"
    )
    assert lines[21] == (
        " all                                 24,000     72,000            20         60"
    )
    assert lines[22:] == [f"in {out}"]
    assert len({len(line) for line in lines[:22]}) == 1


@pytest.mark.usefixtures("_generator")
def test_defaults_of_the_generator(tmp_path: Path, capsys: Printed) -> None:
    assert cli.main(["data", "babi", "--generate", "--out", str(tmp_path / "new")]) == 0
    assert "  40,000     40,000  " in capsys.readouterr().out


@pytest.mark.usefixtures("_generator")
def test_generating_over_other_files_is_refused(tmp_path: Path, capsys: Printed) -> None:
    (tmp_path / "thesis.tex").write_text("")
    line = refused(capsys, "data", "babi", "--generate", "--out", str(tmp_path))
    assert f"--out: expected a new or empty folder, got {tmp_path}" in line
    line = refused(capsys, "data", "babi", "--generate", "--out", str(tmp_path / "thesis.tex"))
    assert "--out: expected a new or empty folder" in line


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", "required: COMMAND"),
        ("dat", "invalid choice: 'dat'"),
        ("data", "required: NAME"),
        ("data babi", "one of the arguments --from --download --generate is required"),
        ("data babi --from", "argument --from: expected one argument"),
        ("data babi --from x --download", "--download: not allowed with argument --from"),
        ("data babi --generate --out x --seed -1", "argument --seed"),
        ("data babi --generate --out x --seed 1.5", "--seed: expected a whole number from 0"),
        ("data babi --generate --out x --stories 0", "--stories: expected a whole number from 1"),
        ("data babi --generate --out x --cache y", "--cache goes without --generate"),
        ("data babi --generate --out x --edition en", "--edition goes without --generate"),
        ("data babi --generate", "--generate needs --out DIR"),
        ("data babi --download --out x", "--out goes with --generate"),
        ("data babi --download --seed 1", "--seed goes with --generate"),
        ("data babi --from x --stories 1", "--stories goes with --generate"),
        ("data babi --from x --edition hn", "argument --edition: invalid choice: 'hn'"),
        ("data babi --from x --fast", "unrecognized arguments: --fast"),
        ("data babi --from not/there", "not/there: expected the bAbI archive or its folder"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(arguments: str, expected: str, capsys: Printed) -> None:
    line = refused(capsys, *arguments.split())
    assert line.startswith("dnclab")
    assert expected in line


@pytest.mark.usefixtures("_generator")
def test_refused_files_are_told_in_one_line(tmp_path: Path, capsys: Printed) -> None:
    folder = tmp_path / "en-10k"
    write_some_files(folder, seed=1, stories=1)
    line = refused(capsys, "data", "babi", "--from", str(tmp_path))
    assert "qa1_single-supporting-fact_test.txt: expected SHA-256" in line
    assert "generated files are read where they are, by load_folder" in line
    (tmp_path / "file").write_text("")
    archive = tmp_path / "archive.tar.gz"
    archive.write_bytes(b"no archive")
    line = refused(capsys, "data", "babi", "--from", str(archive))
    assert f"{archive}: expected a whole .tar.gz archive" in line
    line = refused(
        capsys, "data", "babi", "--from", str(archive), "--cache", str(tmp_path / "file")
    )
    assert "Not a directory" in line


def test_an_interruption_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    def interrupt(cache: Path | None) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr("dnclab.cli.babi.download", interrupt)
    assert cli.main(["data", "babi", "--download"]) == 130
    assert capsys.readouterr().err == "dnclab data babi: interrupted\n"


def test_faults_of_ours_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(cache: Path | None) -> Path:
        raise ZeroDivisionError

    monkeypatch.setattr("dnclab.cli.babi.download", fail)
    with pytest.raises(ZeroDivisionError):
        cli.main(["data", "babi", "--download"])


def test_the_command_runs_from_outside(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "dnclab", "data", "babi", "--from"]
    result = subprocess.run(
        [*command, str(tmp_path / "absent")], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == (
        f"dnclab data babi: {tmp_path / 'absent'}: expected the bAbI archive or its folder, "
        "found nothing\n"
    )


@pytest.mark.parametrize(
    ("edition", "first", "total"),
    [
        ("en-10k", "2,000 10,000 200 1,000", "62,661 200,000 6,267 20,000"),
        ("en", "200 1,000 200 1,000", "6,267 20,000 6,267 20,000"),
    ],
)
def test_the_published_files(
    edition: str, first: str, total: str, tmp_path: Path, capsys: Printed
) -> None:
    given = os.environ.get("DNCLAB_BABI")
    archive = Path(given) if given else ROOT / "../shared/data/babi/tasks_1-20_v1-2.tar.gz"
    if not archive.exists():
        pytest.skip(f"THE REAL bAbI FILES ARE NOT TESTED: {archive} is not there; set DNCLAB_BABI")
    arguments = ["data", "babi", "--from", str(archive), "--cache", str(tmp_path)]
    assert cli.main([*arguments, "--edition", edition]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["1", "single-supporting-fact", *first.split()]
    assert lines[21].split() == ["all", *total.split()]
    assert lines[22:] == [f"in {tmp_path / 'babi' / 'tasks_1-20_v1-2'}"]
