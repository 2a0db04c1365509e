"""GeoJSON to cells: worked by hand on small grids, and what a broken file is told."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely

from scrl.errors import MapError
from scrl.worlds.sweep.geojson import read_geojson
from scrl.worlds.sweep.maps import MapOptions, load_map
from scrl.worlds.sweep.regions import RegionMap

PLAIN = MapOptions(coordinates="plain", strict=True)


def ring(left: float, bottom: float, right: float, top: float) -> list[list[float]]:
    """A closed rectangle."""
    return [[left, bottom], [right, bottom], [right, top], [left, top], [left, bottom]]


def feature(name: Any, *rings: Any, **properties: Any) -> dict[str, Any]:
    geometry = {"type": "Polygon", "coordinates": list(rings)}
    return {"type": "Feature", "properties": {"name": name, **properties}, "geometry": geometry}


def write(folder: Path, *features: Any) -> Path:
    path = folder / "farm.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": list(features)}))
    return path


def picture(region_map: RegionMap, name: str) -> list[str]:
    mask = region_map.masks[region_map.names.index(name)]
    return ["".join(".#"[int(cell)] for cell in row) for row in mask]


def refusal(path: Path, options: MapOptions = PLAIN) -> str:
    with pytest.raises(MapError) as caught:
        load_map(path, options)
    return str(caught.value).removeprefix(f"{path}: ")


def test_holes_overlaps_and_row_0_on_top(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        feature("ring", ring(0, 0, 4, 4), ring(1, 1, 3, 3)),
        feature("top", ring(0, 2, 4, 4)),
    )
    region_map = read_geojson(path, grid=(4, 4))
    assert picture(region_map, "ring") == ["####", "#..#", "#..#", "####"]
    assert picture(region_map, "top") == ["####", "####", "....", "...."]
    assert region_map.georeference is not None
    assert region_map.georeference.extent == (0, 0, 4, 4)
    assert region_map.georeference.kind == "geographic"


def test_a_forbidden_shape_takes_every_cell_that_it_overlaps(tmp_path: Path) -> None:
    """Also one that holds no centre; a shape that ends on an edge of cells stays behind it."""
    diamond = [[4.2, 5.0], [6.0, 3.2], [7.8, 5.0], [6.0, 6.8], [4.2, 5.0]]
    path = write(
        tmp_path, feature("wheat", ring(0, 0, 12, 10)), feature("pond", diamond),
        feature("pole", ring(9.1, 2.1, 9.2, 2.2)), feature("barn", ring(0, 7, 3, 10)),
    )  # fmt: skip
    options = MapOptions(grid=(10, 12), coordinates="plain", forbidden=("pond", "pole", "barn"))
    found = load_map(path, options).forbidden
    shapes = shapely.union_all([
        shapely.Polygon(diamond), shapely.box(9.1, 2.1, 9.2, 2.2), shapely.box(0, 7, 3, 10)
    ])  # fmt: skip
    for row in range(10):
        for column in range(12):
            cell = shapely.box(column, 9 - row, column + 1, 10 - row)
            assert found[row, column] == (cell.intersection(shapes).area > 1e-6)


def test_features_of_one_name_multipolygons_and_collections_are_united(tmp_path: Path) -> None:
    def part(kind: str, key: str, inner: list[Any]) -> dict[str, Any]:
        return {"type": "Feature", "properties": {"id": 7}, "geometry": {"type": kind, key: inner}}

    square = {"type": "Polygon", "coordinates": [ring(2, 0, 3, 1)]}
    path = write(
        tmp_path,
        part("MultiPolygon", "coordinates", [[ring(0, 0, 1, 1)], [ring(4, 0, 5, 1)]]),
        part("GeometryCollection", "geometries", [square]),
    )
    region_map = read_geojson(path, grid=(1, 5), region_property="id")
    assert region_map.names == ("7",)
    assert picture(region_map, "7") == ["#.#.#"]


def test_a_later_part_does_not_wipe_out_an_earlier_one(tmp_path: Path) -> None:
    # The boxes of these two triangles are the same square.
    lower, upper = [[0, 0], [4, 0], [0, 4], [0, 0]], [[4, 4], [0, 4], [4, 0], [4, 4]]
    path = write(tmp_path, feature("a", lower), feature("a", upper))
    assert read_geojson(path, grid=(4, 4)).sizes.tolist() == [16]


def test_a_shared_edge_through_centres_gives_each_cell_to_one_neighbour(tmp_path: Path) -> None:
    # x = 1.5 and the diagonal both run through centres of the 3 x 3 grid.
    west, east = ring(0, 0, 1.5, 3), ring(1.5, 0, 3, 3)
    region_map = read_geojson(
        write(tmp_path, feature("w", west), feature("e", east)), grid=(3, 3), coordinates="plain"
    )
    assert (region_map.masks.sum(axis=0) == 1).all()
    lower, upper = [[0, 0], [3, 0], [3, 3], [0, 0]], [[0, 0], [3, 3], [0, 3], [0, 0]]
    path = write(tmp_path, feature("lower", lower), feature("upper", upper))
    assert (read_geojson(path, grid=(3, 3)).masks.sum(axis=0) == 1).all()


def test_a_bare_geometry_a_lone_feature_and_an_extent(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text(json.dumps({"type": "Polygon", "coordinates": [ring(1, 1, 3, 3)]}))
    region_map = load_map(path, MapOptions(grid=(4, 4), extent=(0, 0, 4, 4)))
    assert region_map.names == ("S1",)
    assert picture(region_map, "S1") == ["....", ".##.", ".##.", "...."]
    path.write_text("\ufeff" + json.dumps(feature("x", ring(0, 0, 1, 1))), encoding="utf-8")
    assert load_map(path).names == ("x",)
    assert load_map(path).shape == (50, 50)


def test_a_raster_against_an_obvious_twin(tmp_path: Path) -> None:
    """A triangle's cells by the signs of three cross products, at the centres."""
    corners = np.array([[0.3, 0.1], [9.2, 3.7], [4.1, 8.8]])
    path = write(tmp_path, feature("t", [*corners.tolist(), corners[0].tolist()]))
    mask = read_geojson(path, grid=(20, 20), extent=(0, 0, 10, 10)).masks[0]
    for row in range(20):
        for column in range(20):
            point = np.array([column / 2 + 0.25, 10 - row / 2 - 0.25])
            edges, spokes = np.roll(corners, -1, axis=0) - corners, point - corners
            inside = (edges[:, 0] * spokes[:, 1] - edges[:, 1] * spokes[:, 0] > 0).all()
            assert mask[row, column] == inside


BOW_TIE = [[0, 0], [2, 2], [2, 0], [0, 2], [0, 0]]


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (
            [feature("a", ring(0, 0, 1, 1)), feature("b", BOW_TIE)],
            "feature 2 ('b'): the polygon is not simple: self-intersection at (1 1)",
        ),
        (
            [feature("a", ring(0, 0, 1, 1)[:-1])],
            "feature 1 ('a'): the outline: the ring is not closed: "
            "from (0.0, 0.0) it ends at (0.0, 1.0)",
        ),
        (
            [feature("a", ring(0, 0, 9, 9), [[1, 1], [2, 2], [1, 1]])],
            "feature 1 ('a'): hole 1: a closed ring needs at least 4 points, this one has 3",
        ),
        (
            [feature("a", [[0, 0], [float("nan"), 1], [1, 1], [0, 0]])],
            "feature 1 ('a'): the outline: point 2 is NaN, infinite or beyond 1e+12",
        ),
        (
            [feature("a", [[0, 0], [10**400, 1], [1, 1], [0, 0]])],
            "feature 1 ('a'): the outline: point 2 is NaN, infinite or beyond 1e+12",
        ),
        (
            [feature("a", [[0, 0], [1, "1"], [1, 1], [0, 0]])],
            "feature 1 ('a'): the outline: point 2 holds \"1\", which is no number",
        ),
        (
            [feature("a", [[0, 0], [1], [1, 1], [0, 0]])],
            "feature 1 ('a'): the outline: point 2 must be [x, y]",
        ),
        ([feature("a", 3)], "feature 1 ('a'): the outline: a ring must be a list of points"),
        ([feature("a")], "feature 1 ('a'): the Polygon is empty"),
        ([{"type": "Feature", "properties": {"name": "a"}}], "feature 1 ('a'): it has no geometry"),
        ([3], "feature 1: expected a GeoJSON object with a 'type'"),
        ([{"type": "Polygon"}], "feature 1: expected a Feature, found Polygon"),
        ([], "the FeatureCollection has no features"),
        (
            [feature("a", ring(0, 0, 100, 100)), feature("b", ring(5.2, 5.2, 5.4, 5.4))],
            "feature 2 ('b'): the region holds no cell centre of the 50 x 50 grid: "
            "set a finer grid, such as 67 x 67",
        ),
        ([feature(None, ring(0, 0, 1, 1))], "feature 1: property 'name' must be a name, not null"),
        (
            [feature("\ud800", ring(0, 0, 1, 1))],
            "feature 1: the region's name '\\ud800': the control character U+D800 (character 1)",
        ),
        (
            [feature(None, ring(0, 0, 1, 1)), feature("b", BOW_TIE), feature("c")],
            "3 faults:\n  feature 1: property 'name' must be a name, not null\n  "
            "feature 3 ('c'): the Polygon is empty\n  "
            "feature 2 ('b'): the polygon is not simple: self-intersection at (1 1)",
        ),
    ],
)
def test_broken_features_are_named(tmp_path: Path, features: list[Any], message: str) -> None:
    assert refusal(write(tmp_path, *features)).startswith(message)


@pytest.mark.parametrize("kind", ["Point", "LineString", "MultiPoint", "Polygone"])
def test_only_areas_can_be_regions(tmp_path: Path, kind: str) -> None:
    thing = {"type": "Feature", "properties": {"name": "a"}, "geometry": {"type": kind}}
    expected = f"feature 1 ('a'): a region must be a Polygon or a MultiPolygon, not a {kind}"
    assert refusal(write(tmp_path, thing)) == expected


def test_unknown_properties_list_the_known_ones(tmp_path: Path) -> None:
    path = write(tmp_path, feature("a", ring(0, 0, 1, 1), Title="x", crop="rye"))
    wrong = MapOptions(region_property="title")
    assert refusal(path, wrong) == "no feature has the property 'title': did you mean 'Title'?"
    far = MapOptions(region_property="zzz")
    assert refusal(path, far) == "no feature has the property 'zzz': known are name, Title, crop"


def test_metres_are_not_degrees(tmp_path: Path) -> None:
    path = write(tmp_path, feature("a", ring(0, 0, 4000, 1)))
    assert 'set coordinates = "plain"' in refusal(path, MapOptions())
    assert load_map(path, PLAIN).sizes.tolist() == [2500]


def test_a_region_outside_the_extent(tmp_path: Path) -> None:
    path = write(tmp_path, feature("a", ring(0, 0, 1, 1)), feature("b", ring(5, 0, 6, 1)))
    expected = "feature 2 ('b'): the region lies outside the extent [0, 0, 2, 2]"
    assert refusal(path, MapOptions(extent=(0, 0, 2, 2), strict=True)) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"type":\n oops}', "not valid JSON: Expecting value at line 2, column 2"),
        (b"\xff\xfe", "not UTF-8 text (byte 0)"),
        (b"[" * 100_000, "the file is nested too deeply"),
        (b"9" * 5000, "not valid JSON: Exceeds the limit"),
        (b"[]", "expected a GeoJSON object with a 'type'"),
        (b"", "not valid JSON: Expecting value at line 1, column 1"),
    ],
)
def test_files_that_are_not_geojson(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.geojson"
    path.write_bytes(content)
    assert refusal(path).startswith(message)


def test_files_and_point_counts_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, feature("a", ring(0, 0, 1, 1)))
    monkeypatch.setattr("scrl.worlds.sweep.shapes.MOST_POINTS", 4)
    assert refusal(path) == "the file has 5 points and at most 4 are allowed"
    with path.open("r+b") as file:
        file.truncate(64_000_001)
    assert refusal(path) == "the file is larger than 64 MB"
