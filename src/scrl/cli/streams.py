"""Standard output and standard error whose reader may go away, as in `scrl train | head -1`."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO


class _Patient(io.FileIO):
    """A file in which whatever can no longer be written is dropped."""

    forgiven: type[OSError] = BrokenPipeError

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())  # what is still buffered must not fail once more
            os.close(nowhere)
            if not isinstance(error, self.forgiven):
                raise
            return len(data)


class _PatientMessages(_Patient):
    """Messages are not worth a run: they may also fail on a full disk."""

    forgiven = OSError


def outlive_readers() -> None:
    """Have commands go on, to the end that they would have come to, when nobody reads any more."""
    sys.stdout = _patient(sys.stdout, _Patient)
    sys.stderr = _patient(sys.stderr, _PatientMessages)


def _patient(stream: TextIO, kind: type[_Patient]) -> TextIO:
    """The same stream over such a file; terminals, and what is no file at all, are left alone."""
    try:
        if stream.isatty():
            return stream
        number = stream.fileno()
    except (AttributeError, OSError, ValueError):
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(kind(number, "w", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream is sys.stderr,
    )
