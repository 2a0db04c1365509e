"""What lies inside polygons: centres of cells, parts of their centre lines, or any part of a cell.

Centres and centre lines are found by scan lines: along a row or column, from edge to edge.

Crossing an edge changes the number of polygons around the point by 1; the sign depends on the
direction of the edge around its area. The work grows with the crossings, not with the cells of
the polygons' bounding boxes, so slivers are cheap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from scrl.errors import MapError
from scrl.worlds.sweep.georeference import Georeference

if TYPE_CHECKING:
    from shapely import Polygon

MOST_CROSSINGS = 50_000_000
"""Largest number of edge crossings, which take some seconds."""
AT_ONCE = 1_000_000
Along = Literal["rows", "columns"]
"""Scan lines run through the centres of cells, along rows or along columns."""
# A centre on an edge that two regions share must belong to one of them. Shifted by an irrational
# fraction of a cell, no centre lies on an edge between round coordinates.
NUDGE_RIGHT = math.sqrt(2) * 1e-7
NUDGE_UP = math.sqrt(3) * 1e-7
OVERLAP = 1e-6
"""An overlap of less than this share of a cell's side counts as rounding."""


@dataclass(frozen=True)
class Edges:
    """The edges of the polygons of some regions, as arrays."""

    start: Float[np.ndarray, "edge 2"]
    end: Float[np.ndarray, "edge 2"]
    turn: Float[np.ndarray, " edge"]
    """1 if the area is on the left of the edge, -1 if it is on its right."""
    owner: Int[np.ndarray, " edge"]
    """The number of the region."""

    @classmethod
    def of(cls, regions: Sequence[list[Polygon]]) -> Edges:
        """The edges of valid polygons; a region is the union of its own."""
        import shapely

        polygons = [polygon for region in regions for polygon in region]
        owner = np.repeat(np.arange(len(regions)), [len(region) for region in regions])
        rings, polygon = shapely.get_rings(polygons, return_index=True)
        is_hole = np.diff(polygon, prepend=-1) == 0
        turn = np.where(shapely.is_ccw(rings) != is_hole, 1.0, -1.0)
        points, ring = shapely.get_coordinates(rings, return_index=True)
        first = np.flatnonzero(np.diff(ring) == 0)
        ring = ring[first]
        return cls(points[first], points[first + 1], turn[ring], owner[polygon[ring]])

    def of_region(self, number: int) -> Edges:
        """The edges of one region."""
        own = slice(*np.searchsorted(self.owner, [number, number + 1]).tolist())
        return Edges(self.start[own], self.end[own], self.turn[own], self.owner[own])

    def of_regions(self, numbers: Sequence[int]) -> Edges:
        """The edges of some regions, which are numbered anew."""
        some = [self.of_region(number) for number in numbers]
        owner = np.repeat(np.arange(len(some)), [len(each.turn) for each in some])
        return Edges(
            np.concatenate([each.start for each in some]),
            np.concatenate([each.end for each in some]),
            np.concatenate([each.turn for each in some]),
            owner,
        )

    def followed_by(self, other: Edges, number: int) -> Edges:
        """With the edges of one more region of this number."""
        return Edges(
            np.concatenate([self.start, other.start]),
            np.concatenate([self.end, other.end]),
            np.concatenate([self.turn, other.turn]),
            np.concatenate([self.owner, np.full(len(other.turn), number)]),
        )

    def polygons(self) -> list[tuple[np.ndarray, list[np.ndarray]]]:
        """The outer ring and the holes of each polygon, as places."""
        found: list[tuple[np.ndarray, list[np.ndarray]]] = []
        begin = 0
        for edge in range(len(self.turn)):
            if not np.array_equal(self.end[edge], self.start[begin]):
                continue
            ring = self.start[begin : edge + 1]
            x, y = ring.T
            is_left = np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1)) > 0
            if is_left == (self.turn[begin] > 0):
                found.append((ring, []))
            else:
                found[-1][1].append(ring)
            begin = edge + 1
        return found

    def united(self) -> Edges:
        """The edges as those of a single region."""
        return Edges(self.start, self.end, self.turn, np.zeros_like(self.owner))

    def in_cells(self, where: Georeference) -> Edges:
        """The edges in cells from the lower left corner of a grid."""
        left, bottom, *_ = where.extent
        size = np.array([where.cell_width, where.cell_height])
        start, end = ((each - (left, bottom)) / size for each in (self.start, self.end))
        return Edges(start, end, self.turn, self.owner)

    def is_same(self, other: Edges) -> bool:
        """Whether all edges are the same, up to rounding."""
        if len(self.turn) != len(other.turn):
            return False
        names = ("start", "end", "turn", "owner")
        pairs = ((getattr(self, name), getattr(other, name)) for name in names)
        return all(np.allclose(mine, theirs, rtol=0.0, atol=1e-6) for mine, theirs in pairs)

    def crossings(self, where: Georeference) -> int:
        """How often edges cross rows of centres, including rows outside the grid."""
        return int(np.abs(self.end[:, 1] - self.start[:, 1]).sum() / where.cell_height)


def check_work(crossings: int, along: Along = "rows") -> None:
    """Raise if it would take too long to find so many crossings."""
    if crossings > MOST_CROSSINGS:
        raise MapError(
            f"the outlines cross the {along} of the grid {crossings:,} times and at most "
            f"{MOST_CROSSINGS:,} are allowed: set a coarser grid, or simplify the outlines"
        )


def fill(mask: Bool[np.ndarray, "row column"], edges: Edges, where: Georeference) -> None:
    """Set the cells whose shifted centre lies inside one of the polygons."""
    rows, columns = mask.shape
    top, bottom = _reach(edges.start[:, 1], -where.cell_height, where.top, rows)
    left, right = _reach(edges.start[:, 0], where.cell_width, where.left, columns)
    width = right - left + 1
    changes = np.zeros((bottom - top) * width)
    for _, row, column, change in _crossings(edges, where):
        place = np.clip(_next_centre(column) - left, 0, width - 1) + (row - top) * width
        changes += np.bincount(place, change, len(changes))
    depth = np.cumsum(changes.reshape(-1, width), axis=1)
    mask[top:bottom, left:right] |= depth[:, : width - 1] > 0.5


def cell_counts(edges: Edges, where: Georeference, regions: int) -> Int[np.ndarray, " region"]:
    """How many cells each region would have, from sorted crossings, without filling masks."""
    rows, columns = where.shape
    counts = np.zeros(regions)
    for owner, row, column, change in _crossings(edges, where, at_once=MOST_CROSSINGS):
        column = np.clip(_next_centre(column), 0, columns)
        order = np.lexsort((column, owner * rows + row))
        # The changes of a row add up to 0, so that the next row begins at 0 again.
        depth = np.cumsum(change[order])[:-1]
        length = np.where(depth > 0.5, np.diff(column[order]), 0)
        counts += np.bincount(owner[order[:-1]], length, regions)
    return counts.astype(np.int64)


def _reach(
    values: Float[np.ndarray, " edge"], step: float, origin: float, count: int
) -> tuple[int, int]:
    """The first cell that some value lies in, and the one past the last."""
    cells = np.floor((np.array([values.min(), values.max()]) - origin) / step)
    low, high = np.clip([cells.min(), cells.max() + 1], 0, count).astype(int).tolist()
    return low, high


def _next_centre(place: Float[np.ndarray, " crossing"]) -> Int[np.ndarray, " crossing"]:
    """The first cell whose centre does not lie before a place."""
    return np.ceil(place).astype(np.int64)


class _OnLines(NamedTuple):
    """Edges and scan lines, counted in cells from the shifted centre of cell (0, 0)."""

    lines: Int[np.ndarray, " line"]
    across: Float[np.ndarray, "2 edge"]
    """Start and end of each edge across the lines."""
    along: Float[np.ndarray, "2 edge"]
    owner: Int[np.ndarray, " edge"]
    change: Float[np.ndarray, " edge"]
    first: Int[np.ndarray, " edge"]
    """Index of the first line that an edge crosses, and the one past the last."""
    end: Int[np.ndarray, " edge"]

    @classmethod
    def of(
        cls,
        edges: Edges,
        where: Georeference,
        along: Along,
        lines: Int[np.ndarray, " line"],
    ) -> _OnLines:
        y, x = (np.stack([edges.start[:, axis], edges.end[:, axis]]) for axis in (1, 0))
        y = (where.top - y) / where.cell_height - 0.5 + NUDGE_UP
        x = (x - where.left) / where.cell_width - 0.5 - NUDGE_RIGHT
        across, place, turn = (y, x, edges.turn) if along == "rows" else (x, y, -edges.turn)
        first, end = np.searchsorted(lines, np.sort(across, axis=0), side="right")
        change = np.where(across[1] > across[0], turn, -turn)
        return cls(lines, across, place, edges.owner, change, first, end)

    @property
    def total(self) -> int:
        """How often edges cross lines."""
        return int((self.end - self.first).sum())

    def crossings(
        self, at_once: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Owner, line, place on the line, and the change there."""
        count = self.end - self.first
        until = np.cumsum(count)
        slope = np.diff(self.along, axis=0)[0]
        slope = slope / np.where(count > 0, np.diff(self.across, axis=0)[0], 1.0)
        for begin in range(0, self.total, at_once):
            number = np.arange(begin, min(begin + at_once, self.total))
            edge = np.searchsorted(until, number, side="right")
            line = self.lines[self.first[edge] + number - (until - count)[edge]]
            place = self.along[0, edge] + (line - self.across[0, edge]) * slope[edge]
            yield self.owner[edge], line, place, self.change[edge]


def _crossings(
    edges: Edges, where: Georeference, *, at_once: int = AT_ONCE
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Where edges cross rows of centres."""
    return _OnLines.of(edges, where, "rows", np.arange(where.shape[0])).crossings(at_once)


class CrossedCells(NamedTuple):
    """How much of the centre lines of some cells lies inside some regions."""

    region: Int[np.ndarray, " entry"]
    row: Int[np.ndarray, " entry"]
    column: Int[np.ndarray, " entry"]
    inside: Float[np.ndarray, "entry part"]
    """The share of each part of the line, from the left or from above."""


def parts_inside(
    edges: Edges, where: Georeference, along: Along, lines: Int[np.ndarray, " line"], parts: int
) -> Iterator[CrossedCells]:
    """Equal parts of the centre lines that an edge crosses; others lie wholly in or out.

    The lines of all regions are joined to a single one, on which the length inside is summed up.
    """
    count, cells = where.shape if along == "rows" else where.shape[::-1]
    crossings = _OnLines.of(edges, where, along, lines).total
    check_work(crossings, along)
    for some in np.array_split(lines, crossings // AT_ONCE + 1):
        on_some = _OnLines.of(edges, where, along, some)
        for owner, line, place, change in on_some.crossings(MOST_CROSSINGS):
            start, cell = (owner * count + line) * cells, np.floor(place + 0.5)
            crossed = np.unique((start + cell)[(cell >= 0) & (cell < cells)])
            at = start + np.clip(place + 0.5, 0.0, cells)
            order = np.argsort(at)
            at, depth = at[order], np.cumsum(change[order])
            length = np.cumsum(np.where(depth[:-1] > 0.5, np.diff(at), 0.0))
            ends = crossed[:, None] + np.linspace(0.0, 1.0, parts + 1)
            until = np.interp(ends, at, np.append(0.0, length))
            number, cell = np.divmod(crossed.astype(np.int64), cells)
            region, line = np.divmod(number, count)
            row, column = (line, cell) if along == "rows" else (cell, line)
            inside = np.clip(parts * np.diff(until, axis=1), 0.0, 1.0)
            yield CrossedCells(region, row, column, inside)


def fill_overlapped(
    mask: Bool[np.ndarray, "row column"], polygon: Polygon, where: Georeference
) -> None:
    """Set every cell that shares an area with the polygon, by halving blocks of cells."""
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


def _halved(blocks: Int[np.ndarray, "block 4"]) -> Int[np.ndarray, "2*block 4"]:
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
