"""Reads a log: a CSV table with a header, or GeoJSON points."""

from __future__ import annotations

import codecs
import csv
import json
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scrl.audit.columns import WIDTH, Chosen, Column, choose, texts
from scrl.audit.options import AuditOptions, Findings, LogError, counted
from scrl.errors import visible

MOST_BYTES = 600_000_000
MOST_POINTS = 5_000_000
LONGEST_HEADER = 100_000
JSON_SUFFIXES = (".geojson", ".json")
_NUMBER = re.compile(r"\s*[-+]?[\d.]")
_TIMES = ("coordTimes", "times", "time", "timestamps")


@dataclass(frozen=True)
class RawLog:
    """The columns of a log that are needed, as they stand in the file."""

    chosen: Chosen
    columns: dict[str, Column]
    has_commas: bool = False
    """Whether numbers have a comma in place of the point."""
    system: str | None = None
    """The coordinate system that the file names."""


def read_log(
    path: Path, options: AuditOptions, findings: Findings, *, is_geographic: bool
) -> RawLog:
    """The log in a file; raises LogError if it cannot be read."""
    if path.is_dir():
        raise LogError("this is a folder, not a log")
    if not path.is_file():
        raise LogError("there is no such file")
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise LogError(f"the file is larger than {MOST_BYTES // 1_000_000} MB: cut it into days")
    if size == 0:
        raise LogError("the file is empty")
    read = _read_geojson if path.suffix.lower() in JSON_SUFFIXES else _read_csv
    log = read(path, options, findings, is_geographic)
    points = len(log.columns[log.chosen.time])
    if points > MOST_POINTS:
        raise LogError(f"the log has {points:,} points and at most {MOST_POINTS:,} are allowed")
    if points < 2:
        raise LogError(f"the log has {counted(points, 'point')}, and at least two are needed")
    return log


def _read_csv(path: Path, options: AuditOptions, findings: Findings, is_geographic: bool) -> RawLog:
    encoding = _encoding(path, findings)
    skipped, header = _header(path, encoding)
    delimiter = max(",;\t|", key=header.count)
    names = [visible(name.strip()) for name in next(csv.reader([header], delimiter=delimiter))]
    if all(_NUMBER.match(name) for name in names if name):
        raise LogError(
            f"the first row holds numbers ({header[:60]}), and the names of the columns are needed"
        )
    chosen = choose(names, options, is_geographic=is_geographic)
    places = [names.index(name) for name in chosen.names]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that there are no rows
            table = np.loadtxt(
                str(path), dtype=_row_type(len(places)), delimiter=delimiter, skiprows=skipped + 1,
                usecols=places, quotechar='"', comments=None, encoding=encoding, ndmin=1,
                max_rows=MOST_POINTS + 1,
            )  # fmt: skip
    except (ValueError, UnicodeError):  # rows of different lengths
        lines = _Table(path, encoding, skipped + 1, delimiter)
        table = _ragged(lines, places, len(names), findings)
    columns = {name: table[f"f{index}"] for index, name in enumerate(chosen.names)}
    has_commas = delimiter == ";" and any(b"," in each for each in columns[chosen.x][:100])
    if has_commas:
        findings.add("numbers", len(table), "numbers have a comma in place of the decimal point")
    return RawLog(chosen, columns, has_commas)


def _encoding(path: Path, findings: Findings) -> str:
    """UTF-8, or Latin-1 for a text that is not; raises if the file is no text."""
    with path.open("rb") as file:
        head = file.read(4096)
        if head.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise LogError("this is UTF-16: save the table as CSV in UTF-8")
        if b"\0" in head:
            raise LogError("this is no text: a CSV table or GeoJSON points are needed")
        file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            while chunk := file.read(1 << 24):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            findings.add("encoding", 1, "the file is not UTF-8; it was read as Latin-1")
            return "latin-1"
    return "utf-8-sig"


def _header(path: Path, encoding: str) -> tuple[int, str]:
    """The lines before the header (empty ones and comments) and the header."""
    with path.open(encoding=encoding, newline=None) as file:
        for number in range(1000):
            line = file.readline(LONGEST_HEADER)
            if not line:
                break
            text = line.strip("\r\n")
            if text.strip() and not text.lstrip().startswith("#"):
                return number, text
    raise LogError("the file has no row with the names of columns")


def _row_type(count: int) -> np.dtype:
    return np.dtype([(f"f{index}", f"S{WIDTH}") for index in range(count)])


class _Table(NamedTuple):
    """Where the rows of a table are."""

    path: Path
    encoding: str
    skipped: int
    """Lines before the first row."""
    delimiter: str


def _ragged(lines: _Table, places: Sequence[int], width: int, findings: Findings) -> np.ndarray:
    """The needed columns of a table in which rows have different lengths, row by row."""
    rows: list[tuple[bytes, ...]] = []
    short: list[int] = []
    with lines.path.open(encoding=lines.encoding, newline="") as file:
        for _ in range(lines.skipped):
            file.readline()
        for number, row in enumerate(_rows(file, lines.delimiter), start=1):
            if not any(row):
                continue
            if len(row) <= max(places):
                short.append(number)
            else:
                rows.append(tuple(row[at].encode("utf-8", "replace")[:WIDTH] for at in places))
            if len(rows) > MOST_POINTS:
                break
    findings.add(
        "row", len(short),
        f"{counted(len(short), 'row')} of fewer than {width} columns left out: row "
        f"{_listed(short)}",
    )  # fmt: skip
    return np.array(rows, _row_type(len(places)))


def _rows(file: Any, delimiter: str) -> Iterator[list[str]]:
    try:
        yield from csv.reader(file, delimiter=delimiter)
    except csv.Error as error:
        raise LogError(f"not a CSV table: {error}") from error


def _listed(rows: Sequence[int]) -> str:
    return ", ".join(f"{row:,}" for row in rows[:5]) + (", ..." if len(rows) > 5 else "")


def _read_geojson(
    path: Path, options: AuditOptions, findings: Findings, is_geographic: bool
) -> RawLog:
    document = _document(path)
    features = _features(document)
    if len(features) == 1 and _kind_of(features[0]) in ("LineString", "MultiPoint"):
        features = _from_line(features[0])
    points, left_out = [], 0
    for feature in features:
        if _kind_of(feature) in ("Point", None) and isinstance(feature.get("properties"), dict):
            points.append(feature)
        else:
            left_out += 1
    findings.add(
        "feature", left_out,
        f"{counted(left_out, 'feature')} without a point and properties left out",
    )  # fmt: skip
    if not points:
        raise LogError(
            "no feature is a Point with properties; a log is points with their time and flow, "
            "amount or pump state"
        )
    names = list(dict.fromkeys(key for each in points[:100] for key in each["properties"]))
    both = [("longitude", "latitude"), ("x", "y")][0 if is_geographic and not options.crs else 1]
    chosen = choose([*both, *(name for name in names if name not in both)], options,
                    is_geographic=is_geographic)  # fmt: skip
    places = np.array([_place(each.get("geometry")) for each in points], float).reshape(-1, 2)
    columns = dict(zip(both, places.T, strict=True))
    for name in chosen.names:
        if name not in columns:
            columns[name] = texts([each["properties"].get(name) for each in points])
    return RawLog(chosen, columns, system=_system(document))


def _document(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise LogError(f"not UTF-8 text (byte {error.start})") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise LogError(f"not valid JSON: {error.msg} at {place}") from error
    except (RecursionError, ValueError) as error:
        raise LogError(f"not valid JSON: {error}") from error


def _features(document: Any) -> list[Any]:
    if not isinstance(document, dict) or not isinstance(document.get("type"), str):
        raise LogError("expected a GeoJSON object with a 'type'")
    if document["type"] == "Feature":
        return [document]
    features = document.get("features")
    if not isinstance(features, list) or not features:
        raise LogError("expected a GeoJSON FeatureCollection of points")
    return [each for each in features if isinstance(each, dict)]


def _kind_of(feature: Any) -> str | None:
    geometry = feature.get("geometry")
    kind = geometry.get("type") if isinstance(geometry, dict) else None
    return kind if isinstance(kind, str) else None


def _from_line(feature: Any) -> list[Any]:
    """The points of a line whose properties hold a list with a value for each point."""
    coordinates = feature["geometry"].get("coordinates")
    properties = feature.get("properties")
    if not isinstance(coordinates, list) or not isinstance(properties, dict):
        raise LogError("the line has no points, or no properties")
    lists = {
        "time" if name in _TIMES else name: values
        for name, values in properties.items()
        if isinstance(values, list) and len(values) == len(coordinates)
    }
    return [
        {
            "geometry": {"type": "Point", "coordinates": place},
            "properties": {name: values[index] for name, values in lists.items()},
        }
        for index, place in enumerate(coordinates)
    ]


_NOWHERE = (float("nan"), float("nan"))


def _place(geometry: Any) -> tuple[float, float]:
    """x and y of a point; not a number if they cannot be read."""
    try:
        x, y = geometry["coordinates"][:2]
        return float(x), float(y)
    except (TypeError, ValueError, KeyError, OverflowError):
        return _NOWHERE


def _system(document: Any) -> str | None:
    """The name of the coordinate system in the old member `crs`."""
    crs = document.get("crs")
    properties = crs.get("properties") if isinstance(crs, dict) else None
    name = properties.get("name") if isinstance(properties, dict) else None
    return name if isinstance(name, str) and name.isprintable() else None
