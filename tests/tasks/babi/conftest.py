"""A small data set in the real form, and the real one where it can be found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dnclab.tasks.babi import encoding, install
from dnclab.tasks.babi.checksums import digest
from dnclab.tasks.babi.format import SPLITS, TASK_NAMES, Line, Story, file_name, write_story
from dnclab.tasks.babi.reader import EDITIONS, TOP_FOLDER

ROOT = Path(__file__).resolve().parents[3]
PLACES = ("kitchen", "garden", "office")


def story(task: int, number: int) -> Story:
    """A story of 2 to 5 lines; its last answer has one word, or in task 19 two."""
    place, other = PLACES[number % 3], PLACES[(number + task) % 3]
    answer = (place, other) if task == 19 else (place,)
    fillers = (Line(f"Daniel saw animal{task} there."),) * (number % 4)
    return (
        Line(f"Mary went to the {place}."),
        *fillers,
        Line("Where is Mary?", answer, (1,)),
    )


def small_file(task: int, split: str, stories: int) -> bytes:
    start = 0 if split == "train" else 1
    return "".join(write_story(story(task, start + n), task) for n in range(stories)).encode()


@pytest.fixture(scope="session")
def small_files() -> dict[str, bytes]:
    """The 80 files by name: 4 training and 2 test stories a task, 3 and 2 in ``en``."""
    train_stories = {"en-10k": 4, "en": 3}
    return {
        f"{edition}/{file_name(task, split)}": small_file(
            task, split, train_stories[edition] if split == "train" else 2
        )
        for edition in EDITIONS
        for task in TASK_NAMES
        for split in SPLITS
    }


@pytest.fixture
def small_folder(tmp_path: Path, small_files: dict[str, bytes]) -> Path:
    """A folder that holds ``en-10k`` and ``en``."""
    top = tmp_path / "source" / TOP_FOLDER
    for name, content in small_files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(content)
    return top


@pytest.fixture
def _small_is_published(monkeypatch: pytest.MonkeyPatch, small_files: dict[str, bytes]) -> None:
    """The small files pass for the published ones."""
    checksums = {name: digest(content) for name, content in small_files.items()}
    monkeypatch.setattr(install, "published", lambda: checksums)
    monkeypatch.setattr(encoding, "published", lambda: checksums)


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees or fills the user's cache."""
    monkeypatch.setenv("DNCLAB_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def real_archive() -> Path:
    """The published archive, or a repacked one."""
    given = os.environ.get("DNCLAB_BABI")
    archive = Path(given) if given else ROOT / "../shared/data/babi/tasks_1-20_v1-2.tar.gz"
    if not archive.exists():
        pytest.skip(
            f"THE REAL bAbI FILES ARE NOT TESTED: {archive} is not there; "
            "set DNCLAB_BABI to tasks_1-20_v1-2.tar.gz or its folder"
        )
    return archive


@pytest.fixture(scope="session")
def real_folder(real_archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published files, installed."""
    return install.install_from(real_archive, tmp_path_factory.mktemp("real"))
