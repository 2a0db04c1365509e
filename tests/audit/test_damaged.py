"""Damaged logs: each kind gets a clear answer, and nothing is hidden."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from scrl.audit import AuditOptions, LogError, audit
from scrl.problems import Problem

from .conftest import BOTTOM, HEADER, LEFT, SIDE, clock, driven, rows_of


class Damage(NamedTuple):
    """A damaged log and the answer to it."""

    text: str
    status: str
    """Of the audit; `unreadable` for an error."""
    said: str
    """A part of a finding or of the error."""
    name: str = "log.csv"


ROWS = rows_of(driven())


def table(rows: list[str], header: str = HEADER) -> str:
    return "\n".join([header, *rows]) + "\n"


def column(index: int, values: list[str]) -> list[str]:
    """The rows with other values in one column."""
    found = []
    for row, value in zip(ROWS, values, strict=True):
        parts = row.split(",")
        parts[index] = value
        found.append(",".join(parts))
    return found


def place(x: str, y: str, at: int) -> list[str]:
    """The rows with another place in one of them."""
    rows = list(ROWS)
    time, _, _, flow = rows[at].split(",")
    rows[at] = f"{time},{x},{y},{flow}"
    return rows


def shifted(seconds: float, begin: int) -> list[str]:
    """The rows with a clock that is changed in the middle."""
    times = [clock(each + seconds * (each >= begin)) for each in range(len(ROWS))]
    return column(0, times)


def geojson(properties: str = "flow", kind: str = "Point") -> str:
    features = [
        {
            "type": "Feature",
            "geometry": None if index == 7 else {"type": kind, "coordinates": [x, y]},
            "properties": {"time": clock(time), properties: 1.0},
        }
        for index, (time, x, y) in enumerate(driven().tolist())
    ]
    return json.dumps({"type": "FeatureCollection", "features": features})


SHUFFLED = [ROWS[index] for index in np.random.default_rng(1).permutation(len(ROWS))]
TOTALS = [str(float(each if each < 200 else each - 200)) for each in range(len(ROWS))]
X, Y = f"{LEFT + SIDE:.5f}", f"{BOTTOM + SIDE / 2:.5f}"

DAMAGED = {
    "a gap": Damage(table(ROWS[:100] + ROWS[160:]), "unknown", "1 gap, 61.0 s in all"),
    "duplicates": Damage(
        table([*ROWS[:50], *ROWS[40:]]), "held", "sorted"),
    "repeated rows": Damage(
        table([each for row in ROWS for each in (row, row)]), "held",
        "401 rows that repeat the row before left out"),
    "points outside": Damage(
        table([*ROWS, *(f"{clock(400 + k)},{LEFT + 0.00005 * k},{BOTTOM - 0.00005 * k},0.0"
                        for k in range(1, 9))]), "held", "points outside the map"),
    "another place": Damage(
        table(column(1, [f"{LEFT + 3:.5f}"] * 401)), "unreadable", "no point of the log lies on"),
    "swapped axes": Damage(
        table(ROWS, "time,latitude,longitude,flow"), "unreadable", "look swapped"),
    "another coordinate system": Damage(
        table([f"{clock(t)},{5e5 + 700 * x:.1f},{5.5e6 + y:.1f},1" for t, x, y in driven()]),
        "unreadable", "these are not degrees"),
    "a clock set back": Damage(table(shifted(-150.0, 200)), "unknown", "the clock goes back"),
    "a clock set forward": Damage(table(shifted(3600.0, 200)), "unknown", "longest is of 3,601"),
    "the end of summer time": Damage(
        table(column(0, [f"2026-10-25T0{2 - (k >= 200)}:{k // 60:02}:{k % 60:02}"
                         for k in range(401)])), "unknown", "as at the end of summer time"),
    "rows in any order": Damage(table(SHUFFLED), "held", "they were sorted"),
    "parts in a wrong order": Damage(table(ROWS[180:] + ROWS[:180]), "held", "they were sorted"),
    "several time zones": Damage(
        table(column(0, [clock(k) if k < 200 else
                         f"2026-05-01T08:{k // 60:02}:{k % 60:02}+02:00" for k in range(401)])),
        "held", "2 time zones"),
    "times without a zone among others": Damage(
        table([row.replace("Z", "") if k % 3 == 0 else row for k, row in enumerate(ROWS)]),
        "held", "134 times without a time zone stand beside times with one"),
    "a clock of whole seconds": Damage(
        table(column(0, [clock(2 * (k // 2)) for k in range(401)])), "held", "spread evenly"),
    "no column for the flow": Damage(
        table(ROWS, "time,longitude,latitude,q"), "unreadable", "no column for amount"),
    "no column for the time": Damage(
        table(ROWS, "when,longitude,latitude,flow"), "unreadable", "no column for time"),
    "no column for the place": Damage(
        table(ROWS, "time,a,b,flow"), "unreadable", "no column for x (or longitude) and for y"),
    "no header": Damage(
        table(ROWS[1:], "1746079200,10.0,50.0,1.0"), "unreadable", "the names of the columns"),
    "empty places": Damage(table(place("", "", 90)), "held", "1 row without a readable place"),
    "no fix": Damage(table(place("0.0", "0.0", 90)), "held", "the receiver had no position"),
    "a jump of the position": Damage(
        table(place(f"{LEFT + 1:.5f}", Y, 90)), "held", "2 gaps"),
    "unreadable flows": Damage(
        table(column(3, ["--" if 100 <= k < 160 else "1.0" for k in range(401)])), "unknown",
        "60 rows without a readable value in 'flow'"),
    "negative flows": Damage(
        table(column(3, ["-1" if 100 <= k < 160 else "1.0" for k in range(401)])), "unknown",
        "60 negative values in 'flow'"),
    "a cut-off first row": Damage(
        table(["2026-05-01", *ROWS]), "held", "1 row of fewer than 4 columns left out"),
    "no times at the end": Damage(
        table(column(0, [clock(k) if k < 395 else "" for k in range(401)])), "unknown",
        "any number of litres more may have been given out"),
    "no places at the end": Damage(
        table(column(1, [row.split(",")[1] if k < 395 else "" for k, row in enumerate(ROWS)])),
        "held", "up to 6.00 litres more may have been given out"),
    "unreadable times": Damage(
        table(column(0, ["yesterday" if k == 90 else clock(k) for k in range(401)])), "held",
        "1 row without a readable time left out"),
    "times of another form": Damage(
        table(column(0, ["1 May 2026 6 o'clock"] * 401)), "unreadable", "no time in 'time'"),
    "a counter set back": Damage(
        table(column(3, TOTALS), "time,longitude,latitude,total"), "held", "1 gap"),
    "a cut-off last row": Damage(
        table(ROWS)[:-20], "held", "1 row of fewer than 4 columns left out"),
    "decimal commas": Damage(
        table([row.replace(",", ";").replace(".", ",") for row in ROWS],
              HEADER.replace(",", ";")), "held", "a comma in place of the decimal point"),
    "latin-1": Damage(
        table([f"{row},Feld Süd" for row in ROWS], f"{HEADER},note"), "held", "Latin-1"),
    "an empty file": Damage("", "unreadable", "the file is empty"),
    "a header alone": Damage(f"{HEADER}\n", "unreadable", "0 points"),
    "a single point": Damage(table(ROWS[:1]), "unreadable", "1 point"),
    "no text": Damage("\0\1\2\0", "unreadable", "this is no text"),
    "standing with the pump on": Damage(
        table(ROWS + [ROWS[-1].replace("06:06:40", f"06:06:{40 + k}") for k in range(1, 9)]),
        "held", "8.00 litres were given out while the position did not change"),
    "a feature without a place": Damage(geojson(), "held", "without a readable place", "l.geojson"),
    "no property for the flow": Damage(geojson("q"), "unreadable", "the log has", "l.geojson"),
    "polygons": Damage(geojson(kind="Polygon"), "unreadable", "1 point, and at", "l.geojson"),
    "cut-off JSON": Damage(geojson()[:-50], "unreadable", "not valid JSON", "l.geojson"),
    "a GeoJSON in another coordinate system": Damage(
        geojson().replace('"features"', '"crs": {"type": "name", "properties": {"name": '
                          '"urn:ogc:def:crs:EPSG::25832"}}, "features"')
        .replace("[10.", "[500010.").replace("50.", "5500000."), "unreadable",
        "coordinate system", "l.geojson"),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_log_gets_a_clear_answer(kind: str, field: Problem, tmp_path: Path) -> None:
    damage = DAMAGED[kind]
    path = tmp_path / damage.name
    path.write_text(damage.text, encoding="latin-1" if kind == "latin-1" else "utf-8")
    if damage.status == "unreadable":
        with pytest.raises(LogError) as caught:
            audit(field, path)
        assert damage.said in str(caught.value)
        assert str(caught.value).startswith(f"{path}: ")
        return
    result = audit(field, path)
    texts = [each.text for each in result.findings]
    assert any(damage.said in text for text in texts), texts
    assert result.status == damage.status
    for region in result.regions:
        assert region.received <= region.at_most
        if result.status == "held":
            assert region.received == pytest.approx(200.0, abs=8.1)
    json.dumps(result.to_json(), allow_nan=False)


def test_enough_kinds_of_damage_are_tried() -> None:
    assert len(DAMAGED) >= 20


def test_a_gap_that_is_accepted_is_no_gap(field: Problem, logged: Callable[..., Path]) -> None:
    """Ten seconds are missing in the west; the way across is straight, and the flow goes on."""
    path = logged(ROWS[:5] + ROWS[15:])
    assert audit(field, path).gap_count == 1
    accepted = audit(field, path, AuditOptions(gap_seconds=20.0))
    assert accepted.gap_count == 0
    assert accepted.density["west"] == pytest.approx(200.0, rel=1e-3)


def test_a_gap_bounds_only_the_regions_that_can_be_reached(
    field: Problem, logged: Callable[..., Path]
) -> None:
    """Eight seconds at the west edge: the east is 71 m away, too far at 12 m/s, not at 30 m/s."""
    path = logged(ROWS[:77] + ROWS[84:])
    slow, fast = (audit(field, path, AuditOptions(max_speed=speed)) for speed in (12.0, 30.0))
    assert slow.gap_count == fast.gap_count == 1
    for result in (slow, fast):
        assert result.regions[0].received == pytest.approx(192.0, rel=1e-3)
        assert result.regions[0].at_most == pytest.approx(200.0, rel=1e-3)
    assert slow.regions[1].at_most == slow.regions[1].received
    assert fast.regions[1].at_most == pytest.approx(208.0, rel=1e-3)
