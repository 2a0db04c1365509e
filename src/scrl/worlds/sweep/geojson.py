"""Reads GeoJSON polygons into a map on a grid: a cell belongs to the shapes that hold its centre.

Forbidden shapes are the exception: they take every cell that they overlap.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from scrl.errors import MapError
from scrl.worlds.sweep.georeference import (
    Coordinates,
    Extent,
    Georeference,
    Turn,
    check_geographic,
    from_extent,
)
from scrl.worlds.sweep.projection import INSTALL, Projection, in_degrees
from scrl.worlds.sweep.regions import (
    MOST_CELLS,
    MOST_CELLS_TIMES_REGIONS,
    RegionMap,
    check_names,
    check_size,
    from_masks,
)
from scrl.worlds.sweep.scanline import Edges, cell_counts, check_work, fill, fill_overlapped
from scrl.worlds.sweep.shapes import Faults, Shape, read_shapes

if TYPE_CHECKING:
    from shapely import Polygon

MOST_BYTES = 64_000_000
DEFAULT_GRID = (50, 50)
FINEST_CHOSEN = 200
"""Most rows and columns of a grid that is chosen automatically."""
FINER, MOST_GRIDS = 1.1, 100
"""Growth of rows and columns from one tried grid to the next, and how many grids are tried."""
MOST_SORTED = 2_000_000
"""Largest number of edge crossings of a grid that is tried."""
FEW_CELLS = 9
"""A region with more cells than this has some on any finer grid too."""
WGS84 = re.compile(r"(CRS:?84|EPSG:+([\d.]*:)?4326)$", re.IGNORECASE)
"""Matches the names of WGS84 degrees, the coordinates that the GeoJSON standard prescribes."""


class Slant(NamedTuple):
    """Rows of the grid that run at an angle."""

    angle: float
    """Degrees from east to north."""
    whole: tuple[int, int] = (1, 1)
    """Of what the number of rows and that of columns are multiples."""


def read_geojson(  # noqa: PLR0913 (one for each thing that a user may want to say)
    path: Path,
    *,
    grid: tuple[int, int] | None = DEFAULT_GRID,
    extent: Extent | None = None,
    coordinates: str = "geographic",
    region_property: str = "name",
    forbidden: Collection[str] = (),
    strict: bool = False,
    slant: Slant | None = None,
) -> RegionMap:
    """The map of a GeoJSON file on `grid` rows and columns; features of one name are united.

    Without a grid, 50 x 50 or a finer one in which every region has a cell. Shapes named in
    `forbidden` take every cell that they overlap. `coordinates` is `geographic`, `plain`, or a
    coordinate system, which is transformed to degrees, as is one that the file names. Faults
    are repaired and become warnings of the map; `strict` refuses a file that has any. With a
    slant the rows run at an angle, and cells are as large as without.
    """
    faults = Faults()
    found = read_polygons(path, coordinates, region_property, faults)
    shapes, kind = found.shapes, found.kind
    drawn = _inside(shapes, extent, faults)
    if strict or not drawn:
        faults.refuse()
    names = list(drawn)
    check_names(names)
    check_size(len(names), grid or DEFAULT_GRID)
    where = from_extent(extent or _bounds(drawn), grid or DEFAULT_GRID, kind)
    turn = None
    if slant is not None and slant.angle % 360.0 != 0.0:
        turn = Turn.of(slant.angle, where.extent, kind)
        drawn = _turned(drawn, turn, extent)
        where = _covering(_bounds(drawn), where, slant.whole)
        check_size(len(names), where.shape)
    places = {shape.name: shape.place for shape in reversed(shapes)}
    can_choose = grid is None and not strict
    masks, where = _rasterised(
        drawn, where, places, faults, forbidden=forbidden, can_choose=can_choose
    )
    if strict:
        faults.refuse()
    region_map = from_masks(masks, names, replace(where, system=found.system, turn=turn))
    outlines = Edges.of(list(drawn.values())).in_cells(where)
    return replace(region_map, outlines=outlines, warnings=(*faults.warnings(), *found.notes))


@dataclass(frozen=True)
class PolygonFile:
    """The polygons of a GeoJSON file, in degrees or in plain coordinates."""

    shapes: list[Shape]
    kind: Coordinates
    system: str | None
    """A coordinate system that the file names and that is not applied."""
    notes: list[str]
    """What is to be known of the transformation to degrees."""


def read_polygons(
    path: Path, coordinates: str, region_property: str, faults: Faults
) -> PolygonFile:
    """The shapes of a file, transformed to degrees from a projected coordinate system."""
    document = _document(path)
    try:
        shapes = read_shapes(document, region_property, faults)
    except RecursionError as error:
        raise MapError("the file is nested too deeply") from error
    system, notes = coordinate_system(document), []
    kind: Coordinates = "plain" if coordinates == "plain" else "geographic"
    if kind == "geographic":
        projection = projection_of(None if coordinates == kind else coordinates, system)
        if projection is not None:
            shapes, system, notes = in_degrees(shapes, projection), None, projection.warnings()
        _check_degrees(shapes, system)
    return PolygonFile(shapes, kind, system, notes)


def _turned(
    drawn: dict[str, list[Polygon]], turn: Turn, extent: Extent | None
) -> dict[str, list[Polygon]]:
    """The polygons on the turned map, without what lies outside the extent."""
    import shapely

    found = {}
    for name, polygons in drawn.items():
        inside = (
            polygons if extent is None else shapely.intersection(polygons, shapely.box(*extent))
        )
        parts = shapely.get_parts(inside).tolist()
        areas = [each for each in parts if each.geom_type == "Polygon" and not each.is_empty]
        found[name] = [shapely.transform(each, turn.inward) for each in areas or polygons]
    return found


def _covering(bounds: Extent, cells: Georeference, whole: tuple[int, int]) -> Georeference:
    """A grid of cells of the same size that covers the bounds, with its middle on theirs."""
    left, bottom, right, top = bounds
    size = cells.cell_height, cells.cell_width
    rows, columns = (
        several * max(1, math.ceil(length / (several * each) - 1e-9))
        for length, each, several in zip((top - bottom, right - left), size, whole, strict=True)
    )
    x, y = (left + right) / 2, (bottom + top) / 2
    height, width = rows * cells.cell_height, columns * cells.cell_width
    start = x - width / 2, y + height / 2
    return replace(cells, left=start[0], top=start[1], shape=(rows, columns))


def projection_of(crs: str | None, system: str | None) -> Projection | None:
    """The projection that was asked for, or the one that the file names if that is possible."""
    if crs is not None:
        return None if WGS84.search(crs) else Projection.of(crs)
    if system is None:
        return None
    try:
        return Projection.of(system)
    except MapError:  # then the file is read as it is, or refused if these are not degrees
        return None


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
    except RecursionError as error:
        raise MapError("the file is nested too deeply") from error
    except ValueError as error:  # a number of thousands of digits
        raise MapError(f"not valid JSON: {error}") from error


def coordinate_system(document: Any) -> str | None:
    """The coordinate system in the file's `crs`; None if there is none or if it is WGS84."""
    found = document.get("crs")
    if found is None:
        return None
    properties = found.get("properties") if isinstance(found, dict) else None
    name = properties.get("name") if isinstance(properties, dict) else None
    text = name if isinstance(name, str) and name.isprintable() else json.dumps(found)
    return None if WGS84.search(text) else text[:60]


def _check_degrees(shapes: list[Shape], system: str | None) -> None:
    for shape in shapes:
        for polygon in shape.polygons:
            try:
                check_geographic(polygon.bounds)
            except MapError as error:
                says, instead = "", ""
                if system is not None:
                    says = f"the file's coordinate system is {system}: "
                    instead = f"; or transform the file to degrees (EPSG:4326); {INSTALL} does it"
                raise MapError(f"{shape.place}: {says}{error}{instead}") from error


def _inside(shapes: list[Shape], extent: Extent | None, faults: Faults) -> dict[str, list[Polygon]]:
    """The polygons of each region, without shapes outside the extent."""
    import shapely

    drawn: dict[str, list[Polygon]] = {}
    for shape in shapes:
        drawn.setdefault(shape.name, []).extend(shape.polygons)
    if extent is None:
        return drawn
    edges = ", ".join(f"{edge:g}" for edge in extent)
    for name in list(drawn):
        if not shapely.intersection(drawn[name], shapely.box(*extent)).any():
            place = next(shape.place for shape in shapes if shape.name == name)
            text = f"{place}: the region lies outside the extent [{edges}]"
            faults.add(text, "left out", "region")
            del drawn[name]
    return drawn


def _bounds(drawn: dict[str, list[Polygon]]) -> Extent:
    import shapely

    everything = [polygon for polygons in drawn.values() for polygon in polygons]
    left, bottom, right, top = shapely.total_bounds(everything).tolist()
    return left, bottom, right, top


def _rasterised(
    drawn: dict[str, list[Polygon]],
    where: Georeference,
    places: dict[str, str],
    faults: Faults,
    *,
    forbidden: Collection[str],
    can_choose: bool,
) -> tuple[Bool[np.ndarray, "region row column"], Georeference]:
    """A mask for each region, and the grid, which may be refined if it was not given.

    A region that holds no cell centre becomes the one cell that it lies in.
    """
    masks = _masks(drawn, where, forbidden)
    lost = [name for name, mask in zip(drawn, masks, strict=True) if not mask.any()]
    if not lost:
        return masks, where
    grids = _grids_with_losses(drawn, masks, where)
    fitting = next((grid for grid, losses in grids if losses == 0), None)
    modest = [each for each in grids if max(each[0].shape) <= FINEST_CHOSEN]
    chosen, losses = min(modest, key=lambda each: each[1], default=(where, len(lost)))
    if can_choose and losses < len(lost):
        for name in lost:
            text = f"{places[name]}: {_no_centre(where)}"
            faults.add(text, f"chose a grid of {_by(chosen)} for", "region")
        masks, where = _masks(drawn, chosen, forbidden), chosen
    advice = ", and no grid that may be used has one in every region: set an extent"
    if fitting is not None:
        advice = f": set a finer grid, such as {_by(fitting)}"
    for name, mask in zip(drawn, masks, strict=True):
        if not mask.any():
            text = f"{places[name]}: {_no_centre(where)}{advice}"
            faults.add(text, "gave a single cell to", "region")
            mask[cell := _cell_of(drawn[name], where)] = True
            drawn[name] = [_box_of(cell, where)]
    return masks, where


def _by(where: Georeference) -> str:
    return f"{where.shape[0]} x {where.shape[1]}"


def _no_centre(where: Georeference) -> str:
    return f"the region holds no cell centre of the {_by(where)} grid"


def _grids_with_losses(
    drawn: dict[str, list[Polygon]],
    masks: Bool[np.ndarray, "region row column"],
    where: Georeference,
) -> list[tuple[Georeference, int]]:
    """Finer grids over the same extent, each with the number of regions without a cell centre.

    Only regions with few cells on the first grid can have none on a finer one.
    """
    is_small = np.count_nonzero(masks, axis=(1, 2)) <= FEW_CELLS
    small = [each for each, few in zip(drawn.values(), is_small.tolist(), strict=True) if few]
    edges, found = Edges.of(small), []
    most_cells = min(MOST_CELLS, MOST_CELLS_TIMES_REGIONS // len(drawn))
    for power in range(1, MOST_GRIDS + 1):
        rows, columns = (round(length * FINER**power) for length in where.shape)
        grid = from_extent(where.extent, (rows, columns), where.kind)
        if rows * columns > most_cells or edges.crossings(grid) > MOST_SORTED:
            break
        losses = np.count_nonzero(cell_counts(edges, grid, len(small)) == 0)
        found.append((grid, int(losses)))
        if losses == 0:
            break
    return found


def _cell_of(polygons: list[Polygon], where: Georeference) -> tuple[int, int]:
    """Row and column of a place inside the largest of the polygons."""
    import shapely

    inside = shapely.intersection(polygons, shapely.box(*where.extent))
    largest = int(np.argmax(shapely.area(inside)))
    found = shapely.get_coordinates(shapely.point_on_surface(inside[largest]))
    if not len(found):  # the intersection of a very small polygon can be empty
        found = shapely.get_coordinates(polygons[largest])
    x, y = found[0].tolist()
    row = math.floor((where.top - y) / where.cell_height)
    column = math.floor((x - where.left) / where.cell_width)
    rows, columns = where.shape
    return min(max(row, 0), rows - 1), min(max(column, 0), columns - 1)


def _box_of(cell: tuple[int, int], where: Georeference) -> Polygon:
    import shapely

    row, column = cell
    (left, top), (right, bottom) = where.places(
        np.array([[row, column], [row + 1.0, column + 1.0]])
    )
    return shapely.box(left, bottom, right, top)


def _masks(
    drawn: dict[str, list[Polygon]], where: Georeference, forbidden: Collection[str]
) -> Bool[np.ndarray, "region row column"]:
    edges = Edges.of(list(drawn.values()))
    check_work(edges.crossings(where))
    masks = np.zeros((len(drawn), *where.shape), bool)
    for number, (name, mask) in enumerate(zip(drawn, masks, strict=True)):
        if name in forbidden:
            for polygon in drawn[name]:
                fill_overlapped(mask, polygon, where)
        else:
            fill(mask, edges.of_region(number), where)
    return masks
