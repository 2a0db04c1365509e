"""Reads label images and .npy arrays into a map: each pixel or entry is the label of a region."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import Bool, Shaped

from scrl.errors import MapError
from scrl.worlds.sweep.georeference import Georeference, from_extent
from scrl.worlds.sweep.regions import RegionMap, from_labels, from_masks

MOST_PIXELS = 64_000_000
# Pillow's modes that hold one number a pixel: bit, grey, palette, 16 and 32 bit, float.
LABEL_MODES = ("1", "L", "P", "I", "I;16", "I;16L", "I;16B", "I;16N", "F")
# Grey values of 2 and 4 bits are stretched to 0..255 by Pillow; these factors undo it.
STRETCHED = {"L;2": 85, "L;4": 17}
PIXEL_SCALE_TAG, TIEPOINT_TAG, GEO_KEYS_TAG = 33550, 33922, 34735
MODEL_TYPE_KEY, RASTER_TYPE_KEY = 1024, 1025
MODEL_IS_GEOGRAPHIC, PIXEL_IS_POINT = 2, 2
GEOGRAPHIC_KEY, PROJECTED_KEY, WGS84 = 2048, 3072, 4326


def read_image(
    path: Path,
    *,
    grid: tuple[int, int] | None = None,
    names: Sequence[str] | None = None,
    forbidden: Sequence[str] = (),
) -> RegionMap:
    """The map of a label image: palette index or grey value k is region k, 0 is no region.

    On another grid, shapes named in `forbidden` take every cell that they overlap.
    """
    pixels, georeference = _pixels(path)
    labels, georeference = _resampled(pixels, georeference, grid)
    for number in _numbers(forbidden, names):
        labels = np.where(_overlapped(pixels == number, labels.shape), number, labels)
    return from_labels(labels, names, georeference)


def read_array(
    path: Path,
    *,
    grid: tuple[int, int] | None = None,
    names: Sequence[str] | None = None,
    forbidden: Sequence[str] = (),
) -> RegionMap:
    """The map of a .npy file: labels by row and column, or masks by region, row and column.

    On another grid, shapes named in `forbidden` take every cell that they overlap.
    """
    with path.open("rb") as file:
        shape, by_columns, kind = _header(file, path.stat().st_size)
        array = np.fromfile(file, kind, math.prod(shape))
    entries = array.reshape(shape, order="F" if by_columns else "C")
    array, _ = _resampled(entries, None, grid)
    for number in _numbers(forbidden, names):
        if array.ndim == 2:
            array = np.where(_overlapped(entries == number, array.shape), number, array)
        elif number <= len(array):
            touched = _overlapped(entries[number - 1] != 0, array.shape[1:])
            array = array.copy()
            array[number - 1][touched] = 1
    return from_labels(array, names) if array.ndim == 2 else from_masks(array, names)


def _numbers(wanted: Sequence[str], names: Sequence[str] | None) -> list[int]:
    """The labels of these names: their place among the names, or k of "Sk"; others have none."""
    if names is not None:
        return [names.index(name) + 1 for name in wanted if name in names]
    return [int(name[1:]) for name in wanted if re.fullmatch("S[1-9][0-9]{0,8}", name)]


def _overlapped(
    found: Bool[np.ndarray, "row column"], grid: tuple[int, ...]
) -> Bool[np.ndarray, "new_row new_column"]:
    """The cells of a new grid over the same extent that overlap a marked cell."""
    if found.shape == grid:
        return found
    sums = np.pad(np.cumsum(np.cumsum(found, axis=0), axis=1), ((1, 0), (1, 0)))
    edges = []
    for old, new in zip(found.shape, grid, strict=True):
        edges += [np.arange(new) * old // new, -(-np.arange(1, new + 1) * old // new)]
    first, last, begin, end = edges
    return (
        sums[last[:, None], end] - sums[first[:, None], end]
        - sums[last[:, None], begin] + sums[first[:, None], begin]
    ) > 0  # fmt: skip


def _pixels(path: Path) -> tuple[Shaped[np.ndarray, "row column"], Georeference | None]:
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path) as image:
                _check_image(image)
                factor = STRETCHED.get(_raw_mode(image), 1)
                tags = dict(getattr(image, "tag_v2", {}))
                pixels = np.asarray(image) // factor if factor > 1 else np.asarray(image)
    except MapError:
        raise
    except Image.DecompressionBombError as error:  # Pillow only warns about somewhat smaller images
        raise MapError(f"the image is larger than {MOST_PIXELS:,} pixels") from error
    except UnidentifiedImageError as error:  # Pillow's message repeats the path
        raise MapError("its contents are not those of an image") from error
    except Exception as error:  # decoders raise exceptions of many types for a broken file
        raise MapError(f"not a readable image: {error}") from error
    return pixels, _tiff_georeference(tags, pixels.shape)


def _check_image(image: Any) -> None:
    if image.width * image.height > MOST_PIXELS:
        raise MapError(f"the image is larger than {MOST_PIXELS:,} pixels")
    if image.mode not in LABEL_MODES:
        raise MapError(
            f"the image has colours ({image.mode}) and labels are needed: "
            "save it as greyscale or with a palette, one value for each region"
        )
    if getattr(image, "n_frames", 1) > 1:
        raise MapError(f"the image has {image.n_frames} frames and one is needed")


def _raw_mode(image: Any) -> str:
    args = image.tile[0][3] if image.tile else ""
    first = args[0] if isinstance(args, tuple) and args else args
    return first if isinstance(first, str) else ""


def _tiff_georeference(tags: dict[int, Any], shape: tuple[int, ...]) -> Georeference | None:
    """The georeference from a GeoTIFF's pixel scale and tie point; None if it has none."""
    scale, tie = tags.get(PIXEL_SCALE_TAG), tags.get(TIEPOINT_TAG)
    if scale is None or tie is None:
        return None
    try:
        width, height = (float(value) for value in scale[:2])
        column, row, _, x, y, _ = (float(value) for value in tie[:6])
        keys = _geo_keys(tags.get(GEO_KEYS_TAG, ()))
    except (TypeError, ValueError, IndexError) as error:
        raise MapError("the GeoTIFF's pixel scale or tie point is broken") from error
    if keys.get(RASTER_TYPE_KEY) == PIXEL_IS_POINT:  # then the tie point is a pixel's centre
        column, row = column + 0.5, row + 0.5
    kind = "geographic" if keys.get(MODEL_TYPE_KEY) == MODEL_IS_GEOGRAPHIC else "plain"
    rows, columns = shape
    left, top = x - column * width, y + row * height
    code = keys.get(GEOGRAPHIC_KEY if kind == "geographic" else PROJECTED_KEY, WGS84)
    system = None if code == WGS84 else f"EPSG:{code}"
    return Georeference(left, top, width, height, (rows, columns), kind, system)


def _geo_keys(directory: Sequence[int]) -> dict[int, int]:
    """The GeoKeys whose value is stored in the directory: four numbers a key, after a header."""
    entries = [directory[start : start + 4] for start in range(4, len(directory) - 3, 4)]
    return {key: value for key, location, _, value in entries if location == 0}


def _header(file: BinaryIO, size_bytes: int) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, order and type; raises before allocation if the file has another length."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            match np.lib.format.read_magic(file):
                case (1, 0):
                    shape, by_columns, kind = np.lib.format.read_array_header_1_0(file)
                case _:
                    shape, by_columns, kind = np.lib.format.read_array_header_2_0(file)
    except Exception as error:  # the header is a Python literal and can be malformed in many ways
        raise MapError(f"not a readable .npy array: {error}") from error
    if kind.kind not in "biuf":
        raise MapError(f"labels must be whole numbers, not values of type {kind}")
    if len(shape) not in (2, 3) or any(length < 1 for length in shape):
        raise MapError(
            f"the array has shape {shape}: (row, column) for labels "
            "or (region, row, column) for masks is needed, none of them empty"
        )
    if math.prod(shape) > MOST_PIXELS:
        raise MapError(f"the array has {math.prod(shape):,} values, more than {MOST_PIXELS:,}")
    claimed, found = math.prod(shape) * kind.itemsize, size_bytes - file.tell()
    if claimed != found:
        raise MapError(f"the header promises {claimed:,} bytes of data, the file has {found:,}")
    return shape, by_columns, kind


def _resampled(
    array: np.ndarray, georeference: Georeference | None, grid: tuple[int, int] | None
) -> tuple[np.ndarray, Georeference | None]:
    """The value at the centre of each new cell, over the same extent."""
    rows, columns = array.shape[-2:]
    if grid is None or grid == (rows, columns):
        return array, georeference
    row = (2 * np.arange(grid[0]) + 1) * rows // (2 * grid[0])
    column = (2 * np.arange(grid[1]) + 1) * columns // (2 * grid[1])
    if georeference is not None:
        finer = from_extent(georeference.extent, grid, georeference.kind)
        georeference = replace(finer, system=georeference.system)
    return array[..., row[:, None], column], georeference
