"""The checksums of the published files: what tells bAbI v1.2 from anything else.

``tasks_1-20_v1-2.sha256`` beside this module has the form that ``sha256sum --check`` reads.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib import resources

from dnclab.tasks.babi.format import SPLITS, file_name
from dnclab.tasks.babi.reader import ALL_TASKS


def digest(content: bytes) -> str:
    """The SHA-256 of a file's content, as hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def edition_files() -> list[str]:
    """The names of the 40 files of an edition, by task."""
    return [file_name(task, split) for task in ALL_TASKS for split in SPLITS]


@lru_cache(maxsize=1)
def published() -> dict[str, str]:
    """``{"en-10k/qa1_single-supporting-fact_train.txt": SHA-256, ...}`` for all 80 files."""
    text = resources.files(__package__).joinpath("tasks_1-20_v1-2.sha256").read_text("ascii")
    rows = (line.split("  ") for line in text.splitlines())
    return {name: sha256 for sha256, name in rows}
