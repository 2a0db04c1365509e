"""Transits, on which nothing is given out: from the end of a stretch to the start of the next.

A transit is straight, or the shortest way around forbidden cells: through their corners that see
each other (a visibility graph). Forbidden cells are taken to continue past the edge of the grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from scrl.worlds.sweep.path import SweepPath
from scrl.worlds.sweep.places import ends_of_stretches, places_at
from scrl.worlds.sweep.regions import RegionMap

if TYPE_CHECKING:
    from shapely import Polygon, STRtree

INSET = 0.05
"""Cells by which the forbidden area is shrunk, so that its edges may be touched."""
MOST_LINES = 400_000
"""Largest number of lines of sight to test; beyond it, transits stay straight."""


@dataclass(frozen=True, eq=False)
class Transit:
    """The way from one stretch of the path to the next."""

    places: Float[np.ndarray, "place 2"]
    """Row and column of its ends and of the corners between them."""
    lengths: tuple[float, ...]
    """Length of each straight part, in cells along the sweep."""
    forbidden_length: float
    """Length inside forbidden cells, in cells along the sweep."""

    @property
    def length(self) -> float:
        """Length of all parts, in cells along the sweep."""
        return sum(self.lengths)

    def steps(self, speed: float, turn_steps: float = 0.0) -> list[float]:
        """How long each part takes, the last one with a turn into the next stretch."""
        *others, last = (length / speed for length in self.lengths)
        return [*others, last + turn_steps]


def transits_of(
    regions: RegionMap,
    path: SweepPath,
    sides: tuple[float, float],
    stand: tuple[float, float] | None = None,
) -> tuple[Transit, ...]:
    """One transit between each two stretches; `sides` are a cell's height and width.

    With a place where the vehicle stands, the first one leads from there and the last one back.
    """
    import shapely

    begins, ends = ends_of_stretches(path), places_at(path, np.array(path.stretches, float))
    if stand is None:
        ways = list(np.stack([begins[:-1], ends[1:]], axis=1))
    else:
        ways = list(np.stack([np.vstack([stand, begins]), np.vstack([ends, stand])], axis=1))
    inside = np.zeros(len(ways))
    if len(ways) and regions.forbidden.any():
        area = _polygons(np.pad(regions.forbidden, 1, mode="edge"))
        parts = shapely.STRtree(shapely.transform(area, lambda at: at - 1.0))
        blocked = np.flatnonzero(_crosses(parts, np.array(ways))).tolist()
        around = _ways_around(parts, regions.shape, np.array(ways)[blocked], sides)
        for index, way in zip(blocked, around, strict=True):
            ways[index] = way
        inside[blocked] = _length_inside(parts, around, sides)
    return tuple(
        Transit(way, _lengths(way, sides), length)
        for way, length in zip(ways, inside.tolist(), strict=True)
    )


def forbidden_area(regions: RegionMap) -> list[Polygon]:
    """The forbidden cells, without their buffer and a thin rim; x is the column and y the row."""
    return _polygons(regions.forbidden if regions.fenced is None else regions.fenced).tolist()


def _polygons(forbidden: Bool[np.ndarray, "row column"]) -> np.ndarray:
    """Polygons of the groups of connected cells; uniting each group separately is fast."""
    import shapely
    from scipy.ndimage import label

    edges = np.diff(np.pad(forbidden, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    row, left = np.nonzero(edges == 1)
    right = np.nonzero(edges == -1)[1]
    groups = np.empty(forbidden.shape, np.int32)
    label(forbidden, output=groups)
    group = groups[row, left]
    order = np.argsort(group, kind="stable")
    runs = shapely.box(left, row, right, row + 1)[order]
    heads = np.flatnonzero(np.diff(group[order])) + 1
    cells = np.array([shapely.union_all(each) for each in np.split(runs, heads)], object)
    return shapely.get_parts(shapely.buffer(cells, -INSET, join_style="mitre"))


def _crosses(parts: STRtree, lines: Float[np.ndarray, "line 2 2"]) -> Bool[np.ndarray, " line"]:
    """Whether each line, from one row and column to another, enters a part of the area."""
    import shapely

    crossing, _ = parts.query(shapely.linestrings(lines[:, :, ::-1]), predicate="intersects")
    return np.isin(np.arange(len(lines)), crossing)


def _length_inside(
    parts: STRtree, ways: list[Float[np.ndarray, "place 2"]], sides: tuple[float, float]
) -> Float[np.ndarray, " way"]:
    """How much of each way lies inside the area, in cells along the sweep."""
    import shapely

    lines = np.array([shapely.LineString(way[:, ::-1]) for way in ways], object)
    way, part = parts.query(lines, predicate="intersects")
    shared = shapely.intersection(lines[way], parts.geometries[part])
    lengths = shapely.length(shapely.transform(shared, lambda at: at * sides[::-1]))
    return np.bincount(way, lengths, minlength=len(ways)).astype(float)  # whole where none do


def _ways_around(
    parts: STRtree,
    shape: tuple[int, int],
    straight: Float[np.ndarray, "way 2 2"],
    sides: tuple[float, float],
) -> list[Float[np.ndarray, "place 2"]]:
    """The shortest ways that do not enter the area; where there is none, the straight one."""
    import shapely
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    cells = shapely.buffer(parts.geometries, INSET, join_style="mitre")
    corners = np.unique(shapely.get_coordinates(cells)[:, ::-1].round(), axis=0)
    corners = corners[((corners >= 0) & (corners <= shape)).all(axis=1)]  # not outside the grid
    nodes = np.concatenate([straight[:, 0], straight[:, 1], corners])
    if len(nodes) * len(corners) > MOST_LINES:
        return list(straight)
    first, second = np.triu_indices(len(nodes), k=1)
    has_corner = second >= 2 * len(straight)
    first, second = first[has_corner], second[has_corner]
    sees = ~_crosses(parts, np.stack([nodes[first], nodes[second]], axis=1))
    first, second = first[sees], second[sees]
    length = np.hypot(*((nodes[first] - nodes[second]) * sides).T)
    graph = coo_array((length, (first, second)), shape=(len(nodes), len(nodes))).tocsr()
    begins = np.arange(len(straight))
    _, before = dijkstra(graph, directed=False, indices=begins, return_predecessors=True)
    found = []
    for begin in begins.tolist():
        way = [begin + len(straight)]
        while way[-1] != begin and before[begin, way[-1]] >= 0:
            way.append(int(before[begin, way[-1]]))
        found.append(nodes[way[::-1]] if way[-1] == begin else straight[begin])
    return found


def _lengths(way: Float[np.ndarray, "place 2"], sides: tuple[float, float]) -> tuple[float, ...]:
    return tuple(float(np.hypot(*((after - before) * sides))) for before, after in pairwise(way))
