"""What needs a process of its own: compiling, several processes, an environment without extras."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPTS = Path(__file__).parent / "scripts"


def run(*arguments: str) -> str:
    """The output of a Python process; it must succeed."""
    finished = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=240, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_the_whole_model_compiles() -> None:
    assert "compiled: the same" in run(str(SCRIPTS / "compiled.py"))


def test_two_processes_are_one_with_the_whole_batch(tmp_path: Path) -> None:
    assert "parallel: the same" in run(str(SCRIPTS / "parallel.py"), str(tmp_path))


def test_the_model_on_a_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here: run tests/scripts/on_gpu.py where there is one")
    assert "cuda: the same" in run(str(SCRIPTS / "on_gpu.py"))


def test_users_need_no_shape_checker() -> None:
    """jaxtyping and beartype serve the tests only."""
    program = """
import sys
sys.modules["jaxtyping"] = sys.modules["beartype"] = None
import torch, dnclab
y, state = dnclab.DNC(3, 2, cells=4)(torch.zeros(5, 2, 3))
print(tuple(y.shape))
"""
    assert run("-W", "error", "-c", program).strip() == "(5, 2, 2)"


def test_importing_is_quiet_and_loads_no_heavy_extras() -> None:
    program = """
import sys, torch
before = set(sys.modules)
import dnclab
heavy = {"numba", "matplotlib", "argparse", "triton", "scipy", "pandas"}
print(sorted(heavy & (set(sys.modules) - before)))
"""
    assert run("-W", "error", "-c", program).strip() == "[]"
