"""A browser for the tests of the page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
)


def _installed(*names: str) -> str:
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.fail(
            f"these tests need {names[0]}: on Debian, apt-get install chromium chromium-driver",
            pytrace=False,
        )
    return found


@pytest.fixture(scope="session")
def _driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = _installed("chromium", "chromium-browser", "google-chrome")
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(_installed("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture
def browser(_driver: webdriver.Chrome) -> Iterator[webdriver.Chrome]:
    """Chromium; whatever it complains about fails the test."""
    yield _driver
    complaints = _driver.get_log("browser")  # type: ignore[no-untyped-call]
    _driver.get("about:blank")
    assert complaints == []
