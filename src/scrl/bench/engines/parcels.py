"""Packs a run folder into bytes and back, to send it between machines of a cluster.

Only regular files with plain names are sent; nothing in them is executed, and none can be written
outside its folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from scrl.files import replacing
from scrl.runs.files import RunError
from scrl.runs.lock import LOCK

LARGEST_PARCEL_BYTES = 2**32
"""A parcel above this size is neither packed nor unpacked."""
MOST_FILES = 100_000
MOST_PARTS = 4
"""Largest number of parts of a file's path."""
LONGEST_PART = 255
MARK = "checkpoint/checkpoint.json"
RESULT = "result.json"

Parcel = dict[str, bytes]
"""Content by name; a name has slashes and begins in the run folder."""
Stamps = dict[str, tuple[int, int]]
"""Size and time of change of each file, by name."""


def stamps_of(folder: Path) -> Stamps:
    """The files of a folder, without temporary files and links."""
    found = {}
    for path in sorted(folder.rglob("*")):
        is_plain = path.is_file() and not path.is_symlink()
        if is_plain and path.suffix != ".tmp" and path.name != LOCK:
            about = path.stat()
            found[path.relative_to(folder).as_posix()] = (about.st_size, about.st_mtime_ns)
    return found


def pack(folder: Path, before: Stamps | None = None) -> Parcel:
    """The files of a folder, or only those that changed."""
    before = before or {}
    now = stamps_of(folder)
    names = [name for name, stamp in now.items() if before.get(name) != stamp]
    _check(folder, len(names), sum(now[name][0] for name in names))
    return {name: (folder / name).read_bytes() for name in names}


def unpack(parcel: Mapping[str, bytes], folder: Path) -> None:
    """Write the files atomically; a checkpoint is valid once all of its files are written."""
    _check(folder, len(parcel), sum(map(len, parcel.values())))
    for name in parcel:
        _check_name(name, folder)
    for name in sorted(parcel, key=lambda name: (name == RESULT, name == MARK, name)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.parent.resolve().is_relative_to(folder.resolve()):
            raise RunError(f"{path}: a link leads out of the run folder")
        with replacing(path) as file:
            file.write(parcel[name])
    if MARK in parcel:
        marks = {path.name: path.read_bytes() for path in (folder / MARK).parent.glob("*.json")}
        for old in (folder / MARK).parent.glob("state-*"):
            if not is_named(old.name, marks):
                old.unlink()


def is_named(state: str, files: Mapping[str, bytes]) -> bool:
    """Whether a state file belongs to one of the checkpoints in these files."""
    return any(state.encode() in content for name, content in files.items() if ".json" in name)


def _check(folder: Path, files: int, size: int) -> None:
    if files > MOST_FILES or size > LARGEST_PARCEL_BYTES:
        raise RunError(
            f"{folder}: {files:,} files with {size:,} bytes cannot be sent to or from a worker; at "
            f"most {MOST_FILES:,} files and {LARGEST_PARCEL_BYTES:,} bytes can. Use --engine local"
        )


def _check_name(name: str, folder: Path) -> None:
    parts = name.split("/")
    is_plain = all(
        part not in ("", ".", "..") and "\0" not in part and len(os.fsencode(part)) <= LONGEST_PART
        for part in parts
    )
    # Drives and backslashes are special on some systems only.
    is_inside = not Path(name).is_absolute() and Path(name).parts == PurePosixPath(name).parts
    if not (is_plain and is_inside and len(parts) <= MOST_PARTS):
        raise RunError(f"{folder}: no file of a run has the name {name!r:.80}")
