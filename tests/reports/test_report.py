"""The report on a tiny sweep, from the command to the browser."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By

from dnclab.cli import main
from dnclab.reports.claims import Claim
from dnclab.reports.page import ASSETS, SCRIPTS, STYLES, Page, render
from dnclab.reports.recordings import Phase, load_recording, save_recording
from dnclab.reports.report import make_report, values_in_words
from dnclab.reports.results import Skipped, load_results
from dnclab.reports.tables import Table

SIZES = ["task.sizes.max_length=3", "task.sizes.max_repeats=2", "task.sizes.batch_size=2"]
COURSE = ["course.evaluate_every=2", "course.checkpoint_every=2", "course.evaluation_batches=1"]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two variants of a small task, trained for a few steps and recorded."""
    folder = tmp_path_factory.mktemp("sweep") / "copies"
    arguments = ["--variants", "dnc,mds", "--seeds", "1", "--steps", "4", "--jobs", "2"]
    assert (
        main(
            [
                "sweep",
                "repeat-copy-small",
                *arguments,
                "--out",
                str(folder),
                "--set",
                *SIZES,
                *COURSE,
            ]
        )
        == 0
    )
    return folder


def run(sweep: Path, variant: str) -> Path:
    return sweep / f"{variant}-seed0"


def report(tmp_path: Path, *arguments: str | Path) -> Path:
    out = tmp_path / "report.html"
    assert main(["report", *map(str, arguments), "--out", str(out)]) == 0
    return out


def texts(browser: Chrome, selector: str) -> list[str]:
    return [found.text for found in browser.find_elements(By.CSS_SELECTOR, selector)]


# --- from runs to the page -----------------------------------------------------------------------


def test_a_sweep_becomes_a_page(
    sweep: Path, tmp_path: Path, browser: Chrome, capsys: pytest.CaptureFixture[str]
) -> None:
    partial = shutil.copytree(sweep / "dnc-seed0", tmp_path / "partial")
    (partial / "outcome.json").unlink()
    (tmp_path / "empty").mkdir()
    out = report(tmp_path, sweep, partial, tmp_path / "empty", tmp_path / "nowhere")
    said = capsys.readouterr().out
    assert "claim 1: not enough runs" in said
    assert "left out: empty: not a run folder: it has no config.json" in said

    browser.get(out.as_uri())
    assert texts(browser, "h1") == ["2 runs of repeat-copy"]
    assert texts(browser, "header .lead") == ["repeat-copy: DNC (1 seed) and DNC-MDS (1 seed)."]
    sections = texts(browser, "nav a")
    assert sections == [
        "Left out", "Claims", "Memory player", "Figures", "Tables", "Configurations", "Environment",
    ]  # fmt: skip
    for link in browser.find_elements(By.CSS_SELECTOR, "nav a"):
        anchor = str(link.get_attribute("href")).partition("#")[2]
        assert browser.find_element(By.ID, anchor).find_element(By.TAG_NAME, "h2").text
    assert texts(browser, "#skipped li") == [
        "partial not finished: step 4 of 4",
        "empty not a run folder: it has no config.json",
        "nowhere not started",
    ]
    assert texts(browser, ".verdict") == ["not enough runs"] * 5
    assert len(texts(browser, ".claims li li")) > 5

    shown = browser.execute_script(
        "return Array.from(document.images).map((image) => [image.alt, image.naturalWidth])"
    )
    assert len(shown) >= 3
    assert all(name and width > 300 for name, width in shown)
    assert "repeat-copy, training loss: the mean of the seeds" in shown[0][0]
    titles = texts(browser, "#tables caption")
    assert titles[0] == "repeat-copy: by variant"
    assert titles[-1] == "repeat-copy: every run"
    browser.find_element(By.CSS_SELECTOR, "#configurations summary").click()
    settings = dict(line.split(" ", 1) for line in texts(browser, "#configurations tbody tr"))
    assert settings["model.variant"] == "dnc, dnc-mds"
    assert settings["task.sizes.max_length"] == "3"
    assert settings["course.seed"] == "0"

    recording = load_recording(best_recording(sweep))
    assert texts(browser, ".chooser") == [recording.title]
    slider = browser.find_element(By.ID, "step")
    slider.send_keys(Keys.END, Keys.ARROW_LEFT)
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    where = browser.find_element(By.ID, "where").text
    assert where == f"step {recording.steps - 2} of {recording.steps - 1}"

    fetched = browser.execute_script(
        "return performance.getEntriesByType('resource').map((entry) => entry.name.slice(0, 5))"
    )
    assert set(fetched) <= {"data:"}


def best_recording(sweep: Path) -> Path:
    """That of the run with the least loss."""
    best = min(make_report([sweep]).recordings, key=lambda recording: recording.variant)
    return run(sweep, best.variant) / "recording.json"


def test_the_same_runs_give_the_same_bytes(sweep: Path, tmp_path: Path) -> None:
    first = report(tmp_path, sweep).read_bytes()
    assert report(tmp_path, sweep).read_bytes() == first


def test_one_run_alone_and_the_run_that_is_asked_for(sweep: Path, tmp_path: Path) -> None:
    page = make_report([run(sweep, "dnc")])
    assert page.title == "dnc-seed0"
    assert [recording.variant for recording in page.recordings] == ["dnc"]
    both = [run(sweep, "dnc-mds"), run(sweep, "dnc") / "recording.json"]
    page = make_report([sweep], players=both)
    assert [recording.variant for recording in page.recordings] == ["dnc-mds", "dnc"]
    assert '<select id="recording">' in render(page)


def test_a_folder_of_results_is_enough(sweep: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    assert main(["collect", str(sweep), "--out", str(kept)]) == 0
    from_runs, from_results = make_report([sweep]), make_report([kept])
    assert from_results.title == from_runs.title
    assert from_results.tables == from_runs.tables
    assert from_results.figures == from_runs.figures
    assert from_results.claims == from_runs.claims
    assert {own.variant for own in from_results.recordings} == {"dnc", "dnc-mds"}
    assert all("links" not in own.arrays for own in from_results.recordings)
    together = make_report([kept, run(sweep, "dnc")], players=[run(sweep, "dnc")])
    assert [("links" in own.arrays, own.variant) for own in together.recordings] == [
        (True, "dnc"),
        (False, "dnc-mds"),
    ]
    assert len(load_results(kept).runs) == 2


def test_a_damaged_recording_is_named(sweep: Path, tmp_path: Path) -> None:
    damaged = shutil.copytree(run(sweep, "dnc"), tmp_path / "damaged")
    (damaged / "recording.json").write_text("{")
    with pytest.raises(ValueError, match=r"recording\.json: not JSON"):
        make_report([sweep], players=[damaged])
    page = make_report([damaged])
    [skipped] = page.skipped
    assert skipped.name == "damaged/recording.json"
    assert skipped.reason.startswith("not JSON: Expecting property name")
    assert page.title == "damaged"
    assert page.recordings == []
    html = render(page)
    assert 'id="player"' not in html
    assert "<script" not in html


def test_what_cannot_be_reported_is_refused(
    sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = shutil.copytree(run(sweep, "dnc"), tmp_path / "bare")
    (bare / "recording.json").unlink()
    for arguments, message in [
        (["report", str(tmp_path / "no")], "nothing to report: no: not started"),
        (["report", str(sweep), "--player", str(bare)], f"dnclab measure {bare} makes one"),
        (["report", str(sweep), "--out", str(tmp_path / "no" / "x.html")], "No such file"),
    ]:
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    assert main(["report", str(bare), "--out", str(tmp_path / "x.html")]) == 0
    assert "no run has a recording to play: dnclab measure RUN" in capsys.readouterr().out


# --- the page itself -----------------------------------------------------------------------------

HOSTILE = """<img src=x onerror="window.hacked = 1"></script><script>window.hacked = 1</script>"""


def test_names_are_text_whatever_they_are(sweep: Path, tmp_path: Path, browser: Chrome) -> None:
    recording = replace(
        load_recording(run(sweep, "dnc") / "recording.json"),
        task=HOSTILE,
        phases=(Phase(HOSTILE, 0, 3),),
    )
    save_recording(tmp_path / "recording.json", recording)
    page = Page(
        title=HOSTILE,
        lead=HOSTILE,
        skipped=[Skipped(HOSTILE, HOSTILE)],
        claims=[Claim(1, HOSTILE, "holds", HOSTILE)],
        recordings=[load_recording(tmp_path / "recording.json"), recording],
        tables=[Table("", HOSTILE, (HOSTILE,), ((HOSTILE,),), note=HOSTILE)],
    )
    path = tmp_path / "hostile.html"
    path.write_text(render(page), encoding="utf-8")
    browser.get(path.as_uri())
    assert browser.execute_script("return window.hacked") is None
    assert browser.find_elements(By.CSS_SELECTOR, "img") == []
    for selector in ("h1", "header .lead", "#skipped code", "caption", "thead th", ".note"):
        assert texts(browser, selector) == [HOSTILE]
    assert (
        browser.find_element(By.CSS_SELECTOR, ".names span").get_attribute("textContent") == HOSTILE
    )
    assert browser.title == HOSTILE
    options = texts(browser, "#recording option")
    assert options == [recording.title, recording.title]


class References(HTMLParser):
    """What a page refers to, and the scripts and styles in it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.policy = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        referring = {"src", "href", "srcset", "action", "data", "poster", "xlink:href", "style"}
        self.found += [value for name, value in values.items() if name in referring]
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"]


def test_nothing_comes_from_outside(sweep: Path, tmp_path: Path) -> None:
    html = report(tmp_path, sweep).read_text(encoding="utf-8")
    page = References()
    page.feed(html)
    assert len(page.found) > 8
    assert [found for found in page.found if not found.startswith(("#", "data:image/"))] == []
    assert page.policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in page.policy
    for name in (*STYLES, *SCRIPTS):
        own = (ASSETS / name).read_text(encoding="utf-8")
        assert own in html
        assert re.findall(r"url\(|@import|\bfetch\b|XMLHttp|WebSocket|\bimport\b", own) == []
    assert {path.name for path in ASSETS.iterdir()} == {*STYLES, *SCRIPTS, "page.html"}


def test_an_empty_page_is_a_page() -> None:
    html = render(Page(title="Nothing", lead="Yet."))
    assert "<h1>Nothing</h1>" in html
    assert "<section" not in html


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1, 1, 1], "1"),
        (["dnc", "dnc-m", "dnc"], "dnc, dnc-m"),
        ([None, True, 0.1, "x"], "null, true, 0.1, x"),
        (list(range(12)), "0 to 11"),
        ([f"2026-01-{day:02}" for day in range(1, 11)], "2026-01-01 to 2026-01-10 (10 different)"),
    ],
)
def test_values_in_words(values: list[object], words: str) -> None:
    assert values_in_words(values) == words


def test_the_plan_of_the_sweep_is_not_touched(sweep: Path) -> None:
    """Reports only read."""
    before = {path: path.read_bytes() for path in sweep.rglob("*") if path.is_file()}
    make_report([sweep])
    assert {path: path.read_bytes() for path in sweep.rglob("*") if path.is_file()} == before
    assert json.loads((sweep / "plan.json").read_text())
