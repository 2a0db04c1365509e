"""Errors that a user can cause; each message says what is wrong, where, and what to do."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from typing import Any


class ScrlError(Exception):
    """The input is wrong; the message is complete and needs no traceback (exit code 2)."""


class UnfinishedError(ScrlError):
    """The input is valid but the work could not be finished, as on a full disk (exit code 1)."""


class InternalError(UnfinishedError):
    """This program contradicts itself, as with a plan above a proven bound: please report it."""


class RuleError(ScrlError):
    """A rule cannot be read: bad syntax, an unknown region, or something that is not linear."""


class TooLargeError(RuleError):
    """A normal form would be larger than its cap; the message says how large."""


class MapError(ScrlError):
    """A map cannot be used: empty region, crossing polygon, wrong shape, NaN, ..."""


class ProblemError(ScrlError):
    """A problem file cannot be used: unknown key, wrong type, value out of range, ..."""


class MethodError(ScrlError):
    """A method cannot be used: unknown name, unknown setting, value out of range."""


class PolicyError(ScrlError):
    """A policy cannot be used: unknown name, value out of range, missing run folder."""


_setting: ContextVar[Callable[[str, str], str]] = ContextVar(
    "_setting", default=lambda key, value: f'set {key} = "{value}"'
)


def to_set(key: str, value: str) -> str:
    """How to set a key: as in a problem file, or with the option of the running command."""
    return _setting.get()(key, value)


@contextmanager
def set_by(way: Callable[[str, str], str]) -> Iterator[None]:
    """Let error messages name this way of setting a key, such as a command-line option."""
    token = _setting.set(way)
    try:
        yield
    finally:
        _setting.reset(token)


STORAGE_TROUBLES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Error numbers of a full disk, an exceeded quota or a failing disk."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """': did you mean X?' for the nearest known word, else ': known are ...'."""
    names = list(known)
    lower = {name.lower(): name for name in reversed(names)}
    near = get_close_matches(word, names, n=1, cutoff=0.6)
    near = near or get_close_matches(word.lower(), list(lower), n=1, cutoff=0.6)
    if near:
        return f": did you mean '{lower.get(near[0], near[0])}'?"
    if not names:
        return ""
    listed = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f": known are {listed}"


_STEERING = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_IN_TEXT = re.compile(f"[{_STEERING}]|\r(?!\n)")
_IN_LINE = re.compile(f"[{_STEERING}\t\n\r]")


def control_character(text: str, *, may_break: bool = False) -> re.Match[str] | None:
    """The first character that could control a terminal or hide text; None if there is none.

    These are control characters, line separators, lone surrogates and characters that
    change the direction of writing. `may_break` allows tabs and line breaks.
    """
    return (_IN_TEXT if may_break else _IN_LINE).search(text)


def check_text(
    text: str, place: str, *, may_break: bool = False, error: type[ScrlError] = ScrlError
) -> str:
    """The text itself; raises an error that names the code point of a control character in it."""
    if (found := control_character(text, may_break=may_break)) is not None:
        raise error(f"{place}: {describe_control(found)}")
    return text


def describe_control(found: re.Match[str]) -> str:
    """The error message for a control character: its code point and its place."""
    where = f"U+{ord(found[0]):04X} (character {found.start() + 1})"
    return f"the control character {where} is not allowed: remove it"


def check_texts(document: Any, place: str, *, error: type[ScrlError] = ScrlError) -> None:
    """Check every key and text of a document that was read from a file."""
    pending: list[tuple[Any, str]] = [(document, "")]
    while pending:
        value, path = pending.pop()
        if isinstance(value, str):
            check_text(value, f"{place}: {path}", may_break=True, error=error)
        elif isinstance(value, Mapping):
            for key, item in value.items():
                check_text(key, ": ".join(filter(None, (place, path, "a key"))), error=error)
                pending.append((item, f"{path}, {key}" if path else key))
        elif isinstance(value, list | tuple):
            pending += [(item, f"{path}, {index}") for index, item in enumerate(value)]


def visible(text: str) -> str:
    """The text with an escape such as \\x1b in place of each control character."""
    return _IN_TEXT.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
