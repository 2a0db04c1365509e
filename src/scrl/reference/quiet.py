"""Keep a solver's own chatter off standard output, which belongs to the answer."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

OUTPUT = 1
"""The number of standard output."""


@contextmanager
def stdout_closed_to_c() -> Iterator[None]:
    """What compiled code prints goes nowhere; HiGHS has a line that no option silences.

    It turns the whole process's output, so nothing else may print meanwhile.
    """
    try:
        sys.stdout.flush()
        kept = os.dup(OUTPUT)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, OUTPUT)
        os.close(nowhere)
    except (AttributeError, OSError, ValueError):  # no such output: nothing to protect
        yield
        return
    try:
        yield
    finally:
        _flush_compiled()
        os.dup2(kept, OUTPUT)
        os.close(kept)


def _flush_compiled() -> None:
    """Write out what compiled code has printed and the C library still holds."""
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)
