"""Files that are whole or not there at all, and JSON that is checked when it is read."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from scrl.errors import ScrlError

SCHEMA = 1
"""Version of the files in a run folder; a change that older readers would misread raises it."""
LARGEST_JSON_BYTES = 64 * 2**20
"""A JSON file above this size is refused unread."""

DIGITS, NOISE = 12, 1e-14
"""A number that differs by less than this share from one of so few digits is meant to be that."""


class RunError(ScrlError):
    """A run folder cannot be used: it exists already, is none, is damaged, or is too new."""


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` once it is whole and on the disk."""
    fresh = path.with_name(f"{path.name}.tmp")
    with fresh.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    if os.name == "posix":  # elsewhere a folder cannot be opened
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def plain(value: Any) -> Any:
    """The value in JSON's own types; NaN and infinities, which JSON lacks, become null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "__array__"):
        return plain(np.asarray(value).tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def rounded(value: Any) -> Any:
    """The value with short numbers in place of those that differ from them only by noise."""
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    if not isinstance(value, float):
        return value
    short = float(f"{value:.{DIGITS}g}")
    return short if math.isclose(short, value, rel_tol=NOISE) else value


def json_line(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, allow_nan=False).encode() + b"\n"


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    text = json.dumps(plain({"schema": SCHEMA, **document}), indent=2, allow_nan=False)
    with replacing(path) as file:
        file.write(text.encode() + b"\n")


def read_json(path: Path, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The document in a file, with at least these fields, each of its type."""
    checked_size(path, LARGEST_JSON_BYTES)
    return parse_json(path.read_bytes(), str(path), {"schema": int, **fields})


def checked_size(path: Path, largest: int) -> int:
    if not path.is_file():
        raise RunError(f"{path}: missing")
    if (size := path.stat().st_size) > largest:
        raise RunError(f"{path}: {size:,} bytes are more than the {largest:,} that are read")
    return size


def parse_json(data: bytes, place: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RunError(f"{place}: damaged, not JSON: {error}") from None
    if not isinstance(document, dict):
        raise RunError(f"{place}: must hold a table in braces, not {document!r:.60}")
    for name, kind in fields.items():
        value = document.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            found = f"not {value!r:.60}" if name in document else "and is missing"
            raise RunError(f"{place}: '{name}' must be {_KIND_TEXTS[kind]}, {found}")
    if "schema" in fields and document["schema"] > SCHEMA:
        newer = f"schema {document['schema']}, and this one reads up to {SCHEMA}"
        raise RunError(f"{place}: written by a newer scrl ({newer}); update scrl")
    if "schema" in fields and document["schema"] < 1:
        raise RunError(f"{place}: schema {document['schema']} is unknown")
    return document


_KIND_TEXTS = {
    str: "a text",
    str | None: "a text or null",
    int: "a whole number",
    int | float: "a number",
    dict: "a table",
    list: "a list",
}
