"""What tests look for in a page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from scrl.report.page import page_text
from scrl.report.reading import read_runs

SECTIONS = ("plan", "regions", "fans", "rules", "bound", "compare", "learning", "origin")
WITHOUT_END = {"meta", "path", "image", "rect", "circle", "line"}


class Page(HTMLParser):
    """Elements with their attributes, the text outside of style, and whether all tags close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in WITHOUT_END:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data

    @property
    def ids(self) -> list[str]:
        return [value for _, attrs in self.elements if (value := attrs.get("id"))]

    @property
    def sections(self) -> list[str]:
        """The sections of the first problem."""
        found = (re.fullmatch(r"s1-(\w+)", each) for each in self.ids)
        return [each[1] for each in found if each and each[1] in SECTIONS]

    @property
    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}


def page_of(*runs: Path) -> Page:
    return Page(page_text(read_runs(runs)))
