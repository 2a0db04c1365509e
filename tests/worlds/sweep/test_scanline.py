"""Polygons to cells by scan lines, against an obvious twin, and at the speed that many need."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
import shapely

from scrl.errors import MapError
from scrl.worlds.sweep import scanline
from scrl.worlds.sweep.georeference import from_extent
from scrl.worlds.sweep.maps import MapOptions, load_map


def drawn(rng: np.random.Generator) -> list[shapely.Polygon]:
    """Polygons that overlap and have holes, many of them through the centres of cells."""
    found = []
    for _ in range(rng.integers(1, 5)):
        points = rng.uniform(0, 10, (rng.integers(3, 12), 2))
        if rng.random() < 0.5:
            points = np.round(points * 2) / 2
        made = shapely.make_valid(shapely.Polygon(points), method="structure", keep_collapsed=False)
        made = shapely.difference(made, shapely.Point(rng.uniform(0, 10, 2)).buffer(1.5))
        found += [part for part in shapely.get_parts(made).tolist() if part.area > 0]
    return found


@pytest.mark.parametrize("seed", range(40))
def test_cells_are_those_whose_nudged_centre_a_polygon_contains(seed: int) -> None:
    rng = np.random.default_rng(seed)
    regions = [region for region in (drawn(rng), drawn(rng)) if region]
    shape = int(rng.integers(1, 50)), int(rng.integers(1, 50))
    where = from_extent((1, 0, 9, 10) if seed % 2 else (0, -1, 11, 10), shape, "plain")
    row, column = np.indices(shape)
    x = where.left + (column + 0.5 + scanline.NUDGE_RIGHT) * where.cell_width
    y = where.top - (row + 0.5 - scanline.NUDGE_UP) * where.cell_height
    edges, sizes = scanline.Edges.of(regions), []
    for number, region in enumerate(regions):
        mask = np.zeros(shape, bool)
        scanline.fill(mask, edges.of_region(number), where)
        expected = np.any([shapely.contains_xy(each, x, y) for each in region], axis=0)
        assert (mask == expected).all()
        sizes.append(np.count_nonzero(mask))
    assert scanline.cell_counts(edges, where, len(regions)).tolist() == sizes


def slivers(folder: Path, count: int) -> Path:
    """Thin quadrilaterals all over a square, in five regions: their boxes cover most of it."""
    ends = np.random.default_rng(0).uniform(0, 1, (count, 2, 2))
    features = []
    for number, (one, other) in enumerate(ends.tolist()):
        ring = [one, [one[0] + 1e-4, one[1]], [other[0] + 1e-4, other[1]], other, one]
        geometry = {"type": "Polygon", "coordinates": [ring]}
        name = {"name": f"r{number % 5}"}
        features.append({"type": "Feature", "properties": name, "geometry": geometry})
    path = folder / "slivers.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


def test_thousands_of_slivers_on_a_fine_grid_take_moments(tmp_path: Path) -> None:
    """Cell by cell, 4,000 of them take half a minute."""
    path, started = slivers(tmp_path, 4_000), time.process_time()
    sizes = load_map(path, MapOptions(grid=(500, 500))).sizes
    assert time.process_time() - started < 5
    assert (sizes > 5_000).all()


def test_the_work_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanline, "MOST_CROSSINGS", 1_000)
    with pytest.raises(MapError, match=r"cross the rows of the grid .* times and at most 1,000"):
        load_map(slivers(tmp_path, 100))
