"""Writing files: each is whole or not there at all, and none is written through a link."""

from __future__ import annotations

import errno
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
    with _errors_name(path):
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


@contextmanager
def open_in_place(path: Path, mode: str) -> Iterator[BinaryIO]:
    """A file that is to be changed where it lies; a link is refused."""
    refuse_link(path)
    with _errors_name(path), open(path, mode, opener=_without_links) as file:
        yield cast(BinaryIO, file)


@contextmanager
def _errors_name(path: Path) -> Iterator[None]:
    """Errors of the system name the file that is written here: that of a full disk does not."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # NumPy's own words for a file that was not written whole
            reason = f"not written whole, perhaps because the disk is full ({error})"
            raise OSError(errno.EIO, reason, str(path)) from error
        error.filename = str(path)
        raise


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
