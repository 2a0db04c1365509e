"""Every error that a user can cause: what is wrong, where, and what to do about it."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches


class ScrlError(Exception):
    """The input is wrong; the message is complete and needs no traceback (exit code 2)."""


class UnfinishedError(ScrlError):
    """The input is right but the work could not be finished, as on a full disk (exit code 1)."""


class RuleError(ScrlError):
    """A rule cannot be read: bad syntax, an unknown region, or something that is not linear."""


class TooLargeError(RuleError):
    """A normal form would be larger than its cap; the message says how large."""


class MapError(ScrlError):
    """A map cannot be used: empty region, crossing polygon, wrong shape, NaN, ..."""


class ProblemError(ScrlError):
    """A problem file cannot be used: unknown key, wrong type, value out of range, ..."""


class PolicyError(ScrlError):
    """A policy cannot be used: unknown name, value out of range, missing run folder."""


_setting: ContextVar[Callable[[str, str], str]] = ContextVar(
    "_setting", default=lambda key, value: f'set {key} = "{value}"'
)


def to_set(key: str, value: str) -> str:
    """How the reader of an error sets a key: in a problem file, or as a command says."""
    return _setting.get()(key, value)


@contextmanager
def set_by(way: Callable[[str, str], str]) -> Iterator[None]:
    """Have errors say that a key is set in this way, as by an option on the command line."""
    token = _setting.set(way)
    try:
        yield
    finally:
        _setting.reset(token)


STORAGE_TROUBLES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What the system says when a file that is being written finds no room, or the disk fails."""


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
