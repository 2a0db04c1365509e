"""Reads map files of every format into a `RegionMap`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Bool

from scrl.errors import MapError, did_you_mean
from scrl.worlds.sweep.geojson import Slant, read_geojson
from scrl.worlds.sweep.georeference import Coordinates, Extent, from_extent
from scrl.worlds.sweep.raster import read_array, read_image
from scrl.worlds.sweep.regions import MOST_CELLS, RegionMap, located

GEOJSON_SUFFIXES = (".geojson", ".json")
IMAGE_SUFFIXES = (".png", ".tif", ".tiff", ".bmp", ".gif")
BEST = "best"
"""As `angle`: the one of the shortest drive."""
SUFFIXES = (*GEOJSON_SUFFIXES, *IMAGE_SUFFIXES, ".npy")


def is_map_name(name: str | Path) -> bool:
    """Whether a file of this name is read as a map."""
    return Path(name).suffix.lower() in SUFFIXES


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_grid(grid: Any) -> None:
    if grid is None:
        return
    pair = isinstance(grid, tuple) and len(grid) == 2
    if not pair or not all(_is_whole(length) and length >= 1 for length in grid):
        shown = list(grid) if isinstance(grid, tuple) else grid
        raise MapError(f"grid must be [rows, columns], two whole numbers from 1, not {shown!r}")
    if math.prod(grid) > MOST_CELLS:
        raise MapError(f"a grid of {grid[0]} x {grid[1]} has more than {MOST_CELLS:,} cells")


def _check_extent(extent: Any) -> None:
    if extent is None:
        return
    wrong = f"extent must be [xmin, ymin, xmax, ymax], each min below its max, not {extent!r}"
    if not isinstance(extent, tuple) or len(extent) != 4:
        raise MapError(wrong)
    for value in extent:
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= 1e12:
            raise MapError(wrong)
    if extent[0] >= extent[2] or extent[1] >= extent[3]:
        raise MapError(wrong)


def _is_number(value: object, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= most


def _check_angle(angle: object) -> None:
    if angle != BEST and not _is_number(angle, 360.0):
        raise MapError(f"angle = {angle!r} must be degrees, from -360 to 360, or 'best'")


def _check_buffer(buffer: Any, forbidden: object) -> None:
    if not _is_number(buffer, 1e6) or buffer < 0.0:
        raise MapError(f"forbidden_buffer = {buffer!r} must be metres from 0 on")
    if buffer and not forbidden:
        raise MapError("forbidden_buffer needs forbidden shapes: forbidden = [...]")


def _check_texts(option: str, value: object) -> None:
    names = value if isinstance(value, tuple) else () if value is None else (value,)
    if option == "regions" and isinstance(value, str):
        raise MapError(f"regions must be a list of names, not {value!r}")
    for name in names:
        if not isinstance(name, str):
            raise MapError(f"{option} must hold names, not {name!r}")


@dataclass(frozen=True)
class MapOptions:
    """How to read a map file; lists are taken as tuples."""

    grid: tuple[int, int] | None = None
    """Rows and columns; default for GeoJSON 50 x 50 or finer, else the file's own size."""
    extent: Extent | None = None
    """xmin, ymin, xmax, ymax of the grid; default the bounding box, or what the file says."""
    coordinates: Coordinates = "geographic"
    """`geographic` (WGS84 degrees) or `plain`, for GeoJSON and for `extent`."""
    crs: str | None = None
    """The coordinate system of a GeoJSON file, such as EPSG:27700; default what the file says."""
    region_property: str = "name"
    """The GeoJSON property that names a feature's region."""
    regions: tuple[str, ...] | None = None
    """Names for the labels 1, 2, ... of an image or array, instead of S1, S2, ..."""
    field: str | tuple[str, ...] | None = None
    """The shape or shapes that outline the field, `*` for the regions; default the whole grid."""
    forbidden: str | tuple[str, ...] = ()
    """The shape or shapes that must not be entered, and with them every cell they overlap."""
    forbidden_buffer: float = 0.0
    """How near to forbidden shapes must not be entered either, in metres (or cells)."""
    angle: float | Literal["best"] = 0.0
    """Degrees from east to north in which the rows run; `best`: of the shortest drive."""
    strict: bool = False
    """Whether a GeoJSON file with faults is refused; else it is repaired, with warnings."""

    def __post_init__(self) -> None:
        for name in ("grid", "extent", "regions", "field", "forbidden"):
            value = getattr(self, name)
            if isinstance(value, list):
                object.__setattr__(self, name, tuple(value))
        _check_grid(self.grid)
        _check_extent(self.extent)
        if self.coordinates not in get_args(Coordinates):
            known = did_you_mean(str(self.coordinates), get_args(Coordinates))
            raise MapError(f"coordinates = {self.coordinates!r}{known}")
        for name in ("regions", "field", "forbidden"):
            _check_texts(name, getattr(self, name))
        if self.crs is not None and (not isinstance(self.crs, str) or not self.crs.strip()):
            raise MapError(f"crs must be a text such as EPSG:27700, not {self.crs!r}")
        if self.crs is not None and self.coordinates == "plain":
            raise MapError("plain coordinates have no coordinate system: leave crs out")
        if not isinstance(self.region_property, str):
            raise MapError(f"region_property must be a text, not {self.region_property!r}")
        _check_angle(self.angle)
        _check_buffer(self.forbidden_buffer, self.forbidden)
        if not isinstance(self.strict, bool):
            raise MapError(f"strict must be true or false, not {self.strict!r}")

    @property
    def forbidden_names(self) -> tuple[str, ...]:
        """The forbidden shapes."""
        return _as_tuple(self.forbidden)


DEFAULT_OPTIONS = MapOptions()

EVERYTHING = ("*",)
"""As `field`: the union of all shapes, which remain regions."""


def load_map(
    path: Path,
    options: MapOptions = DEFAULT_OPTIONS,
    add: Callable[[RegionMap, RegionMap], RegionMap] | None = None,
    whole: tuple[int, int] = (1, 1),
) -> RegionMap:
    """The map in a file, checked; every error names the file and the place in it.

    `add` adds regions to the map, given the map and all shapes of the file. The rows and columns
    of a grid at an angle are multiples of `whole`.
    """
    path = Path(path)
    with located(str(path)):
        _check_file(path)
        try:
            region_map = _read(path, options, whole)
        except OSError as error:
            raise MapError(f"cannot be read: {error.strerror or error}") from error
        try:
            cut = _cut(region_map, _as_tuple(options.field), options.forbidden_names)
        except MapError as error:
            raise MapError("\n  ".join([str(error), *region_map.warnings])) from error
        if add is not None:
            cut = add(cut, region_map)
        texts = [*cut.warnings, *(cut.georeference.warnings() if cut.georeference else ())]
        return replace(cut, warnings=tuple(f"{path.name}: {each}" for each in texts))


def _read(path: Path, options: MapOptions, whole: tuple[int, int]) -> RegionMap:
    angle = 0.0 if options.angle == BEST else float(options.angle)
    if path.suffix.lower() in GEOJSON_SUFFIXES:
        if options.regions is not None:
            raise MapError(
                "regions renames the labels of images and arrays; "
                f"here the property '{options.region_property}' gives the names"
            )
        return read_geojson(
            path,
            grid=options.grid,
            extent=options.extent,
            coordinates=options.crs or options.coordinates,
            region_property=options.region_property,
            forbidden=options.forbidden_names,
            strict=options.strict,
            slant=Slant(angle, whole),
        )
    if angle:
        raise MapError(
            "an angle is for GeoJSON maps, whose shapes can be turned; on images and arrays set "
            'direction = "columns"'
        )
    if options.crs is not None:
        raise MapError(
            f"crs is for GeoJSON maps; transform the raster to degrees first: gdalwarp -s_srs "
            f"{options.crs} -t_srs EPSG:4326"
        )
    read = read_image if path.suffix.lower() in IMAGE_SUFFIXES else read_array
    forbidden = options.forbidden_names
    region_map = read(path, grid=options.grid, names=options.regions, forbidden=forbidden)
    if options.extent is None:
        return region_map
    georeference = from_extent(options.extent, region_map.shape, options.coordinates)
    return replace(region_map, georeference=georeference)


def _cut(region_map: RegionMap, field: tuple[str, ...], forbidden: tuple[str, ...]) -> RegionMap:
    """Turn the shapes named as field and forbidden from regions into cell masks."""
    both = [name for name in field if name in forbidden]
    if both:
        raise MapError(f"'{both[0]}' cannot be both field and forbidden")
    special = {*field, *forbidden}
    demand = [index for index, name in enumerate(region_map.names) if name not in special]
    inside = region_map.field
    if field == EVERYTHING:
        inside = np.any(region_map.masks[demand], axis=0)
    elif field:
        inside = _united(region_map, field, "field")
    blocked = _united(region_map, forbidden, "forbidden")
    if not demand:
        raise MapError("no region is left: every shape is named as field or forbidden")
    return RegionMap(
        tuple(region_map.names[index] for index in demand),
        region_map.masks[demand],
        inside,
        blocked,
        region_map.georeference,
        region_map.warnings,
        None if region_map.outlines is None else region_map.outlines.of_regions(demand),
    )


def _united(
    region_map: RegionMap, names: Sequence[str], option: str
) -> Bool[np.ndarray, "row column"]:
    for name in names:
        if name not in region_map.names:
            raise MapError(f"{option}: no shape '{name}'{did_you_mean(name, region_map.names)}")
    chosen = [region_map.names.index(name) for name in names]
    return np.any(region_map.masks[chosen], axis=0)


def _as_tuple(names: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names or ()


def _check_file(path: Path) -> None:
    if not is_map_name(path):
        found = f"'{path.suffix}'" if path.suffix else "none"
        raise MapError(f"a map's file name must end in {', '.join(SUFFIXES)}, not {found}")
    if path.is_symlink() and not path.exists():
        raise MapError("this is a symbolic link that leads to no file, or in a circle")
    if path.is_dir():
        raise MapError("this is a folder, not a map file")
    if not path.exists():
        near = [other.name for other in path.parent.glob("*") if other.suffix in SUFFIXES]
        raise MapError(f"there is no such file{did_you_mean(path.name, near)}")
    if not path.is_file():
        raise MapError("this is not a regular file")
