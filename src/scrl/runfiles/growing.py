"""Checksums of a file that only grows: what was read once is not read again."""

from __future__ import annotations

import hashlib
from pathlib import Path

from scrl.runfiles.files import RunError

_AT_ONCE = 2**20


class Growing:
    """The first bytes of a file, as many as were asked for so far."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size, self._sum = 0, hashlib.sha256()

    def sha256(self, size: int | None) -> str:
        """The checksum of so many of its first bytes, or of all."""
        if size is None or size < self._size:
            self._size, self._sum = 0, hashlib.sha256()
        with self._path.open("rb") as file:
            file.seek(self._size)
            while data := file.read(_AT_ONCE if size is None else min(_AT_ONCE, size - self._size)):
                self._sum.update(data)
                self._size += len(data)
        return self._sum.hexdigest()

    def check(self, size: int | None, expected: str | None, when: str) -> None:
        """Raise unless the first bytes are what they were; nothing is known of files of old."""
        if expected is None:
            return
        if not self._path.is_file():
            raise RunError(f"{self._path}: missing")
        found = self.sha256(size)
        if size is not None and self._size < size:
            raise RunError(f"{self._path}: damaged: shorter than {when}")
        if found != expected:
            raise RunError(f"{self._path}: damaged: it is not what it was {when}")
