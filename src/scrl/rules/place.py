"""Errors with a place: rule, line, column, and the line with carets under the offending piece."""

from __future__ import annotations

import unicodedata

from scrl.errors import RuleError
from scrl.rules.syntax import Span

WINDOW = 78
"""A longer line is cut to this many characters around the place."""
_BEFORE = 30


class PlacedRuleError(RuleError):
    """A rule error that knows its line and column (both counted from 1)."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class Misplaced(Exception):  # noqa: N818 - never leaves this package
    """A mistake at a span of the text; `placed` turns it into the error that the user sees."""

    def __init__(self, message: str, span: Span) -> None:
        super().__init__(message)
        self.message = message
        self.span = span


def placed(mistake: Misplaced, text: str, rule: str | None) -> PlacedRuleError:
    """The error that the user sees."""
    line, column = line_and_column(text, mistake.span.start)
    header = f"{where(text, mistake.span, rule)}: {mistake.message}"
    return PlacedRuleError(f"{header}\n{_picture(text, mistake.span)}", line, column)


def where(text: str, span: Span, rule: str | None) -> str:
    """The place in words: rule 'equity', line 1, column 4."""
    line, column = line_and_column(text, span.start)
    prefix = "" if rule is None else f"rule '{rule}', "
    return f"{prefix}line {line}, column {column}"


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset, counted from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _picture(text: str, span: Span) -> str:
    """The line of the span, cut to a window, and carets under the span."""
    first = text.rfind("\n", 0, span.start) + 1
    last = text.find("\n", span.start)
    last = len(text) if last < 0 else last
    left, right = _window(first, last, span.start)
    head, tail = "..." * (left > first), "..." * (right < last)
    before = head + printable(text[left : span.start])
    piece = printable(text[span.start : max(span.start, min(span.end, right))])
    after = printable(text[span.start + len(piece) : right]) + tail
    carets = "^" * max(1, _width(piece))
    return f"  {before}{piece}{after}\n  {' ' * _width(before)}{carets}"


def _window(first: int, last: int, start: int) -> tuple[int, int]:
    if last - first <= WINDOW:
        return first, last
    left = max(first, min(start - _BEFORE, last - WINDOW))
    return left, min(last, left + WINDOW)


def printable(text: str) -> str:
    """The text with one printable character for each character."""
    return "".join(char if char.isprintable() else " " for char in text)


def _width(text: str) -> int:
    """Columns that the text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )
