"""Values as TOML text: the few kinds that problem files hold."""

from __future__ import annotations

import json
import re
from typing import Any

_LITERAL = re.compile(r"[^'\\\x00-\x1f\x7f]*")
"""Texts that single quotes can hold as they are; easier to read around double quotes."""
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def value_text(value: Any) -> str:
    """A text, number, truth value or list of them, as TOML writes it."""
    match value:
        case bool():
            return "true" if value else "false"
        case str() if '"' in value and _LITERAL.fullmatch(value):
            return f"'{value}'"
        case str():
            # JSON's escapes are TOML's, except that TOML also wants DEL escaped.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case int() | float():
            return repr(value)
        case list() | tuple():
            return "[" + ", ".join(value_text(item) for item in value) + "]"
        case _:
            raise TypeError(f"{type(value).__name__} has no TOML form here")


def key_text(key: str) -> str:
    """A key, quoted where it must be."""
    return key if _BARE_KEY.fullmatch(key) else value_text(key)
