"""Writing files: each is whole or not there at all, and none is written through a link."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from scrl.errors import ScrlError


class LinkError(ScrlError):
    """A symbolic link stands where a file is to be written: it may lead anywhere."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path}: a symbolic link, and nothing is written through links; remove it, or name "
            "another folder"
        )


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` once it is whole and on the disk.

    It is written under a name that nobody can foresee, and a link at `path` is itself replaced.
    """
    fresh = path.with_name(f"scrl-{secrets.token_hex(8)}.tmp")
    try:
        with fresh.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # elsewhere a folder cannot be opened
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def open_in_place(path: Path, mode: str) -> BinaryIO:
    """A file that is to be changed where it lies; a link is refused."""
    refuse_link(path)
    return cast(BinaryIO, open(path, mode, opener=_without_links))


def make_folder(path: Path) -> Path:
    """The folder, made if it is missing; a link is refused."""
    refuse_link(path)
    path.mkdir(parents=True, exist_ok=True)
    return path


def refuse_link(path: Path) -> None:
    """Raise where a path is a link."""
    if path.is_symlink():
        raise LinkError(path)


def _without_links(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)
