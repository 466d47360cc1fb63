"""The memory player in a real browser: clicked, typed at, and its colours read."""

from __future__ import annotations

import base64
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

from dnclab.reports.page import Page, render
from dnclab.reports.recordings import Phase, Recording, encoded

Numbers = NDArray[Any]

SHAPES = {
    "input": ("bits",), "target": ("bits",), "output": ("bits",),
    "memory": ("cells", "word_size"), "links": ("cells", "cells"),
    "usage": ("cells",), "write_weighting": ("cells",), "allocation": ("cells",),
    "write_content": ("cells",), "read_weightings": ("heads", "cells"),
    "read_modes": ("heads", "modes"), "forwards": ("heads", "cells"),
    "backwards": ("heads", "cells"), "read_contents": ("heads", "cells"),
    "write_gate": (), "allocation_gate": (), "write_strength": (),
    "free_gates": ("heads",), "read_strengths": ("heads",),
    "write_mask": ("word_size",), "read_masks": ("heads", "word_size"),
    "forward_sharpness": ("heads",), "backward_sharpness": ("heads",),
}  # fmt: skip


def recording(steps: int = 12, cells: int = 6, word_size: int = 5, heads: int = 2) -> Recording:
    """Random numbers for everything that there may be; no two panels are alike."""
    sizes = {"bits": 4, "cells": cells, "word_size": word_size, "heads": heads, "modes": 3}
    source = np.random.default_rng(7)
    arrays = {
        name: source.random((steps, *(sizes[size] for size in shape)), dtype=np.float32)
        for name, shape in SHAPES.items()
    }
    arrays["memory"] = 6 * arrays["memory"] - 3
    for name in ("input", "target"):
        arrays[name] = arrays[name].round()
    half = steps // 2
    return Recording(
        task="repeat-copy",
        variant="dnc-mds",
        seed=3,
        step=1200,
        cells=cells,
        word_size=word_size,
        read_heads=heads,
        answers=tuple(step >= half for step in range(steps)),
        phases=(Phase("read 1", 0, half), Phase("repeat 1", half, steps)),
        words=None,
        arrays=arrays,
    )


SMALL = recording()


@pytest.fixture
def opened(browser: Chrome, tmp_path: Path) -> Callable[..., Chrome]:
    """Opens a page with some recordings."""

    def open_page(*recordings: Recording, theme: str = "light", width: int = 1280) -> Chrome:
        path = tmp_path / "report.html"
        page = Page(title="A title", lead="What it is.", recordings=recordings)
        path.write_text(render(page), encoding="utf-8")
        emulate(browser, theme, width)
        browser.get(path.as_uri())
        return browser

    return open_page


def emulate(browser: Chrome, theme: str, width: int = 1280) -> None:
    feature = {"name": "prefers-color-scheme", "value": theme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def pointer(browser: Chrome) -> ActionChains:
    """Pointer and keys, without the pauses of a hand."""
    return ActionChains(browser, duration=0)


def find(browser: Chrome, selector: str) -> WebElement:
    return browser.find_element(By.CSS_SELECTOR, selector)


def step(browser: Chrome) -> int:
    """The step that the page says it shows, once it has drawn it."""
    next_frame(browser)
    return int(find(browser, "#where").text.split()[1])


def next_frame(browser: Chrome) -> None:
    browser.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
    )


def press(browser: Chrome, *keys: str) -> None:
    pointer(browser).send_keys(*keys).perform()


def plot(browser: Chrome, name: str, place: int = 0) -> WebElement:
    """The panel whose label begins with a name; the first is the one of a step, if it has one."""
    found = browser.find_elements(By.CSS_SELECTOR, f'.plot[aria-label^="{name}:"]')
    return found[place]


def open_details(browser: Chrome) -> None:
    find(browser, "#panels summary").click()


def hover(browser: Chrome, panel: WebElement, row: int, column: int) -> str:
    """What the tooltip says when the pointer is over the middle of a cell."""
    canvas = panel.find_element(By.TAG_NAME, "canvas")
    rows, columns = (
        int(canvas.get_attribute("height") or 0),
        int(canvas.get_attribute("width") or 0),
    )
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", panel)
    size = panel.rect
    right = (column + 0.5) / columns * size["width"] - size["width"] / 2
    down = (row + 0.5) / rows * size["height"] - size["height"] / 2
    pointer(browser).move_to_element_with_offset(panel, int(right), int(down)).perform()
    return find(browser, "#tooltip").text


def spelled(value: float) -> str:
    """In two digits, as the page writes numbers."""
    return f"{float(f'{value:.1e}'):g}".replace("-", "−")


# --- what is shown -------------------------------------------------------------------------------


def test_hovering_names_every_value(opened: Callable[..., Chrome]) -> None:
    """Cells in all panels of one head of two: the array's number, in words where it is."""
    browser = opened(SMALL)
    open_details(browser)
    find(browser, "#step").send_keys(Keys.ARROW_RIGHT * 5)
    assert step(browser) == 5
    stored = stored_arrays(SMALL)
    cases = [
        # panel, which of that name, row, column; array and place; in words
        ("Memory", 0, 4, 3, "memory", (5, 4, 3), "cell 4, number 3, step 5"),
        ("Links", 0, 2, 4, "links", (5, 2, 4), "to cell 2, from cell 4, step 5"),
        ("Usage", 0, 3, 0, "usage", (5, 3), "cell 3, step 5"),
        ("Usage", 1, 3, 7, "usage", (7, 3), "cell 3, step 7"),
        ("Input", 0, 1, 2, "input", (2, 1), "bit 1, step 2"),
        ("Target", 0, 1, 8, "target", (8, 1), "bit 1, step 8"),
        ("Output", 0, 3, 9, "output", (9, 3), "bit 3, step 9"),
        ("Write weighting", 0, 5, 0, "write_weighting", (5, 5), "cell 5, step 5"),
        ("Write weighting", 1, 5, 2, "write_weighting", (2, 5), "cell 5, step 2"),
        ("Read weighting, head 2", 0, 1, 0, "read_weightings", (5, 1, 1), "cell 1, step 5"),
        ("Read weighting, head 1", 1, 1, 3, "read_weightings", (3, 0, 1), "cell 1, step 3"),
        ("Read modes, head 2", 0, 2, 4, "read_modes", (4, 1, 2), "forward, step 4"),
        ("Write mask", 0, 0, 4, "write_mask", (5, 4), "number 4, step 5"),
        ("Read mask, head 2", 0, 0, 2, "read_masks", (5, 1, 2), "number 2, step 5"),
        ("Read mask, head 2", 1, 3, 10, "read_masks", (10, 1, 3), "number 3, step 10"),
        ("Forward, head 2", 0, 4, 6, "forwards", (6, 1, 4), "cell 4, step 6"),
        ("Backward, head 1", 0, 4, 6, "backwards", (6, 0, 4), "cell 4, step 6"),
        ("Read by content, head 2", 0, 0, 1, "read_contents", (1, 1, 0), "cell 0, step 1"),
        ("Allocation", 0, 2, 11, "allocation", (11, 2), "cell 2, step 11"),
        ("Write by content", 0, 2, 0, "write_content", (0, 2), "cell 2, step 0"),
        ("Write gate", 0, 0, 3, "write_gate", (3,), "step 3"),
        ("Allocation gate", 0, 0, 3, "allocation_gate", (3,), "step 3"),
        ("Free gates", 0, 1, 3, "free_gates", (3, 1), "head 2, step 3"),
    ]
    for name, number, row, column, array, place, where in cases:
        said = hover(browser, plot(browser, name, number), row, column)
        assert said == f"{spelled(stored[array][place])} {name}, {where}"
    pointer(browser).move_to_element(find(browser, "h1")).perform()
    assert not find(browser, "#tooltip").is_displayed()


def stored_arrays(shown: Recording) -> dict[str, Numbers]:
    """The numbers of a recording as its bytes hold them."""
    found = {}
    for name, packed in json.loads(encoded(shown))["arrays"].items():
        content = np.frombuffer(base64.b64decode(packed["bytes"]), np.uint8).astype(float)
        found[name] = (content.reshape(packed["shape"]) - packed["zero"]) * packed["scale"]
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_equal_differences_look_equal(opened: Callable[..., Chrome], theme: str) -> None:
    """The lightness of every cell is even in its value; nothing is at another's place."""
    browser = opened(SMALL, theme=theme)
    press(browser, Keys.TAB * 5)
    find(browser, "#step").send_keys(Keys.ARROW_RIGHT * 4)
    assert step(browser) == 4
    stored = stored_arrays(SMALL)
    for name, place, values, exponent in [
        ("Usage", 1, stored["usage"].T, 1),
        ("Write weighting", 1, stored["write_weighting"].T, 0.5),
        ("Read weighting, head 2", 0, stored["read_weightings"][4, 1, :, None], 0.5),
        ("Read weighting, head 2", 1, stored["read_weightings"][:, 1].T, 0.5),
        ("Read modes, head 1", 0, stored["read_modes"][:, 0].T, 1),
        ("Links", 0, stored["links"][4], 0.5),
        ("Read mask, head 2", 0, stored["read_masks"][4, 1][None], 1),
    ]:
        lightness = lab(pixels(browser, plot(browser, name, place)))[..., 0]
        assert lightness.shape == values.shape
        shares = values**exponent
        slope, paper = np.polyfit(shares.ravel(), lightness.ravel(), 1)
        assert (slope < -0.4) if theme == "light" else (slope > 0.4)
        assert np.abs(paper + slope * shares - lightness).max() < 0.01, name


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_signs_can_be_told_apart_by_any_eye(opened: Callable[..., Chrome], theme: str) -> None:
    """Seen without one kind of cone (Machado et al. 2009) both ends of the memory's map differ."""
    browser = opened(SMALL, theme=theme)
    memory = stored_arrays(SMALL)["memory"][0]
    shown = pixels(browser, plot(browser, "Memory"))
    lowest, highest = (
        shown[np.unravel_index(place, memory.shape)] for place in (memory.argmin(), memory.argmax())
    )
    assert memory.min() < -2
    assert memory.max() > 2
    for sight in (np.eye(3), PROTANOPIA, DEUTERANOPIA, TRITANOPIA):
        distance = lab_of_linear(linear(lowest) @ sight.T) - lab_of_linear(
            linear(highest) @ sight.T
        )
        assert np.linalg.norm(distance) > 0.1


PROTANOPIA = np.array([
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
])  # fmt: skip
DEUTERANOPIA = np.array([
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.011820, 0.042940, 0.968881],
])  # fmt: skip
TRITANOPIA = np.array([
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.303900],
])  # fmt: skip


def pixels(browser: Chrome, panel: WebElement) -> Numbers:
    """The colours of a panel's cells [rows columns 3]."""
    height, width, content = browser.execute_script(
        """const canvas = arguments[0].querySelector("canvas");
        const {width, height} = canvas;
        const copy = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
        Object.assign(copy.canvas, {width, height});
        copy.drawImage(canvas, 0, 0);
        const {data} = copy.getImageData(0, 0, width, height);
        return [height, width, Array.from(data)];""",
        panel,
    )
    return np.array(content).reshape(height, width, 4)[..., :3]


def linear(colours: Numbers) -> Numbers:
    """Light of sRGB bytes."""
    shares = colours / 255
    light: Numbers = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    return light


def lab(colours: Numbers) -> Numbers:
    return lab_of_linear(linear(colours))


def lab_of_linear(light: Numbers) -> Numbers:
    """OKLab of linear sRGB, by Ottosson's matrices from there to here."""
    cones = np.array([
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ])  # fmt: skip
    opponents = np.array([
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ])  # fmt: skip
    opposed: Numbers = np.cbrt(light.clip(0) @ cones.T) @ opponents.T
    return opposed


def test_wrong_bits_and_due_answers_are_marked(opened: Callable[..., Chrome]) -> None:
    browser = opened(SMALL)
    stored = stored_arrays(SMALL)
    wrong = ((stored["output"] > 0.5) != (stored["target"] > 0.5)).sum()
    crosses = find(browser, ".wrong path").get_attribute("d") or ""
    assert crosses.count("M") == wrong > 0
    assert find(browser, ".answers path").get_attribute("d") == "M6 0H12V1H6Z"
    names = [name.text for name in browser.find_elements(By.CSS_SELECTOR, ".names span")]
    assert names == ["read 1", "repeat 1"]


def test_gauges_say_their_numbers(opened: Callable[..., Chrome]) -> None:
    browser = opened(SMALL)
    press_slider(browser, Keys.END)
    assert step(browser) == 11
    said = {
        item.find_element(By.CLASS_NAME, "name").text: item.find_element(
            By.CLASS_NAME, "number"
        ).text
        for item in browser.find_elements(By.CSS_SELECTOR, ".gauges li")
    }
    stored = {name: array[11] for name, array in stored_arrays(SMALL).items()}
    assert said == {
        "Read backward, head 1": spelled(stored["read_modes"][0, 0]),
        "Read content, head 1": spelled(stored["read_modes"][0, 1]),
        "Read forward, head 1": spelled(stored["read_modes"][0, 2]),
        "Read backward, head 2": spelled(stored["read_modes"][1, 0]),
        "Read content, head 2": spelled(stored["read_modes"][1, 1]),
        "Read forward, head 2": spelled(stored["read_modes"][1, 2]),
        "Write gate": spelled(stored["write_gate"]),
        "Allocation gate": spelled(stored["allocation_gate"]),
        "Free gates, head 1": spelled(stored["free_gates"][0]),
        "Free gates, head 2": spelled(stored["free_gates"][1]),
        "Read strength, head 1": spelled(stored["read_strengths"][0]),
        "Read strength, head 2": spelled(stored["read_strengths"][1]),
        "Write strength": spelled(stored["write_strength"]),
        "Forward sharpness, head 1": spelled(stored["forward_sharpness"][0]),
        "Forward sharpness, head 2": spelled(stored["forward_sharpness"][1]),
        "Backward sharpness, head 1": spelled(stored["backward_sharpness"][0]),
        "Backward sharpness, head 2": spelled(stored["backward_sharpness"][1]),
    }


def test_a_thin_recording_shows_what_it_has(opened: Callable[..., Chrome]) -> None:
    kept = (
        "input",
        "target",
        "output",
        "usage",
        "write_weighting",
        "read_weightings",
        "read_modes",
    )
    browser = opened(replace(SMALL, arrays={name: SMALL.arrays[name] for name in kept}))
    panels = browser.find_elements(By.CSS_SELECTOR, ".plot")
    labels = [(panel.get_attribute("aria-label") or "").split(":")[0] for panel in panels]
    assert labels == [
        "Input", "Target", "Output", "Write weighting", "Usage", "Read weighting, head 1",
        "Read weighting, head 2", "Read modes, head 1", "Read modes, head 2",
    ]  # fmt: skip
    assert browser.find_elements(By.TAG_NAME, "details") == []
    press_slider(browser, Keys.END)
    assert step(browser) == 11


def test_words_are_shown_with_their_answers(opened: Callable[..., Chrome]) -> None:
    blank = ("-",) * 9
    story = replace(
        SMALL,
        task="babi",
        words={
            "input": ("where", "<b>", "?", *blank),
            "target": (None,) * 10 + ("kitchen", "garden"),
            "output": ("",) * 10 + ("kitchen", "office"),
        },
        arrays={n: a for n, a in SMALL.arrays.items() if n not in ("input", "target", "output")},
    )
    browser = opened(story)
    text = find(browser, ".text")
    assert text.text == "where <b> ? - - - - - - - ✓ kitchen ✗ office garden"
    text.find_element(By.CLASS_NAME, "wrong").click()
    assert step(browser) == 11
    assert find(browser, ".text .current").text == "✗ office garden"


def test_another_run_can_be_chosen(opened: Callable[..., Chrome]) -> None:
    browser = opened(SMALL, replace(recording(steps=30, cells=9), seed=4))
    press_slider(browser, Keys.END)
    assert step(browser) == 11
    chooser = Select(find(browser, "#recording"))
    assert [option.text for option in chooser.options] == [
        "repeat-copy, DNC-MDS, seed 3, step 1,200",
        "repeat-copy, DNC-MDS, seed 4, step 1,200",
    ]
    chooser.select_by_index(1)
    assert step(browser) == 0
    press_slider(browser, Keys.END)
    assert step(browser) == 29
    assert pixels(browser, plot(browser, "Links")).shape == (9, 9, 3)


# --- time ----------------------------------------------------------------------------------------


def press_slider(browser: Chrome, *keys: str) -> None:
    find(browser, "#step").send_keys(*keys)


def test_the_slider_goes_to_a_step(opened: Callable[..., Chrome]) -> None:
    browser = opened(SMALL)
    slider = find(browser, "#step")
    assert step(browser) == 0
    before = pixels(browser, plot(browser, "Memory"))
    pointer(browser).move_to_element(slider).click().perform()
    middle = step(browser)
    assert middle in (5, 6)
    assert not np.array_equal(pixels(browser, plot(browser, "Memory")), before)
    half = slider.rect["width"] // 2
    pointer(browser).drag_and_drop_by_offset(slider, half, 0).perform()
    assert step(browser) == 11
    said = slider.get_attribute("aria-valuetext")
    assert said == "step 11 of 11, repeat 1, answer due"
    assert find(browser, "#notes").text == "repeat 1 · answer due"


def test_keys_go_through_time(opened: Callable[..., Chrome]) -> None:
    browser = opened(SMALL)
    find(browser, "#step").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
    assert step(browser) == 1
    for keys, expected in [
        (Keys.END, 11), (Keys.ARROW_RIGHT, 11), (Keys.PAGE_UP, 1), (Keys.PAGE_UP, 0),
        (Keys.PAGE_DOWN, 10), (Keys.HOME, 0), (Keys.ARROW_LEFT, 0),
    ]:  # fmt: skip
        press(browser, keys)
        assert step(browser) == expected


def test_a_click_on_a_panel_goes_to_its_step(opened: Callable[..., Chrome]) -> None:
    browser = opened(SMALL)
    panel = plot(browser, "Usage", 1)
    hover(browser, panel, row=0, column=8)
    assert step(browser) == 0
    pointer(browser).click().perform()
    assert step(browser) == 8
    pointer(browser).click_and_hold().move_by_offset(-5000 // 12, 0).release().perform()
    assert step(browser) < 8


def test_playing(opened: Callable[..., Chrome]) -> None:
    """It goes on by itself, stops at the end and begins again from there, stops when told to."""
    browser = opened(SMALL)
    button = find(browser, "#play")
    Select(find(browser, "#speed")).select_by_value("30")
    assert button.accessible_name == "Play"
    button.click()
    WebDriverWait(browser, 10, 0.05).until(lambda _: step(browser) == 11)
    WebDriverWait(browser, 10, 0.05).until(lambda _: button.accessible_name == "Play")
    Select(find(browser, "#speed")).select_by_value("1")
    button.click()
    assert step(browser) == 0
    browser = opened(recording(steps=200))  # 40 seconds long
    button = find(browser, "#play")
    begun = time.perf_counter()
    button.send_keys(Keys.SPACE)
    assert button.accessible_name == "Pause"
    WebDriverWait(browser, 10, 0.05).until(lambda _: step(browser) >= 3)
    assert time.perf_counter() - begun >= 0.6
    find(browser, "#step").send_keys(Keys.SPACE)
    assert button.accessible_name == "Play"
    stopped = step(browser)
    time.sleep(0.5)
    assert step(browser) == stopped < 199


# --- without a pointer ---------------------------------------------------------------------------


def test_values_without_a_pointer(opened: Callable[..., Chrome]) -> None:
    browser = opened(SMALL)
    stored = stored_arrays(SMALL)
    find(browser, "#step").send_keys(Keys.TAB)  # to the speed
    press(browser, Keys.TAB)
    assert (
        find(browser, "#tooltip").text == f"{spelled(stored['input'][0, 0])} Input, bit 0, step 0"
    )
    press(browser, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert step(browser) == 2
    assert (
        find(browser, "#tooltip").text == f"{spelled(stored['input'][2, 1])} Input, bit 1, step 2"
    )
    panel = plot(browser, "Links")
    browser.execute_script("arguments[0].focus()", panel)
    shift = pointer(browser).key_down(Keys.SHIFT)
    shift.send_keys(Keys.ARROW_RIGHT * 4).key_up(Keys.SHIFT).perform()
    press(browser, Keys.ARROW_DOWN)
    expected = f"{spelled(stored['links'][2, 1, 4])} Links, to cell 1, from cell 4, step 2"
    assert find(browser, "#tooltip").text == expected
    said = find(browser, "#said")
    assert said.get_attribute("aria-live") == "polite"
    assert said.get_attribute("textContent") == expected
    press(browser, Keys.ARROW_UP * 9)
    assert "to cell 0, from cell 4" in find(browser, "#tooltip").text


def test_everything_that_can_be_used_has_a_name(opened: Callable[..., Chrome]) -> None:
    browser = opened(SMALL, SMALL)
    open_details(browser)
    controls = browser.find_elements(By.CSS_SELECTOR, "button, input, select, a, [tabindex='0']")
    assert len(controls) > 30
    assert [c.get_attribute("outerHTML") for c in controls if not c.accessible_name] == []


# --- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1280, 480, 320])
def test_nothing_sticks_out_or_jumps(opened: Callable[..., Chrome], width: int) -> None:
    browser = opened(recording(steps=200, cells=64, word_size=32, heads=4), width=width)
    open_details(browser)
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    assert wide <= width
    tops = set()
    for key in (Keys.HOME, Keys.END):
        press_slider(browser, key)
        step(browser)
        tops.add(find(browser, "#panels").rect["y"])
    assert len(tops) == 1


def test_200_steps_of_64_cells(
    opened: Callable[..., Chrome], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under 5 MB, of numbers that nothing could compress; a frame of scrubbing in under 1/30 s."""
    browser = opened(recording(steps=200, cells=64, word_size=64, heads=4))
    size = (tmp_path / "report.html").stat().st_size
    assert size < 5_000_000
    open_details(browser)
    times = browser.execute_async_script(
        """const [done] = arguments;
        const slider = document.querySelector("#step");
        const times = [];
        requestAnimationFrame(function scrub(now) {
            times.push(now);
            if (times.length > 200) return done(times);
            slider.value = times.length - 1;
            slider.dispatchEvent(new Event("input"));
            requestAnimationFrame(scrub);
        });"""
    )
    assert step(browser) == 199
    frames = [after - before for before, after in pairwise(times)]
    median = statistics.median(frames)
    with capsys.disabled():
        print(  # noqa: T201  # a measurement
            f"\n200 steps, N=64, W=64, R=4: {size / 1e6:.2f} MB, "
            f"median frame {median:.1f} ms, slowest {max(frames):.0f} ms"
        )
    assert median < 1000 / 30
