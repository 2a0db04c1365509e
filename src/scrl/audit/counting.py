"""Counts what regions receive along the way: against polygons, or against the cells of a map.

The way is cut at the lines of a grid, so that each piece lies in one cell. In cells that no outline
touches a piece counts as a whole; in the others it is cut where it crosses the outlines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

if TYPE_CHECKING:
    from shapely import Geometry, STRtree

FINE = 512
"""Squares along the longer side of the grid on which polygons are looked up."""
AT_ONCE = 1_000_000
"""Lines that are cut in one go."""
PIECES_AT_ONCE = 200_000


class Lines(NamedTuple):
    """Straight lines with what is given out on them; x is the column and y the row."""

    begin: Float[np.ndarray, "line 2"]
    end: Float[np.ndarray, "line 2"]
    amount: Float[np.ndarray, " line"]


class AreaAmounts(NamedTuple):
    """What was given out where."""

    regions: Float[np.ndarray, " region"]
    outside: float
    """In no region."""


@dataclass(frozen=True)
class Lattice:
    """A grid of squares; its first corner lies at (`left`, `top`)."""

    left: float
    top: float
    columns: int
    rows: int
    scale: float = 1.0
    """Squares along the side of a cell of the map."""

    @property
    def size(self) -> int:
        return self.columns * self.rows

    def at(self, places: Float[np.ndarray, "place 2"]) -> Float[np.ndarray, "place 2"]:
        """Places of the map in units of this grid."""
        return (places - (self.left, self.top)) * self.scale

    def index(self, places: Float[np.ndarray, "place 2"]) -> Int[np.ndarray, " place"]:
        """The number of the square that holds each place; `size` if none does."""
        column, row = np.floor(places).T
        is_in = (column >= 0) & (column < self.columns) & (row >= 0) & (row < self.rows)
        return np.where(is_in, row * self.columns + column, self.size).astype(np.int64)


def count_in_cells(lines: Lines, masks: Bool[np.ndarray, "region row column"]) -> AreaAmounts:
    """What regions of cells receive."""
    cells, off_the_map = amounts_of_cells(lines, (masks.shape[1], masks.shape[2]))
    received = np.array([cells[mask].sum() for mask in masks])
    return AreaAmounts(received, float(cells[~masks.any(axis=0)].sum()) + off_the_map)


def amounts_of_cells(
    lines: Lines, shape: tuple[int, int]
) -> tuple[Float[np.ndarray, "row column"], float]:
    """What is given out in each cell of a map, and outside of it."""
    rows, columns = shape
    lattice = Lattice(0.0, 0.0, columns, rows)
    amounts = np.zeros(lattice.size + 1)
    for part in _parts(lines):
        pieces = cut(part, lattice)
        amounts += np.bincount(pieces.cell, pieces.amount, lattice.size + 1)
    return amounts[:-1].reshape(rows, columns), float(amounts[-1])


def count_in_polygons(
    lines: Lines, polygons: Sequence[Geometry], regions: int
) -> tuple[AreaAmounts, Float[np.ndarray, " other"]]:
    """What regions receive whose outlines are polygons, in columns and rows.

    The first polygons are the regions; what the others receive is returned apart.
    """
    lattice = _lattice_over(polygons)
    outlines = _Outlines.of(polygons, lattice, regions)
    amounts, received = np.zeros(lattice.size + 1), np.zeros(len(polygons))
    in_any = 0.0
    for part in _parts(lines):
        pieces = cut(part, lattice)
        is_near = outlines.is_near[pieces.cell]
        is_far = ~is_near
        amounts += np.bincount(pieces.cell[is_far], pieces.amount[is_far], lattice.size + 1)
        near = np.flatnonzero(is_near)
        for first in range(0, len(near), PIECES_AT_ONCE):
            more, more_in_any = outlines.received(pieces, near[first : first + PIECES_AT_ONCE])
            received += more
            in_any += more_in_any
    is_covered = np.zeros(lattice.size + 1, bool)
    for number in range(len(polygons)):
        inside = outlines.inside(number)
        received[number] += amounts[inside].sum()
        is_covered[inside] |= number < regions
    in_any += float(amounts[is_covered].sum())
    outside = max(float(lines.amount.sum()) - in_any, 0.0)
    return AreaAmounts(received[:regions], outside), received[regions:]


def _parts(lines: Lines) -> list[Lines]:
    return [
        Lines(*(each[first : first + AT_ONCE] for each in lines))
        for first in range(0, len(lines.amount), AT_ONCE)
    ]


def _lattice_over(polygons: Sequence[Geometry]) -> Lattice:
    import shapely

    left, top, right, bottom = shapely.total_bounds(list(polygons)).tolist()
    scale = FINE / max(right - left, bottom - top)
    columns, rows = (int(np.ceil(scale * length)) + 1 for length in (right - left, bottom - top))
    return Lattice(left - 0.5 / scale, top - 0.5 / scale, columns, rows, scale)


class Pieces(NamedTuple):
    """Parts of lines, each in one square of a grid; places are in its units."""

    cell: Int[np.ndarray, " piece"]
    amount: Float[np.ndarray, " piece"]
    begin: Float[np.ndarray, "piece 2"]
    end: Float[np.ndarray, "piece 2"]


def cut(lines: Lines, lattice: Lattice) -> Pieces:
    """The lines, cut where they cross lines of the grid."""
    begin, end = lattice.at(lines.begin), lattice.at(lines.end)
    line, share = [], []
    for axis, count in ((0, lattice.columns), (1, lattice.rows)):
        crossed, at = _crossings(begin[:, axis], end[:, axis], count)
        line.append(crossed)
        share.append(at)
    begin, end, part, whole = split(begin, end, np.concatenate(line), np.concatenate(share))
    return Pieces(lattice.index((begin + end) / 2.0), lines.amount[whole] * part, begin, end)


def _crossings(
    begin: Float[np.ndarray, " line"], end: Float[np.ndarray, " line"], count: int
) -> tuple[Int[np.ndarray, " crossing"], Float[np.ndarray, " crossing"]]:
    """Which lines cross whole numbers from 0 to `count`, and at which share of their length."""
    first = np.clip(np.ceil(np.minimum(begin, end)), 0, count + 1)
    last = np.clip(np.floor(np.maximum(begin, end)), -1, count)
    crossed = np.flatnonzero(last >= first)
    many = (last - first + 1.0)[crossed].astype(np.int64)
    line = np.repeat(crossed, many)
    within = np.arange(len(line)) - np.repeat(np.cumsum(many) - many, many)
    length = end - begin
    return line, (first[line] + within - begin[line]) / np.where(length == 0.0, 1.0, length)[line]


def split(
    begin: Float[np.ndarray, "line 2"],
    end: Float[np.ndarray, "line 2"],
    line: Int[np.ndarray, " cut"],
    share: Float[np.ndarray, " cut"],
) -> tuple[
    Float[np.ndarray, "piece 2"],
    Float[np.ndarray, "piece 2"],
    Float[np.ndarray, " piece"],
    Int[np.ndarray, " piece"],
]:
    """Lines cut at shares of their length: both ends, the share of the line, and which line."""
    count = len(begin)
    lines = np.concatenate([np.arange(count), line])
    shares = np.concatenate([np.zeros(count), np.clip(share, 0.0, 1.0)])
    if len(line):
        order = np.lexsort((shares, lines))
        lines, shares = lines[order], shares[order]
    is_last = np.append(lines[1:] != lines[:-1], True)
    until = np.where(is_last, 1.0, np.append(shares[1:], 1.0))
    moves = end - begin
    first = begin[lines] + shares[:, None] * moves[lines]
    last = begin[lines] + until[:, None] * moves[lines]
    return first, last, until - shares, lines


@dataclass(frozen=True)
class _Outlines:
    """The polygons of regions, in units of a grid."""

    polygons: np.ndarray
    edges: Float[np.ndarray, "edge 2 2"]
    is_near: Bool[np.ndarray, " square_and_outside"]
    """Which squares of the grid an outline touches."""
    lattice: Lattice
    regions: int
    """The first so many polygons are regions."""

    @classmethod
    def of(cls, polygons: Sequence[Geometry], lattice: Lattice, regions: int) -> _Outlines:
        import shapely

        scaled = np.array([shapely.transform(each, lattice.at) for each in polygons], object)
        shapely.prepare(scaled)
        points, ring = shapely.get_coordinates(
            shapely.get_rings(shapely.get_parts(scaled)), return_index=True
        )
        first = np.flatnonzero(np.diff(ring) == 0)
        edges = np.stack([points[first], points[first + 1]], axis=1)
        is_near = np.zeros(lattice.size + 1, bool)
        is_near[_touched(edges, lattice)] = True
        is_near[-1] = False
        return cls(scaled, edges, is_near, lattice, regions)

    @cached_property
    def tree(self) -> STRtree:
        """The edges, to be found by their place."""
        import shapely

        return shapely.STRtree(np.asarray(shapely.linestrings(self.edges)))

    def inside(self, number: int) -> Int[np.ndarray, " square"]:
        """The squares of the grid inside a region that no outline touches.

        Connected squares that no outline touches are all inside or all outside.
        """
        import shapely
        from scipy.ndimage import label

        polygon, lattice = self.polygons[number], self.lattice
        left, top, right, bottom = polygon.bounds
        columns = slice(max(int(left), 0), min(int(right) + 1, lattice.columns))
        rows = slice(max(int(top), 0), min(int(bottom) + 1, lattice.rows))
        table = ~self.is_near[:-1].reshape(lattice.rows, lattice.columns)[rows, columns]
        groups = np.empty(table.shape, np.int32)
        label(table, output=groups)
        found, first = np.unique(groups, return_index=True)
        row, column = np.unravel_index(first, groups.shape)
        is_inside = shapely.contains_xy(
            polygon, column + columns.start + 0.5, row + rows.start + 0.5
        )
        row, column = np.nonzero(np.isin(groups, found[is_inside & (found > 0)]))
        return (row + rows.start) * lattice.columns + column + columns.start

    def received(
        self, pieces: Pieces, which: Int[np.ndarray, " piece"]
    ) -> tuple[Float[np.ndarray, " region"], float]:
        """What each polygon, and the union of the regions, receives of pieces near outlines."""
        import shapely

        begin, end, amount = pieces.begin[which], pieces.end[which], pieces.amount[which]
        piece, share = self._cuts(begin, end)
        first, last, part, whole = split(begin, end, piece, share)
        middle, given = (first + last) / 2.0, amount[whole] * part
        found, in_any = np.zeros(len(self.polygons)), np.zeros(len(middle), bool)
        for number, polygon in enumerate(self.polygons):
            left, top, right, bottom = polygon.bounds
            near = np.flatnonzero(
                (middle[:, 0] >= left) & (middle[:, 0] <= right)
                & (middle[:, 1] >= top) & (middle[:, 1] <= bottom)
            )  # fmt: skip
            is_in = shapely.contains_xy(polygon, middle[near, 0], middle[near, 1])
            found[number] = given[near[is_in]].sum()
            in_any[near[is_in]] |= number < self.regions
        return found, float(given[in_any].sum())

    def _cuts(
        self, begin: Float[np.ndarray, "piece 2"], end: Float[np.ndarray, "piece 2"]
    ) -> tuple[Int[np.ndarray, " cut"], Float[np.ndarray, " cut"]]:
        """Which pieces cross an outline, and at which share of their length."""
        import shapely

        lines = shapely.linestrings(np.stack([begin, end], axis=1))
        piece, edge = self.tree.query(lines, predicate="intersects")
        away = self.edges[edge, 0] - begin[piece]
        along, move = self.edges[edge, 1] - self.edges[edge, 0], (end - begin)[piece]
        across = move[:, 0] * along[:, 1] - move[:, 1] * along[:, 0]
        is_crossed = across != 0.0
        share = away[:, 0] * along[:, 1] - away[:, 1] * along[:, 0]
        return piece[is_crossed], share[is_crossed] / across[is_crossed]


def _touched(edges: Float[np.ndarray, "edge 2 2"], lattice: Lattice) -> Int[np.ndarray, " square"]:
    """The squares of the grid that edges touch; edges are in units of the grid."""
    unit = Lattice(0.0, 0.0, lattice.columns, lattice.rows)
    pieces = cut(Lines(edges[:, 0], edges[:, 1], np.zeros(len(edges))), unit)
    around = [
        unit.index(place + np.array(shift))
        for place in (pieces.begin, pieces.end, (pieces.begin + pieces.end) / 2.0)
        for shift in ((-EDGE, -EDGE), (-EDGE, EDGE), (EDGE, -EDGE), (EDGE, EDGE))
    ]
    return np.unique(np.concatenate(around))


EDGE = 1e-4
"""An outline this close to a square of the grid touches it, in squares."""
