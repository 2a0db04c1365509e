"""Atomic writing of files, never through a symbolic link."""

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
    """A symbolic link lies where a file is to be written."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path}: a symbolic link, and nothing is written through links; remove it, or name "
            "another folder"
        )


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A temporary file that replaces `path` after it was written and synchronised to disk.

    Its name is random, and a symbolic link at `path` is replaced, not followed.
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
    if os.name == "posix":  # other systems cannot open a folder
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def open_in_place(path: Path, mode: str) -> Iterator[BinaryIO]:
    """Open an existing file for changes in place; raises if it is a symbolic link."""
    refuse_link(path)
    with _errors_name(path), open(path, mode, opener=_without_links) as file:
        yield cast(BinaryIO, file)


@contextmanager
def _errors_name(path: Path) -> Iterator[None]:
    """Add the file name to operating-system errors that lack it, such as a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # NumPy raises this for a file that was not written completely
            reason = f"not written completely, perhaps because the disk is full ({error})"
            raise OSError(errno.EIO, reason, str(path)) from error
        error.filename = str(path)
        raise


def make_folder(path: Path) -> Path:
    """The folder, created if it is missing; raises if it is a symbolic link."""
    refuse_link(path)
    path.mkdir(parents=True, exist_ok=True)
    return path


def refuse_link(path: Path) -> None:
    """Raise if a path is a symbolic link."""
    if path.is_symlink():
        raise LinkError(path)


def _without_links(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)
