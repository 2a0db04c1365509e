"""Which cell centres lie inside polygons, and which cells a polygon overlaps.

Centres are found by scan lines: along each row, from edge to edge.

Crossing an edge changes the number of polygons around the point by 1; the sign depends on the
direction of the edge around its area. The work grows with the crossings, not with the cells of
the polygons' bounding boxes, so slivers are cheap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int

from scrl.errors import MapError
from scrl.worlds.sweep.georeference import Georeference

if TYPE_CHECKING:
    from shapely import Polygon

MOST_CROSSINGS = 50_000_000
"""Largest number of edge crossings, which take some seconds."""
AT_ONCE = 1_000_000
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

    def crossings(self, where: Georeference) -> int:
        """How often edges cross rows of centres, including rows outside the grid."""
        return int(np.abs(self.end[:, 1] - self.start[:, 1]).sum() / where.cell_height)


def check_work(edges: Edges, where: Georeference) -> None:
    """Raise if it would take too long to fill these polygons."""
    crossings = edges.crossings(where)
    if crossings > MOST_CROSSINGS:
        raise MapError(
            f"the outlines cross the rows of the grid {crossings:,} times and at most "
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
        place = np.clip(column - left, 0, width - 1) + (row - top) * width
        changes += np.bincount(place, change, len(changes))
    depth = np.cumsum(changes.reshape(-1, width), axis=1)
    mask[top:bottom, left:right] |= depth[:, : width - 1] > 0.5


def cell_counts(edges: Edges, where: Georeference, regions: int) -> Int[np.ndarray, " region"]:
    """How many cells each region would have, from sorted crossings, without filling masks."""
    rows, columns = where.shape
    counts = np.zeros(regions)
    for owner, row, column, change in _crossings(edges, where, at_once=MOST_CROSSINGS):
        column = np.clip(column, 0, columns)
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


def _crossings(
    edges: Edges, where: Georeference, *, at_once: int = AT_ONCE
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Where edges cross rows of centres: owner, row, first column to the right, and the change."""
    # In rows and columns, with the shifted centre of cell (0, 0) at the origin.
    y, x = (np.stack([edges.start[:, axis], edges.end[:, axis]]) for axis in (1, 0))
    y = (where.top - y) / where.cell_height - 0.5 + NUDGE_UP
    x = (x - where.left) / where.cell_width - 0.5 - NUDGE_RIGHT
    first = np.maximum(np.floor(y.min(axis=0)) + 1, 0)
    last = np.minimum(np.floor(y.max(axis=0)), where.shape[0] - 1)
    count = np.maximum(last - first + 1, 0).astype(np.int64)
    until = np.cumsum(count)
    total = int(until[-1])
    change = np.where(y[1] > y[0], edges.turn, -edges.turn)
    slope = (x[1] - x[0]) / np.where(count > 0, y[1] - y[0], 1.0)
    for begin in range(0, total, at_once):
        number = np.arange(begin, min(begin + at_once, total))
        edge = np.searchsorted(until, number, side="right")
        row = first[edge] + number - (until - count)[edge]
        column = x[0, edge] + (row - y[0, edge]) * slope[edge]
        column = np.ceil(column).astype(np.int64)
        yield edges.owner[edge], row.astype(np.int64), column, change[edge]


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
