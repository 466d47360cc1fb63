"""The page of a report: one HTML file that needs nothing else. Needs Jinja2.

What is on it is given here as plain data; `assets/` has the template, the styles and the scripts of
the memory player. A content security policy keeps the page from the network and from every script
that is not ours, whatever stands in the names and texts of runs.
"""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from dnclab.reports.claims import Claim
from dnclab.reports.recordings import Recording, encoded
from dnclab.reports.results import Skipped
from dnclab.reports.tables import Table, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ASSETS = Path(__file__).parent / "assets"
STYLES = ("page.css", "player.css")
SCRIPTS = ("colours.js", "recording.js", "panels.js", "quantities.js", "layout.js", "player.js")
"""In the order in which they need each other."""

LARGE_SVG = 300_000
"""Bytes from which a drawing goes into the page as pixels."""

PIXELS_PER_INCH = 96
"""CSS says so."""


@dataclass(frozen=True)
class Picture:
    """A figure as a data URL, with its size in CSS pixels."""

    caption: str
    source: str
    width: int
    height: int


@dataclass(frozen=True, kw_only=True)
class Page:
    """All that stands on a page; sections without content are left out."""

    title: str
    lead: str
    skipped: Sequence[Skipped] = ()
    claims: Sequence[Claim] = ()
    recordings: Sequence[Recording] = ()
    figures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    configurations: Sequence[Table] = ()
    environments: Sequence[Table] = ()
    contents: Sequence[tuple[str, str]] = field(init=False)
    """The sections there are: anchor and heading."""

    def __post_init__(self) -> None:
        sections = {
            "skipped": (self.skipped, "Left out"),
            "claims": (self.claims, "Claims"),
            "player": (self.recordings, "Memory player"),
            "figures": (self.figures, "Figures"),
            "tables": (self.tables, "Tables"),
            "configurations": (self.configurations, "Configurations"),
            "environments": (self.environments, "Environment"),
        }
        found = [(name, heading) for name, (content, heading) in sections.items() if content]
        object.__setattr__(self, "contents", found)


def render(page: Page) -> str:
    """The page as HTML."""
    try:
        import jinja2
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError('a report needs Jinja2: pip install "dnclab[report]"') from error

    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ASSETS),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = _joined(STYLES), _joined(SCRIPTS)
    return templates.get_template("page.html").render(
        page=page,
        recordings=[_embedded(recording) for recording in page.recordings],
        style=style,
        script=script,
        policy=_policy(style, script),
        shown=shown,
        version=version("dnclab"),
    )


def picture(figure: Figure, caption: str) -> Picture:
    """A figure for the page: as an SVG, or if that would be large as a PNG."""
    from matplotlib import rc_context

    drawn = io.BytesIO()
    with rc_context({"svg.hashsalt": "dnclab"}):  # otherwise its identifiers are random
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    kind, content = "svg+xml", drawn.getvalue()
    if len(content) > LARGE_SVG:
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png", dpi=2 * PIXELS_PER_INCH, metadata={"Software": None})
        kind, content = "png", drawn.getvalue()
    width, height = (round(inches * PIXELS_PER_INCH) for inches in figure.get_size_inches())
    source = f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
    return Picture(caption, source, width, height)


def _joined(names: Iterable[str]) -> str:
    return "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in names)


def _embedded(recording: Recording) -> dict[str, str]:
    """Its title, and its file's text so that no HTML can begin or end in it."""
    return {
        "title": recording.title,
        "content": encoded(recording).decode().replace("<", "\\u003c"),
    }


def _policy(style: str, script: str) -> str:
    """Nothing from the network, no style and no script but these."""
    style_hash, script_hash = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (style, script)
    )
    return (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src 'sha256-{style_hash}'; script-src 'sha256-{script_hash}'"
    )
