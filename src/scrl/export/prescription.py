"""Prescription maps: the dose of each cell, and zones of nearly equal dose.

A machine that follows a prescription map gives each place its dose at any speed, so its amounts
are those of the plan: dose = units given out over a cell / area of the cell.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from scrl.export.frame import Frame, frame_of, neat
from scrl.export.segments import ExportError, ExportOptions
from scrl.route import Route, given_over_cells
from scrl.worlds.sweep.georeference import Georeference
from scrl.worlds.sweep.spec import SweepSpec, cell_sides

if TYPE_CHECKING:
    from shapely import MultiPolygon

HECTARE_M2 = 10_000.0
MOST_ZONES = 2_000
"""Zones above which some terminals take long."""
NO_DATA = -9999.0
"""The dose of cells that are not driven, in a GeoTIFF."""
WGS84_WKT = (
    'GEOGCS["GCS_WGS_1984",DATUM["D_WGS_1984",SPHEROID["WGS_1984",6378137.0,298.257223563]],'
    'PRIMEM["Greenwich",0.0],UNIT["Degree",0.0174532925199433]]'
)
"""The projection file of a shapefile in degrees."""
PIXEL_SCALE, TIE_POINT, TRANSFORMATION, GEO_KEYS = 33550, 33922, 34264, 34735
GDAL_NO_DATA, DESCRIPTION = 42113, 270
GEOGRAPHIC = (1024, 0, 1, 2), (1025, 0, 1, 1), (2048, 0, 1, 4326)
"""GeoKeys: the model is geographic, a pixel is an area, the system is EPSG:4326."""
UNDEFINED = (1024, 0, 1, 32767), (1025, 0, 1, 1)
"""GeoKeys: the model is user-defined, a pixel is an area."""


@dataclass(frozen=True, eq=False)
class Zone:
    """Cells of nearly equal dose in the same regions."""

    dose: float
    amount: float
    """Units that it receives: the sum of its cells."""
    cells: int
    regions: tuple[str, ...]
    shape: MultiPolygon
    """In the coordinates of the export."""


@dataclass(frozen=True, eq=False)
class Prescription:
    """The doses of a route."""

    dose: Float[np.ndarray, "row column"]
    """Units per hectare, or per cell where its size is unknown; NaN where nothing is driven."""
    amount: Float[np.ndarray, "row column"]
    hectares: float | None
    """The area of a cell."""
    unit: str
    frame: Frame

    @classmethod
    def of(cls, route: Route) -> Prescription:
        """The doses of a route, cell by cell."""
        spec = route.problem.world_spec
        amount, hectares = given_over_cells(route), cell_hectares(spec)
        per = "cell" if hectares is None else "hectare"
        dose = amount / (hectares or 1.0)
        return cls(dose, amount, hectares, f"{spec.units.unit} per {per}", frame_of(spec))


def cell_hectares(spec: SweepSpec) -> float | None:
    """The area of a cell; None if its length is unknown."""
    if spec.units.cell is None:
        return None
    height, width = cell_sides(spec.regions, spec.route)
    return spec.units.cell**2 * height * width / HECTARE_M2


def zones_of(route: Route, found: Prescription, tolerance: float) -> list[Zone]:
    """Zones whose doses differ by at most `tolerance` of the largest; none crosses a region's edge.

    The dose of a zone is the mean of its cells, so every region receives what the plan gives it.
    """
    number = _numbers(route, found, tolerance)
    masks, names = route.problem.world_spec.regions.masks, route.regions
    zones = []
    for index, shape in enumerate(_shapes(number, found.frame)):
        is_in = number == index
        row, column = np.argwhere(is_in)[0].tolist()
        amount, cells = float(found.amount[is_in].sum()), int(is_in.sum())
        dose = amount / cells / (found.hectares or 1.0)
        regions = tuple(names[each] for each in np.flatnonzero(masks[:, row, column]).tolist())
        zones.append(Zone(dose, amount, cells, regions, shape))
    return zones


def count_zones(route: Route, tolerance: float) -> int:
    """How many zones a map has at that tolerance."""
    return int(_numbers(route, Prescription.of(route), tolerance).max(initial=-1)) + 1


def _numbers(route: Route, found: Prescription, tolerance: float) -> Int[np.ndarray, "row column"]:
    """The number of the zone of each cell; -1 where nothing is driven."""
    masks = route.problem.world_spec.regions.masks
    is_driven = np.isfinite(found.dose)
    weights = np.random.default_rng(0).standard_normal(len(masks))
    kind = np.zeros(found.dose.shape)
    for weight, mask in zip(weights, masks, strict=True):  # a number for each set of regions
        kind += weight * mask
    dose = found.dose[is_driven]
    step = tolerance * float(dose.max(initial=0.0))
    level = np.ceil(dose / step) if step > 0.0 else dose
    both = np.stack([np.unique(kind[is_driven], return_inverse=True)[1].astype(float), level])
    number = np.full(found.dose.shape, -1)
    number[is_driven] = np.unique(both, axis=1, return_inverse=True)[1].ravel()
    return number


def _shapes(number: Int[np.ndarray, "row column"], frame: Frame) -> list[MultiPolygon]:
    """The cells of each zone as polygons in the coordinates of the export."""
    import shapely

    edges = np.diff(np.pad(number, ((0, 0), (1, 1)), constant_values=-1), axis=1) != 0
    row, left = np.nonzero(edges[:, :-1] & (number >= 0))
    stops = np.where(edges[:, 1:], np.arange(1, number.shape[1] + 1), number.shape[1] + 1)
    right = np.minimum.accumulate(stops[:, ::-1], axis=1)[:, ::-1][row, left]
    zone = number[row, left]
    order = np.argsort(zone, kind="stable")
    runs = np.asarray(shapely.box(left, row, right, row + 1))[order]
    heads = np.flatnonzero(np.diff(zone[order])) + 1
    found = []
    for each in np.split(runs, heads):
        area = shapely.union_all(each)
        placed = shapely.transform(area, lambda at: frame.places(at[:, ::-1]))
        parts = shapely.get_parts(shapely.orient_polygons(placed))
        found.append(shapely.MultiPolygon(parts.tolist()))
    return found


def write_prescription(route: Route, options: ExportOptions, warnings: Sequence[str] = ()) -> bytes:
    """GeoJSON: a feature for each zone, with its dose."""
    import shapely

    found = Prescription.of(route)
    features = [
        {
            "type": "Feature",
            "geometry": json.loads(shapely.to_geojson(zone.shape)),
            "properties": _properties(zone, found),
        }
        for zone in zones_of(route, found, options.tolerance)
    ]
    document = {
        "type": "FeatureCollection",
        "name": route.problem.name,
        "warnings": list(warnings),
        "coordinates_are": found.frame.sentence,
        "unit": route.problem.unit,
        "dose_unit": found.unit,
        "received": {name: neat(amount) for name, amount in route.totals.items()},
        "features": features,
    }
    return (json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _properties(zone: Zone, found: Prescription) -> dict[str, Any]:
    area = None if found.hectares is None else neat(zone.cells * found.hectares)
    return {
        "dose": neat(zone.dose), "dose_unit": found.unit, "amount": neat(zone.amount),
        "hectares": area, "cells": zone.cells, "regions": list(zone.regions),
    }  # fmt: skip


def write_shapefile(route: Route, options: ExportOptions, warnings: Sequence[str] = ()) -> bytes:
    """A zip archive with a shapefile of the zones, as terminals take it."""
    try:
        import shapefile
    except ImportError:
        raise ExportError(
            "shapefiles need the package pyshp: pip install 'scrl[shapefile]'"
        ) from None
    found = Prescription.of(route)
    files = _shapefile_parts(shapefile, found, zones_of(route, found, options.tolerance))
    files["prescription.cpg"] = b"UTF-8"
    if found.frame.kind == "WGS84":
        files["prescription.prj"] = WGS84_WKT.encode()
    if warnings:
        files["WARNINGS.txt"] = "\n".join([*warnings, ""]).encode()
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return held.getvalue()


def _shapefile_parts(library: Any, found: Prescription, zones: Sequence[Zone]) -> dict[str, bytes]:
    """The files of shapes, of their places, and of their columns, written by pyshp."""
    parts = {kind: io.BytesIO() for kind in ("shp", "shx", "dbf")}
    with library.Writer(**parts, shapeType=library.POLYGON, encoding="utf-8") as writer:
        for name in ("dose", "amount", "hectares"):
            writer.field(name, "N", size=18, decimal=6)
        writer.field("dose_unit", "C", size=60)
        writer.field("regions", "C", size=254)
        for zone in zones:
            area = None if found.hectares is None else zone.cells * found.hectares
            writer.shape(zone.shape.__geo_interface__)
            names = "; ".join(zone.regions).encode()[:254].decode(errors="ignore")
            writer.record(zone.dose, zone.amount, area, found.unit[:60], names)
    return {f"prescription.{kind}": part.getvalue() for kind, part in parts.items()}


def write_geotiff(route: Route, options: ExportOptions, warnings: Sequence[str] = ()) -> bytes:
    """A GeoTIFF of one band: the dose of each cell in single precision."""
    from PIL import Image
    from PIL.TiffImagePlugin import ImageFileDirectory_v2

    del options
    found = Prescription.of(route)
    where = found.frame.where
    tags = ImageFileDirectory_v2()
    keys = GEOGRAPHIC if found.frame.kind == "WGS84" else UNDEFINED
    directory = (1, 1, 0, len(keys), *(number for key in keys for number in key))
    lines = [f"dose in {found.unit}", *(f"WARNING: {each}" for each in warnings)]
    for tag, kind, value in (
        (DESCRIPTION, ASCII, "\n".join(lines).encode("ascii", "replace").decode()),
        *_position(where),
        (GEO_KEYS, SHORT, directory),
        (GDAL_NO_DATA, ASCII, f"{NO_DATA:g}"),
    ):
        tags.tagtype[tag] = kind
        tags[tag] = value
    pixels = np.where(np.isfinite(found.dose), found.dose, NO_DATA).astype(np.float32)
    held = io.BytesIO()
    Image.fromarray(pixels).save(held, "TIFF", tiffinfo=tags)
    return held.getvalue()


def _position(where: Georeference) -> list[tuple[int, int, tuple[float, ...]]]:
    """The tags for the position of pixels; a turned grid has a matrix (ModelTransformation)."""
    if where.turn is None:
        return [
            (PIXEL_SCALE, DOUBLE, (where.cell_width, where.cell_height, 0.0)),
            (TIE_POINT, DOUBLE, (0.0, 0.0, 0.0, where.left, where.top, 0.0)),
        ]
    origin, down, right = where.places(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    matrix = np.eye(4)
    matrix[2, 2] = 0.0
    matrix[:2] = np.column_stack([right - origin, down - origin, np.zeros(2), origin])
    return [(TRANSFORMATION, DOUBLE, tuple(matrix.ravel().tolist()))]


ASCII, SHORT, DOUBLE = 2, 3, 12
"""Types of the values of tags."""
