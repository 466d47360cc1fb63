"""What is kept of runs, and that figures and tables come from it alone."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from made_up import config, recording, run_result, write_plan, write_run, write_sweep

from dnclab.cli import main
from dnclab.reports.recordings import encoded
from dnclab.reports.render import figures_of, render
from dnclab.reports.results import (
    Results,
    collect,
    load_results,
    merged,
    save_results,
)
from dnclab.runs import RunError


def test_what_is_kept_of_a_run_by_hand(tmp_path: Path) -> None:
    write_run(tmp_path / "run", config(steps=400, seed=3), error=0.25)
    [run] = collect([tmp_path / "run"]).runs
    assert (run.name, run.task, run.label, run.seed) == ("run", "repeat-copy", "DNC", 3)
    assert (run.step, run.steps, run.reason) == (400, 400, "finished")
    assert run.curve_every == 2
    assert len(run.curve) == 200
    assert run.curve[0] == (10 + 0.25 + 5 + 0.25) / 2
    assert run.curve[1] == float(f"{(10 / 3 + 10 / 4) / 2 + 0.25:.6g}")
    assert run.curve_steps[:2] == (2, 4)
    assert run.curve_steps[-1] == 400
    assert run.evaluations == {
        "step": (200, 400), "loss": (0.25, 0.25), "bit_error": (0.00125, 0.000625),
    }  # fmt: skip
    assert run.solved_at == 400
    assert run.measures == {"link_reads": 0.123457}
    assert run.environment["versions"]


def test_labels() -> None:
    assert run_result(variant="dnc-mds").label == "DNC-MDS"
    assert run_result(variant="dnc-md", mask_min=0.0).label == "DNC-MD, δ=0"
    assert run_result(variant="dnc-d", mask_min=0.0).label == "DNC-D"  # it has no masks


def test_solved_is_the_first_evaluation_that_is_good_enough() -> None:
    assert run_result(errors=(0.5, 0.001, 0.2, 0.0)).solved_at == 500
    assert run_result(errors=(0.5, 0.0011)).solved_at is None
    assert run_result(errors=(None, 0.0)).solved_at == 1000
    assert run_result(errors=(0.05, 0.06), error_name="error").solved_at == 500
    assert run_result(errors=(0.0,), error_name="own").solved_at is None
    assert run_result(errors=(None, 0.3, 0.4)).best("bit_error") == 0.3
    assert run_result(errors=(0.3, 0.4)).final("bit_error") == 0.4


def test_what_cannot_be_used_is_named_with_the_reason(tmp_path: Path) -> None:
    sweep = tmp_path / "sweep"
    names = ["good", "stopped", "at-work", "young", "broken", "torn", "other", "again", "empty"]
    write_run(sweep / "good", config(steps=10))
    write_run(sweep / "stopped", config(steps=10, seed=1), reason="interrupted")
    write_run(sweep / "at-work", config(steps=10, seed=2), reason=None)
    write_run(sweep / "young", config(steps=10, seed=3))
    (sweep / "young" / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    write_run(sweep / "broken", config(steps=10, seed=4))
    (sweep / "broken" / "config.json").write_text("{")
    write_run(sweep / "torn", config(steps=10, seed=5))
    (sweep / "torn" / "measures.json").write_text('{"measures_version": 1}')
    write_run(sweep / "other", config(steps=10, seed=6, cells=32))
    write_run(sweep / "again", config(steps=10))
    (sweep / "empty").mkdir()
    results = collect([sweep, tmp_path / "nowhere"])
    reasons = {skipped.name: skipped.reason for skipped in results.skipped}
    assert reasons == {
        "stopped": "not finished: step 10 of 10",
        "at-work": "not finished: step 10 of 10",
        "young": "no evaluation yet: step 1 of 10",
        "broken": reasons["broken"],
        "torn": "its files are not as a run's are: KeyError('values')",
        "other": "model.cells: expected 16 as in again, got 32",
        "good": "a second run of DNC, seed 0",
        "empty": "not a run folder: it has no config.json",
        "nowhere": "not started",
    }
    assert reasons["broken"].startswith("broken/config.json: not JSON")
    assert not any(str(tmp_path) in reason for reason in reasons.values())
    assert [run.name for run in results.runs] == ["again"]

    assert len(collect([sweep], unfinished=True).runs) == 3
    write_plan(sweep, [*names[:2], "absent"])
    planned = collect([sweep])
    assert [run.name for run in planned.runs] == ["good"]
    assert [(own.name, own.reason) for own in planned.skipped] == [
        ("stopped", "not finished: step 10 of 10"), ("absent", "not started"),
    ]  # fmt: skip


def same(first: Results, second: Results) -> bool:
    """Equal in all that is kept."""
    ours, theirs = (
        (
            [vars(run) for run in own.runs], own.skipped, own.commands,
            [encoded(recording) for recording in own.recordings],
        )
        for own in (first, second)
    )  # fmt: skip
    return ours == theirs


def test_files_give_the_results_back(tmp_path: Path) -> None:
    write_sweep(tmp_path / "sweep", ["dnc-d", "dnc-ds"], 2, "repeat-copy")
    results = collect([tmp_path / "sweep", tmp_path / "nowhere"], command="dnclab sweep ...")
    assert len(results.runs) == 4
    assert len(results.recordings) == 2
    assert results.recordings[0].seed == 1  # the one with the least loss
    assert "memory" not in results.recordings[0].arrays
    save_results(tmp_path / "kept", results)
    loaded = load_results(tmp_path / "kept")
    assert same(loaded, results)
    save_results(tmp_path / "again", loaded)
    for name in ("results.json", "recordings/repeat-copy-dnc-d.json"):
        assert (tmp_path / "kept" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    values = json.loads((tmp_path / "kept" / "results.json").read_text())
    assert len(values["configs"]) == len(values["environments"]) == 1  # said once, not four times


def test_parts_are_read_together_and_a_run_counts_once(tmp_path: Path) -> None:
    write_sweep(tmp_path / "sweep", ["dnc-d", "dnc-ds"], 2, "repeat-copy")
    results = collect([tmp_path / "sweep"])
    save_results(tmp_path / "kept" / "copy", results)
    save_results(tmp_path / "kept" / "links", results)
    assert len(load_results(tmp_path / "kept").runs) == 4
    assert len(merged([results, results]).recordings) == 2
    with pytest.raises(RunError, match=r"no results: neither it nor a folder in it has a results"):
        load_results(tmp_path)
    (tmp_path / "kept" / "copy" / "results.json").write_text('{"results_version": 2}')
    with pytest.raises(RunError, match="expected results_version 1, got 2"):
        load_results(tmp_path / "kept")
    (tmp_path / "kept" / "copy" / "results.json").write_text('{"results_version": 1}')
    with pytest.raises(RunError, match="not as results are"):
        load_results(tmp_path / "kept")


def made_from(folder: Path) -> dict[str, bytes]:
    """Every figure and table of a folder of results."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "results.json" and "recordings" not in path.parts
    }


def test_figures_and_tables_come_from_what_is_kept_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bit-identical from the files that are committed, wherever they are."""
    write_sweep(tmp_path / "sweep", ["dnc-d", "dnc-ds"], 2, "repeat-copy")
    write_run(tmp_path / "key" / "run", config("key-value", "dnc-m", steps=10))
    kept = tmp_path / "kept"
    assert main(["collect", str(tmp_path / "sweep"), "--out", str(kept / "copy")]) == 0
    assert main(["collect", str(tmp_path / "key"), "--out", str(kept / "key-value")]) == 0
    capsys.readouterr()
    first = render(kept)
    made = made_from(kept)
    assert {str(path.relative_to(kept)) for path in first} == made.keys()
    assert {Path(name).stem for name in made} == {
        "claims", "summary", "comparisons", "runs",
        "repeat-copy-loss", "repeat-copy-error", "repeat-copy-links",
        "repeat-copy-dnc-d-sequence", "repeat-copy-dnc-ds-sequence",
        "key-value-loss", "key-value-error", "key-value-dnc-m-sequence", "key-value-dnc-m-masks",
    }  # fmt: skip
    for part in ("copy", "key-value"):
        for name in ("results.json", "recordings"):
            place = tmp_path / "elsewhere" / part / name
            place.parent.mkdir(parents=True, exist_ok=True)
            source = kept / part / name
            if source.is_dir():
                shutil.copytree(source, place)
            else:
                shutil.copy(source, place)
    shutil.rmtree(tmp_path / "sweep")
    assert main(["figures", str(tmp_path / "elsewhere")]) == 0
    assert made_from(tmp_path / "elsewhere") == made


def test_nothing_usable_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["collect", str(tmp_path / "empty"), "--out", str(tmp_path / "kept")]) == 2
    assert "expected at least one run" in capsys.readouterr().err
    assert main(["figures", str(tmp_path)]) == 2
    assert "no results" in capsys.readouterr().err


def test_a_recording_is_found_by_task_and_label() -> None:
    own = recording(variant="dnc-d")
    results = Results(recordings=(own, replace(own, variant="dnc-ds")))
    assert results.recording("repeat-copy", "DNC-D") is own
    assert results.recording("repeat-copy", "DNC") is None


# --- those of this repository --------------------------------------------------------------------

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_the_tables_in_the_documentation_are_made_again_to_the_last_digit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_again = tmp_path / "results"
    shutil.copytree(RESULTS, made_again, ignore=shutil.ignore_patterns("tables", "claims.*"))
    monkeypatch.setattr("dnclab.reports.render.figures_of", lambda results: {})
    render(made_again)
    tables = sorted(path.relative_to(RESULTS) for path in RESULTS.rglob("tables/*"))
    tables += [path.relative_to(RESULTS) for path in sorted(RESULTS.glob("claims.*"))]
    assert len(tables) > 9
    for table in tables:
        assert (made_again / table).read_bytes() == (RESULTS / table).read_bytes(), table


def test_the_figures_in_the_documentation_are_those_of_its_results() -> None:
    for part in RESULTS.glob("*/results.json"):
        drawn = {path.stem for path in (part.parent / "figures").iterdir()}
        assert drawn == set(figures_of(load_results(part.parent)))
