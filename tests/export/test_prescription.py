"""Prescription maps, read by others and followed by a model of a sprayer that knows only them."""

from __future__ import annotations

import io
import json
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyogrio.raw
import pytest
import shapely

from scrl.export import ROUTE_FORMATS, ExportError, ExportOptions, export, segments
from scrl.problems import Problem
from scrl.route import Route

from .conftest import FARM_DEGREES, served

METRES = FARM_DEGREES * 111_320.0
"""The side of a cell of the farm, near the equator."""


def written(route: Route, name: str, tolerance: float = 0.02) -> bytes:
    return ROUTE_FORMATS[name].write(route, ExportOptions(tolerance=tolerance))


def read_tiff(data: bytes) -> tuple[np.ndarray, dict[int, Any]]:
    """Pixels and tags of a TIFF of uncompressed floats, by its specification (TIFF 6.0, part 1)."""
    order = {b"II": "<", b"MM": ">"}[data[:2]]
    magic, at = struct.unpack_from(f"{order}HI", data, 2)
    assert magic == 42
    (count,) = struct.unpack_from(f"{order}H", data, at)
    tags: dict[int, Any] = {}
    for index in range(count):
        tag, kind, many = struct.unpack_from(f"{order}HHI", data, at + 2 + 12 * index)
        letter, size = {2: ("s", 1), 3: ("H", 2), 4: ("I", 4), 12: ("d", 8)}[kind]
        place = at + 2 + 12 * index + 8
        if size * many > 4:
            (place,) = struct.unpack_from(f"{order}I", data, place)
        form = f"{order}{many}{letter}"
        tags[tag] = struct.unpack_from(form, data, place)
    width, height = tags[256][0], tags[257][0]
    assert (tags[258], tags[259], tags[339]) == ((32,), (1,), (3,)), "one band of raw floats"
    strips = zip(tags[273], tags[279], strict=True)
    raw = b"".join(data[begin : begin + size] for begin, size in strips)
    return np.frombuffer(raw, f"{order}f4").reshape(height, width), tags


def doses_of(data: bytes, places: np.ndarray) -> np.ndarray:
    """The dose of a GeoTIFF at places, by its pixel scale and tie point (OGC 19-008r4)."""
    pixels, tags = read_tiff(data)
    (wide, high, _), (_, _, _, left, top, _) = tags[33550], tags[33922]
    column, row = ((places - (left, top)) / (wide, -high)).astype(int).T
    return pixels[row, column]


def sprayed(places: np.ndarray, doses: np.ndarray, shapes: dict[str, Any]) -> dict[str, float]:
    """What a sprayer gives that follows the ground speed: flow = dose x width x speed.

    Speed times time is the distance, so what it gives between two places does not depend on its
    speed. Each place stands for the short way to the next one.
    """
    way = np.hypot(*np.diff(places, axis=0).T) / FARM_DEGREES * METRES
    amount = doses[:-1] * METRES * way / 10_000.0
    return {
        name: float(amount[shapely.contains_xy(shape, *places[:-1].T)].sum())
        for name, shape in shapes.items()
    }


@pytest.fixture(scope="module")
def driven(farm_route: Route) -> np.ndarray:
    """Places along the working parts of the route, a fiftieth of a cell apart."""
    where = farm_route.georeference
    assert where is not None
    found = []
    for each in segments(farm_route, 0.0):
        if not each.is_transit and each.length > 0.0:
            share = np.linspace(0.0, 1.0, int(50 * each.length) + 2)[:, None]
            cells = each.ends[0] * (1.0 - share) + each.ends[1] * share
            found.append(where.places(cells))
    return np.concatenate(found)


def cells_of(problem: Problem) -> dict[str, Any]:
    """The regions as the plan knows them: cells."""
    spec, found = problem.world_spec, {}
    where = spec.regions.georeference
    assert where is not None
    for name, mask in zip(spec.regions.names, spec.regions.masks, strict=True):
        rows, columns = np.nonzero(mask)
        corner, across = (where.places(np.column_stack([rows + at, columns + at]).astype(float))
                          for at in (0, 1))  # fmt: skip
        boxes = shapely.box(corner[:, 0], across[:, 1], across[:, 0], corner[:, 1])
        found[name] = shapely.union_all(boxes)
        shapely.prepare(found[name])
    return found


@pytest.mark.parametrize("name", ["prescription", "shapefile", "geotiff"])
def test_a_sprayer_that_follows_the_map_gives_what_the_plan_promises(
    name: str, farm: Problem, farm_route: Route, driven: np.ndarray, tmp_path: Path
) -> None:
    middle = driven[:-1] + np.diff(driven, axis=0) / 2.0
    data = written(farm_route, name)
    if name == "geotiff":
        doses = doses_of(data, np.vstack([middle, driven[-1:]]))
    else:
        path = tmp_path / ("map.zip" if name == "shapefile" else "map.geojson")
        path.write_bytes(data)
        meta, _, shapes, columns = pyogrio.raw.read(path)
        assert meta["crs"] == "EPSG:4326"
        dose = dict(zip(meta["fields"], columns, strict=True))["dose"]
        zones = shapely.from_wkb(shapes)
        assert shapely.is_valid(zones).all()
        at, zone = shapely.STRtree(zones).query(shapely.points(middle), predicate="intersects")
        doses = np.zeros(len(driven))
        doses[at] = dose[zone]
    # A way between two legs has no length here that counts: it is not sprayed.
    jump = np.hypot(*np.diff(driven, axis=0).T) > 0.1 * FARM_DEGREES
    doses[:-1][jump] = 0.0
    found = sprayed(driven, doses, cells_of(farm))
    assert found == pytest.approx(farm_route.totals, rel=0.02)


def test_zones_do_not_cross_regions_and_keep_their_amounts(route: Route) -> None:
    """At the largest tolerance there is one zone for each set of regions."""
    for tolerance, least in ((1.0, 3), (0.02, 10)):
        document = json.loads(written(route, "prescription", tolerance))
        received = dict.fromkeys(route.regions, 0.0)
        for feature in document["features"]:
            for region in feature["properties"]["regions"]:
                received[region] += feature["properties"]["amount"]
        assert received == pytest.approx(route.totals, rel=1e-3)
        assert len(document["features"]) >= least
        if tolerance == 1.0:
            sets = [tuple(each["properties"]["regions"]) for each in document["features"]]
            assert len(set(sets)) == len(sets) == 3
    # A cell is 70 m long in [world] and as high as the map says beside that.
    shares = [each["properties"] for each in document["features"]]
    hectares = sum(each["hectares"] for each in shares)
    assert sum(each["dose"] * each["hectares"] for each in shares) == pytest.approx(
        float(route.amount.sum()), rel=1e-4
    )
    assert hectares == pytest.approx(18 * 0.7 * 0.7 * (111.25 / 71.7), rel=0.01)


def test_a_geotiff_has_the_tags_that_the_standard_asks_for(route: Route) -> None:
    pixels, tags = read_tiff(written(route, "geotiff"))
    assert pixels.shape == (3, 8)
    assert tags[33550] == pytest.approx((0.001, 0.001, 0.0))
    assert tags[33922] == pytest.approx((0.0, 0.0, 0.0, 10.0, 50.0, 0.0))
    assert tags[34735] == (1, 1, 0, 3, 1024, 0, 1, 2, 1025, 0, 1, 1, 2048, 0, 1, 4326)
    assert tags[42113][0].rstrip(b"\0") == b"-9999"
    assert (pixels[:, 4:6] == -9999.0).all()
    assert (pixels[:, :4] > 0.0).all()


def test_a_map_without_scales_has_doses_per_cell(tmp_path: Path, problem: Problem) -> None:
    from scrl.policies import fixed_policy
    from scrl.problems import load
    from scrl.route import drive

    from .conftest import write_problem

    bare = load(write_problem(tmp_path))
    route = drive(bare, fixed_policy("full-speed", bare))
    document = json.loads(written(route, "prescription"))
    assert document["dose_unit"] == "litres per cell"
    assert document["features"][0]["properties"]["hectares"] is None
    _, tags = read_tiff(written(route, "geotiff"))
    assert tags[34735][4:8] == (1024, 0, 1, 32767)
    names = zipfile.ZipFile(io.BytesIO(written(route, "shapefile"))).namelist()
    assert "prescription.prj" not in names


def test_warnings_stand_in_every_map(farm_run: Any, tmp_path: Path) -> None:
    """The farm's plan breaks a rule."""
    said = {}
    for name in ("prescription", "shapefile", "geotiff"):
        done = export(farm_run, name, tmp_path / name)
        assert done.warnings[0].startswith("THIS PLAN BREAKS 1 OF 2 RULES")
        said[name] = (tmp_path / name).read_bytes()
    assert json.loads(said["prescription"])["warnings"][0].startswith("THIS PLAN BREAKS")
    archive = zipfile.ZipFile(io.BytesIO(said["shapefile"]))
    assert archive.read("WARNINGS.txt").startswith(b"THIS PLAN BREAKS")
    assert b"WARNING: THIS PLAN BREAKS" in read_tiff(said["geotiff"])[1][270][0]


def test_landing_service_is_warned_of(problem: Problem, tmp_path: Path) -> None:
    from .conftest import AsRun

    run: Any = AsRun(problem, None)
    run.route = lambda seed=None: served(problem, "landing")
    done = export(run, "geotiff", tmp_path / "map.tif")
    assert any("doses are spread along the way" in each for each in done.warnings)


def test_without_pyshp_the_package_is_named(route: Route, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shapefile", None)
    with pytest.raises(ExportError, match=r"pip install 'scrl\[shapefile\]'"):
        written(route, "shapefile")
