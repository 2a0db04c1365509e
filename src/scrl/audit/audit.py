"""Holds a log against the rules of a problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from scrl.audit.areas import Areas
from scrl.audit.counting import Lines, amounts_of_cells
from scrl.audit.frame import GridFrame
from scrl.audit.options import AuditOptions, Finding, Findings, LogError, counted
from scrl.audit.reading import read_log
from scrl.audit.track import LogTrack, read_track
from scrl.errors import MapError
from scrl.problems import Problem
from scrl.violation import margins_of
from scrl.worlds.sweep.spec import TIME, USED, WORKING_TIME

Status = Literal["held", "broken", "unknown"]
MOST_GAPS = 100
"""Gaps that are listed one by one, the longest first."""
MOST_LINES = 25
"""Parallel lines by which a wide swath is counted."""
EDGE = 1e-3
"""A place this close to the map is on it, in cells."""
SMALL_SHARE = 1e-9
"""Units below this share of all are rounding."""


@dataclass(frozen=True)
class RegionAudit:
    """What a region received."""

    name: str
    received: float
    """Units that it certainly received."""
    at_most: float
    """Units that it may have received, with what is unknown; may be infinite."""
    cells: int
    """Its cells that may be entered."""
    missed_cells: int
    """Those of them that received nothing."""
    missed_at: tuple[float, float] | None
    """x and y of the middle of the largest area that received nothing."""


@dataclass(frozen=True)
class RuleAudit:
    """Whether a rule was kept, and by how much, in units."""

    name: str
    text: str
    status: Status
    margin: float
    """The smallest margin that is possible; negative if the rule may be broken by so much."""
    margin_at_most: float
    """The largest one; the same where nothing is unknown."""


@dataclass(frozen=True)
class Gap:
    """An interval of which it is unknown what was given out where."""

    begin: str
    seconds: float | None
    """None if the clock was set back."""
    after_row: int
    places: tuple[tuple[float, float], tuple[float, float]]
    """x and y of the points before and after."""
    at_most: float
    """Units that may have been given out."""


@dataclass(frozen=True, eq=False)
class Audit:
    """A log against the rules."""

    problem: Problem
    log: Path
    status: Status
    """`broken` if a rule was, else `unknown` if one is, else `held`."""
    regions: tuple[RegionAudit, ...]
    rules: tuple[RuleAudit, ...]
    given_out: float
    """Units in all, without what is unknown."""
    outside: float
    """Units outside all regions."""
    unknown: float
    """Units that may have been given out in gaps; may be infinite."""
    points: int
    begin: str
    end: str
    seconds: float
    length: float
    """The way between points that are no gap, in metres (or cells)."""
    length_unit: str
    counted_from: str
    """The column that amounts come from, and the areas they were counted in."""
    gaps: tuple[Gap, ...]
    gap_count: int
    findings: tuple[Finding, ...]
    cells: Float[np.ndarray, "row column"]
    """Units given out in each cell of the map."""
    totals: Mapping[str, float] = field(default_factory=dict)
    """What is certain of the amounts of the whole drive that rules name."""

    @property
    def density(self) -> dict[str, float]:
        """What each region certainly received, and totals that rules name."""
        return {**{each.name: each.received for each in self.regions}, **self.totals}

    @property
    def unit(self) -> str:
        return self.problem.unit

    @property
    def summary(self) -> str:
        """The verdict as a sentence."""
        total = len(self.rules)
        if not total:
            return "the problem has no rules"
        held, broken, unknown = (
            sum(rule.status == status for rule in self.rules)
            for status in ("held", "broken", "unknown")
        )
        if held == total:
            return "every rule was kept"
        parts = [f"{broken} of {counted(total, 'rule')} broken"] if broken else []
        if unknown:
            parts.append(f"{unknown} of {counted(total, 'rule')} unknown because of gaps")
        return ", ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """The audit as a JSON document; null stands for what has no limit."""
        return {
            "problem": self.problem.name,
            "log": str(self.log),
            "unit": self.unit,
            "status": self.status,
            "satisfied": _truth(self.status),
            "density": self.density,
            "at_most": {each.name: _finite(each.at_most) for each in self.regions},
            "rules": [
                {
                    "name": rule.name,
                    "text": rule.text,
                    "status": rule.status,
                    "satisfied": _truth(rule.status),
                    "margin": _finite(rule.margin),
                    "margin_at_most": _finite(rule.margin_at_most),
                }
                for rule in self.rules
            ],
            "regions": [
                {
                    "name": each.name,
                    "received": each.received,
                    "at_most": _finite(each.at_most),
                    "cells": each.cells,
                    "missed_cells": each.missed_cells,
                    "missed_at": each.missed_at,
                }
                for each in self.regions
            ],
            "given_out": self.given_out,
            "outside": self.outside,
            "unknown": _finite(self.unknown),
            "points": self.points,
            "begin": self.begin,
            "end": self.end,
            "seconds": self.seconds,
            "length": self.length,
            "length_unit": self.length_unit,
            "counted_from": self.counted_from,
            "gap_count": self.gap_count,
            "gaps": [
                {
                    "begin": gap.begin,
                    "seconds": gap.seconds,
                    "after_row": gap.after_row,
                    "from": gap.places[0],
                    "to": gap.places[1],
                    "at_most": _finite(gap.at_most),
                }
                for gap in self.gaps
            ],
            "findings": [
                {"kind": each.kind, "count": each.count, "text": each.text}
                for each in self.findings
            ],
        }


def _truth(status: Status) -> bool | None:
    return None if status == "unknown" else status == "held"


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def audit(problem: Problem, log: Path | str, options: AuditOptions | None = None) -> Audit:
    """Count what each region received by a log, and judge it by the rules.

    Raises LogError if the log cannot be read, or does not lie on the map.
    """
    path, options, findings = Path(log), options or AuditOptions(), Findings()
    spec = problem.world_spec
    frame = GridFrame.of(spec)
    try:
        raw = read_log(path, options, findings, is_geographic=frame.is_geographic)
        track = read_track(raw, spec, frame, options, findings)
    except (LogError, MapError) as error:  # of the log's coordinate system
        raise LogError(f"{path}: {error}") from error
    areas = Areas.of(problem, frame)
    lines = _lines(track, problem, frame, findings)
    received, forbidden = areas.count(lines)
    cells, off_the_map = amounts_of_cells(lines, spec.regions.shape)
    _tell_places(track, frame, problem, off_the_map, forbidden, findings)
    extra = _extra(track, areas, frame)
    unknown = float(track.elsewhere.sum()) + track.unplaced
    totals = _totals(problem, track, unknown)
    least, most = np.array([*totals.values()]).reshape(-1, 2).T
    rules = _judged(
        problem,
        np.append(received.regions, least),
        np.append(received.regions + extra, most),
    )
    is_moving = ~track.is_gap
    length = float(frame.lengths((track.end - track.begin)[is_moving]).sum())
    return Audit(
        problem=problem,
        log=path,
        status=_overall(rules),
        regions=_regions(problem, frame, received.regions, extra, cells),
        rules=rules,
        given_out=float(track.amount.sum()),
        outside=received.outside,
        unknown=unknown,
        points=len(raw.columns[raw.chosen.time]),
        begin=track.when(float(track.time[0])),
        end=track.when(float(track.time[-1] + np.nan_to_num(track.seconds[-1]))),
        seconds=float(np.nansum(track.seconds)),
        length=length,
        length_unit="m" if frame.metres else "cells",
        counted_from=f"column '{raw.chosen.value}' ({raw.chosen.kind}), along the way, in "
        f"{areas.text}",
        gaps=_gaps(track, frame),
        gap_count=int(track.is_gap.sum()),
        findings=tuple(findings.found),
        cells=cells,
        totals={name: low for name, (low, _) in totals.items()},
    )


def _totals(problem: Problem, track: LogTrack, unknown: float) -> dict[str, tuple[float, float]]:
    """The least and the most of each amount of the whole drive that rules name.

    The time of a log is in seconds; in steps it is not known. Rules add the time of the ways
    between passes to the working time, and the log has both.
    """
    used, seconds = float(track.amount.sum()), float(np.nansum(track.seconds))
    spec = problem.world_spec
    time = (seconds, seconds) if spec.units.step is not None else (0.0, np.inf)
    ways = spec.transit_steps * (spec.units.step or 0.0)
    known = {
        TIME: time,
        WORKING_TIME: (max(time[0] - ways, 0.0), max(time[1] - ways, 0.0)),
        USED: (used, used + unknown),
    }
    return {name: known[name] for name in spec.totals}


def _lines(track: LogTrack, problem: Problem, frame: GridFrame, findings: Findings) -> Lines:
    """The trusted way with its amounts; a wide swath is several parallel lines."""
    given = track.amount > 0.0
    lines = Lines(track.begin[given], track.end[given], track.amount[given])
    route = problem.world_spec.route
    if problem.discount < 1.0:
        findings.add("discount", 1, "the rules count discounted amounts, and the log plain sums")
    if route.service == "landing":
        findings.add(
            "service", 1,
            "this problem counts a step where it ends, and the log is counted along its way",
        )  # fmt: skip
    if route.swath == 1:
        return lines
    count = min(route.swath, MOST_LINES)
    offsets = ((np.arange(count) + 0.5) / count - 0.5) * route.swath
    across = frame.sides[1] if route.direction == "rows" else frame.sides[0]
    move = (lines.end - lines.begin) * frame.sides
    length = np.maximum(np.hypot(*move.T), 1e-300)[:, None]
    aside = np.column_stack([-move[:, 1], move[:, 0]]) / length * across / frame.sides
    return Lines(
        np.concatenate([lines.begin + offset * aside for offset in offsets]),
        np.concatenate([lines.end + offset * aside for offset in offsets]),
        np.tile(lines.amount / count, count),
    )


def _tell_places(
    track: LogTrack,
    frame: GridFrame,
    problem: Problem,
    off_the_map: float,
    forbidden: dict[str, float],
    findings: Findings,
) -> None:
    """Findings about points and amounts where none are expected."""
    unit = problem.unit
    rows, columns = frame.shape
    is_off = ((track.begin < -EDGE) | (track.begin > (columns + EDGE, rows + EDGE))).any(axis=1)
    where = f"; {off_the_map:,.2f} {unit} were given out there" if off_the_map >= 0.005 else ""
    count = int(is_off.sum())
    findings.add("outside", count, f"{counted(count, 'point')} outside the map{where}")
    for name, amount in forbidden.items():
        if amount > SMALL_SHARE * float(track.amount.sum()):
            findings.add(
                "forbidden", 1,
                f"{amount:,.2f} {unit} were given out in '{name}', which must not be entered",
            )  # fmt: skip
    is_standing = (track.begin == track.end).all(axis=1) & (track.amount > 0.0)
    if is_standing.any():
        standing, seconds = float(track.amount[is_standing].sum()), track.seconds[is_standing].sum()
        findings.add(
            "standing", int(is_standing.sum()),
            f"{standing:,.2f} {unit} were given out while the position did not change "
            f"({seconds:,.0f} s)",
        )  # fmt: skip
    if track.unplaced > 0.0:
        limit = "any number of" if np.isinf(track.unplaced) else f"up to {track.unplaced:,.2f}"
        findings.add(
            "unplaced", 1,
            f"{limit} {unit} more may have been given out, in rows without a time, or before the "
            "first or after the last place",
        )  # fmt: skip


def _extra(track: LogTrack, areas: Areas, frame: GridFrame) -> Float[np.ndarray, " region"]:
    """What each region may have received in gaps: all of a gap in which it can be reached."""
    bounds = areas.bounds()
    found = np.full(len(bounds), track.unplaced)
    gaps = np.flatnonzero(track.elsewhere > 0.0)
    if not len(gaps):
        return found
    amount, seconds = track.elsewhere[gaps], track.seconds[gaps]
    ends, sides = (track.begin[gaps], track.end[gaps]), np.array(frame.sides)
    reach = np.nan_to_num(seconds, nan=np.inf) * track.fastest
    straight = frame.lengths(ends[1] - ends[0])
    # Of an implausible jump no place is excluded.
    reach = np.where(straight > reach, np.inf, reach)
    for number, (left, top, right, bottom) in enumerate(bounds.tolist()):
        way = np.zeros(len(gaps))
        for end in ends:
            nearest = np.clip(end, (left, top), (right, bottom))
            way += np.hypot(*((end - nearest) * sides).T)
        found[number] += amount[way <= reach].sum()
    return found


def _judged(
    problem: Problem,
    least: Float[np.ndarray, " region"],
    most: Float[np.ndarray, " region"],
) -> tuple[RuleAudit, ...]:
    """Each rule, for all amounts between the least and the most of each region."""
    table, rules, tolerance = problem.atoms, problem.rules.rules, problem.tolerance
    up, down = np.maximum(table.coefficients, 0.0), np.minimum(table.coefficients, 0.0)

    def sums(with_up: Float[np.ndarray, " region"], with_down: Float[np.ndarray, " region"]) -> Any:
        # An infinite amount that has no part in a rule must not make it NaN.
        parts = [
            np.where(factors == 0.0, 0.0, factors * np.where(factors == 0.0, 0.0, amounts))
            for factors, amounts in ((up, with_up), (down, with_down))
        ]
        return (parts[0] + parts[1]).sum(axis=1)

    low = margins_of(table, table.bounds - sums(most, least), len(rules))
    high = margins_of(table, table.bounds - sums(least, most), len(rules))
    return tuple(
        RuleAudit(rule.name, rule.text, _status(worst, best, tolerance), worst, best)
        for rule, worst, best in zip(rules, low.tolist(), high.tolist(), strict=True)
    )


def _status(worst: float, best: float, tolerance: float) -> Status:
    if worst >= -tolerance:
        return "held"
    return "broken" if best < -tolerance else "unknown"


def _overall(rules: tuple[RuleAudit, ...]) -> Status:
    found = {rule.status for rule in rules}
    if "broken" in found:
        return "broken"
    return "unknown" if "unknown" in found else "held"


def _regions(
    problem: Problem,
    frame: GridFrame,
    received: Float[np.ndarray, " region"],
    extra: Float[np.ndarray, " region"],
    cells: Float[np.ndarray, "row column"],
) -> tuple[RegionAudit, ...]:
    from scipy.ndimage import maximum_filter

    regions, swath = problem.world_spec.regions, problem.world_spec.route.swath
    given = maximum_filter(cells, size=swath) if swath > 1 else cells
    found = []
    for number, (name, mask) in enumerate(zip(regions.names, regions.masks, strict=True)):
        missed = mask & regions.enterable & (given <= 0.0)
        found.append(
            RegionAudit(
                name,
                float(received[number]),
                float(received[number] + extra[number]),
                int(regions.sizes[number]),
                int(missed.sum()),
                _middle(missed, frame),
            )
        )
    return tuple(found)


def _middle(missed: Bool[np.ndarray, "row column"], frame: GridFrame) -> tuple[float, float] | None:
    """x and y of the cell of the largest connected area that is nearest to its centre."""
    from scipy.ndimage import label

    if not missed.any():
        return None
    groups = np.empty(missed.shape, np.int32)
    label(missed, output=groups)
    largest = int(np.argmax(np.bincount(groups[missed])))
    places = np.argwhere(groups == largest)
    nearest = places[np.argmin(((places - places.mean(axis=0)) ** 2).sum(axis=1))]
    x, y = frame.places(nearest[None, ::-1] + 0.5)[0].tolist()
    return x, y


def _gaps(track: LogTrack, frame: GridFrame) -> tuple[Gap, ...]:
    """The longest gaps, the longest first."""
    gaps = np.flatnonzero(track.is_gap)
    seconds = np.nan_to_num(track.seconds[gaps], nan=np.inf)
    shown = gaps[np.argsort(-seconds, kind="stable")[:MOST_GAPS]]
    begin, end = (frame.places(each[shown]).tolist() for each in (track.begin, track.end))
    return tuple(
        Gap(
            track.when(float(track.time[index])),
            _finite(float(track.seconds[index])),
            int(track.row[index]),
            ((first[0], first[1]), (last[0], last[1])),
            float(track.elsewhere[index]),
        )
        for index, first, last in zip(shown.tolist(), begin, end, strict=True)
    )
