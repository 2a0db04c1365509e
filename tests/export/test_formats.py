"""What is written is read again by programs that know nothing of us: GDAL, MAVSDK, csv."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyogrio.raw
import pytest
import shapely

from scrl.export import ROUTE_FORMATS, ExportError, ExportOptions, find_format, segments
from scrl.export.tables import OUTSIDE, TOTAL
from scrl.policies import fixed_policy
from scrl.problems import Problem, load
from scrl.route import Route, drive
from scrl.worlds.sweep.spec import Service, SweepRoute, SweepSpec

from .conftest import ON_EARTH, served, write_problem


def written(route: Route, format_name: str, path: Path, **options: Any) -> Path:
    path.write_bytes(ROUTE_FORMATS[format_name].write(route, ExportOptions(**options)))
    return path


def layer(path: Path, name: str | None = None) -> tuple[Any, list[Any], dict[str, Any]]:
    """A layer as GDAL reads it: what it says of itself, its shapes, its columns."""
    meta, _, shapes, columns = pyogrio.raw.read(path, layer=name)
    return meta, list(shapely.from_wkb(shapes)), dict(zip(meta["fields"], columns, strict=True))


def test_geojson_is_read_by_gdal_with_its_amounts(route: Route, tmp_path: Path) -> None:
    meta, lines, columns = layer(written(route, "geojson", tmp_path / "route.geojson"))
    assert meta["crs"] == "EPSG:4326"
    assert {line.geom_type for line in lines} == {"LineString"}
    assert all(line.is_valid for line in lines)
    found = segments(route)
    assert len(lines) == len(found)
    assert columns["amount"].sum() == pytest.approx(route.amount.sum())
    assert np.allclose(columns["speed_m_s"], [each.speed * 7.0 for each in found])
    assert np.allclose(columns["seconds"], [each.steps * 10.0 for each in found])
    totals = dict.fromkeys(route.regions, 0.0)
    for text in columns["received"]:
        for region, amount in json.loads(text).items():
            totals[region] += amount
    assert totals == pytest.approx(route.totals)
    # A cell is a thousandth of a degree: the drive goes from the left edge to the right one.
    west, south, east, north = shapely.total_bounds(lines)
    assert (west, east) == pytest.approx((10.0, 10.008), abs=1e-6)
    assert (south, north) == pytest.approx((49.9975, 49.9995), abs=1e-6)


def test_geojson_follows_the_standard(route: Route, tmp_path: Path) -> None:
    """RFC 7946: no `crs`, longitude first, two positions a line, null for what is unknown."""
    document = json.loads(written(route, "geojson", tmp_path / "route.geojson").read_text())
    assert document["type"] == "FeatureCollection"
    assert "crs" not in document
    assert document["coordinates_are"] == "degrees of longitude and latitude (WGS84)"
    assert document["received"] == pytest.approx(route.totals)
    assert len(document["features"]) == len(segments(route))
    for feature in document["features"]:
        assert set(feature) == {"type", "geometry", "properties"}
        assert all(9 < longitude < 11 for longitude, _ in feature["geometry"]["coordinates"])


@pytest.mark.parametrize(
    ("world", "sentence", "last"),
    [
        ("", "cells from the lower left", [8.0, 2.5]),
        ("cell = 10.0\n", "metres from the lower left", [80.0, 25.0]),
        (
            'extent = [1000, 0, 1800, 300]\ncoordinates = "plain"\n',
            "the map's own plain coordinates",
            [1800.0, 250.0],
        ),
    ],
)
def test_a_map_that_is_not_on_earth_has_the_best_coordinates_there_are(
    world: str, sentence: str, last: list[float], tmp_path: Path
) -> None:
    problem = load(write_problem(tmp_path, world))
    route = drive(problem, fixed_policy("full-speed", problem))
    document = json.loads(ROUTE_FORMATS["geojson"].write(route, ExportOptions()))
    assert document["coordinates_are"].startswith(sentence)
    assert document["features"][-1]["geometry"]["coordinates"][-1] == pytest.approx(last)
    assert document["features"][0]["properties"]["speed_m_s"] is None
    for name in ("kml", "plan"):
        with pytest.raises(ExportError, match=r"needs degrees .* extent = \[west, south, east"):
            ROUTE_FORMATS[name].write(route, ExportOptions())


def test_kml_is_read_by_gdal_with_its_amounts(route: Route, tmp_path: Path) -> None:
    path = written(route, "kml", tmp_path / "route.kml", altitude=12.0)
    meta, lines, columns = layer(path, "route")
    assert meta["crs"] == "EPSG:4326"
    assert len(lines) == len(segments(route))
    assert all(
        shapely.get_coordinates(line, include_z=True)[:, 2].tolist() == [12, 12] for line in lines
    )
    amounts = np.array(columns["amount"], float)
    assert amounts.sum() == pytest.approx(route.amount.sum())
    for region, total in route.totals.items():
        # GDAL writes underscores where a name has anything but letters and digits.
        key = re.sub(r"\W", "_", f"received {region}")
        column = np.array([value or 0 for value in columns[key]], float)
        assert np.nansum(column) == pytest.approx(total)
    assert columns["transit"].tolist().count("true") == 1
    west, south, east, north = shapely.total_bounds(lines)
    assert (west, east) == pytest.approx((10.0, 10.008), abs=1e-6)
    assert (south, north) == pytest.approx((49.9975, 49.9995), abs=1e-6)


@pytest.mark.parametrize("service", ["poured", "landing"])
def test_steps_in_csv_add_up_to_the_densities(
    problem: Problem, service: Service, tmp_path: Path
) -> None:
    route = served(problem, service)
    text = written(route, "csv", tmp_path / "steps.csv").read_bytes().decode()
    start, *rows = csv.DictReader(io.StringIO(text, newline=""))
    # The step with the transit in it has three rows.
    assert len(rows) == route.steps + 2
    (transit,) = [number for number, row in enumerate(rows) if row["transit"] == "true"]
    assert {row["step"] for row in rows[transit - 1 : transit + 2]} == {rows[transit]["step"]}
    assert (start["step"], start["amount"], start["throttle"]) == ("0", "0.0", "")
    for region, total in route.totals.items():
        assert sum(float(row[f"received {region}"]) for row in rows) == pytest.approx(total)
    assert sum(float(row["amount"]) for row in rows) == pytest.approx(route.amount.sum())
    for row in rows:
        named = [name for name in row["regions"].split(";") if name]
        assert named == [name for name in route.regions if float(row[f"received {name}"])]
    before, between, after = rows[transit - 1 : transit + 2]
    assert float(between["amount"]) == 0.0
    length = float(before["length_m"]) + float(after["length_m"])
    share = float(before["length_m"]) / length if service == "poured" else 0.0
    assert float(before["amount"]) == pytest.approx(2.25 * share)
    assert float(after["amount"]) == pytest.approx(2.25 * (1.0 - share))
    # The path leads from the west over the transit to the east, and so back.
    assert {before["regions"], after["regions"]} <= {"west", "east", "south & co", ""}
    del rows[transit - 1 : transit + 1]
    assert float(rows[4]["seconds"]) == 50.0
    for key, values in (("speed_cells_per_step", route.speed), ("throttle", route.throttle)):
        assert [float(row[key]) for row in rows] == pytest.approx(values.tolist())
    assert float(rows[4]["speed_m_s"]) == pytest.approx(7.0 * route.speed[4])
    assert float(rows[-1]["path_cell"]) == len(route.problem.world_spec.path.cells)
    assert route.coordinates is not None
    assert float(rows[-1]["longitude"]) == pytest.approx(route.coordinates[-1, 0])


def test_amounts_per_region_are_the_densities(route: Route, tmp_path: Path) -> None:
    text = written(route, "regions", tmp_path / "regions.csv").read_bytes().decode()
    *rows, outside, total = csv.DictReader(io.StringIO(text, newline=""))
    written_totals = {row["region"]: float(row["received"]) for row in rows}
    assert written_totals == pytest.approx(route.totals, abs=1e-6)  # rounded to six digits
    assert {row["region"]: int(row["cells"]) for row in rows} == {
        "west": 10, "east": 4, "south & co": 4,
    }  # fmt: skip
    assert {row["unit"] for row in rows} == {"litres"}
    assert [int(row["steps"]) for row in rows] == np.count_nonzero(route.received, axis=0).tolist()
    assert (outside["region"], outside["received"], outside["share"]) == (OUTSIDE, "0.0", "0.0")
    assert (total["region"], total["cells"], total["share"]) == (TOTAL, "18", "1.0")
    assert float(total["received"]) == pytest.approx(sum(route.totals.values()))


EDGES = 2.0 + 0.88 / 2.352, 3.0 + 2.528 / 2.6112, 5.0 + 1.15008 / 2.860032
"""When full speed passes 4, 8 and 12, from p = 1.2, 3.12, 5.472, 8.0832, 10.84992, 13.70995."""
BOOKS = {
    # Full speed: cells 1 and 3 in S1, 5 outside, 8 and 10 in S2, then the end.
    "landing": ([2.0, 2.0, 1.0, 5.0], [2, 2, 1, 5]),
    # S1 lies before the first edge, S2 after the second.
    "poured": (
        [EDGES[0], EDGES[2] - EDGES[1], EDGES[1] - EDGES[0], EDGES[2]],
        [3, 3, 2, 6],
    ),
}
"""Steps of service for S1, S2, outside and in all, and the numbers of steps that gave them."""


@pytest.mark.parametrize("service", ["poured", "landing"])
def test_what_falls_outside_all_regions_is_in_the_books(strip: SweepSpec, service: Service) -> None:
    problem = Problem.create(dataclasses.replace(strip, route=SweepRoute(service=service)))
    route = drive(problem, fixed_policy("full-speed", problem))
    text = ROUTE_FORMATS["regions"].write(route, ExportOptions()).decode()
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    assert header == ["region", "cells", "received", "unit", "steps", "share", "warnings"]
    names, cells, received, units, steps, shares, warnings = zip(*rows, strict=True)
    assert names == ("S1", "S2", OUTSIDE, TOTAL)
    assert cells == ("4", "4", "4", "12")
    assert {*units, *warnings} == {"units", ""}
    served, counts = BOOKS[service]
    assert [int(each) for each in steps] == counts
    assert [float(each) for each in received] == pytest.approx(2.25 * np.array(served), abs=1e-5)
    assert [float(each) for each in shares] == pytest.approx(
        np.array(served) / served[-1], abs=1e-4
    )


def test_a_map_without_scales_leaves_its_columns_empty(tmp_path: Path) -> None:
    problem = load(write_problem(tmp_path))
    route = drive(problem, fixed_policy("full-speed", problem))
    rows = list(
        csv.DictReader(io.StringIO(ROUTE_FORMATS["csv"].write(route, ExportOptions()).decode()))
    )
    assert {row["seconds"] for row in rows} == {row["speed_m_s"] for row in rows} == {""}
    assert [*rows[0]][5:7] == ["x", "y"]


def test_unknown_formats_and_wrong_options_are_refused() -> None:
    with pytest.raises(ExportError, match="unknown format 'geojsn': did you mean 'geojson'"):
        find_format("geojsn")
    with pytest.raises(ExportError, match="altitude = 0 must be above 0"):
        ExportOptions(altitude=0.0)
    with pytest.raises(ExportError, match="tolerance = 2 must lie between"):
        ExportOptions(tolerance=2.0)


def test_a_plan_needs_both_scales(tmp_path: Path) -> None:
    problem = load(write_problem(tmp_path, ON_EARTH))
    route = drive(problem, fixed_policy("full-speed", problem))
    with pytest.raises(ExportError) as caught:
        ROUTE_FORMATS["plan"].write(route, ExportOptions())
    # The length of a cell follows from the degrees.
    assert str(caught.value) == (
        "a flight plan needs speeds in metres per second: write step = 1.0  # seconds in [world] "
        "of the problem file"
    )
