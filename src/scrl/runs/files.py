"""The JSON documents and checksums of run folders: written with a checksum, checked when read."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, NoReturn

import numpy as np

from scrl.errors import ScrlError, check_texts
from scrl.files import replacing

SCHEMA = 2
"""Version of the files in a run folder; documents of version 1 have no checksums."""
LARGEST_JSON_BYTES = 64 * 2**20
"""A JSON file above this size is refused unread."""
LARGEST_CHECKED_BYTES = 2**32
"""A file above this size is refused without computing its checksum."""
DEEPEST = 64
"""Tables within tables, at most."""
LARGEST_WHOLE = 2**63
CHECKSUM = "checksum"
"""The field of a document that holds the SHA-256 of all its others."""

DIGITS, NOISE = 12, 1e-14
"""A number that differs by less than this share from one of so few digits is meant to be that."""


class RunError(ScrlError):
    """A run folder cannot be used: it exists already, is none, is damaged, or is too new."""


class NewerRunError(RunError):
    """A run folder was written by a newer scrl."""


@dataclass(frozen=True)
class Each:
    """A table with any names; its values are all of one shape."""

    shape: Any


@dataclass(frozen=True)
class Range:
    """A number of one kind, not below `low` and not above `high`."""

    kind: Any
    low: float
    high: float = math.inf


Shape = type | UnionType | list[Any] | Mapping[str, Any] | Each | Range
"""A type, a list of one shape, a table with at least these fields (`name?` may be missing), `Each`
or `Range`."""


def sha256(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksums_of(folder: Path, *names: str) -> dict[str, str]:
    """The checksums of those of the files that are there."""
    return {name: sha256(folder / name) for name in names if (folder / name).is_file()}


def check_files(folder: Path, checksums: Mapping[str, str], remedy: str) -> None:
    """Raise for the first of these files that is there and is not as it was written."""
    for name, expected in checksums.items():
        path = folder / name
        if Path(name).name != name:
            raise RunError(f"{folder}: damaged: no file of a run has the name {name!r:.80}")
        if path.is_file():
            checked_size(path, LARGEST_CHECKED_BYTES)
            if sha256(path) != expected:
                raise RunError(
                    f"{path}: damaged, or changed by hand: its checksum is not the one that was "
                    f"kept when it was written; {remedy}"
                )


def plain(value: Any) -> Any:
    """The value in JSON's own types; NaN and infinities, which JSON lacks, become null."""
    if isinstance(value, Mapping):
        return {plain(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return plain(str(value))
    if isinstance(value, str):  # bytes of a file name that are no text are shown as \udcXX
        return value.encode("utf-8", "backslashreplace").decode()
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
    """A document on a line of its own."""
    return json.dumps(document, allow_nan=False).encode() + b"\n"


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document with its version and its checksum."""
    found = plain({"schema": SCHEMA, **document})
    text = json.dumps(found | {CHECKSUM: _checksum(found)}, indent=2, allow_nan=False)
    with replacing(path) as file:
        file.write(text.encode() + b"\n")


def read_json(path: Path, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The document in a file, with at least these fields, each of its shape."""
    checked_size(path, LARGEST_JSON_BYTES)
    document = parse_json(path.read_bytes(), str(path), fields)
    check_texts(document, str(path), error=RunError)
    return document


def checked_size(path: Path, largest: int) -> int:
    """The size of a file that is there and not too large."""
    if not path.is_file():
        raise RunError(f"{path}: missing")
    if (size := path.stat().st_size) > largest:
        raise RunError(f"{path}: {size:,} bytes are more than the {largest:,} that are read")
    return size


def parse_json(data: bytes, place: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A document with its version; from version 2 on its checksum must fit."""
    document = parse_table(data, place, {"schema": int})
    check_schema(document["schema"], place)
    if document["schema"] > 1:
        expected = document.pop(CHECKSUM, None)
        if expected != _checksum(document):
            raise RunError(
                f"{place}: damaged, or changed by hand: its checksum does not fit its content; "
                "restore it from a copy"
            )
    conform(document, fields, place)
    return document


def check_schema(schema: int, place: str) -> None:
    """Raise for a version of documents that this scrl cannot read."""
    if schema > SCHEMA:
        newer = f"schema {schema}, and this one reads up to {SCHEMA}"
        raise NewerRunError(f"{place}: written by a newer scrl ({newer}); update scrl")
    if schema < 1:
        raise RunError(f"{place}: schema {schema} is unknown")


def parse_table(data: bytes, place: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A table of JSON with at least these fields: finite numbers, whole texts, and not too deep."""
    try:
        document = json.loads(data.decode("utf-8"), parse_constant=_no_constant)
        _check_values(document)
    except (ValueError, RecursionError) as error:
        raise RunError(f"{place}: damaged, not JSON: {error}") from None
    if not isinstance(document, dict):
        raise RunError(f"{place}: must hold a table in braces, not {document!r:.60}")
    conform(document, fields, place)
    return document


def conform(value: Any, shape: Shape, place: str, name: str = "") -> None:
    """Raise unless a value of a document has a shape; `place` and `name` say where it stands."""
    kind = _kind_of(shape)
    is_allowed = kind is bool or not isinstance(value, bool)  # True is an int, too
    if not (is_allowed and isinstance(value, kind)):
        raise RunError(f"{place}: '{name}' must be {_KIND_TEXTS[kind]}, not {value!r:.60}")
    if isinstance(shape, Range) and value is not None and not shape.low <= value <= shape.high:
        raise RunError(f"{place}: '{name}' must be {_text_of(shape)}, not {value!r:.60}")
    for key, inner, each in _parts(value, shape):
        inner_name = f"{name}.{key}" if name else key
        if each is _MISSING:
            raise RunError(f"{place}: '{inner_name}' must be {_text_of(inner)}, and is missing")
        conform(each, inner, place, inner_name)


_MISSING = object()


def _parts(value: Any, shape: Shape) -> Iterator[tuple[str, Any, Any]]:
    """What a value holds, each with its name and its shape."""
    if isinstance(shape, Each):
        yield from ((f"{key:.40}", shape.shape, each) for key, each in value.items())
    elif isinstance(shape, Mapping):
        for key, inner in shape.items():
            name = key.removesuffix("?")
            if name == key or name in value:
                yield name, inner, value.get(name, _MISSING)
    elif isinstance(shape, list):
        yield from ((str(index), shape[0], each) for index, each in enumerate(value))


def _kind_of(shape: Shape) -> Any:
    if isinstance(shape, Range):
        return shape.kind
    if isinstance(shape, type | UnionType):
        return shape
    return list if isinstance(shape, list) else dict


def _text_of(shape: Shape) -> str:
    text = _KIND_TEXTS[_kind_of(shape)]
    if not isinstance(shape, Range):
        return text
    high = "" if math.isinf(shape.high) else f" and at most {shape.high:,}"
    return f"{text} of at least {shape.low:,}{high}"


@contextmanager
def damage_in(place: Path) -> Iterator[None]:
    """Name the file where a value in it is of the right type, and cannot be used all the same."""
    try:
        yield
    except RunError:
        raise
    except (ScrlError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise RunError(f"{place}: damaged: {error}") from None


def _check_values(value: Any, depth: int = 0) -> None:
    """Raise a ValueError for numbers and texts that Python reads and nothing else can use."""
    if depth > DEEPEST:
        raise ValueError(f"more than {DEEPEST} tables within tables")
    if isinstance(value, dict):
        for key, each in value.items():
            _check_values(key, depth)
            _check_values(each, depth + 1)
    elif isinstance(value, list):
        for each in value:
            _check_values(each, depth + 1)
    elif isinstance(value, str):
        value.encode("utf-8")  # half of a pair of surrogates is no text
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number is too large")
    elif isinstance(value, int) and abs(value) >= LARGEST_WHOLE:
        raise ValueError("a whole number is too large")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _checksum(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


_KIND_TEXTS: dict[Any, str] = {
    str: "a text",
    str | None: "a text or null",
    str | dict: "a text or a table",
    int: "a whole number",
    int | float: "a number",
    int | float | None: "a number or null",
    bool: "true or false",
    dict: "a table",
    list: "a list",
    list | None: "a list or null",
}


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
