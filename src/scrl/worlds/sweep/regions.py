"""A map on a grid: which cells belong to which region, to the field, and which are forbidden."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int, Integer, UInt8

from scrl.errors import MapError, check_text
from scrl.worlds.sweep.georeference import Georeference
from scrl.worlds.sweep.scanline import Edges

MOST_CELLS = 4_000_000
MOST_REGIONS = 2_000
# One byte each for the masks and four for the path's service: 200 MB and 800 MB.
MOST_CELLS_TIMES_REGIONS = 200_000_000


@dataclass(frozen=True, eq=False, repr=False)
class RegionMap:
    """Named regions on a grid of cells; row 0 is the top, and regions may overlap."""

    names: tuple[str, ...]
    """One name per region, all different."""
    masks: Bool[np.ndarray, "region row column"]
    """Which cells belong to each region."""
    field: Bool[np.ndarray, "row column"]
    """Which cells belong to the field; the vehicle covers these only."""
    forbidden: Bool[np.ndarray, "row column"]
    """Which cells must not be entered."""
    georeference: Georeference | None = None
    """Where the grid lies, if the map says so."""
    warnings: tuple[str, ...] = ()
    """What was repaired or ignored in the file; not compared by ==."""
    outlines: Edges | None = None
    """The edges of the regions' polygons, in cells from the lower left corner of the grid; none on
    a map without polygons."""
    keep_out: str | None = None
    """The region in which nothing may be given, if there is one."""
    fenced: Bool[np.ndarray, "row column"] | None = None
    """The forbidden cells without the buffer around them; none: all of them."""

    def __post_init__(self) -> None:
        check_size(len(self.names), self.field.shape)
        check_names(self.names)
        _check_shapes(self)
        _check_not_empty(self)

    def __eq__(self, other: object) -> bool:
        """Maps are equal if names, cells, georeference and outlines are."""
        if not isinstance(other, RegionMap):
            return NotImplemented
        same_place = self.names == other.names and self.georeference == other.georeference
        same_place &= self.keep_out == other.keep_out
        if self.outlines is None or other.outlines is None:
            same_place &= self.outlines is other.outlines
        else:
            same_place &= self.outlines.is_same(other.outlines)
        arrays = ("masks", "field", "forbidden")
        pairs = ((getattr(self, name), getattr(other, name)) for name in arrays)
        return same_place and all(np.array_equal(mine, theirs) for mine, theirs in pairs)

    def __hash__(self) -> int:
        return hash((self.names, self.shape, self.georeference))

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"<RegionMap {rows} x {columns}: {', '.join(self.names[:12])}>"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.field.shape
        return rows, columns

    @property
    def enterable(self) -> Bool[np.ndarray, "row column"]:
        """The cells that the vehicle has to cover: in the field and not forbidden."""
        return self.field & ~self.forbidden

    @property
    def sizes(self) -> Int[np.ndarray, " region"]:
        """How many enterable cells each region has."""
        enterable = self.enterable
        return np.array([np.count_nonzero(mask & enterable) for mask in self.masks])


def from_masks(
    masks: np.ndarray,
    names: Sequence[str] | None = None,
    georeference: Georeference | None = None,
) -> RegionMap:
    """A map from one mask per region; the field is the whole grid and nothing is forbidden."""
    masks = np.asarray(masks)
    if masks.ndim != 3 or masks.size == 0:
        raise MapError(f"a stack of masks needs the axes region, row, column; it has {masks.shape}")
    check_size(masks.shape[0], masks.shape[1:])
    if masks.dtype != bool:
        if masks.dtype.kind not in "iuf" or not np.isin(masks, (0, 1)).all():
            raise MapError("a stack of masks may hold only true and false, or 1 and 0")
        masks = masks.astype(bool)
    if names is None:
        names = [f"S{number}" for number in range(1, len(masks) + 1)]
    elif len(names) != len(masks):
        raise MapError(f"{len(names)} names are given for {len(masks)} masks")
    shape = masks.shape[1:]
    whole, nothing = np.ones(shape, bool), np.zeros(shape, bool)
    return RegionMap(tuple(names), masks, whole, nothing, georeference)


def from_labels(
    labels: np.ndarray,
    names: Sequence[str] | None = None,
    georeference: Georeference | None = None,
) -> RegionMap:
    """A map from a label per cell: 0 is no region, label k is `names[k - 1]`, or else "Sk"."""
    labels = _whole_numbers(np.asarray(labels))
    found = np.unique(labels)
    found = found[found > 0]
    if names is None:
        wanted, names = found, [f"S{label}" for label in found]
    else:
        wanted = np.arange(1, len(names) + 1)
        if found.size and found[-1] > len(names):
            raise MapError(f"label {found[-1]} has no name: names are given for 1 to {len(names)}")
    check_size(len(names), labels.shape)
    return from_masks(labels[None] == wanted[:, None, None], names, georeference)


@contextmanager
def located(place: str) -> Iterator[None]:
    """Prefix the message of any map error raised inside with `place`."""
    try:
        yield
    except MapError as error:
        raise MapError(f"{place}: {error}") from error


def check_size(regions: int, shape: tuple[int, ...]) -> None:
    """Raise if a map has no region or more cells and regions than fit into memory."""
    if regions == 0:
        raise MapError("the map has no region: every cell is unlabelled")
    cells = int(np.prod(shape, dtype=float))
    if cells > MOST_CELLS:
        raise MapError(
            f"the map has {cells:,} cells and at most {MOST_CELLS:,} are allowed: "
            "set a coarser grid"
        )
    if regions > MOST_REGIONS:
        raise MapError(f"the map has {regions:,} regions and at most {MOST_REGIONS:,} are allowed")
    if cells * regions > MOST_CELLS_TIMES_REGIONS:
        raise MapError(
            f"{cells:,} cells times {regions:,} regions is more than {MOST_CELLS_TIMES_REGIONS:,}: "
            "set a coarser grid"
        )


def check_names(names: Sequence[str]) -> None:
    """Raise unless every name can be shown and written in a rule, and none occurs twice."""
    for name in names:
        if isinstance(name, str):
            check_text(name, f"the region's name {name!a}", error=MapError)
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise MapError(f"{name!r} cannot be the name of a region: it must be printable text")
        if '"' in name:
            raise MapError(f"{name!r} cannot be the name of a region: rules quote names with '\"'")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise MapError(f"two regions have the name '{twice[0]}'")


def _whole_numbers(labels: np.ndarray) -> Integer[np.ndarray, "row column"]:
    if labels.ndim != 2 or labels.size == 0:
        raise MapError(f"a label array needs the axes row and column; it has {labels.shape}")
    check_size(1, labels.shape)
    match labels.dtype.kind:
        case "b":
            return labels.astype(np.uint8)
        case "i" | "u":
            wrong = labels < 0
        case "f":
            # Past 2**53 a float no longer tells whole numbers apart; NaN fails both comparisons.
            wrong = ~((labels >= 0) & (labels <= 2.0**53))
            wrong |= np.where(wrong, 0, labels) % 1 != 0
        case _:
            raise MapError(f"labels must be whole numbers, not values of type {labels.dtype}")
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        value = labels[row, column]
        raise MapError(
            f"labels must be whole numbers from 0: row {row}, column {column} holds {value:g}"
        )
    return labels.astype(np.int64) if labels.dtype.kind == "f" else labels


def _check_shapes(region_map: RegionMap) -> None:
    shape = region_map.field.shape
    if len(shape) != 2 or region_map.masks.shape != (len(region_map.names), *shape):
        raise MapError(
            f"{len(region_map.names)} names, masks of shape {region_map.masks.shape} "
            f"and a field of shape {shape} do not fit together"
        )
    if region_map.forbidden.shape != shape:
        raise MapError(f"forbidden has shape {region_map.forbidden.shape}, the field {shape}")
    for array in (region_map.masks, region_map.field, region_map.forbidden):
        if array.dtype != bool:
            raise MapError(f"masks, field and forbidden must be true or false, not {array.dtype}")
    where = region_map.georeference
    if where is not None and where.shape != shape:
        raise MapError(f"the georeference is for a grid of {where.shape}, the field has {shape}")


def _check_not_empty(region_map: RegionMap) -> None:
    if not region_map.enterable.any():
        raise MapError("no cell can be entered: the field is empty or wholly forbidden")
    for name, size, mask in zip(region_map.names, region_map.sizes, region_map.masks, strict=True):
        if size:
            continue
        if not mask.any():
            raise MapError(f"region '{name}' is empty: it has no cell")
        if not (mask & region_map.field).any():
            raise MapError(f"region '{name}' is empty: it lies fully outside the field")
        raise MapError(f"region '{name}' is empty: all its cells in the field are forbidden")


# Distinct for the colour-blind too (hues far apart, lightness varied); repeated past twelve.
REGION_COLOURS: tuple[str, ...] = (
    "#4477aa", "#ee9944", "#66aa55", "#cc5566", "#8866aa", "#99775e",
    "#dd88bb", "#999933", "#44aaaa", "#774455", "#88ccee", "#ddcc77",
)  # fmt: skip
NO_REGION = "#e8e6e0"
FORBIDDEN = "#3a3a3a"
OUTSIDE = "#ffffff"


def rgb(colour: str) -> tuple[int, int, int]:
    """'#4477aa' as three numbers."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def colour_of(region: int) -> str:
    """The colour of the region with this index."""
    return REGION_COLOURS[region % len(REGION_COLOURS)]


def region_colours(regions: RegionMap) -> UInt8[np.ndarray, "row column 3"]:
    """The map as a picture, one pixel a cell; where regions overlap their colours are mixed."""
    colours = np.array([rgb(colour_of(index)) for index in range(len(regions.names))], float)
    counts = regions.masks.sum(axis=0)
    mixed = np.tensordot(regions.masks.astype(float), colours, axes=([0], [0]))
    picture = np.where(
        counts[..., None] > 0, mixed / np.maximum(counts, 1)[..., None], rgb(NO_REGION)
    )
    picture[~regions.field] = rgb(OUTSIDE)
    picture[regions.forbidden] = rgb(FORBIDDEN)
    return picture.round().astype(np.uint8)
