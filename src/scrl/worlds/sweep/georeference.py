"""Georeference of a grid: map coordinates of rows and columns, and the size of a cell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from scrl.errors import MapError, to_set

Coordinates = Literal["geographic", "plain"]
Extent = tuple[float, float, float, float]

WGS84_SEMI_MAJOR_METRES = 6378137.0
WGS84_FLATTENING = 1 / 298.257223563


@dataclass(frozen=True)
class Turn:
    """A map that was turned about a point, so that its rows run at an angle."""

    angle: float
    """Degrees from east to north in which the rows of the grid run."""
    centre: tuple[float, float]
    """x and y of the point that stays where it is."""
    aspect: float = 1.0
    """Length of a map unit to the east, in those to the north."""

    @classmethod
    def of(cls, angle: float, extent: Extent, kind: Coordinates) -> Turn:
        """The turn about the middle of an extent."""
        left, bottom, right, top = extent
        aspect = 1.0
        if kind == "geographic":
            east, north = metres((bottom + top) / 2, 1.0, 1.0)
            aspect = east / north
        return cls(angle, ((left + right) / 2, (bottom + top) / 2), aspect)

    def inward(self, places: Float[np.ndarray, "place 2"]) -> Float[np.ndarray, "place 2"]:
        """Places of the map in the turned map."""
        return self._turned(places, -self.angle)

    def outward(self, places: Float[np.ndarray, "place 2"]) -> Float[np.ndarray, "place 2"]:
        """Places of the turned map in the map."""
        return self._turned(places, self.angle)

    def _turned(
        self, places: Float[np.ndarray, "place 2"], angle: float
    ) -> Float[np.ndarray, "place 2"]:
        scale = np.array([self.aspect, 1.0])
        cosine, sine = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        x, y = ((places - np.array(self.centre)) * scale).T
        turned = np.column_stack([x * cosine - y * sine, x * sine + y * cosine])
        return np.array(self.centre) + turned / scale


@dataclass(frozen=True)
class Georeference:
    """x = left + column * cell_width, y = top - row * cell_height: row 0 is the top.

    If the grid was turned, these are places of the turned map.
    """

    left: float
    """x of the grid's left edge, in map units (degrees east if geographic)."""
    top: float
    """y of the grid's upper edge, in map units (degrees north if geographic)."""
    cell_width: float
    """Map units from a column to the next; positive, to the right."""
    cell_height: float
    """Map units from a row to the next; positive, downwards."""
    shape: tuple[int, int]
    """Rows and columns of the grid."""
    kind: Coordinates = "plain"
    """`geographic` for WGS84 degrees, `plain` for planar coordinates."""
    system: str | None = None
    """Another coordinate system that the file names; it is not applied."""
    turn: Turn | None = None

    def __post_init__(self) -> None:
        numbers = (self.left, self.top, self.cell_width, self.cell_height)
        if not all(math.isfinite(number) for number in numbers):
            raise MapError(f"the georeference holds a number that is not finite: {numbers}")
        if self.cell_width <= 0 or self.cell_height <= 0:
            size = f"{self.cell_width:g} x {self.cell_height:g}"
            raise MapError(f"a cell must be wider and higher than 0 map units, not {size}")
        if self.kind == "geographic" and self.turn is None:
            check_geographic(self.extent)

    def warnings(self) -> list[str]:
        """A warning if the file names a coordinate system that is not applied."""
        if self.system is None:
            return []
        taken = "degrees of longitude and latitude (WGS84)"
        if self.kind == "plain":
            taken = "a flat drawing without a place on Earth"
        return [
            f"the file's coordinate system, {self.system}, is not applied: "
            f"its coordinates are taken for {taken}"
        ]

    @property
    def extent(self) -> Extent:
        """Left, bottom, right and top edge in map units; of the turned map if it was turned."""
        rows, columns = self.shape
        right = self.left + columns * self.cell_width
        return self.left, self.top - rows * self.cell_height, right, self.top

    @property
    def bounds(self) -> Extent:
        """Left, bottom, right and top of the grid's corners in map units."""
        rows, columns = self.shape
        corners = [[row, column] for row in (0, rows) for column in (0, columns)]
        places = self.places(np.array(corners, float))
        (left, bottom), (right, top) = places.min(axis=0).tolist(), places.max(axis=0).tolist()
        return left, bottom, right, top

    def places(self, cells: Float[np.ndarray, "place 2"]) -> Float[np.ndarray, "place 2"]:
        """(x, y) of places in the grid; the centre of the first cell is row 0.5, column 0.5."""
        origin, size = (self.left, self.top), (self.cell_width, -self.cell_height)
        found = np.asarray(origin) + cells[:, ::-1] * size
        return found if self.turn is None else self.turn.outward(found)

    def cells(self, places: Float[np.ndarray, "place 2"]) -> Float[np.ndarray, "place 2"]:
        """Row and column of places (x, y): the inverse of `places`."""
        origin, size = (self.left, self.top), (self.cell_width, -self.cell_height)
        found = places if self.turn is None else self.turn.inward(places)
        return ((found - np.asarray(origin)) / size)[:, ::-1]

    def cell_size_metres(self) -> tuple[float, float] | None:
        """(east, north) of a cell on the WGS84 ellipsoid at the middle latitude; None if plain.

        If the grid was turned, along its rows and across them.
        """
        if self.kind == "plain":
            return None
        middle = self.top - self.shape[0] * self.cell_height / 2
        latitude = middle if self.turn is None else self.turn.centre[1]
        return metres(latitude, self.cell_width, self.cell_height)


def metres(latitude: float, width: float, height: float) -> tuple[float, float]:
    """(east, north) of degrees of longitude and latitude on the WGS84 ellipsoid.

    east = N cos(lat) dlon and north = M dlat, with the radii of curvature
    N = a / sqrt(1 - e2 sin2(lat)) and M = a (1 - e2) / (1 - e2 sin2(lat))^1.5.
    """
    latitude = math.radians(latitude)
    squared = WGS84_FLATTENING * (2 - WGS84_FLATTENING)
    bend = 1 - squared * math.sin(latitude) ** 2
    across = WGS84_SEMI_MAJOR_METRES / math.sqrt(bend)
    along = WGS84_SEMI_MAJOR_METRES * (1 - squared) / bend**1.5
    return across * math.cos(latitude) * math.radians(width), along * math.radians(height)


def from_extent(extent: Extent, shape: tuple[int, int], kind: Coordinates) -> Georeference:
    """The georeference of a grid that fills `extent` = (xmin, ymin, xmax, ymax)."""
    left, bottom, right, top = extent
    rows, columns = shape
    return Georeference(left, top, (right - left) / columns, (top - bottom) / rows, shape, kind)


def local_georeference(shape: tuple[int, int], cell: float | None) -> Georeference:
    """Of a map without a location: metres, or else cells, from the grid's lower left corner."""
    size = cell or 1.0
    return Georeference(0.0, shape[0] * size, size, size, shape)


def check_geographic(extent: Extent) -> None:
    """Raise unless the edges are degrees of longitude and latitude, up to rounding."""
    left, bottom, right, top = extent
    slack = 1e-6
    if left < -180 - slack or right > 180 + slack or bottom < -90 - slack or top > 90 + slack:
        edges = f"x from {left:g} to {right:g}, y from {bottom:g} to {top:g}"
        is_swapped = max(-left, right) <= 90 + slack and max(-bottom, top) <= 180 + slack
        swapped = "; if they are degrees, longitude comes first" if is_swapped else ""
        raise MapError(
            f"these are not degrees of longitude and latitude ({edges}): "
            f"{to_set('coordinates', 'plain')} for a map in metres or in other flat units{swapped}"
        )
