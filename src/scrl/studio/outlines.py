"""The regions of a GeoJSON map as polygons that a person edits, and as a file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrl.errors import check_text
from scrl.studio.errors import StudioError
from scrl.worlds.sweep.maps import GEOJSON_SUFFIXES, MapOptions
from scrl.worlds.sweep.shapes import LARGEST_COORDINATE, Faults

if TYPE_CHECKING:
    from scrl.worlds.sweep.shapes import Shape

MOST_CORNERS = 20_000
"""Maps with more corners are shown and not edited."""
MOST_OUTLINES = 2_000
LONGEST_NAME = 200

Corner = tuple[float, float]
Ring = tuple[Corner, ...]
"""Corners one after the other; the last one is joined to the first."""
Rings = tuple[Ring, ...]
"""An area: its outline, and then its holes."""


@dataclass(frozen=True)
class Outline:
    """One region: its name and its areas, in the coordinates of the map's file."""

    name: str
    polygons: tuple[Rings, ...]


@dataclass(frozen=True)
class Outlines:
    """All shapes of a map, in their order."""

    regions: tuple[Outline, ...]

    @cached_property
    def digest(self) -> str:
        """Tells one drawing from another."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:16]

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.regions]

    def find(self, name: str) -> Outline:
        """The region of a name."""
        for each in self.regions:
            if each.name == name:
                return each
        raise StudioError(f"there is no region '{name:.100}' on this map")

    # Edits --------------------------------------------------------------------------------------

    def with_shape(self, name: str, polygons: tuple[Rings, ...]) -> Outlines:
        """With other areas for a region, or with a new region."""
        drawn = Outline(name, polygons)
        if name in self.names:
            return Outlines(
                tuple(drawn if each.name == name else each for each in self.regions)
            ).checked()
        return Outlines((*self.regions, drawn)).checked()

    def renamed(self, name: str, to: str) -> Outlines:
        """With another name for a region."""
        old = self.find(name)
        if to != name and to in self.names:
            raise StudioError(f"there is a region '{to}' already: choose another name")
        new = dataclasses.replace(old, name=to)
        return Outlines(tuple(new if each is old else each for each in self.regions)).checked()

    def without(self, name: str) -> Outlines:
        """Without a region; one must be left."""
        gone = self.find(name)
        left = tuple(each for each in self.regions if each is not gone)
        if not left:
            raise StudioError("a map needs a region: draw another one before you delete this")
        return Outlines(left)

    def checked(self) -> Outlines:
        """The same, where names and numbers of corners are within the limits."""
        corners = sum(len(ring) for each in self.regions for area in each.polygons for ring in area)
        if corners > MOST_CORNERS or len(self.regions) > MOST_OUTLINES:
            raise StudioError(
                f"a map that is edited here has at most {MOST_OUTLINES:,} regions and "
                f"{MOST_CORNERS:,} corners"
            )
        for each in self.regions:
            if not 0 < len(each.name.strip()) <= LONGEST_NAME or '"' in each.name:
                raise StudioError(
                    f"a region's name has 1 to {LONGEST_NAME} characters and no double quote"
                )
            check_text(each.name, "the region's name", error=StudioError)
        return self

    # Files and journals -------------------------------------------------------------------------

    def text(self) -> str:
        """A GeoJSON document."""
        features = [
            {
                "type": "Feature",
                "properties": {"name": each.name},
                "geometry": {
                    "type": "MultiPolygon",
                    "coordinates": [[[*ring, ring[0]] for ring in area] for area in each.polygons],
                },
            }
            for each in self.regions
        ]
        lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in features)
        return f'{{"type": "FeatureCollection", "features": [\n{lines}\n]}}\n'

    def to_json(self, before: Outlines | None) -> list[list[Any]]:
        """Names with their areas; a region that is the same as before is a name alone."""
        same = {each.name: each for each in before.regions} if before is not None else {}
        return [
            [each.name] if same.get(each.name) == each else [each.name, each.polygons]
            for each in self.regions
        ]

    @classmethod
    def from_json(cls, value: Any, before: Outlines | None) -> Outlines:
        """What `to_json` wrote, given the same drawing before it."""
        if not isinstance(value, list):
            raise StudioError("outlines are a list")
        return cls(tuple(_outline(each, before) for each in value)).checked()


def _outline(value: Any, before: Outlines | None) -> Outline:
    if not isinstance(value, list) or not value or not isinstance(value[0], str):
        raise StudioError("a region is a name with its areas")
    if len(value) == 1:
        if before is None:
            raise StudioError(f"region '{value[0]:.100}' has no areas")
        return before.find(value[0])
    return Outline(value[0], polygons_from_json(value[1]))


def polygons_from_json(value: Any) -> tuple[Rings, ...]:
    """Areas as a page or a journal has them; sizes and numbers are checked."""
    return tuple(tuple(_ring(ring) for ring in _json_list(area)) for area in _json_list(value))


def _json_list(value: Any) -> list[Any]:
    if not isinstance(value, list) or not 0 < len(value) <= MOST_CORNERS:
        raise StudioError(f"an area is a list of 1 to {MOST_CORNERS:,} rings of corners")
    return value


def _ring(value: Any) -> Ring:
    corners = _json_list(value)
    if len(corners) < 3:
        raise StudioError("an area has at least 3 corners")
    return tuple(_corner(each) for each in corners)


def _corner(value: Any) -> Corner:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise StudioError("a corner is [x, y]")
    for number in value:
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        if not is_number or not math.isfinite(number) or abs(number) > LARGEST_COORDINATE:
            raise StudioError("a corner has two finite numbers")
    return float(value[0]), float(value[1])


def read_outlines(path: Path, options: MapOptions) -> Outlines:
    """The shapes of a GeoJSON file in degrees or plain coordinates; raises for other maps."""
    if path.suffix.lower() not in GEOJSON_SUFFIXES:
        raise StudioError(
            "This map is a grid of labels (an image or an array): it is shown, and its regions "
            "cannot be edited here. Regions of a GeoJSON map can."
        )
    from scrl.worlds.sweep.geojson import read_polygons

    coordinates = options.crs or options.coordinates
    found = read_polygons(path, coordinates, options.region_property, Faults())
    united: dict[str, list[Rings]] = {}
    for shape in found.shapes:
        united.setdefault(shape.name, []).extend(_areas(shape))
    return Outlines(tuple(Outline(name, tuple(each)) for name, each in united.items())).checked()


def _areas(shape: Shape) -> list[Rings]:
    return [
        tuple(
            tuple((float(x), float(y)) for x, y in list(ring.coords)[:-1])
            for ring in (polygon.exterior, *polygon.interiors)
        )
        for polygon in shape.polygons
    ]


def options_of_drawing(options: MapOptions) -> MapOptions:
    """How a drawn map is read: in degrees or plain coordinates, with names under `name`."""
    return dataclasses.replace(options, crs=None, region_property="name", strict=False)


def special_names(options: MapOptions) -> Mapping[str, str]:
    """Shapes that a problem file names for what they are: their names with the key."""
    found = {}
    for key in ("field", "forbidden"):
        names = getattr(options, key) or ()
        found |= dict.fromkeys([names] if isinstance(names, str) else names, key)
    return found
