"""Runs -> one HTML file. All markup is in the templates, and all that is put in is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from scrl._version import __version__
from scrl.errors import ScrlError
from scrl.files import replacing
from scrl.report.page.story import stories_of
from scrl.report.page.ways import SPEED_COLOURS
from scrl.report.reading import RunView

LARGEST_PAGE_BYTES = 1_000_000
"""A page stays below this for each run and each problem on it, whatever the map and the run."""


def write_page(views: Sequence[RunView], path: Path) -> Path:
    """The page as a file, whole or not at all."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ScrlError(f"{path}: a page's name ends in .html")
    text = page_text(views)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(text.encode("utf-8"))
    return path


def page_text(views: Sequence[RunView]) -> str:
    """The page."""
    stories = stories_of(views)
    template = _environment().get_template("page.html")
    return template.render(
        stories=stories,
        title=", ".join(dict.fromkeys(story.name for story in stories)),
        speed_colours=SPEED_COLOURS,
        version=__version__,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("scrl.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters["minus"] = _with_minus
    return found


def _with_minus(text: str) -> str:
    """A number with a minus sign instead of a hyphen."""
    return "\N{MINUS SIGN}" + text[1:] if text.startswith("-") else text
