"""Coordinate systems: places of a map in degrees of longitude and latitude (WGS84)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from scrl.errors import MapError
from scrl.worlds.sweep.shapes import Shape

if TYPE_CHECKING:
    from shapely import Polygon

WGS84 = "EPSG:4326"
INSTALL = "pip install 'scrl[crs]'"
LONGEST_EDGE = 1 / 200
"""Longer edges, as a share of the map, get more points: a straight line is bent in degrees."""
EXACT_M = 1.0
"""Transformations that are less accurate than this are warned of."""


class ProjectionMissingError(MapError):
    """The package pyproj is not installed."""


@dataclass(frozen=True)
class Projection:
    """The transformation of a coordinate system to degrees of longitude and latitude."""

    system: str
    transformer: Any
    """Of pyproj."""

    @classmethod
    def of(cls, system: str) -> Projection:
        """The projection of a system such as EPSG:27700; x is always east and y north."""
        try:
            import pyproj
            from pyproj.exceptions import CRSError
        except ImportError:
            raise ProjectionMissingError(
                f"the coordinate system {system} needs the package pyproj: {INSTALL}"
            ) from None
        try:
            found = pyproj.Transformer.from_crs(system, WGS84, always_xy=True)
        except CRSError:
            raise MapError(
                f"unknown coordinate system '{system}': write it as in EPSG:27700"
            ) from None
        return cls(system, found)

    def degrees(self, places: Float[np.ndarray, "place 2"]) -> Float[np.ndarray, "place 2"]:
        """Longitude and latitude of places; not finite where there are none."""
        return np.column_stack(self.transformer.transform(places[:, 0], places[:, 1]))

    def warnings(self) -> list[str]:
        """A warning if the last transformation is not accurate; -1 stands for unknown."""
        accuracy_m = self.transformer.get_last_used_operation().accuracy
        if accuracy_m <= EXACT_M:
            return []
        return [
            f"{self.system} was transformed to degrees with an accuracy of {accuracy_m:g} m; "
            "with the grids of PROJ it would be better (`pyproj sync`)"
        ]


def in_degrees(shapes: list[Shape], projection: Projection) -> list[Shape]:
    """The shapes in degrees of longitude and latitude."""
    import shapely

    everything = [polygon for shape in shapes for polygon in shape.polygons]
    if not everything:
        return shapes
    left, bottom, right, top = shapely.total_bounds(everything).tolist()
    longest = LONGEST_EDGE * max(right - left, top - bottom)

    def moved(polygon: Polygon) -> Polygon:
        found = shapely.transform(shapely.segmentize(polygon, longest), projection.degrees)
        if not np.isfinite(shapely.get_coordinates(found)).all():
            raise MapError(
                f"its coordinates (x from {left:g} to {right:g}, y from {bottom:g} to {top:g}) "
                f"have no place in {projection.system}"
            )
        return found

    return [replace(shape, polygons=[moved(each) for each in shape.polygons]) for shape in shapes]
