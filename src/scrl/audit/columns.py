"""Which column of a log means what, and its values as numbers, times and states."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, UInt8

from scrl.audit.options import AuditOptions, Findings, LogError, counted
from scrl.errors import did_you_mean

WIDTH = 36
"""Longest value, in bytes."""
Column = np.ndarray
"""Values of a column: floats, or texts as bytes."""

ROLES: dict[str, tuple[str, ...]] = {
    "time": ("time", "timestamp", "datetime", "date_time", "time_utc", "utc", "gps_time", "seconds",
             "t"),
    "date": ("date", "day"),
    "longitude": ("longitude", "lon", "lng", "long"),
    "latitude": ("latitude", "lat"),
    "x": ("x", "easting", "east"),
    "y": ("y", "northing", "north"),
    "total": ("total", "total_amount", "amount_total", "cumulative", "volume_total"),
    "amount": ("amount", "applied", "volume", "quantity"),
    "flow": ("flow", "flow_rate", "flowrate"),
    "pump": ("pump", "pump_on", "pump_state", "spray", "spraying", "sprayer", "valve"),
    "transit": ("transit",),
}  # fmt: skip
"""The names of columns that are recognised, for each role."""
COUNTED = ("total", "amount", "flow", "pump")
"""The roles from which amounts can be counted; the first one that a log has is used."""
TO_SET = ("time", "date", "x", "y", *COUNTED)
"""The roles that a user can assign."""
_UNIT = re.compile(r"[\s_]*[(\[].*[)\]]\s*$")
_SUFFIX = re.compile(r"_(l|litres?|liters?|units?|gal)?_?(per_)?(s|sec|second|min|minute|h|hour)$")
_MINUTE = re.compile(r"(/ ?|per[ _]|_)min|lpm", re.IGNORECASE)
_HOUR = re.compile(r"((/ ?|per[ _])h|_h$|_hour)|lph", re.IGNORECASE)
_ON = (b"on", b"true", b"yes", b"open")
_OFF = (b"off", b"false", b"no", b"closed")


@dataclass(frozen=True)
class Chosen:
    """The names of the columns that are used."""

    time: str
    date: str | None
    x: str
    y: str
    kind: str
    """What amounts are counted from: total, amount, flow or pump."""
    value: str
    transit: str | None

    @property
    def names(self) -> list[str]:
        """Every column that is needed, once."""
        found = (self.time, self.date, self.x, self.y, self.value, self.transit)
        return list(dict.fromkeys(name for name in found if name is not None))


def choose(names: Sequence[str], options: AuditOptions, *, is_geographic: bool) -> Chosen:
    """The columns of a log; raises an error that lists the columns if one is missing."""
    for role, name in options.columns.items():
        if role not in TO_SET:
            raise LogError(f"'{role}' is no column of a log{did_you_mean(role, TO_SET)}")
        if name not in names:
            raise LogError(f"the log has no column '{name}'{did_you_mean(name, names)}")
    plain = {_plain(name): name for name in reversed(names)}

    def column(role: str) -> str | None:
        if role in options.columns:
            return options.columns[role]
        return next((plain[each] for each in ROLES.get(role, ()) if each in plain), None)

    on_earth = is_geographic and options.crs is None
    across = ("x", "longitude"), ("y", "latitude")
    x, y = (
        options.columns.get(pair[0])
        or column(pair[1] if on_earth else pair[0])
        or column(pair[0] if on_earth else pair[1])
        for pair in across
    )
    time, date = column("time"), column("date")
    kind = next((role for role in COUNTED if role in options.columns), None) or next(
        (role for role in COUNTED if column(role)), None
    )
    needed = {
        "time": time or date, "x (or longitude)": x, "y (or latitude)": y,
        "amount (or total, flow, pump)": kind,
    }  # fmt: skip
    missing = [role for role, found in needed.items() if found is None]
    value = None if kind is None else column(kind)
    if missing or x is None or y is None or kind is None or value is None:
        listed = ", ".join(f"'{name}'" for name in names[:20]) or "none"
        raise LogError(
            f"no column for {' and for '.join(missing)}; the log has {listed}. Say which it is, as "
            f"in --column {missing[0].partition(' ')[0]}=NAME"
        )
    return Chosen(time or date or "", date if time else None, x, y, kind, value, column("transit"))


def _plain(name: str) -> str:
    """A column's name without its unit, in lower case."""
    bare = _UNIT.sub("", name.strip().lower())
    bare = re.sub(r"[\s\-/.]+", "_", bare).strip("_")
    return bare if bare in _KNOWN else _SUFFIX.sub("", bare)


_KNOWN = {name for names in ROLES.values() for name in names}


def flow_time(name: str) -> str:
    """The time unit of a flow by the name of its column."""
    if _MINUTE.search(name):
        return "minute"
    return "hour" if _HOUR.search(name) else "second"


def numbers(column: Column, *, has_commas: bool = False) -> Float[np.ndarray, " row"]:
    """The values as numbers; NaN where they are none, or not finite."""
    if column.dtype.kind == "S":
        if has_commas:
            column = np.char.replace(column, b",", b".")
        try:
            column = column.astype(float)
        except ValueError:
            column = np.array([_number(each) for each in column.tolist()])
    return np.where(np.isfinite(column), column, np.nan)


def _number(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def states(column: Column) -> Float[np.ndarray, " row"]:
    """1 where a pump is on, 0 where it is off, NaN where its state cannot be read."""
    value = numbers(column)
    if column.dtype.kind == "S" and np.isnan(value).any():
        lower = np.char.lower(np.char.strip(column))
        value = np.select([np.isin(lower, _ON), np.isin(lower, _OFF)], [1.0, 0.0], value)
    return np.where((value == 0.0) | (value == 1.0), value, np.nan)


def times(
    column: Column, date: Column | None, findings: Findings
) -> tuple[Float[np.ndarray, " row"], bool]:
    """Seconds for each row, NaN where unreadable, and whether they count from 1970 (UTC)."""
    if date is not None and column.dtype.kind == "S" and date.dtype.kind == "S":
        column = np.char.add(np.char.add(date, b"T"), column)
    if column.dtype.kind == "S":
        sample = [each for each in column[:1000].tolist() if each]
        if sum(np.isnan(_number(each)) for each in sample) * 2 > len(sample):
            return _texts_to_seconds(column, findings)
    found = numbers(column)
    if not np.isfinite(found).any():
        return found, False
    size = float(np.nanmedian(np.abs(found)))
    for power, unit in ((1e6, "microseconds"), (1e3, "milliseconds")):
        if size > 1e8 * power:
            findings.add("time", len(found), f"times are taken for {unit} since 1970")
            return found / power, True
    return found, size > 1e8


def _texts_to_seconds(column: Column, findings: Findings) -> tuple[Float[np.ndarray, " row"], bool]:
    """ISO 8601 dates with times, or times of a day, as seconds."""
    texts = np.char.strip(column)
    width = max(int(np.char.str_len(texts).max()), 1) + 8
    letters = texts.astype(f"S{width}").view(np.uint8).reshape(len(texts), width)
    is_time_of_day = _digits(letters, 0, 2)[1] & (letters[:, 2] == ord(":"))
    if is_time_of_day.mean() > 0.5:
        clock, _, ok = _clock(letters, 0)
        findings.add("time", len(texts), "times have no date: a day ends at midnight")
        return np.where(ok, clock, np.nan), False
    days, ok = _days(letters)
    clock, end, is_clock = _clock(letters, 11)
    is_separated = np.isin(letters[:, 10], (ord("T"), ord("t"), ord(" ")))
    offset, has_zone, is_zone = _zones(letters, end)
    ok &= is_clock & is_separated & is_zone
    seconds = np.where(ok, days * 86400.0 + clock - offset, np.nan)
    _tell_zones(offset[ok], has_zone[ok], findings)
    return seconds, True


def _digits(
    letters: UInt8[np.ndarray, "row letter"], begin: int, count: int
) -> tuple[Float[np.ndarray, " row"], Bool[np.ndarray, " row"]]:
    """The number in `count` letters, and whether all of them are digits."""
    part = letters[:, begin : begin + count].astype(np.int64) - ord("0")
    ok = ((part >= 0) & (part <= 9)).all(axis=1) & (part.shape[1] == count)
    return (part @ 10 ** np.arange(part.shape[1])[::-1]).astype(float), ok


def _days(
    letters: UInt8[np.ndarray, "row letter"],
) -> tuple[Float[np.ndarray, " row"], Bool[np.ndarray, " row"]]:
    """Days since 1970 of dates such as 2026-05-01; a log has few different ones."""
    (year, a), (month, b), (day, c) = (_digits(letters, *at) for at in ((0, 4), (5, 2), (8, 2)))
    ok = a & b & c & (letters[:, 4] == letters[:, 7]) & np.isin(letters[:, 4], (45, 47))
    code = np.where(ok, year * 10_000 + month * 100 + day, 0.0).astype(np.int64)
    unique, index = np.unique(code, return_inverse=True)
    days = np.array([_day(each) for each in unique.tolist()])[index]
    return days, ok & np.isfinite(days)


def _day(code: int) -> float:
    try:
        found = datetime.date(code // 10_000, code // 100 % 100, code % 100)
    except ValueError:
        return float("nan")
    return float(found.toordinal() - datetime.date(1970, 1, 1).toordinal())


def _clock(
    letters: UInt8[np.ndarray, "row letter"], begin: int
) -> tuple[Float[np.ndarray, " row"], np.ndarray, Bool[np.ndarray, " row"]]:
    """Seconds of the day of 06:30:00.25, where its text ends, and whether it is one."""
    if letters.shape[1] < begin + 9:
        nothing = np.zeros(len(letters))
        return nothing, nothing.astype(int), nothing > 0.0
    (hour, a), (minute, b), (second, c) = (_digits(letters, begin + at, 2) for at in (0, 3, 6))
    ok = a & b & c & (letters[:, begin + 2] == 58) & (letters[:, begin + 5] == 58)
    ok &= (hour < 25) & (minute < 60) & (second < 61)
    clock, end = hour * 3600.0 + minute * 60.0 + second, np.full(len(letters), begin + 8)
    going = np.isin(letters[:, begin + 8], (ord("."), ord(",")))
    end = end + going
    for place in range(begin + 9, min(begin + 18, letters.shape[1])):
        digit = letters[:, place].astype(np.int64) - ord("0")
        going = going & (digit >= 0) & (digit <= 9)
        clock = clock + np.where(going, digit * 10.0 ** (begin + 8 - place), 0.0)
        end = end + going
    return clock, end, ok


def _zones(
    letters: UInt8[np.ndarray, "row letter"], end: np.ndarray
) -> tuple[Float[np.ndarray, " row"], Bool[np.ndarray, " row"], Bool[np.ndarray, " row"]]:
    """Seconds east of UTC, whether a zone is given, and whether it can be read.

    A log has few different zones, so each is read once.
    """
    width = letters.shape[1]
    if (end == end[0]).all() and end[0] + 8 <= width:
        rest = np.ascontiguousarray(letters[:, end[0] : end[0] + 8])
    else:
        place = np.minimum(end[:, None] + np.arange(8), width - 1)
        rest = np.take_along_axis(letters, place, axis=1)
        rest[end >= width] = 0
    unique, index = np.unique(rest.view("S8").ravel(), return_inverse=True)
    read = [_zone(each.decode("latin-1").strip()) for each in unique.tolist()]
    offset = np.array([0.0 if each is None else each for each in read])[index]
    has_zone = (np.char.str_len(np.char.strip(unique)) > 0)[index]
    return offset, has_zone, np.array([each is not None for each in read])[index]


def _zone(text: str) -> float | None:
    """Seconds east of UTC; None if the text is no zone."""
    if text in ("", "Z", "z", "UTC", "GMT"):
        return 0.0
    found = re.fullmatch(r"([+-])(\d\d):?(\d\d)?", text)
    if found is None:
        return None
    size = int(found[2]) * 3600.0 + int(found[3] or 0) * 60.0
    return -size if found[1] == "-" else size


def _tell_zones(
    offset: Float[np.ndarray, " row"], has_zone: Bool[np.ndarray, " row"], findings: Findings
) -> None:
    without = int((~has_zone).sum())
    zones = np.unique(offset[has_zone])
    shown = ", ".join(f"{each / 3600.0:+g} h" for each in zones.tolist()[:6])
    if without and len(zones):
        findings.add(
            "time zone", without,
            f"{counted(without, 'time')} without a time zone stand beside times with one; they "
            "are taken for UTC",
        )  # fmt: skip
    elif without:
        findings.add("time zone", without, "times have no time zone; differences alone are used")
    if len(zones) > 1:
        findings.add(
            "time zone", len(offset), f"times have {len(zones)} time zones ({shown}); all were "
            "converted to UTC",
        )  # fmt: skip


def texts(values: Sequence[object]) -> Column:
    """A column from values of a JSON document."""
    if all(isinstance(each, int | float) and not isinstance(each, bool) for each in values):
        return np.array(values, float)
    return np.array([_text(each) for each in values], f"S{WIDTH}")


def _text(value: object) -> bytes:
    if value is None:
        return b""
    if isinstance(value, bool):
        return b"1" if value else b"0"
    return str(value).encode("utf-8", "replace")[:WIDTH]


def read_flow_unit(chosen: Chosen, options: AuditOptions) -> str:
    """The time unit of the flow: as set, or by the name of its column."""
    return options.flow_per or flow_time(chosen.value)


Columns = Mapping[str, Column]
