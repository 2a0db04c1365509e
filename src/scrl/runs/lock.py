"""One writer per folder: a lock that ends with the process that holds it, even if killed."""

from __future__ import annotations

import errno
import json
import os
import platform
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scrl.files import refuse_link
from scrl.runs.files import RunError

if os.name == "nt":
    import msvcrt
else:
    import fcntl

LOCK = "run.lock"
"""Holds who writes to the folder; it is removed afterwards, and means nothing once left behind."""
_LONGEST_HOLDER = 1_000
_FAR_OUT = 2**30
"""The byte that is locked on Windows, where nobody could read one that holds text."""
_TAKEN = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
_held: set[int] = set()
"""What this process has locked."""


@contextmanager
def only_writer(folder: Path, name: str = LOCK, what: str = "run") -> Iterator[None]:
    """Hold the lock of a folder; raise, naming the holder, where another process has it.

    `what` is the word for what the folder holds.
    """
    path = folder / name
    handle = _locked(path, what)
    _held.add(handle)
    try:
        yield
    finally:
        if handle in _held:  # a forked child has let go of it
            _held.discard(handle)
            if os.name == "posix":
                path.unlink(missing_ok=True)  # while it is held, so that nobody else's is removed
            os.close(handle)


def _locked(path: Path, what: str) -> int:
    """A handle of the lock file, locked for this process alone."""
    refuse_link(path)
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    while True:
        handle = os.open(path, flags, 0o666)
        try:
            _lock(handle, path, what)
            if _is_at(path, handle):
                os.ftruncate(handle, 0)
                os.write(handle, json.dumps(_myself()).encode())
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # its last holder has just removed the file: try the new one


def _lock(handle: int, path: Path, what: str) -> None:
    """Take the lock at once, or say who has it; where the disk knows no locks, say that."""
    try:
        if os.name == "nt":
            os.lseek(handle, _FAR_OUT, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            os.lseek(handle, 0, os.SEEK_SET)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            raise RunError(
                f"{path.parent}: {_holder(path)} is writing to this {what}, and a {what} has one "
                "writer at a time; wait until it has ended, or stop it"
            ) from None
        if error.errno not in _NO_LOCKS:
            raise
        warnings.warn(
            f"{path.parent}: this disk knows no locks: see to it that no other process writes to "
            f"this {what}",
            stacklevel=2,
        )


def _is_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _myself() -> dict[str, Any]:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": platform.node(), "since": since}


def _holder(path: Path) -> str:
    """Who holds a lock, as far as its file can tell."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_LONGEST_HOLDER))
        pid, host, since = (found[name] for name in ("pid", "host", "since"))
        return f"process {int(pid)} on {host!s:.60} (since {since!s:.30})"
    except (OSError, ValueError, TypeError, LookupError):
        return "another process"


def _let_go() -> None:
    """A forked child has copies of the handles, and would hold the locks beyond its parent."""
    for handle in _held:
        os.close(handle)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
