"""Areas in which nothing may be given: all land near some regions, as one more region of the map.

On a map with polygons it is their buffer, by circles that are drawn a little too large. On a map of
cells it is every cell of which some point is nearer than the distance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool

from scrl.errors import MapError, did_you_mean
from scrl.settings import check_settings, setting
from scrl.worlds.sweep.georeference import from_extent
from scrl.worlds.sweep.regions import RegionMap
from scrl.worlds.sweep.scanline import Edges, fill, fill_overlapped

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

CIRCLE = 16
"""Corners of a quarter of a circle."""
Sides = tuple[float, float]
"""Height and width of a cell, in the unit of the distance."""


@dataclass(frozen=True)
class KeepOut:
    """Where nothing may be given."""

    distance: float = setting(
        0.0, "How near nothing may be given (cells where the length of a cell is not known).",
        unit="metres", low=0.0, high=1e6,
    )  # fmt: skip
    around: str | tuple[str, ...] | None = setting(
        None, "The regions or other shapes that are kept clear; default all land in no region."
    )
    name: str = setting("buffer", "Name of the region that it makes.")

    def __post_init__(self) -> None:
        check_settings(self)
        is_given = self.around is not None
        if is_given and not (isinstance(self.around, str | tuple) and self.around
                             and all(isinstance(name, str) for name in self.around)):  # fmt: skip
            raise MapError(f"around = {self.around!r} must hold names of regions")

    @property
    def names(self) -> tuple[str, ...]:
        """The shapes that are kept clear; none: all land in no region."""
        return (self.around,) if isinstance(self.around, str) else self.around or ()

    def added_to(self, region_map: RegionMap, shapes: RegionMap, sides: Sides) -> RegionMap:
        """The map with this region; `shapes` has all shapes of the file."""
        if self.name in region_map.names:
            raise MapError(f"the map has a region '{self.name}': give another name")
        for name in self.names:
            if name not in shapes.names:
                hint = did_you_mean(name, shapes.names)
                raise MapError(f"around: no region '{name}'{hint}")
        chosen = [shapes.names.index(name) for name in self.names]
        if region_map.outlines is None or shapes.outlines is None:
            kept = np.any(shapes.masks[chosen], axis=0) if chosen else None
            mask, outlines = self.near_cells(region_map, kept, sides), region_map.outlines
        else:
            kept = shapes.outlines.of_regions(chosen) if chosen else None
            near = self.near(region_map, region_map.outlines, kept, sides)
            mask = np.zeros(region_map.shape, bool)
            rows, columns = region_map.shape
            grid = from_extent((0.0, 0.0, columns, rows), region_map.shape, "plain")
            if len(near.turn):
                fill(mask, near, grid)
            outlines = region_map.outlines.followed_by(near, len(region_map.names))
        if not (mask & region_map.enterable).any():
            raise MapError(f"no cell of the field lies within {self.distance:g}: leave it out")
        return replace(
            region_map, names=(*region_map.names, self.name), outlines=outlines,
            masks=np.concatenate([region_map.masks, mask[None]]), keep_out=self.name,
        )  # fmt: skip

    def near_cells(
        self, region_map: RegionMap, kept: Bool[np.ndarray, "row column"] | None, sides: Sides
    ) -> Bool[np.ndarray, "row column"]:
        """The cells of which some point is nearer than the distance to cells that are kept clear.

        The gap between two cells is the distance of the one's centre from the nearest centre in or
        beside the other.
        """
        from scipy import ndimage

        if kept is None:
            kept = np.pad(~region_map.masks.any(axis=0), 1, constant_values=True)
        else:
            kept = np.pad(kept, 1)
        beside = np.asarray(ndimage.binary_dilation(kept, np.ones((3, 3), bool)), bool)
        gap = np.asarray(ndimage.distance_transform_edt(~beside, sampling=sides))
        near = kept | (gap < self.distance)
        return near[1:-1, 1:-1]

    def near(
        self, region_map: RegionMap, outlines: Edges, kept: Edges | None, sides: Sides
    ) -> Edges:
        """The outline of all that is nearer than the distance, in cells."""
        import shapely

        rows, columns = region_map.shape
        height, width = sides
        whole = shapely.box(0.0, 0.0, columns * width, rows * height)
        if kept is None:
            beyond = whole.buffer(self.distance + height + width, join_style="mitre")
            area = beyond - _area(outlines, sides)
        else:
            area = _area(kept, sides)
        reach = self.distance / math.cos(math.pi / (4 * CIRCLE))
        near = area.buffer(reach, quad_segs=CIRCLE) if reach else area
        cells = shapely.transform(near & whole, lambda places: places / (width, height))
        polygons = [each for each in shapely.get_parts(cells) if each.geom_type == "Polygon"]
        return Edges.of([polygons])


def with_buffer(
    region_map: RegionMap,
    shapes: RegionMap,
    names: tuple[str, ...],
    distance: float,
    sides: Sides,
) -> RegionMap:
    """The map in which no cell may be entered of which some point is nearer to forbidden shapes."""
    import shapely

    near, chosen = KeepOut(distance, names), [shapes.names.index(name) for name in names]
    if shapes.outlines is None:
        kept = np.any(shapes.masks[chosen], axis=0)
        mask = near.near_cells(region_map, kept, sides)
    else:
        mask, (rows, columns) = np.zeros(region_map.shape, bool), region_map.shape
        grid = from_extent((0.0, 0.0, columns, rows), region_map.shape, "plain")
        kept = shapes.outlines.of_regions(chosen)
        for outer, holes in near.near(region_map, shapes.outlines, kept, sides).polygons():
            fill_overlapped(mask, shapely.Polygon(outer, holes), grid)
    blocked = region_map.forbidden | mask
    return replace(region_map, forbidden=blocked, fenced=region_map.forbidden)


def _area(edges: Edges, sides: Sides) -> BaseGeometry:
    """The union of the polygons with these edges, in the unit of the distance."""
    import shapely

    height, width = sides
    polygons = [shapely.Polygon(outer * (width, height), [hole * (width, height) for hole in holes])
                for outer, holes in edges.polygons()]  # fmt: skip
    return shapely.union_all(polygons)
