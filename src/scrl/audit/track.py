"""The way of the vehicle, interval by interval: what was given out, and what is unknown.

Rows are put in order and cleaned, and each step of that is a finding. An interval between two
points is trusted if it is short enough in time and plausible in speed; otherwise it is a gap, of
which neither the place nor, with most logs, the amount is known.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from scrl.audit.columns import numbers, read_flow_unit, states, times
from scrl.audit.frame import NUDGE, GridFrame
from scrl.audit.options import SECONDS, AuditOptions, Findings, LogError, counted
from scrl.audit.reading import RawLog
from scrl.worlds.sweep.geojson import WGS84 as WGS84_NAMES
from scrl.worlds.sweep.projection import Projection
from scrl.worlds.sweep.spec import SweepSpec

SHORTEST_GAP_S, GAP_INTERVALS = 5.0, 5.0
"""A gap is longer than this, and longer than so many usual intervals."""
FASTER_THAN_TOP, FASTER_THAN_MOST = 3.0, 5.0
"""Implausible: above so many times the problem's top speed and the log's 95 % quantile."""
NOISE = 0.01
"""Negative values of up to this share of the largest one are a sensor's noise around 0."""
MANY = 20


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a log that are still used."""

    number: Int[np.ndarray, " row"]
    """The row in the file, from 1."""
    time: Float[np.ndarray, " row"]
    cells: Float[np.ndarray, "row 2"]
    """Column and row in the grid; NaN where the place is unknown."""
    value: Float[np.ndarray, " row"]
    """Total, amount, flow per second, or 1 for a pump that is on; NaN where unknown."""
    is_transit: Bool[np.ndarray, " row"]

    def __len__(self) -> int:
        return len(self.number)

    def pick(self, which: np.ndarray) -> Rows:
        """Some rows, by a mask or by indices."""
        return Rows(self.number[which], self.time[which], self.cells[which], self.value[which],
                    self.is_transit[which])  # fmt: skip


@dataclass(frozen=True, eq=False)
class LogTrack:
    """Intervals between successive points."""

    begin: Float[np.ndarray, "interval 2"]
    """Column and row of its first point."""
    end: Float[np.ndarray, "interval 2"]
    time: Float[np.ndarray, " interval"]
    """When it begins, in seconds."""
    seconds: Float[np.ndarray, " interval"]
    """NaN where the clock was set back."""
    amount: Float[np.ndarray, " interval"]
    """Units that were certainly given out along the straight way; 0 in gaps."""
    elsewhere: Float[np.ndarray, " interval"]
    """Units that may have been given out in addition, nobody knows where; may be infinite."""
    is_gap: Bool[np.ndarray, " interval"]
    row: Int[np.ndarray, " interval"]
    """The row of the file with its first point."""
    fastest: float
    """The highest plausible speed, in metres (or cells) per second."""
    unplaced: float
    """Units, besides those of gaps, that may have been given out anywhere; may be infinite."""
    is_dated: bool
    """Whether times count from 1970 (UTC)."""
    kind: str
    """What amounts are counted from."""
    most: float
    """The largest flow of the log, in units per second."""

    def when(self, seconds: float) -> str:
        """A time of the log as text."""
        if not self.is_dated:
            return f"{seconds:,.1f} s"
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
        return moment.isoformat(" ", "seconds")


@dataclass(frozen=True)
class _Settings:
    """What the intervals depend on, besides the rows."""

    kind: str
    """What amounts are counted from: total, amount, flow or pump."""
    is_dated: bool
    spec: SweepSpec
    frame: GridFrame
    options: AuditOptions


def read_track(
    log: RawLog, spec: SweepSpec, frame: GridFrame, options: AuditOptions, findings: Findings
) -> LogTrack:
    """Clean the rows of a log and make intervals of them."""
    rows, is_dated = _rows_of(log, spec, frame, options, findings)
    has_time = np.isfinite(rows.time)
    timeless, rows = rows, rows.pick(has_time)
    rows = _ordered(rows, frame, findings)
    rows = _without_duplicates(rows, findings)
    rows = _spread_times(rows, findings)
    kind, name = log.chosen.kind, log.chosen.value
    is_lost = np.isnan(rows.value)
    if kind == "amount":
        _tell_if_total(rows, name, findings)
        rows = replace(rows, value=np.cumsum(np.where(is_lost, 0.0, rows.value)))
    has_place = np.isfinite(rows.cells.sum(axis=1))
    _tell("place", ~has_place, rows, findings, "without a readable place left out")
    _tell("value", is_lost, rows, findings, f"without a readable value in '{name}'")
    if has_place.sum() < 2:
        raise LogError("fewer than two points have a readable time and place")
    track = _intervals(rows, has_place, is_lost, _Settings(kind, is_dated, spec, frame, options))
    _tell_gaps(track, findings)
    unplaced = _before_and_after(rows, has_place, track) + _without_time(timeless, has_time, kind)
    return replace(track, unplaced=unplaced)


def _rate(spec: SweepSpec) -> float | None:
    """Units per second of a pump that is on; None if the length of a step is unknown."""
    return None if spec.units.step is None else spec.vehicle.rate / spec.units.step


def _rows_of(
    log: RawLog, spec: SweepSpec, frame: GridFrame, options: AuditOptions, findings: Findings
) -> tuple[Rows, bool]:
    """The rows, and whether their times are dates."""
    chosen, columns = log.chosen, log.columns
    seconds, is_dated = times(columns[chosen.time], columns.get(chosen.date or ""), findings)
    x, y = (numbers(columns[name], has_commas=log.has_commas) for name in (chosen.x, chosen.y))
    places = _projected(np.column_stack([x, y]), frame, log, options, findings)
    places = _on_map(places, frame, replace(log, system=options.crs or log.system), findings)
    value = _values(log, spec, options, findings)
    transit = columns.get(chosen.transit or "")
    is_transit = np.zeros(len(x), bool) if transit is None else states(transit) == 1.0
    rows = Rows(np.arange(1, len(x) + 1), seconds, places, value, is_transit)
    has_time = np.isfinite(seconds)
    if not has_time.any():
        raise LogError(
            f"no time in '{chosen.time}' can be read (the first is {_first(columns[chosen.time])}):"
            " write dates and times as 2026-05-01T06:30:00Z, or times as seconds"
        )
    _tell("time", ~has_time, rows, findings, "without a readable time left out")
    return rows, is_dated


def _projected(
    places: Float[np.ndarray, "row 2"],
    frame: GridFrame,
    log: RawLog,
    options: AuditOptions,
    findings: Findings,
) -> Float[np.ndarray, "row 2"]:
    """The places in degrees, if they are in another coordinate system and the map is on Earth."""
    system = options.crs or log.system
    if not frame.is_geographic or system is None or WGS84_NAMES.search(system):
        return places
    projection = Projection.of(system)
    findings.add("coordinates", len(places), f"{system} was transformed to degrees (WGS84)")
    found = projection.degrees(places)
    for text in projection.warnings():
        findings.add("coordinates", len(places), text)
    return np.where(np.isfinite(found), found, np.nan)


def _first(column: np.ndarray) -> str:
    value = column[0]
    return repr(value.decode("utf-8", "replace")) if isinstance(value, bytes) else f"{value:g}"


def _on_map(
    places: Float[np.ndarray, "row 2"],
    frame: GridFrame,
    log: RawLog,
    findings: Findings,
) -> Float[np.ndarray, "row 2"]:
    """Columns and rows of the places; raises if they cannot be on this map."""
    if frame.is_geographic:
        is_null = np.abs(places).sum(axis=1) < 1e-9
        if is_null.any() and not _is_on(frame.cells(np.zeros((1, 2))), frame)[0]:
            findings.add(
                "fix", int(is_null.sum()),
                f"{counted(int(is_null.sum()), 'point')} at longitude 0, latitude 0 left out: the "
                "receiver had no position",
            )  # fmt: skip
            places = np.where(is_null[:, None], np.nan, places)
    cells = frame.cells(places)
    is_known = np.isfinite(cells.sum(axis=1))
    if not is_known.any():
        raise LogError(
            f"no place in '{log.chosen.x}' and '{log.chosen.y}' can be read (the first is "
            f"{_first(log.columns[log.chosen.x])})"
        )
    if not _is_on(cells[is_known], frame).any():
        raise LogError(_elsewhere(places[is_known], frame, log))
    return cells + NUDGE


def _is_on(cells: Float[np.ndarray, "place 2"], frame: GridFrame) -> Bool[np.ndarray, " place"]:
    """Whether places lie on the grid."""
    rows, columns = frame.shape
    column, row = cells.T
    return (column >= 0.0) & (column <= columns) & (row >= 0.0) & (row <= rows)


def _elsewhere(places: Float[np.ndarray, "place 2"], frame: GridFrame, log: RawLog) -> str:
    """The message for a log none of whose points is on the map."""
    (left, bottom), (right, top) = places.min(axis=0), places.max(axis=0)
    west, south, east, north = frame.where.bounds
    said = (
        f"no point of the log lies on the map: x of the log is from {left:.7g} to {right:.7g} and "
        f"y from {bottom:.7g} to {top:.7g}, and the map reaches from {west:.7g} to {east:.7g} and "
        f"from {south:.7g} to {north:.7g}"
    )
    if _is_on(frame.cells(places[:, ::-1]), frame).any():
        names = f"--column x={log.chosen.y} --column y={log.chosen.x}"
        return f"{said}; the two look swapped: use {names}"
    is_degrees = np.abs(places).max() <= 180.0
    if log.system is not None:
        return f"{said}; the log's coordinate system is {log.system}"
    if frame.is_geographic and not is_degrees:
        return f"{said}; these are not degrees: name the log's coordinate system with --crs"
    if not frame.is_geographic and is_degrees:
        return f"{said}; the log may be in degrees, and this map has plain coordinates"
    return said


def _values(
    log: RawLog, spec: SweepSpec, options: AuditOptions, findings: Findings
) -> Float[np.ndarray, " row"]:
    """The column that amounts are counted from, in units, units per second, or on and off."""
    chosen, column = log.chosen, log.columns[log.chosen.value]
    if chosen.kind == "pump":
        if spec.vehicle.has_flow:
            raise LogError(
                f"the log has a pump state ('{chosen.value}') and no flow; a pump with a flow that "
                "can be chosen gives as much as it was told: log the flow or the amounts"
            )
        if _rate(spec) is None:
            raise LogError(
                f"the log has a pump state ('{chosen.value}') and no flow; how much the pump gives "
                "is known only if the problem file says how long a step is: step = 1.0  # seconds"
            )
        return states(column)
    value = numbers(column, has_commas=log.has_commas)
    if np.isnan(value).all():
        raise LogError(f"no value in '{chosen.value}' can be read (the first is {_first(column)})")
    largest = float(np.nanmax(value))
    is_negative = value < 0.0
    if chosen.kind != "total":
        is_wrong = value < -NOISE * max(largest, 0.0)
        count = int(is_wrong.sum())
        findings.add("negative", count, f"{counted(count, 'negative value')} in '{chosen.value}'")
        value = np.where(is_wrong, np.nan, np.where(is_negative, 0.0, value))
    if chosen.kind == "flow":
        unit = read_flow_unit(chosen, options)
        if options.flow_per is None:
            findings.add(
                "flow", len(value), f"'{chosen.value}' is taken for {spec.units.unit} per {unit}"
            )
        value = value / SECONDS[unit]
    return value


def _tell(
    kind: str, which: Bool[np.ndarray, " row"], rows: Rows, findings: Findings, what: str
) -> None:
    """A finding about some rows, with the first of them."""
    if count := int(which.sum()):
        shown = ", ".join(f"{number:,}" for number in rows.number[which][:5].tolist())
        more = ", ..." if count > 5 else ""
        findings.add(kind, count, f"{counted(count, 'row')} {what}: row {shown}{more}")


def _ordered(rows: Rows, frame: GridFrame, findings: Findings) -> Rows:
    """The rows in the order of time if that makes the way shorter, else as they stand.

    Rows that only lie in a wrong order make detours; a clock that was set back does not.
    """
    backward = int((np.diff(rows.time) < 0.0).sum())
    if not backward:
        return rows
    order = np.argsort(rows.time, kind="stable")
    if _way(rows.cells[order], frame) <= _way(rows.cells, frame) * (1.0 + 1e-9):
        findings.add(
            "order", backward,
            f"the rows are not in the order of time ({counted(backward, 'step')} back); they were "
            "sorted",
        )  # fmt: skip
        return rows.pick(order)
    place = int(np.argmax(np.diff(rows.time) < 0.0))
    back = float(rows.time[place] - rows.time[place + 1])
    hint = ", as at the end of summer time" if abs(back - 3600.0) < 60.0 else ""
    findings.add(
        "clock", backward,
        f"the clock goes back {backward:,} times, first by {back:,.0f} s after row "
        f"{rows.number[place]:,}{hint}; how long these intervals took is unknown",
    )  # fmt: skip
    return rows


def _way(cells: Float[np.ndarray, "row 2"], frame: GridFrame) -> float:
    known = cells[np.isfinite(cells.sum(axis=1))]
    return float(frame.lengths(np.diff(known, axis=0)).sum())


def _without_duplicates(rows: Rows, findings: Findings) -> Rows:
    """The rows without those that repeat the row before in every column."""
    table = np.column_stack([rows.time, rows.cells, rows.value])
    same = (table[1:] == table[:-1]) | (np.isnan(table[1:]) & np.isnan(table[:-1]))
    is_repeated = np.append(False, same.all(axis=1))
    _tell("duplicate", is_repeated, rows, findings, "that repeat the row before left out")
    return rows.pick(~is_repeated)


def _spread_times(rows: Rows, findings: Findings) -> Rows:
    """Give rows that share a time, as with a clock of whole seconds, times until the next one."""
    is_same = np.append(False, np.diff(rows.time) == 0.0)
    if not is_same.any():
        return rows
    _tell("same time", is_same, rows, findings,
          "with the time of the row before; their times were spread evenly")  # fmt: skip
    head = np.flatnonzero(~is_same)
    count = np.diff(np.append(head, len(rows)))
    group = np.repeat(np.arange(len(head)), count)
    until = np.append(np.diff(rows.time[head]), 0.0)
    usual = until[until > 0.0]
    until = np.where(until > 0.0, until, np.median(usual) if len(usual) else 0.0)
    within = np.arange(len(rows)) - head[group]
    return replace(rows, time=rows.time + within / count[group] * until[group])


def _tell_if_total(rows: Rows, name: str, findings: Findings) -> None:
    """Warn if a column of amounts looks like a running total."""
    change = np.diff(rows.value[np.isfinite(rows.value)])
    if len(change) > MANY and (change >= 0.0).all() and (change > 0.0).mean() > 0.5:
        findings.add(
            "total", 1,
            f"'{name}' never decreases and is taken for the amount since the row before; if it is "
            f"a running total, use --column total={name}",
        )  # fmt: skip


def _intervals(
    rows: Rows,
    has_place: Bool[np.ndarray, " row"],
    is_lost: Bool[np.ndarray, " row"],
    settings: _Settings,
) -> LogTrack:
    frame, kept = settings.frame, np.flatnonzero(has_place)
    points = rows.pick(kept)
    seconds = np.diff(points.time)
    is_back, is_transit = seconds < 0.0, points.is_transit[1:]
    usual = seconds[seconds > 0.0]
    if not len(usual):
        raise LogError("all points have the same time")
    longest = settings.options.gap_seconds or max(
        SHORTEST_GAP_S, GAP_INTERVALS * float(np.median(usual))
    )
    speed = frame.lengths(np.diff(points.cells, axis=0)) / np.where(seconds > 0, seconds, np.inf)
    fastest = _fastest(speed[speed > 0.0], settings)
    is_gap = ((seconds > longest) & ~is_transit) | (speed > fastest) | is_back
    given, has_value = _given(points, kept, is_lost, settings)
    given = np.where(is_transit | ~has_value, 0.0, given)
    is_unknown = (is_gap | ~has_value) & ~is_transit
    rates = (given / np.where(seconds > 0.0, seconds, np.inf))[has_value & ~is_gap]
    pump = (_rate(settings.spec) or 0.0) if settings.kind == "pump" else 0.0
    most = max(float(rates.max(initial=0.0)), pump)
    possible = np.where(is_back, np.inf, np.maximum(seconds, 0.0) * most)
    at_most = _at_most(given, has_value, possible, settings.kind)
    return LogTrack(
        begin=points.cells[:-1], end=points.cells[1:], time=points.time[:-1],
        seconds=np.where(is_back, np.nan, seconds),
        amount=np.where(is_unknown, 0.0, given),
        elsewhere=np.where(is_unknown, at_most, 0.0),
        is_gap=is_unknown, row=points.number[:-1], fastest=fastest,
        unplaced=0.0, is_dated=settings.is_dated, kind=settings.kind, most=most,
    )  # fmt: skip


def _given(
    points: Rows,
    kept: Int[np.ndarray, " point"],
    is_lost: Bool[np.ndarray, " row"],
    settings: _Settings,
) -> tuple[Float[np.ndarray, " interval"], Bool[np.ndarray, " interval"]]:
    """Units of each interval, and whether they are known.

    A flow changes evenly from point to point, a pump keeps its state until the next point.
    """
    if settings.kind == "total":
        given = np.diff(points.value)
        return given, ~(np.isnan(given) | (given < 0.0))  # a counter was set back
    if settings.kind == "amount":  # of which no row since the last point may lack its own
        lost = np.cumsum(is_lost)
        return np.diff(points.value), lost[kept[1:]] == lost[kept[:-1]]
    before, after = points.value[:-1], points.value[1:]
    flow = before * (_rate(settings.spec) or 0.0)
    if settings.kind == "flow":
        flow = (before + after) / 2.0
    return flow * np.abs(np.diff(points.time)), ~np.isnan(flow)


def _at_most(
    given: Float[np.ndarray, " interval"],
    has_value: Bool[np.ndarray, " interval"],
    possible: Float[np.ndarray, " interval"],
    kind: str,
) -> Float[np.ndarray, " interval"]:
    """The most that intervals may have given out; `possible` is at the largest flow of the log.

    In a gap a total still tells how much it was, while rows of amounts may be missing.
    """
    if kind == "total":
        return np.where(has_value, given, possible)
    if kind == "amount":
        is_clock = np.isinf(possible)
        return np.where(has_value & is_clock, given, np.maximum(possible, given))
    return possible


def _before_and_after(rows: Rows, has_place: Bool[np.ndarray, " row"], track: LogTrack) -> float:
    """Units given out before the first row with a place and after the last one."""
    first, last = np.flatnonzero(has_place)[[0, -1]].tolist()
    if track.kind in ("amount", "total"):
        value = rows.value[np.isfinite(rows.value)]
        begin = value[0] if track.kind == "total" and len(value) else 0.0
        before, after = rows.value[first] - begin, value[-1:].sum() - rows.value[last]
        return float(np.nan_to_num(np.maximum([before, after], 0.0)).sum())
    seconds = np.abs(np.diff(rows.time))
    on = np.nan_to_num(rows.value, nan=1.0) > 0.0
    is_on = on[:-1] | on[1:]
    return track.most * float((seconds * is_on)[np.r_[:first, last : len(seconds)]].sum())


def _without_time(rows: Rows, has_time: Bool[np.ndarray, " row"], kind: str) -> float:
    """Units of the rows without a time; between others they pass for a long interval."""
    if has_time.all() or kind == "total":
        return 0.0
    if kind == "amount":
        return float(np.nansum(rows.value[~has_time]))
    first, last = np.flatnonzero(has_time)[[0, -1]].tolist()
    at_ends = np.nan_to_num(np.r_[rows.value[:first], rows.value[last + 1 :]], nan=1.0)
    return np.inf if (at_ends > 0.0).any() else 0.0


def _fastest(speed: Float[np.ndarray, " moving"], settings: _Settings) -> float:
    """The highest plausible speed, in metres (or cells) per second."""
    units, options = settings.spec.units, settings.options
    if options.max_speed is not None and settings.frame.metres is not None:
        return options.max_speed
    most = FASTER_THAN_MOST * float(np.quantile(speed, 0.95)) if len(speed) else np.inf
    if settings.frame.metres is None or units.cell is None or units.step is None:
        return most
    top_speed = units.metres_per_second(settings.spec.vehicle.max_speed)
    return max(most, FASTER_THAN_TOP * top_speed)


def _tell_gaps(track: LogTrack, findings: Findings) -> None:
    gaps = np.flatnonzero(track.is_gap)
    if not len(gaps):
        return
    seconds = track.seconds[gaps]
    longest = gaps[int(np.argmax(np.nan_to_num(seconds, nan=np.inf)))]
    long = track.seconds[longest]
    size = "of unknown length" if np.isnan(long) else f"of {long:,.1f} s"
    findings.add(
        "gap", len(gaps),
        f"{counted(len(gaps), 'gap')}, {float(np.nansum(seconds)):,.1f} s in all, in which it is "
        f"unknown what was given out where; the longest is {size}, after row "
        f"{track.row[longest]:,} ({track.when(float(track.time[longest]))})",
    )  # fmt: skip
