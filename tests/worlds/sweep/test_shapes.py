"""Maps as people publish them: what is repaired, what is left out, and what is said about it."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from scrl.errors import MapError, ScrlError
from scrl.problems import find_world, load
from scrl.problems.templates import start_problem
from scrl.worlds.sweep.maps import MapOptions, load_map
from scrl.worlds.sweep.regions import RegionMap


def ring(left: float, bottom: float, right: float, top: float) -> list[list[float]]:
    """A closed rectangle."""
    return [[left, bottom], [right, bottom], [right, top], [left, top], [left, bottom]]


def feature(geometry: dict[str, Any] | None, **properties: Any) -> dict[str, Any]:
    return {"type": "Feature", "properties": properties, "geometry": geometry}


def polygon(*rings: Any) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": list(rings)}


def write(folder: Path, *features: dict[str, Any], **members: Any) -> Path:
    path = folder / "map.geojson"
    document = {"type": "FeatureCollection", "features": list(features), **members}
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def read(
    path: Path, *, grid: tuple[int, int] | None = (4, 4), **options: Any
) -> tuple[RegionMap, list[str]]:
    """The map, and its warnings without the name of the file."""
    region_map = load_map(path, MapOptions(grid=grid, coordinates="plain", **options))
    return region_map, [text.removeprefix("map.geojson: ") for text in region_map.warnings]


SQUARE = ring(0, 0, 4, 4)
BOW_TIE = [[0, -0.4], [4, 4.4], [4, -0.4], [0, 4.4], [0, -0.4]]
LINE = {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}


@pytest.mark.parametrize(
    ("geometry", "cells", "warning"),
    [
        (
            # A left and a right triangle; in the top row, y = 3.5, they end at x = 0.75 and 3.25.
            polygon(BOW_TIE),
            [[1, 0, 0, 1], [1, 1, 1, 1], [1, 1, 1, 1], [1, 0, 0, 1]],
            "repaired 1 polygon: feature 1 ('a'): the polygon is not simple: "
            "self-intersection at (2 2)",
        ),
        (
            polygon(SQUARE[:-1]),
            np.ones((4, 4)),
            "closed 1 ring: feature 1 ('a'): the outline: the ring is not closed: "
            "from (0.0, 0.0) it ends at (0.0, 4.0)",
        ),
        (
            polygon(SQUARE, [[1, 1], [2, 2], [1, 1]]),
            np.ones((4, 4)),
            "left out 1 hole: feature 1 ('a'): hole 1: a closed ring needs at least 4 points, "
            "this one has 3",
        ),
        (
            {"type": "GeometryCollection", "geometries": [LINE, polygon(SQUARE)]},
            np.ones((4, 4)),
            "left out 1 part: feature 1 ('a'): a region must be a Polygon or a MultiPolygon, "
            "not a LineString",
        ),
        (
            # A sliver without an area beside a square.
            {"type": "MultiPolygon", "coordinates": [[[[0, 0], [4, 4], [2, 2], [0, 0]]], [SQUARE]]},
            np.ones((4, 4)),
            "left out 1 polygon: feature 1 ('a'), polygon 1: the polygon is not simple: "
            "self-intersection at (2 2); it encloses no area",
        ),
        (
            {"type": "MultiPolygon", "coordinates": [[[[0, 0], [1, "x"]]], [SQUARE]]},
            np.ones((4, 4)),
            "left out 1 polygon: feature 1 ('a'), polygon 1: the outline: point 2 holds \"x\", "
            "which is no number",
        ),
    ],
)
def test_a_geometry_is_repaired_and_the_repair_is_told(
    tmp_path: Path, geometry: dict[str, Any] | None, cells: ArrayLike, warning: str
) -> None:
    path = write(tmp_path, feature(geometry, name="a"))
    region_map, warnings = read(path, extent=(0, 0, 4, 4))
    assert region_map.masks[0].astype(int).tolist() == np.asarray(cells, int).tolist()
    assert warnings == [warning]
    with pytest.raises(MapError):
        read(path, strict=True)


def test_features_without_an_area_are_left_out(tmp_path: Path) -> None:
    without = feature(LINE, name="road"), feature(None, name="b")
    path = write(tmp_path, *without, feature(polygon(SQUARE), name="c"))
    region_map, (warning,) = read(path)
    assert region_map.names == ("c",)
    assert warning == (
        "left out 2 features: feature 1 ('road'): a region must be a Polygon or a MultiPolygon, "
        "not a LineString; feature 2 ('b'): it has no geometry"
    )


def test_features_without_a_name_are_numbered(tmp_path: Path) -> None:
    left, right, whole = polygon(ring(0, 0, 2, 4)), polygon(ring(2, 0, 4, 4)), polygon(SQUARE)
    path = write(tmp_path, feature(left), feature(right, name=None), feature(whole, name="S2"))
    region_map, (warning,) = read(path)
    assert region_map.names == ("S1", "S2 (2)", "S2")
    assert warning.startswith("numbered 2 features: feature 1: no property 'name': it has no prop")
    assert warning.endswith("feature 2: property 'name' must be a name, not null")


def test_names_that_no_rule_can_hold_are_changed(tmp_path: Path) -> None:
    """Two features with one such name stay one region."""
    same, other = feature(polygon(SQUARE), name='a "new"\x1b field'), feature(polygon(SQUARE))
    path = write(tmp_path, same, same, {**other, "properties": {"name": "a 'new'\x1b field"}})
    region_map, (warning,) = read(path)
    assert region_map.names == ("a 'new' field", "a 'new' field (2)")
    assert warning.startswith("renamed 3 features: feature 1: ")


@pytest.mark.parametrize(
    ("known", "names"),
    [
        ([{"id": "x", "NAME_1": "a"}, {"id": "y", "NAME_1": "b"}], ("a", "b")),
        ([{"code": "x", "kind": "f"}, {"code": "y", "kind": "f"}], ("x", "y")),
        ([{"kind": "f"}, {"kind": "f"}], ("S1", "S2")),
    ],
)
def test_names_come_from_another_property_where_none_has_the_usual_one(
    tmp_path: Path, known: list[dict[str, str]], names: tuple[str, ...]
) -> None:
    left, right = polygon(ring(0, 0, 2, 4)), polygon(ring(2, 0, 4, 4))
    path = write(tmp_path, feature(left, **known[0]), feature(right, **known[1]))
    region_map, (warning,) = read(path)
    assert region_map.names == names
    assert "feature 1: no property 'name': " in warning


def test_repairs_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred points at random: 4 of 9 pairs of edges may cross, 4,400 of 10,000."""
    monkeypatch.setattr("scrl.worlds.sweep.shapes.MOST_TANGLED", 5_000)
    points = np.random.default_rng(0).uniform(0, 4, (100, 2)).tolist()
    tangle = polygon([*points, points[0]])
    path = write(tmp_path, feature(tangle, name="a"), feature(tangle, name="b"))
    region_map, warnings = read(path)
    assert region_map.names == ("a",)
    assert warnings[-1].startswith("left out 1 polygon: feature 2 ('b'): the polygon is not simple")
    assert warnings[-1].endswith("; outlines cross too often to repair them all")


def test_many_faults_of_a_kind_are_one_warning(tmp_path: Path) -> None:
    features = [feature(polygon(BOW_TIE), name=f"r{number}") for number in range(20)]
    _, (warning,) = read(write(tmp_path, *features))
    assert warning.startswith("repaired 20 polygons: feature 1 ('r0')")
    assert warning.endswith("; and 17 more")
    with pytest.raises(MapError, match=r"20 faults:\n(  feature .*\n){12}  and 8 more$"):
        read(tmp_path / "map.geojson", strict=True)


DOT = polygon(ring(5.2, 5.2, 5.6, 5.6))
FIELD = polygon(ring(0, 0, 100, 100))


def test_a_grid_that_fits_is_chosen_where_none_is_given(tmp_path: Path) -> None:
    """Of 50, 55, 60 and 67 only the last has a centre from 5.2 to 5.6: 100 / 67 * 3.5 = 5.22."""
    path = write(tmp_path, feature(FIELD, name="field"), feature(DOT, name="dot"))
    region_map, (warning,) = read(path, grid=None)
    assert region_map.shape == (67, 67)
    assert region_map.sizes.tolist() == [67**2, 1]
    assert warning == (
        "chose a grid of 67 x 67 for 1 region: feature 2 ('dot'): the region holds no cell "
        "centre of the 50 x 50 grid"
    )
    with pytest.raises(MapError, match="of the 50 x 50 grid: set a finer grid, such as 67 x 67"):
        read(path, grid=None, strict=True)


def test_a_region_smaller_than_a_cell_gets_the_cell_that_it_lies_in(tmp_path: Path) -> None:
    """Row 4 of 50 x 50 reaches from y = 90 to 92, column 2 from x = 4 to 6."""
    path = write(
        tmp_path,
        feature(FIELD, name="field"),
        feature(polygon(ring(5.2, 91.2, 5.6, 91.6)), name="dot"),
    )
    region_map, (warning,) = read(path, grid=(50, 50))
    assert np.argwhere(region_map.masks[1]).tolist() == [[4, 2]]
    assert warning.startswith("gave a single cell to 1 region: feature 2 ('dot'): the region holds")
    assert ": set a finer grid, such as " in warning


def test_no_grid_is_fine_enough_for_a_speck(tmp_path: Path) -> None:
    speck = polygon(ring(5.2, 5.2, 5.2001, 5.2001))
    path = write(tmp_path, feature(FIELD, name="field"), feature(speck, name="speck"))
    region_map, (warning,) = read(path, grid=None)
    assert region_map.shape == (50, 50)
    assert region_map.sizes.tolist() == [2500, 1]
    assert warning.endswith("no grid that may be used has one in every region: set an extent")


@pytest.mark.parametrize("size", [1e-150, 1e-300])
def test_a_speck_of_which_no_intersection_is_left_has_a_cell(tmp_path: Path, size: float) -> None:
    """The one of its first point, in the lower left corner of the field."""
    speck = polygon(ring(0, 0, size, size))
    path = write(tmp_path, feature(FIELD, name="field"), feature(speck, name="speck"))
    region_map, _ = read(path, grid=(10, 10))
    assert np.argwhere(region_map.masks[1]).tolist() == [[9, 0]]


def test_shapes_outside_the_extent_are_left_out(tmp_path: Path) -> None:
    path = write(
        tmp_path, feature(polygon(SQUARE), name="a"), feature(polygon(ring(9, 0, 10, 1)), name="b")
    )
    region_map, (warning,) = read(path, extent=(0, 0, 2, 2))
    assert region_map.names == ("a",)
    expected = "left out 1 region: feature 2 ('b'): the region lies outside the extent [0, 0, 2, 2]"
    assert warning == expected


def test_an_error_after_repairs_tells_of_them(tmp_path: Path) -> None:
    path = write(tmp_path, feature(polygon(BOW_TIE), name="a"), feature(LINE, name="pond"))
    with pytest.raises(MapError) as caught:
        read(path, forbidden="pond")
    assert "forbidden: no shape 'pond'" in str(caught.value)
    assert "left out 1 feature: feature 2 ('pond')" in str(caught.value)


def crs(name: str) -> dict[str, Any]:
    return {"type": "name", "properties": {"name": name}}


@pytest.mark.parametrize(
    "name", ["urn:ogc:def:crs:OGC:1.3:CRS84", "EPSG:4326", "urn:ogc:def:crs:EPSG::4326"]
)
def test_the_coordinate_system_of_the_standard_is_no_news(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, feature(polygon(SQUARE), name="a"), crs=crs(name))
    assert load_map(path).warnings == ()


def test_another_coordinate_system_is_not_dropped_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without pyproj, which would transform it."""
    monkeypatch.setitem(sys.modules, "pyproj", None)
    path = write(tmp_path, feature(polygon(SQUARE), name="a"), crs=crs("EPSG:4258"))
    region_map = load_map(path)
    assert region_map.warnings == (
        "map.geojson: the file's coordinate system, EPSG:4258, is not applied: its coordinates are "
        "taken for degrees of longitude and latitude (WGS84)",
    )
    assert region_map.georeference is not None
    assert region_map.georeference.system == "EPSG:4258"
    path = write(
        tmp_path, feature(polygon(ring(0, 0, 4000, 4000)), name="a"), crs=crs("EPSG:32632")
    )
    with pytest.raises(MapError) as caught:
        load_map(path)
    assert "feature 1 ('a'): the file's coordinate system is EPSG:32632: these are not degrees" in (
        str(caught.value)
    )
    assert "; or transform the file to degrees (EPSG:4326)" in str(caught.value)
    assert str(caught.value).endswith("pip install 'scrl[crs]' does it")
    assert "a flat drawing without a place on Earth" in read(path)[1][0]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"type": "Topology", "objects": {}}, "this is TopoJSON, and GeoJSON is needed"),
        (
            {"type": "FeatureCollection", "UTF8Encoding": True, "features": [{}]},
            "its coordinates are packed into texts, as ECharts does",
        ),
    ],
)
def test_formats_that_look_like_geojson_are_named(
    tmp_path: Path, document: dict[str, Any], message: str
) -> None:
    path = tmp_path / "map.json"
    path.write_text(json.dumps(document))
    with pytest.raises(MapError, match=message):
        load_map(path)


def test_warnings_reach_problems_and_strict_is_a_key_of_the_file(tmp_path: Path) -> None:
    crossing = polygon([[10, 10], [20, 20], [20, 10], [10, 20], [10, 10]])
    path = write(tmp_path, feature(crossing, name="a"), feature(DOT, name="b"), feature(FIELD))
    problem = start_problem(tmp_path / "made", path, coordinates="plain")
    assert [text.split(":")[1] for text in problem.warnings()[:3]] == [
        " numbered 1 feature", " repaired 1 polygon", " chose a grid of 67 x 67 for 1 region"
    ]  # fmt: skip
    file = tmp_path / "made" / "problem.toml"
    assert problem.world_spec == load(file).world_spec
    assert len(load(file).warnings()) == 2  # the grid is given in the file
    with pytest.raises(ScrlError, match="2 faults:"):
        load(file, strict=True)
    file.write_text(file.read_text().replace("# strict = true", "strict = true"))
    with pytest.raises(ScrlError, match="2 faults:"):
        load(file)


def test_a_link_in_a_circle_is_one_message(tmp_path: Path) -> None:
    loop = tmp_path / "loop.geojson"
    loop.symlink_to(loop)
    for read_it in (load_map, find_world):
        with pytest.raises(
            MapError, match=r"a symbolic link that leads to no file, or in a circle"
        ):
            read_it(Path(loop))
    file = tmp_path / "problem.toml"
    file.write_text('[world]\nmap = "loop.geojson"\n')
    with pytest.raises(ScrlError, match="symbolic link"):
        load(file)
