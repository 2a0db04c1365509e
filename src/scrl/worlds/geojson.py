"""GeoJSON polygons to a map on a grid: a cell belongs to the shapes that hold its centre.

Shapes that must not be entered are the exception: they take every cell that they overlap.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Int

from scrl.errors import MapError, did_you_mean
from scrl.worlds.georeference import (
    Coordinates,
    Extent,
    Georeference,
    check_geographic,
    from_extent,
)
from scrl.worlds.regions import RegionMap, check_names, check_size, from_masks, located

if TYPE_CHECKING:
    from shapely import Polygon

MOST_BYTES = 64_000_000
MOST_POINTS = 1_000_000
# Beyond this, double precision no longer tells neighbouring cells apart.
LARGEST_COORDINATE = 1e12
# A centre on an edge that two regions share must fall to one of them: shifted by an irrational
# fraction of a cell, no centre lies on an edge that somebody drew through round numbers.
NUDGE_RIGHT = math.sqrt(2) * 1e-7
NUDGE_UP = math.sqrt(3) * 1e-7
# An overlap of less than this share of a cell's side is a matter of rounding.
OVERLAP = 1e-6


@dataclass(frozen=True)
class _Shape:
    """One feature: where it stands in the file, its name, its polygons as the file gives them."""

    place: str
    name: str
    polygons: list[Any]


def read_geojson(
    path: Path,
    *,
    grid: tuple[int, int] = (50, 50),
    extent: Extent | None = None,
    coordinates: Coordinates = "geographic",
    region_property: str = "name",
    forbidden: Sequence[str] = (),
) -> RegionMap:
    """The map of a GeoJSON file on `grid` rows and columns; features of one name are united.

    Shapes named in `forbidden` take every cell that they overlap.
    """
    try:
        shapes = list(_shapes(_document(path), region_property))
        points = sum(_point_count(shape.polygons) for shape in shapes)
    except RecursionError as error:
        raise MapError("the file is nested too deeply") from error
    if points > MOST_POINTS:
        raise MapError(f"the file has {points:,} points and at most {MOST_POINTS:,} are allowed")
    names = list(dict.fromkeys(shape.name for shape in shapes))
    check_names(names)
    check_size(len(names), grid)
    drawn = [(shape, _polygons(shape, coordinates)) for shape in shapes]
    everything = [polygon for _, polygons in drawn for polygon in polygons]
    georeference = from_extent(extent or _bounds(everything), grid, coordinates)
    masks = np.zeros((len(names), *grid), bool)
    for shape, polygons in drawn:
        fill = _fill_overlapped if shape.name in forbidden else _fill
        for polygon in polygons:
            fill(masks[names.index(shape.name)], polygon, georeference)
    for name, mask in zip(names, masks, strict=True):
        if not mask.any():
            own = [polygon for shape, some in drawn if shape.name == name for polygon in some]
            places = ", ".join(shape.place for shape in shapes if shape.name == name)
            raise MapError(f"{places}: {_why_empty(_bounds(own), georeference)}")
    return from_masks(masks, names, georeference)


def _document(path: Path) -> Any:
    if path.stat().st_size > MOST_BYTES:
        raise MapError(f"the file is larger than {MOST_BYTES // 1_000_000} MB")
    try:
        return json.loads(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise MapError(f"not UTF-8 text (byte {error.start})") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise MapError(f"not valid JSON: {error.msg} at {place}") from error
    except ValueError as error:  # a number of thousands of digits
        raise MapError(f"not valid JSON: {error}") from error


def _shapes(document: Any, region_property: str) -> Iterator[_Shape]:
    kind = _kind(document)
    if kind == "FeatureCollection":
        features = document.get("features")
        if not isinstance(features, list) or not features:
            raise MapError("the FeatureCollection has no features")
    elif kind == "Feature":
        features = [document]
    else:  # a bare geometry has no properties: it is the only region there is
        yield _Shape("the geometry", "S1", list(_raw_polygons(document)))
        return
    for number, feature in enumerate(features, start=1):
        with located(f"feature {number}"):
            if _kind(feature) != "Feature":
                raise MapError(f"expected a Feature, found {_kind(feature)}")
            name = _name(feature.get("properties"), region_property)
        place = f"feature {number} ({name!r})"
        with located(place):
            yield _Shape(place, name, list(_raw_polygons(feature.get("geometry"))))


def _kind(thing: Any) -> str:
    kind = thing.get("type") if isinstance(thing, dict) else None
    if not isinstance(kind, str):
        raise MapError("expected a GeoJSON object with a 'type'")
    return kind if kind.isprintable() else ascii(kind)


def _name(properties: Any, region_property: str) -> str:
    known = properties if isinstance(properties, dict) else {}
    if region_property not in known:
        choices = did_you_mean(region_property, [key for key in known if key.isprintable()])
        raise MapError(f"no property '{region_property}'{choices or ': it has no properties'}")
    value = known[region_property]
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 7.0 and 7 name the same region
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (isinstance(value, str) and value.strip()) and not is_number:
        raise MapError(f"property '{region_property}' must be a name, not {json.dumps(value)[:40]}")
    return str(value).strip()


def _raw_polygons(geometry: Any) -> Iterator[Any]:
    if geometry is None:
        raise MapError("it has no geometry")
    kind = _kind(geometry)
    inner = geometry.get("geometries" if kind == "GeometryCollection" else "coordinates")
    if kind not in ("Polygon", "MultiPolygon", "GeometryCollection"):
        raise MapError(f"a region must be a Polygon or a MultiPolygon, not a {kind}")
    if not isinstance(inner, list) or not inner:
        raise MapError(f"the {kind} is empty")
    if kind == "Polygon":
        yield inner
    elif kind == "MultiPolygon":
        yield from inner
    else:
        for part in inner:
            yield from _raw_polygons(part)


def _point_count(polygons: list[Any]) -> int:
    rings = [ring for polygon in polygons if isinstance(polygon, list) for ring in polygon]
    return sum(len(ring) for ring in rings if isinstance(ring, list))


def _polygons(shape: _Shape, coordinates: Coordinates) -> list[Polygon]:
    import shapely

    polygons = []
    for number, raw in enumerate(shape.polygons, start=1):
        part = f", polygon {number}" if len(shape.polygons) > 1 else ""
        with located(shape.place + part):
            if not isinstance(raw, list) or not raw:
                raise MapError("a polygon must be a list of rings")
            outline, *holes = [_ring(ring, number) for number, ring in enumerate(raw, start=1)]
            polygon = shapely.Polygon(outline, holes)
            if not polygon.is_valid:
                reason, _, place = shapely.is_valid_reason(polygon).rstrip("]").partition("[")
                raise MapError(f"the polygon is not simple: {reason.lower()} at ({place})")
            if coordinates == "geographic":
                check_geographic(polygon.bounds)
        polygons.append(polygon)
    return polygons


def _ring(raw: Any, number: int) -> list[tuple[float, float]]:
    with located("the outline" if number == 1 else f"hole {number - 1}"):
        if not isinstance(raw, list):
            raise MapError("a ring must be a list of points")
        points = [_point(point, place) for place, point in enumerate(raw, start=1)]
        if len(points) < 4:
            raise MapError(f"a closed ring needs at least 4 points, this one has {len(points)}")
        if points[0] != points[-1]:
            raise MapError(f"the ring is not closed: from {points[0]} it ends at {points[-1]}")
    return points


def _point(raw: Any, number: int) -> tuple[float, float]:
    if not isinstance(raw, list) or len(raw) < 2:
        raise MapError(f"point {number} must be [x, y]")
    for value in raw[:2]:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise MapError(f"point {number} holds {json.dumps(value)[:40]}, which is no number")
        if not abs(value) <= LARGEST_COORDINATE:  # written so that NaN fails too
            limit = f"{LARGEST_COORDINATE:g}"
            raise MapError(f"point {number} is NaN, infinite or beyond {limit}")
    return float(raw[0]), float(raw[1])


def _bounds(polygons: list[Polygon]) -> Extent:
    left, bottom, right, top = zip(*(polygon.bounds for polygon in polygons), strict=True)
    return min(left), min(bottom), max(right), max(top)


def _fill(mask: Bool[np.ndarray, "row column"], polygon: Polygon, where: Georeference) -> None:
    """Sets the cells whose nudged centre lies inside, looking only at the polygon's own box."""
    import shapely

    left, bottom, right, top = polygon.bounds
    rows = _span(where.top - top, where.top - bottom, where.cell_height, mask.shape[0])
    columns = _span(left - where.left, right - where.left, where.cell_width, mask.shape[1])
    x = where.left + (np.arange(columns.start, columns.stop) + 0.5 + NUDGE_RIGHT) * where.cell_width
    y = where.top - (np.arange(rows.start, rows.stop) + 0.5 - NUDGE_UP) * where.cell_height
    shapely.prepare(polygon)
    mask[rows, columns] |= shapely.contains_xy(polygon, x[None, :], y[:, None])


def _fill_overlapped(
    mask: Bool[np.ndarray, "row column"], polygon: Polygon, where: Georeference
) -> None:
    """Sets every cell that shares an area with the polygon, by halving blocks of cells."""
    import shapely

    left, bottom, right, top = polygon.bounds
    rows = _span(where.top - top, where.top - bottom, where.cell_height, mask.shape[0])
    columns = _span(left - where.left, right - where.left, where.cell_width, mask.shape[1])
    shapely.prepare(polygon)
    blocks = np.array([[rows.start, rows.stop, columns.start, columns.stop]])
    while len(blocks):
        boxes = _boxes(blocks, where)
        is_hit = shapely.intersects(polygon, boxes)
        blocks, boxes = blocks[is_hit], boxes[is_hit]
        height, width = blocks[:, 1] - blocks[:, 0], blocks[:, 3] - blocks[:, 2]
        is_done = (height * width == 1) | shapely.covers(polygon, boxes)
        for first, last, begin, end in blocks[is_done].tolist():
            mask[first:last, begin:end] = True
        blocks = _halved(blocks[~is_done])


def _boxes(blocks: Int[np.ndarray, "block 4"], where: Georeference) -> np.ndarray:
    """Rectangles of the cells in each block, from first to last row and column."""
    import shapely

    first, last, begin, end = blocks.T
    return shapely.box(
        where.left + (begin + OVERLAP) * where.cell_width,
        where.top - (last - OVERLAP) * where.cell_height,
        where.left + (end - OVERLAP) * where.cell_width,
        where.top - (first + OVERLAP) * where.cell_height,
    )


def _halved(blocks: Int[np.ndarray, "block 4"]) -> Int[np.ndarray, "block 4"]:
    """Two blocks out of each, cut across its longer side."""
    is_high = blocks[:, 1] - blocks[:, 0] >= blocks[:, 3] - blocks[:, 2]
    low = np.where(is_high, 0, 2)
    index = np.arange(len(blocks))
    middle = (blocks[index, low] + blocks[index, low + 1]) // 2
    before, after = blocks.copy(), blocks.copy()
    before[index, low + 1] = middle
    after[index, low] = middle
    return np.concatenate([before, after])


def _span(low: float, high: float, step: float, count: int) -> slice:
    """The cells that lie at least partly between two distances from the grid's edge."""
    first = min(max(math.floor(low / step), 0), count)
    return slice(first, min(max(math.ceil(high / step), first), count))


def _why_empty(bounds: Extent, where: Georeference) -> str:
    left, bottom, right, top = where.extent
    if bounds[0] >= right or bounds[2] <= left or bounds[1] >= top or bounds[3] <= bottom:
        edges = ", ".join(f"{edge:g}" for edge in where.extent)
        return f"the region lies outside the extent [{edges}]"
    rows, columns = where.shape
    return f"the region holds no cell centre of the {rows} x {columns} grid: set a finer grid"
