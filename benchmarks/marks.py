"""Pages with marked places for what was measured: `<!-- name -->` to `<!-- end of name -->`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write(page: Path, texts: Mapping[str, str]) -> None:
    """Put texts between their marks in a page."""
    old = page.read_text(encoding="utf-8")
    for name, text in texts.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        if old.count(begin) != 1 or old.count(end) != 1:
            raise SystemExit(f"{page}: the marks of {name} are missing")
        before, rest = old.split(begin)
        old = f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}"
    page.write_text(old, encoding="utf-8")
