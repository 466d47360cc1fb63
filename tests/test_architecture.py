"""Imports follow one direction, so that each part can be read without the ones above it."""

from __future__ import annotations

import ast
from pathlib import Path

import dnclab

ROOT = Path(dnclab.__file__).parent

MAY_IMPORT = {
    "checks": set[str](),
    "memory": {"checks", "memory"},
    "kernels": {"kernels"},
    "controllers": {"checks", "memory"},
    "sequences": {"checks"},
    "state": {"checks", "memory"},
    "config": {"checks", "memory"},
    "pretrained": {"checks"},
    "fused": {"config", "controllers", "kernels", "memory", "model", "state"},
    "model": {
        "checks",
        "config",
        "controllers",
        "fused",
        "kernels",
        "memory",
        "pretrained",
        "sequences",
        "state",
    },
    "tasks": {"checks", "tasks"},
    "runs": {"checks"},
    "reports": {"reports", "runs", "tasks"},
    "training": {
        "checks",
        "config",
        "controllers",
        "model",
        "reports",
        "runs",
        "state",
        "tasks",
        "training",
    },
    "agreement": {"config", "memory", "model", "state"},
    "bench": {"runs", "tasks", "training"},
    "bench_kernels": {
        "agreement",
        "bench",
        "config",
        "fused",
        "kernels",
        "model",
        "training",
    },
    "bench_stages": {"bench", "bench_kernels", "fused", "kernels", "model"},
    "cli": {
        "agreement",
        "bench",
        "bench_kernels",
        "bench_stages",
        "cli",
        "config",
        "kernels",
        "reports",
        "runs",
        "tasks",
        "training",
    },
    "__main__": {"cli"},
    "__init__": {"config", "controllers", "memory", "model", "state"},
}
"""For each part of the package the parts that it may import."""


def imported_parts(path: Path) -> set[str]:
    """The parts of dnclab that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            names = [f"{module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.split(".")[0] == "dnclab"}
    return found


def test_imports_follow_the_flow() -> None:
    seen = set()
    for path in ROOT.rglob("*.py"):
        part = path.relative_to(ROOT).parts[0].removesuffix(".py")
        seen.add(part)
        assert imported_parts(path) <= MAY_IMPORT[part], f"{path} imports against the flow"
    assert seen == MAY_IMPORT.keys()


def test_the_public_names_are_there() -> None:
    assert len(set(dnclab.__all__)) == len(dnclab.__all__)
    assert all(getattr(dnclab, name).__doc__ for name in dnclab.__all__)
