"""Maps of polygons that ignore the grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import shapely

from scrl.worlds.sweep.georeference import from_extent
from scrl.worlds.sweep.regions import RegionMap, from_masks
from scrl.worlds.sweep.scanline import Edges, fill


def outlined(
    regions: Sequence[list[shapely.Polygon]], shape: tuple[int, int], size: float = 1.0
) -> RegionMap:
    """A map as `read_geojson` makes it; a cell is so many units wide and high, from (0, 0)."""
    rows, columns = shape
    where = from_extent((0.0, 0.0, size * columns, size * rows), shape, "plain")
    edges, masks = Edges.of(regions), np.zeros((len(regions), *shape), bool)
    for number, mask in enumerate(masks):
        fill(mask, edges.of_region(number), where)
    return replace(from_masks(masks, georeference=where), outlines=edges.in_cells(where))


def tilted(rng: np.random.Generator, shape: tuple[int, int]) -> list[shapely.Polygon]:
    """One to three rectangles at any angle that may overlap; their union holds a cell's centre."""
    rows, columns = shape
    centre = rng.integers(0, rows) + 0.5, rng.integers(0, columns) + 0.5
    places = [centre, *rng.uniform(0.0, 1.0, (rng.integers(0, 3), 2)) * shape]
    return [
        shapely.affinity.rotate(
            shapely.box(x - wide, y - high, x + wide, y + high), rng.uniform(0.0, 180.0)
        )
        for (y, x), (wide, high) in zip(
            places, rng.uniform(0.2, 0.4 * max(shape), (len(places), 2)), strict=True
        )
    ]
