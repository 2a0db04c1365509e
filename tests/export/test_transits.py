"""On a field in strips every metre that does not work is a transit, in every file."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyogrio.raw
import pytest
import shapely
from rich.console import Console

from scrl.cli.evaluate import print_evaluation
from scrl.evaluation import evaluate
from scrl.export import ROUTE_FORMATS, ExportOptions, export
from scrl.export.prescription import WGS84_WKT
from scrl.policies import fixed_policy
from scrl.problems import Problem
from scrl.report.page.plan import _plan
from scrl.route import Route, drive
from scrl.worlds.sweep.georeference import Georeference
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.vehicle import Units

from .conftest import FARM_DEGREES, farm_polygons

METRES = 111_319.49
"""Of a degree at the equator."""
TOP_SPEED = 3.0 * 11.1 / 4.0
"""Metres per second, about: cells per step, metres per cell, seconds per step."""


def features(route: Route) -> list[dict[str, Any]]:
    return json.loads(ROUTE_FORMATS["geojson"].write(route, ExportOptions()))["features"]


def metres(feature: dict[str, Any]) -> float:
    (x, y), (to_x, to_y) = feature["geometry"]["coordinates"]
    return float(np.hypot(to_x - x, to_y - y)) * METRES


def rows_of(route: Route, format_name: str) -> list[dict[str, str]]:
    text = ROUTE_FORMATS[format_name].write(route, ExportOptions()).decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_no_working_segment_is_faster_than_the_vehicle(farm_route: Route) -> None:
    """Lengths are measured on the coordinates in the file: no jump passes for work."""
    found = features(farm_route)
    assert sum(each["properties"]["transit"] for each in found) > 5
    for each in found:
        properties = each["properties"]
        if properties["transit"]:
            assert properties["amount"] == 0
            assert properties["received"] == {}
            assert metres(each) == pytest.approx(TOP_SPEED * properties["seconds"], rel=0.02)
        # Coordinates are rounded to a centimetre. The last step ends before its time is over.
        elif metres(each) > 1.0 and each is not found[-1]:
            moved = properties["speed_m_s"] * properties["seconds"]
            assert metres(each) == pytest.approx(moved, rel=0.02)
        assert properties["length_m"] == pytest.approx(metres(each), rel=0.01, abs=0.05)


def test_the_sums_of_a_file_are_the_totals_of_the_route(farm_route: Route) -> None:
    """The law of every file: working time, transits, amounts and what regions receive."""
    found = [each["properties"] for each in features(farm_route)]
    working = sum(each["seconds"] for each in found if not each["transit"])
    assert working == pytest.approx(4.0 * farm_route.steps)
    assert sum(each["amount"] for each in found) == pytest.approx(farm_route.amount.sum())
    for name, total in farm_route.totals.items():
        received = sum(each["received"].get(name, 0.0) for each in found)
        assert received == pytest.approx(total)
    document = json.loads(ROUTE_FORMATS["geojson"].write(farm_route, ExportOptions()))
    assert document["driving_seconds"] == pytest.approx(sum(each["seconds"] for each in found))
    transits = sum(each["length_m"] for each in found if each["transit"])
    assert document["transit_m"] == pytest.approx(transits)


def test_steps_in_csv_are_split_where_they_jump(farm_route: Route) -> None:
    rows = rows_of(farm_route, "csv")
    document = json.loads(ROUTE_FORMATS["geojson"].write(farm_route, ExportOptions()))
    assert float(rows[-1]["seconds"]) == pytest.approx(document["driving_seconds"])
    assert sum(float(row["amount"]) for row in rows) == pytest.approx(farm_route.amount.sum())
    for name, total in farm_route.totals.items():
        assert sum(float(row[f"received {name}"]) for row in rows) == pytest.approx(total)
    transits = [row for row in rows if row["transit"] == "true"]
    assert sum(float(row["length_m"]) for row in transits) == pytest.approx(document["transit_m"])
    assert {float(row["amount"]) for row in transits} == {0.0}
    for before, row in itertools.pairwise(rows):
        seconds = float(row["seconds"]) - float(before["seconds"])
        moved = METRES * np.hypot(
            float(row["longitude"]) - float(before["longitude"]),
            float(row["latitude"]) - float(before["latitude"]),
        )
        assert moved <= 1.01 * TOP_SPEED * seconds + 0.05
    assert sorted({int(row["step"]) for row in rows}) == list(range(farm_route.steps + 1))


def test_kml_says_the_same(farm_route: Route, tmp_path: Path) -> None:
    path = tmp_path / "route.kml"
    path.write_bytes(ROUTE_FORMATS["kml"].write(farm_route, ExportOptions()))
    meta, _, _, columns = pyogrio.raw.read(path, layer="route")
    found = dict(zip(meta["fields"], columns, strict=True))
    document = json.loads(ROUTE_FORMATS["geojson"].write(farm_route, ExportOptions()))
    assert np.sum(found["seconds"].astype(float)) == pytest.approx(document["driving_seconds"])
    is_transit = found["transit"] == "true"
    lengths = found["length_m"].astype(float)
    assert lengths[is_transit].sum() == pytest.approx(document["transit_m"])


def test_a_segment_gives_only_to_regions_that_it_touches(farm_route: Route) -> None:
    shapes, given = farm_polygons(), set()
    for each in features(farm_route):
        line = shapely.geometry.shape(each["geometry"]).buffer(1e-7)
        for name in each["properties"]["received"]:
            assert shapes[name].intersects(line)
            given.add(name)
    assert given == {name for name, amount in farm_route.totals.items() if amount}


def test_no_segment_enters_a_forbidden_polygon(farm_route: Route) -> None:
    shapes = farm_polygons()
    working = [each for each in features(farm_route) if not each["properties"]["transit"]]
    assert working
    for each in working:
        line = shapely.geometry.shape(each["geometry"])
        for name in ("pond", "barn"):
            assert line.intersection(shapes[name]).length < 1e-9


def test_the_plan_has_a_geofence_around_the_forbidden_shapes(
    farm_route: Route, tmp_path: Path
) -> None:
    """Polygons as QGroundControl documents them: latitude first, not closed, no holes."""
    plan = json.loads(ROUTE_FORMATS["plan"].write(farm_route, ExportOptions()))
    fence = plan["geoFence"]
    assert (fence["version"], fence["circles"]) == (2, [])
    polygons = []
    for each in fence["polygons"]:
        assert (each["inclusion"], each["version"]) == (False, 1)
        assert each["polygon"][0] != each["polygon"][-1]
        polygons.append(shapely.Polygon([(x, y) for y, x in each["polygon"]]))
    assert all(each.is_valid for each in polygons)
    area, shapes = shapely.union_all(polygons), farm_polygons()
    # The fence lies a twentieth of a cell inside the cells that the shapes overlap.
    for name in ("pond", "barn"):
        assert shapes[name].difference(area.buffer(0.06 * FARM_DEGREES)).area < 1e-15
    items = [each for each in plan["mission"]["items"] if each["command"] == 16]
    flown = shapely.LineString([each["params"][5:3:-1] for each in items])
    assert not flown.intersects(area)


def test_a_ring_of_forbidden_cells_is_fenced_without_its_middle() -> None:
    """Fences have no holes: the ring is cut through the middle."""
    regions = from_labels(np.ones((7, 9), int), georeference=Georeference(
        0.0, 0.0007, 1e-4, 1e-4, (7, 9), "geographic"
    ))  # fmt: skip
    regions.forbidden[1:6, 2:7] = True
    regions.forbidden[3, 4] = False
    spec = SweepSpec(regions, units=Units(cell=11.1, step=1.0))
    problem = Problem.create(spec)
    route = drive(problem, fixed_policy("full-speed", problem))
    fence = json.loads(ROUTE_FORMATS["plan"].write(route, ExportOptions()))["geoFence"]["polygons"]
    area = shapely.union_all([shapely.Polygon([(x, y) for y, x in e["polygon"]]) for e in fence])
    # A ring of 5 x 5 cells without a rim of 0.05, and its hole with that rim.
    assert area.area == pytest.approx((4.9**2 - 1.1**2) * 1e-8, rel=1e-3)
    assert not area.contains(shapely.Point(4.5e-4, 3.5e-4))


def text_of(data: bytes) -> str:
    """The text in a file; of an archive, that of all files in it."""
    if data.startswith(b"PK"):
        archive = zipfile.ZipFile(io.BytesIO(data))
        data = b"\n".join(archive.read(name) for name in archive.namelist())
    return data.decode("latin-1" if b"\0" in data else "utf-8")


@pytest.mark.parametrize("name", ROUTE_FORMATS)
def test_broken_rules_are_said_aloud_and_in_every_file(
    name: str, farm_run: Any, tmp_path: Path
) -> None:
    written = export(farm_run, name, tmp_path / "file")
    loud = "THIS PLAN BREAKS 1 OF 2 RULES: 'high' (barley >= 1000000), by "
    assert written.warnings[0].startswith(loud)
    text = text_of((tmp_path / "file").read_bytes()).replace("&gt;", ">")
    assert all(each.replace('"', '""') in text or each in text for each in written.warnings)


def test_numbers_in_files_are_round(farm_route: Route, tmp_path: Path) -> None:
    """A rate of 2.1 litres adds up to numbers such as 306.5999999999997."""
    assert any(len(repr(each)) > 15 for each in farm_route.totals.values())
    for known in ROUTE_FORMATS.values():
        text = text_of(known.write(farm_route, ExportOptions()))
        assert not re.findall(r"\d\.\d{11,}", text.replace(WGS84_WKT, ""))


def test_names_that_spreadsheets_would_run_are_defused(tmp_path: Path) -> None:
    names = ["=1+1", "+a", "-b", "@c", "plain"]
    regions = from_labels(np.array([[1, 2, 3, 4, 5]]), names)
    problem = Problem.create(SweepSpec(regions, units=Units(unit="=unit()")))
    route = drive(problem, fixed_policy("constant:1", problem))
    rows = rows_of(route, "regions")
    assert [row["region"] for row in rows[:5]] == ["'=1+1", "'+a", "'-b", "'@c", "plain"]
    assert {row["unit"] for row in rows} == {"'=unit()"}
    steps = rows_of(route, "csv")
    assert len(steps) == route.steps + 1
    for row in steps:
        for each in row.values():
            assert not each.startswith(("=", "+", "@"))
            assert not re.match(r"-\D", each)


def test_kml_columns_of_all_regions_are_told_apart_by_gdal(tmp_path: Path) -> None:
    names = ["S 1", "S-1", "s_1", "é", "è", "S_1 2"]
    where = Georeference(0.0, 1e-4, 1e-4, 1e-4, (1, 6), "geographic")
    regions = from_labels(np.array([[1, 2, 3, 4, 5, 6]]), names, where)
    problem = Problem.create(SweepSpec(regions))
    route = drive(problem, fixed_policy("constant:1", problem))
    path = tmp_path / "route.kml"
    path.write_bytes(ROUTE_FORMATS["kml"].write(route, ExportOptions()))
    meta, _, _, columns = pyogrio.raw.read(path, layer="route")
    received = [
        sum(float(each or 0) for each in values)
        for name, values in zip(meta["fields"], columns, strict=True)
        if name.startswith("received")
    ]
    assert received == pytest.approx(list(route.totals.values()))


def test_the_time_that_is_shown_includes_transits(farm_route: Route) -> None:
    """On the page, by `eval` and by `export`: that of all rows of the file."""
    problem, steps = farm_route.problem, farm_route.steps
    seconds = float(rows_of(farm_route, "csv")[-1]["seconds"])
    minutes, rest = divmod(round(seconds), 60)
    assert f"{minutes}:{rest:02} min), of which " in farm_route.duration
    assert farm_route.duration == problem.units.duration(steps, problem.transit_steps)
    shown = io.StringIO()
    print_evaluation(problem, evaluate(problem, "full-speed"), Console(file=shown, width=200))
    assert "in transit; " in shown.getvalue()
    assert farm_route.duration in _plan("farm", 0, farm_route, "").about_route
