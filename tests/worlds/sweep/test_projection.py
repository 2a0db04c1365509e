"""Maps in projected coordinates lie where independent control points say."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely

from scrl.errors import MapError, ProblemError
from scrl.problems import load
from scrl.worlds.sweep.maps import MapOptions, load_map
from scrl.worlds.sweep.projection import Projection

CONTROL = {
    # Easting 500000 m lies on the central meridian, 9 degrees east; the meridian arc from the
    # equator to 50 degrees is 5,540,847.04 m, times the scale of 0.9996.
    "EPSG:32632": ((500_000.0, 5_540_847.0416 * 0.9996), (9.0, 50.0), 1e-7),
    # Spherical Mercator: x = R longitude, y = R ln(tan(45 degrees + latitude / 2)).
    "EPSG:3857": (
        (6_378_137.0 * np.pi / 18.0, 6_378_137.0 * np.log(np.tan(np.pi / 4 + np.pi / 8))),
        (10.0, 45.0),
        1e-9,
    ),
    # Ordnance Survey's guide: Caister water tower, within the 5 m of the transformation.
    "EPSG:27700": ((651_409.903, 313_177.270), (1.716073973, 52.658007833), 1e-4),
}


@pytest.mark.parametrize("system", CONTROL)
def test_control_points_are_where_they_should_be(system: str) -> None:
    place, expected, accuracy = CONTROL[system]
    found = Projection.of(system).degrees(np.array([place]))[0]
    assert tuple(found) == pytest.approx(expected, abs=accuracy)


def write_map(path: Path, system: str | None, left: float, bottom: float) -> Path:
    """Two fields of 200 m x 400 m, side by side."""
    features = [
        {
            "type": "Feature",
            "properties": {"name": name},
            "geometry": shapely.geometry.mapping(
                shapely.box(left + 200 * at, bottom, left + 200 * (at + 1), bottom + 400)
            ),
        }
        for at, name in enumerate(["west", "east"])
    ]
    document: dict[str, Any] = {"type": "FeatureCollection", "features": features}
    if system is not None:
        document["crs"] = {"type": "name", "properties": {"name": system}}
    path.write_text(json.dumps(document))
    return path


X, Y = CONTROL["EPSG:32632"][0]


@pytest.mark.parametrize(
    ("in_file", "option"),
    [("urn:ogc:def:crs:EPSG::32632", None), (None, "EPSG:32632"), ("EPSG:3857", "EPSG:32632")],
)
def test_a_projected_map_is_read_in_degrees(
    in_file: str | None, option: str | None, tmp_path: Path
) -> None:
    """On the central meridian a map metre is 1 / 0.9996 of a metre on the ground."""
    path = write_map(tmp_path / "map.geojson", in_file, X - 200.0, Y)
    found = load_map(path, MapOptions(grid=(40, 40), crs=option))
    where = found.georeference
    assert where is not None
    assert (where.kind, where.system, found.warnings) == ("geographic", None, ())
    left, bottom, right, _ = where.extent
    assert (left + right) / 2 == pytest.approx(9.0, abs=1e-6)
    assert bottom == pytest.approx(50.0, abs=1e-6)
    size = where.cell_size_metres()
    assert size == pytest.approx((10.0 / 0.9996, 10.0 / 0.9996), rel=1e-3)
    assert found.sizes.tolist() == pytest.approx([800, 800], abs=20)


def test_a_problem_keeps_the_coordinate_system_and_exports_degrees(tmp_path: Path) -> None:
    from scrl.problems import save, start_problem

    path = write_map(tmp_path / "map.geojson", None, X, Y)
    made = start_problem(tmp_path / "farm", path, crs="EPSG:32632")
    assert 'crs = "EPSG:32632"' in (tmp_path / "farm" / "problem.toml").read_text()
    again = load(save(made, tmp_path / "copy" / "copy.toml"))
    assert again.world_spec.regions == made.world_spec.regions
    assert again.world_spec.regions.georeference is not None
    assert load(path, crs="EPSG:32632").world_spec.units.cell == pytest.approx(8.0, rel=0.01)


def test_a_less_accurate_transformation_is_warned_of(tmp_path: Path) -> None:
    path = write_map(tmp_path / "map.geojson", "EPSG:27700", 651_000.0, 313_000.0)
    (said,) = load_map(path).warnings
    assert "EPSG:27700 was transformed to degrees with an accuracy of" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"crs": "EPSG:99999999"}, "unknown coordinate system 'EPSG:99999999'"),
        ({"crs": "nonsense"}, "write it as in EPSG:27700"),
        ({"crs": ""}, "crs must be a text"),
        ({"crs": "EPSG:32632", "coordinates": "plain"}, "plain coordinates have no coordinate"),
    ],
)
def test_wrong_systems_are_refused(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = write_map(tmp_path / "map.geojson", None, X, Y)
    with pytest.raises(MapError, match=said):
        load_map(path, MapOptions(**options))


def test_places_outside_of_a_system_are_refused(tmp_path: Path) -> None:
    path = write_map(tmp_path / "map.geojson", None, 1e9, 1e9)
    with pytest.raises(MapError, match="have no place in EPSG:32632"):
        load_map(path, MapOptions(crs="EPSG:32632"))


def test_a_raster_has_no_system_of_its_own(tmp_path: Path) -> None:
    np.save(tmp_path / "map.npy", np.ones((2, 2), int))
    with pytest.raises(MapError, match="gdalwarp -s_srs EPSG:32632 -t_srs EPSG:4326"):
        load_map(tmp_path / "map.npy", MapOptions(crs="EPSG:32632"))
    (tmp_path / "a.toml").write_text('[world]\nmap = "map.npy"\n')
    with pytest.raises(ProblemError, match="crs is for maps"):
        load(tmp_path / "a.toml", crs="EPSG:32632")


def test_without_pyproj_the_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyproj", None)
    path = write_map(tmp_path / "map.geojson", None, X, Y)
    with pytest.raises(MapError, match=r"needs the package pyproj: pip install 'scrl\[crs\]'"):
        load_map(path, MapOptions(crs="EPSG:32632"))
    path = write_map(tmp_path / "map.geojson", "EPSG:32632", X, Y)
    with pytest.raises(MapError, match=r"is EPSG:32632: these .* pip install 'scrl\[crs\]'"):
        load_map(path)
    assert load_map(path, MapOptions(crs=None, coordinates="plain")).georeference is not None
