"""The wheel: built from this tree, holds the package and its licence, asks for little."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    [built] = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    assert wheel.name == "dnclab-0.1.0-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    package = {name for name in names if name.startswith("dnclab/")}
    sources = {
        f"dnclab/{path.relative_to(ROOT / 'src/dnclab').as_posix()}"
        for path in (ROOT / "src/dnclab").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert package == sources
    assert "dnclab/py.typed" in package
    assert "dnclab-0.1.0.dist-info/licenses/LICENSE" in names
    assert all(name.startswith(("dnclab/", "dnclab-0.1.0.dist-info/")) for name in names)


def test_it_asks_for_little(wheel: Path) -> None:
    metadata = zipfile.ZipFile(wheel).read("dnclab-0.1.0.dist-info/METADATA").decode()
    core = [
        line
        for line in metadata.splitlines()
        if line.startswith("Requires-Dist") and "extra ==" not in line
    ]
    assert sorted(line.split()[1].split(">")[0] for line in core) == [
        "numba",
        "numpy",
        "safetensors",
        "torch",
    ]
    assert "Requires-Python: >=3.10" in metadata
    assert "License-Expression: Apache-2.0" in metadata


def test_the_installed_wheel_runs_from_anywhere(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    program = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import dnclab, torch
print(dnclab.__file__, dnclab.__version__)
print(tuple(dnclab.DNC(2, 3)(torch.zeros(4, 5, 2))[0].shape))
"""
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    location, shape = finished.stdout.splitlines()
    assert location == f"{tmp_path / 'dnclab' / '__init__.py'} 0.1.0"
    assert shape == "(4, 5, 3)"


def test_every_package_that_make_installs_has_its_exact_version() -> None:
    """But for those that PyTorch brings for GPUs, of which it names the versions itself."""
    pinned = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate():
                pinned[canonicalize_name(requirement.name)] = requirement.specifier
    checked = 0
    for package in distributions():
        name = canonicalize_name(package.metadata["Name"])
        if name not in {"dnclab", "pip"} and not name.startswith(("cuda-", "nvidia-", "triton")):
            assert name in pinned, f"constraints.txt: no version of {name}"
            assert pinned[name].contains(package.version, prereleases=True), name
            checked += 1
    assert checked > 40
