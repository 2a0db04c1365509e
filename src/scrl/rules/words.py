"""The words of the rule language, and how a region's name is written in it."""

from __future__ import annotations

import re

KEYWORDS = (
    "if",
    "then",
    "implies",
    "and",
    "or",
    "not",
    "within",
    "total",
    "average",
    "max",
    "min",
)
"""Reserved words; a region with such a name is written in double quotes."""

_BARE_NAME = re.compile(r"[^\W\d]\w*")
_ESCAPED = re.compile(r"\\(.)")


def show_name(name: str) -> str:
    """The name as the language writes it: bare where possible, else in double quotes."""
    if _BARE_NAME.fullmatch(name) and name not in KEYWORDS:
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def read_quoted(quoted: str) -> str:
    """The name inside double quotes, with \\" and \\\\ resolved."""
    return _ESCAPED.sub(r"\1", quoted[1:-1])
