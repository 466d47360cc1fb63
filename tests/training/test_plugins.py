"""Things by name: those of the package, of other packages, and module:object."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from dnclab.training import plugins
from dnclab.training.config import Size, TaskConfig
from dnclab.training.plugins import find
from dnclab.training.tasks import Bitmaps, build_task


def test_the_known_ones_come_first() -> None:
    assert find("task", "mine", {"mine": 3}) == 3


def test_a_module_and_an_object_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "things_of_mine.py").write_text("class Box:\n    inner = 7\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert find("task", "things_of_mine:Box.inner", {}) == 7
    for name, fault in (
        ("things_of_mine:Bag", "has no attribute 'Bag'"),
        ("no_such_module:x", "No module named 'no_such_module'"),
        (":x", "Empty module name"),
    ):
        with pytest.raises(ValueError, match=f"task: {name} cannot be imported: .*{fault}"):
            find("task", name, {})


def test_entry_points_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is installed offers its task under a name."""
    offered = EntryPoint("echo", "dnclab.tasks.repeat_copy:RepeatCopy", "dnclab.tasks")

    def entry_points(*, group: str) -> EntryPoints:
        return EntryPoints([offered] if group == "dnclab.tasks" else [])

    monkeypatch.setattr(plugins, "entry_points", entry_points)
    task = build_task(TaskConfig(name="echo", sizes={"bits": 3}))
    assert isinstance(task, Bitmaps)
    assert task.task.input_size == 4
    with pytest.raises(ValueError, match=r"task: expected one of .*, echo, or module:object; got"):
        build_task(TaskConfig(name="ecco"))


def test_what_is_no_task_is_refused() -> None:
    with pytest.raises(ValueError, match=r"task: collections:Counter makes a Counter; expected"):
        build_task(TaskConfig(name="collections:Counter"))
    with pytest.raises(ValueError, match=r"task\.sizes: .*colour"):
        build_task(TaskConfig(name="key-value", sizes={"colour": 3}))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"tasks": "0+33"}, "tasks: expected some of 1 to 20"),
        ({"tasks": "one"}, "tasks: expected all, or numbers as 1.4.19, got 'one'"),
        ({"tasks": ""}, "tasks: expected all, or numbers"),
        ({"generated": 0}, "generated: expected at least 1, got 0"),
        ({"generated": 2, "batch_size": 0}, "batch_size: expected at least 1, got 0"),
    ],
)
def test_sizes_of_babi_are_checked(sizes: dict[str, Size], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_task(TaskConfig(name="babi", sizes=sizes))
