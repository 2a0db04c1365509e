"""The farm with the pond: files that are followed by others do what was promised."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyogrio.raw
import pytest
import shapely
from benchmarks.farms import DEGREES_PER_M, SOUTH_WEST, SPRAYER, pond_farm, with_pond
from benchmarks.sprayer import Pump, given_by_map, given_by_plan, lines_of, time_and_way
from benchmarks.way import driven, way_lengths

from scrl.audit import audit
from scrl.export import ROUTE_FORMATS, ExportOptions
from scrl.route import Route

from .test_plan import read_with_mavsdk
from .test_prescription import read_tiff


@pytest.fixture(scope="module")
def pond_route(tmp_path_factory: pytest.TempPathFactory) -> Route:
    return driven(pond_farm(tmp_path_factory.mktemp("pond")))


@pytest.fixture(scope="module")
def plan(pond_route: Route) -> dict[str, Any]:
    return json.loads(ROUTE_FORMATS["plan"].write(pond_route, ExportOptions(autopilot="ardupilot")))


def metres(places: np.ndarray) -> np.ndarray:
    return (places - SOUTH_WEST) / DEGREES_PER_M


def written(route: Route, name: str) -> bytes:
    return ROUTE_FORMATS[name].write(route, ExportOptions())


def test_the_way_is_a_fifth_shorter_than_before(tmp_path: Path) -> None:
    lengths = way_lengths(tmp_path)
    new = lengths["field by field, best angle"]
    assert new < 0.8 * lengths["the nearest strip next (before)"]
    assert new < 0.5 * lengths["row by row over the whole map"]


def test_time_and_distance_of_the_plan_are_those_promised(
    pond_route: Route, plan: dict[str, Any]
) -> None:
    seconds, metres = time_and_way(plan, SPRAYER.turn or 0.0)
    assert seconds == pytest.approx(plan["driving_seconds"], rel=0.01)
    assert metres == pytest.approx(plan["driving_m"], rel=0.01)
    step, cell = pond_route.problem.units.step, pond_route.problem.units.cell
    assert step is not None
    assert cell is not None
    assert plan["driving_seconds"] == pytest.approx(
        step * (pond_route.steps + pond_route.transit_steps), rel=1e-6
    )
    # All that does not work is marked, and times have it, in every format.
    rows = list(csv.DictReader(io.StringIO(written(pond_route, "csv").decode())))
    assert float(rows[-1]["seconds"]) == pytest.approx(plan["driving_seconds"], rel=0.001)
    assert sum(float(row["length_m"]) for row in rows) == pytest.approx(plan["driving_m"], rel=1e-4)
    idle = sum(float(row["length_m"]) for row in rows if row["transit"] == "true")
    assert idle == pytest.approx(plan["transit_m"], rel=1e-4)
    features = json.loads(written(pond_route, "geojson"))["features"]
    assert sum(each["properties"]["seconds"] for each in features) == pytest.approx(
        plan["driving_seconds"], rel=1e-4
    )
    assert sum(
        each["properties"]["length_m"] for each in features if each["properties"]["transit"]
    ) == pytest.approx(plan["transit_m"], rel=1e-4)
    assert sum(each.metres for each in lines_of(plan) if not each.is_on) == pytest.approx(
        plan["transit_m"], rel=0.01
    )
    assert [rows[0]["longitude"], rows[0]["latitude"]] == [
        rows[-1]["longitude"], rows[-1]["latitude"]
    ]  # fmt: skip


def test_no_working_metre_is_in_the_pond_and_no_metre_in_its_fence(plan: dict[str, Any]) -> None:
    pond = with_pond()["pond"]
    fence = [shapely.Polygon(np.array(each["polygon"])[:, ::-1])
             for each in plan["geoFence"]["polygons"]]  # fmt: skip
    assert fence
    assert shapely.area(shapely.union_all(fence)) > shapely.area(pond)
    for line in lines_of(plan):
        way = shapely.LineString(line.ends)
        assert not any(way.intersects(each) for each in fence)
        if line.is_on:  # what lies under the boom is 5 m and more away
            swept, near = (shapely.transform(each, metres) for each in (way, pond))
            assert shapely.distance(shapely.buffer(swept, 12.0, cap_style="flat"), near) >= 5.0


def test_a_sprayer_gives_each_field_what_was_promised(
    pond_route: Route, plan: dict[str, Any], tmp_path: Path
) -> None:
    """ArduPilot's pump with SPRAY_PUMP_MIN = 100, and a controller that follows the doses."""
    spec, shapes = pond_route.problem.world_spec, with_pond()
    fields = {name: shapes[name] for name in spec.regions.names}
    pump = Pump(spec.vehicle.rate / (spec.units.step or 1.0), least=100.0, speed_min=0.0)
    assert (pump.flow(0.5), Pump(1.0).flow(0.5), Pump(1.0).flow(2.0)) == (pump.full, 0.0, 0.2)
    assert given_by_plan(plan, pump, SPRAYER.boom, fields) == pytest.approx(
        pond_route.totals, rel=0.02
    )
    path = tmp_path / "map.geojson"
    path.write_bytes(written(pond_route, "prescription"))
    meta, _, zones, columns = pyogrio.raw.read(path)
    dose = dict(zip(meta["fields"], columns, strict=True))["dose"]
    found = given_by_map(plan, shapely.from_wkb(zones), dose, SPRAYER.boom, fields)
    assert found == pytest.approx(pond_route.totals, rel=0.02)


def test_a_geotiff_of_a_turned_grid_has_its_matrix(pond_route: Route) -> None:
    """ModelTransformation (OGC 19-008r4): x and y of a pixel's column and row."""
    pixels, tags = read_tiff(written(pond_route, "geotiff"))
    assert 33550 not in tags
    matrix = np.array(tags[34264]).reshape(4, 4)
    where = pond_route.georeference
    assert where is not None
    assert where.turn is not None
    row, column = (each + 0.5 for each in np.argwhere(pixels > 0.0)[100])
    assert (matrix @ [column, row, 0.0, 1.0])[:2] == pytest.approx(
        where.places(np.array([[row, column]]))[0], abs=1e-9
    )


def test_mavsdk_reads_the_plan_and_its_fence(plan: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "route.plan"
    path.write_text(json.dumps(plan))
    items, fence = read_with_mavsdk(path, tmp_path / "items.json")
    assert [each[2] for each in items] == [each["command"] for each in plan["mission"]["items"]]
    assert len(fence) == sum(len(each["polygon"]) for each in plan["geoFence"]["polygons"])


def test_the_log_of_the_plan_gives_its_amounts(pond_route: Route, tmp_path: Path) -> None:
    """Counted from places and amounts, under a boom of 24 m, in the polygons of the fields."""
    path = tmp_path / "steps.csv"
    path.write_bytes(written(pond_route, "csv"))
    found = audit(pond_route.problem, path)
    assert found.density == pytest.approx(pond_route.totals, rel=0.005)
