"""What the documents say is so: examples run, tags and names exist, CI runs what README says."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import dnclab
from dnclab.cli import main

ROOT = Path(__file__).parents[1]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def code_blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", read(name), re.MULTILINE | re.DOTALL)


DOCUMENTS = [
    "README.md", "docs/guide.md", "docs/kernels.md", "docs/tasks.md", "docs/training.md",
]  # fmt: skip


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_examples_run(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Block after block, as a reader would paste them; those that are files become files."""
    monkeypatch.chdir(tmp_path)
    blocks = code_blocks(document, "python")
    assert blocks
    names: dict[str, object] = {"__name__": "pasted"}
    for block in blocks:
        if not save_file(block):
            exec(compile(block, document, "exec"), names)
    if document == "README.md":
        assert len([line for line in blocks[0].splitlines() if line]) <= 10


def save_file(block: str) -> bool:
    """Whether a block says which file it is; then it is written."""
    first, _, rest = block.partition("\n")
    if not first.startswith("# file: "):
        return False
    Path(first.removeprefix("# file: ")).write_text(rest, encoding="utf-8")
    return True


@pytest.mark.parametrize(
    "document",
    ["README.md", "docs/report.md", "docs/reproduce.md", "docs/tasks.md", "docs/training.md"],
)
def test_the_commands_run(
    document: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All but those that fetch something or name a file that only the reader has."""
    monkeypatch.chdir(tmp_path)
    for block in code_blocks(document, "python"):
        save_file(block)
    commands = [
        line
        for block in code_blocks(document, "sh")
        for line in block.splitlines()
        if line.startswith("dnclab ") and "--download" not in line and "path/to" not in line
    ]
    assert commands
    for command in commands:
        assert main(command.split()[1:]) == 0, command
        assert capsys.readouterr().out


def test_make_demo_is_the_command_of_that_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A few steps of it; that it learns is for the learning tests."""
    assert re.search(r"^demo: .*\n\t\$\(BIN\)/dnclab demo$", read("Makefile"), re.MULTILINE)
    folder = tmp_path / "demo"
    assert main(["demo", "--steps", "3", "--out", str(folder)]) == 0
    assert f"in {folder}: pictures/" in capsys.readouterr().out
    pictures = {path.name for path in (folder / "pictures").iterdir()}
    assert pictures == {
        f"{name}.{suffix}"
        for name in ("curve", "sequence", "addresses")
        for suffix in ("png", "svg")
    }
    assert main(["demo", "--out", str(folder)]) == 0  # told again, not trained anew
    assert "finished at step 3" in capsys.readouterr().out


def test_ci_runs_the_readmes_test_command_and_nothing_else() -> None:
    making = [block for block in code_blocks("README.md", "sh") if "make" in block]
    assert making == ["make demo\n", "make test\n"]
    commands = [
        line
        for line in read(".ci/run").splitlines()
        if line and not line.startswith(("#", "set ", "cd "))
    ]
    assert commands == ["make test"]
    makefile = read("Makefile")
    assert re.search(r"^test: check tests$", makefile, re.MULTILINE)
    for step in ("ruff format --check", "ruff check", "mypy", "pytest"):
        assert step in makefile


ROW = re.compile(r"^\| ([A-Z]\d) \| (.*?) \| (.*?) \|", re.MULTILINE)
TAG = re.compile(r"\[([A-Z]\d)\]")


def test_every_tag_in_the_code_has_its_row_and_the_other_way_round() -> None:
    rows = [tag for tag, *_ in ROW.findall(read("docs/equations.md"))]
    sources = [*(ROOT / "src/dnclab/memory").glob("*.py"), ROOT / "src/dnclab/model.py"]
    tags = [tag for path in sources for tag in TAG.findall(path.read_text(encoding="utf-8"))]
    assert sorted(rows) == sorted(tags)
    assert len(rows) == len(set(rows)) == 24


def test_every_name_in_the_table_exists() -> None:
    homes = {
        "equations": "dnclab.memory.equations",
        "interface": "dnclab.memory.interface",
        "model": "dnclab.model",
        "DNC": "dnclab",
    }
    model = dnclab.DNC(2, 2)
    checked = 0
    for tag, _, code in ROW.findall(read("docs/equations.md")):
        for name in re.findall(r"`([\w.]+)`", code):
            if name.endswith(".py"):
                assert (ROOT / "src/dnclab" / name).is_file(), tag
            elif name.startswith("DNC."):
                assert hasattr(model, name.removeprefix("DNC.")), tag
            else:
                home, *path = name.split(".")
                found: object = importlib.import_module(homes[home])
                for part in path:
                    found = getattr(found, part)
            checked += 1
    assert checked >= 24


def test_links_lead_somewhere() -> None:
    for document in ("README.md", "CONTRIBUTING.md", *map(str, (ROOT / "docs").glob("*.md"))):
        for target in re.findall(r"\]\(([^)#]+)\)", read(document)):
            assert target.startswith("http") or (ROOT / document).parent.joinpath(target).exists()
