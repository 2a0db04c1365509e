"""Standard streams that survive a closed pipe, as in `scrl train | head -1`."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO


class _Patient(io.FileIO):
    """A file that drops what can no longer be written."""

    forgiven: type[OSError] = BrokenPipeError

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())  # buffered output must not fail again
            os.close(nowhere)
            if not isinstance(error, self.forgiven):
                raise
            return len(data)


class _PatientMessages(_Patient):
    """A file for messages, which also ignores a full disk."""

    forgiven = OSError


def outlive_readers() -> None:
    """Let commands run to their end when the reader of their output is gone."""
    sys.stdout = _patient(sys.stdout, _Patient)
    sys.stderr = _patient(sys.stderr, _PatientMessages)


def _patient(stream: TextIO, kind: type[_Patient]) -> TextIO:
    """The stream over such a file; terminals and streams without a file are not changed."""
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
