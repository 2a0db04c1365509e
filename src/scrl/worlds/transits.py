"""Ways on which nothing is given out: from the end of a stretch to the beginning of the next.

A transit is straight, or the shortest way around forbidden cells: through their corners that see
each other (a visibility graph). Past the edges of the grid forbidden cells are taken to go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from scrl.worlds.path import SweepPath
from scrl.worlds.places import ends_of_stretches, places_at
from scrl.worlds.regions import RegionMap

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

INSET = 0.05
"""Cells by which the forbidden area lies inside its cells: their edges may be touched."""
MOST_LINES = 400_000
"""Lines of sight that are looked at; with more corners than that, transits stay straight."""


@dataclass(frozen=True, eq=False)
class Transit:
    """The way from one stretch of the path to the next."""

    places: Float[np.ndarray, "place 2"]
    """Row and column of its ends and of the corners between them."""
    lengths: tuple[float, ...]
    """Of each straight part, in cells along the sweep."""
    forbidden_length: float
    """Cells along the sweep that lie inside forbidden cells."""

    @property
    def length(self) -> float:
        """Of all parts together."""
        return sum(self.lengths)


def transits_of(
    regions: RegionMap, path: SweepPath, sides: tuple[float, float]
) -> tuple[Transit, ...]:
    """One transit between each two stretches; `sides` are a cell's height and width."""
    import shapely

    begins = ends_of_stretches(path)[:-1]
    ends = places_at(path, np.array(path.stretches[1:], float))
    ways = list(np.stack([begins, ends], axis=1))
    inside = np.zeros(len(ways))
    if len(ways) and regions.forbidden.any():
        area = _area(np.pad(regions.forbidden, 1, mode="edge"))
        area = shapely.transform(area, lambda at: at - 1.0)
        blocked = np.flatnonzero(_crosses(area, np.array(ways))).tolist()
        corners = _corners(area, regions.shape)
        around = _ways_around(area, corners, np.array(ways)[blocked], sides) if blocked else []
        for index, way in zip(blocked, around, strict=True):
            ways[index] = way
            crossed = shapely.LineString(way[:, ::-1]).intersection(area)
            inside[index] = shapely.transform(crossed, lambda at: at * sides[::-1]).length
    return tuple(
        Transit(way, _lengths(way, sides), length)
        for way, length in zip(ways, inside.tolist(), strict=True)
    )


def forbidden_area(regions: RegionMap) -> BaseGeometry:
    """The forbidden cells, without a thin rim; x is the column and y the row."""
    return _area(regions.forbidden)


def _area(forbidden: Bool[np.ndarray, "row column"]) -> BaseGeometry:
    import shapely

    edges = np.diff(np.pad(forbidden, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    row, left = np.nonzero(edges == 1)
    right = np.nonzero(edges == -1)[1]
    cells = shapely.union_all(shapely.box(left, row, right, row + 1))
    return cells.buffer(-INSET, join_style="mitre")


def _crosses(area: BaseGeometry, lines: Float[np.ndarray, "line 2 2"]) -> Bool[np.ndarray, " line"]:
    """Whether each line, from one row and column to another, enters the area."""
    import shapely

    shapely.prepare(area)
    return np.asarray(shapely.intersects(area, shapely.linestrings(lines[:, :, ::-1])))


def _corners(area: BaseGeometry, shape: tuple[int, int]) -> Float[np.ndarray, "corner 2"]:
    """Row and column of the corners of the area's cells, without those outside the grid."""
    import shapely

    cells = shapely.get_coordinates(area.buffer(INSET, join_style="mitre"))[:, ::-1].round()
    return np.unique(cells[((cells >= 0) & (cells <= shape)).all(axis=1)], axis=0)


def _ways_around(
    area: BaseGeometry,
    corners: Float[np.ndarray, "corner 2"],
    straight: Float[np.ndarray, "way 2 2"],
    sides: tuple[float, float],
) -> list[Float[np.ndarray, "place 2"]]:
    """The shortest ways that do not enter the area; where there is none, the straight one."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    nodes = np.concatenate([straight[:, 0], straight[:, 1], corners])
    if len(nodes) * len(corners) > MOST_LINES:
        return list(straight)
    first, second = np.triu_indices(len(nodes), k=1)
    has_corner = second >= 2 * len(straight)
    first, second = first[has_corner], second[has_corner]
    sees = ~_crosses(area, np.stack([nodes[first], nodes[second]], axis=1))
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
