"""Grids at an angle, and buffers around forbidden shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from pyproj import Geod

from scrl.errors import MapError, ScrlError
from scrl.problems import load
from scrl.worlds.sweep.maps import MapOptions, load_map


def written(path: Path, shapes: dict[str, Any]) -> Path:
    features = [
        {"type": "Feature", "properties": {"name": name}, "geometry": shape.__geo_interface__}
        for name, shape in shapes.items()
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


def strip(angle: float, length: float = 200.0, width: float = 20.0) -> Any:
    """A field in metres whose long side runs at an angle."""
    box = shapely.box(0.0, 0.0, length, width)
    return shapely.affinity.rotate(box, angle, origin=(0.0, 0.0))


def test_a_grid_along_a_slanted_field_is_full(tmp_path: Path) -> None:
    """200 m x 20 m at 30 degrees, in cells of 5 m: 4 rows of 40."""
    shape = strip(30.0)
    west, south, east, north = shape.bounds
    grid = (round((north - south) / 5.0), round((east - west) / 5.0))
    extent = (west, north - 5.0 * grid[0], west + 5.0 * grid[1], north)
    path = written(tmp_path / "field.geojson", {"field": shape})
    options: dict[str, Any] = {"coordinates": "plain", "grid": grid, "extent": extent}
    turned = load_map(path, MapOptions(angle=30.0, **options))
    assert turned.shape == (4, 40)
    assert turned.masks.all()
    where = turned.georeference
    assert where is not None
    corner = where.places(np.array([[4.0, 0.0]]))[0]
    assert corner == pytest.approx([0.0, 0.0], abs=1e-6)
    assert where.cells(corner[None])[0] == pytest.approx([4.0, 0.0], abs=1e-9)
    # Whole booms: rows are a multiple of 3, and the middle stays.
    wide = load_map(path, MapOptions(angle=30.0, **options), whole=(3, 1))
    assert wide.shape == (6, 40)
    assert load_map(path, MapOptions(angle=0.0, **options)) == load_map(path, MapOptions(**options))


def test_cells_at_an_angle_are_as_long_on_earth_as_they_say(tmp_path: Path) -> None:
    square = shapely.box(10.0, 60.0, 10.02, 60.01)
    path = written(tmp_path / "field.geojson", {"field": square})
    where = load_map(path, MapOptions(angle=37.0, grid=(20, 20))).georeference
    assert where is not None
    along, across = where.cell_size_metres() or (0.0, 0.0)
    start, right, down = where.places(np.array([[0.0, 0.0], [0.0, 10.0], [10.0, 0.0]]))
    earth = Geod(ellps="WGS84")
    course, _, length = earth.inv(*start, *right)
    assert length == pytest.approx(10.0 * along, rel=1e-3)
    assert earth.inv(*start, *down)[2] == pytest.approx(10.0 * across, rel=1e-3)
    assert 90.0 - course == pytest.approx(37.0, abs=0.1)


@pytest.mark.parametrize(("angle", "passes"), [("best", 2), (0.0, 13)])
def test_the_best_angle_is_along_a_long_field(
    angle: float | str, passes: int, tmp_path: Path
) -> None:
    """At 45 degrees: two passes of 10 m, in place of one for each 10 m from south to north."""
    written(tmp_path / "field.geojson", {"field": strip(45.0)})
    text = f"""[world]
map = "field.geojson"
coordinates = "plain"
grid = [31, 31]
field = "*"
swath = 2
angle = {angle!r}
[vehicle]
turn_time = 10.0
[rules]
some = "field >= 1"
"""
    (tmp_path / "problem.toml").write_text(text)
    problem = load(tmp_path / "problem.toml")
    assert problem.source is not None
    assert problem.source.options.angle == (45.0 if angle == "best" else 0.0)
    found = len(problem.world_spec.path.stretches)
    assert found == passes if angle == "best" else found >= passes


def test_a_buffer_keeps_every_cell_at_a_distance(tmp_path: Path) -> None:
    """Cells of 10 m around a pond of 20 m x 20 m at (40, 40)."""
    pond = shapely.box(40.0, 40.0, 60.0, 60.0)
    shapes = {"field": shapely.box(0.0, 0.0, 100.0, 100.0), "pond": pond}
    written(tmp_path / "field.geojson", shapes)

    def forbidden(buffer: float) -> Any:
        (tmp_path / "problem.toml").write_text(
            '[world]\nmap = "field.geojson"\ncoordinates = "plain"\ngrid = [10, 10]\ncell = 10.0\n'
            f'forbidden = "pond"\nforbidden_buffer = {buffer}\n[rules]\nsome = "field >= 1"\n'
        )
        return load(tmp_path / "problem.toml").world_spec.regions

    assert forbidden(0.0).forbidden.sum() == 4
    assert forbidden(0.0).fenced is None
    near = forbidden(5.0)
    assert near.forbidden.sum() == 16  # a ring of cells; their corners are nearer than 5 m, too
    assert near.fenced.sum() == 4
    boxes = [shapely.box(10 * c, 100 - 10 * (r + 1), 10 * c + 10, 100 - 10 * r)
             for r, c in np.argwhere(near.enterable)]  # fmt: skip
    assert min(pond.distance(each) for each in boxes) >= 5.0
    assert forbidden(12.0).forbidden.sum() > 16


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"angle": "bset"}, "must be degrees"),
        ({"angle": 400.0}, "from -360 to 360"),
        ({"forbidden_buffer": -1.0, "forbidden": "a"}, "from 0 on"),
        ({"forbidden_buffer": 1.0}, "needs forbidden shapes"),
    ],
)
def test_wrong_angles_and_buffers_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(MapError, match=said):
        MapOptions(**options)


def test_an_image_cannot_be_turned(tmp_path: Path) -> None:
    np.save(tmp_path / "map.npy", np.ones((3, 3), int))
    with pytest.raises(ScrlError, match='direction = "columns"'):
        load_map(tmp_path / "map.npy", MapOptions(angle=10.0))
