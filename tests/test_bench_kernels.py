from __future__ import annotations

import importlib
import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dnclab import agreement, bench_kernels, bench_stages
from dnclab.bench_kernels import Size, memory_records, peak_bytes
from dnclab.cli import main
from dnclab.config import DNCConfig
from dnclab.kernels.compiled import inner

TINY = Size(
    "tiny",
    DNCConfig(input_size=3, output_size=2, hidden_size=6, cells=5, word_size=4),
    steps=4,
    samples=2,
)


def test_a_row_for_each_work_and_a_record_of_each(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(bench_kernels.SIZES, "tiny", TINY)
    records = tmp_path / "records.jsonl"
    command = "bench kernels --sizes tiny --repeats 1 --memory-steps 0 --jsonl"
    assert main([*command.split(), str(records)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("`dnclab bench kernels`: ")
    rows = [line.split(" | ") for line in printed if line.startswith("| tiny (N5 W4 R1 H6 B2)")]
    assert [row[3] for row in rows] == list(bench_kernels.WORKS)
    told = [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()]
    for row, record in zip(rows, told, strict=True):
        ratio = record["reference_seconds_per_step"] / record["fused_seconds_per_step"]
        assert record["ratio"] == ratio
        assert float(row[6]) == pytest.approx(ratio, abs=0.05)
        assert 0 < record["largest_error"] < 1e-4


def test_kernels_that_do_not_agree_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "compare", lambda *a, **k: {"outputs": 1e-6, "reads": 0.5})
    with pytest.raises(RuntimeError, match=r"tiny: reads is off by 5\.0e-01, more than 1e-04"):
        next(bench_kernels.measure(TINY, 1, 1))


def test_rebuilding_the_memory_takes_less_of_it() -> None:
    """Each in a process of its own: one that has worked before has memory left over."""
    size = Size(
        "wide",
        DNCConfig(input_size=3, output_size=2, hidden_size=8, cells=130, word_size=64),
        steps=400,
        samples=1,
    )
    kept, rebuilt = (
        _in_a_new_process(size, {"backend": "fused", "rebuild_memory": rebuild})
        for rebuild in (False, True)
    )
    memory = 400 * 144 * 64 * 4  # cells in whole lanes
    assert memory < kept < 2 * memory
    assert kept - rebuilt > 0.8 * memory


def _in_a_new_process(size: Size, options: dict[str, Any]) -> int:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(peak_bytes, size, options).result()


def test_the_settings_whose_memory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Here:
        """A process that is this one."""

        def __init__(self, *_: Any, **__: Any) -> None: ...

        def __enter__(self) -> Here:
            return self

        def __exit__(self, *_: object) -> None: ...

        def submit(self, *given: Any) -> Any:
            self.given = given
            return self

        def result(self) -> int:
            return len(str(self.given[-1])) * 1000

    monkeypatch.setattr(bench_kernels, "ProcessPoolExecutor", Here)
    told = list(memory_records(TINY, ["reference", "fused, memory rebuilt"]))
    assert [record["setting"] for record in told] == ["reference", "fused, memory rebuilt"]
    assert [record["peak_bytes"] for record in told] == [
        1000 * len(str(bench_kernels.SETTINGS[record["setting"]])) for record in told
    ]
    assert all(r["bytes_per_step_and_sample"] == r["peak_bytes"] / 8 for r in told)


# --- stages --------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", bench_stages.STAGES)
def test_every_stage_is_a_part_of_the_kernels(layout: str) -> None:
    for doubled in bench_stages.STAGES[layout].values():
        for module, name in doubled:
            part = getattr(importlib.import_module(f"dnclab.kernels.{module}"), name)
            assert callable(part.py_func), name


@inner
def _add_one(numbers: Any) -> int:
    numbers[0] += 1
    return 7


def test_a_stage_is_done_twice() -> None:
    numbers = np.zeros(1)
    assert bench_stages._twice(_add_one)(numbers) == 7
    assert numbers[0] == 2
    with pytest.raises(TypeError, match="expected a part of kernels"):
        bench_stages._twice(len)


def test_the_table_of_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stage takes a microsecond of ten."""
    monkeypatch.setattr(
        bench_stages,
        "plain_and_doubled",
        lambda names, layout, doubled, repeats: [(1e-5, 1.1e-5) for _ in names],
    )
    lines = list(bench_stages.stages_table(["repeat-copy", "key-value"], repeats=1))
    assert "| lanes | repeat-copy | key-value |" in lines
    assert "| links, back | 1.0 (10%) | 1.0 (10%) |" in lines
    left = 10 - len(bench_stages.STAGES["lanes"])
    assert lines[-2].startswith(f"| what is left | {left:.1f} ({left / 10:.0%}) |")
