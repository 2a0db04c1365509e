"""Where the regions of a problem lie: polygons of its map file, or cells."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scrl.audit.counting import (
    AreaAmounts,
    Lines,
    count_in_cells,
    count_in_polygons,
)
from scrl.audit.frame import GridFrame
from scrl.problems import Problem
from scrl.worlds.sweep.geojson import coordinate_system, projection_of
from scrl.worlds.sweep.maps import GEOJSON_SUFFIXES
from scrl.worlds.sweep.projection import in_degrees
from scrl.worlds.sweep.shapes import Faults, read_shapes

if TYPE_CHECKING:
    from shapely import Geometry, Polygon


@dataclass(frozen=True)
class Areas:
    """The regions and the forbidden shapes of a problem, in columns and rows."""

    problem: Problem
    polygons: tuple[Geometry, ...]
    """Of the regions, then of the forbidden shapes; empty if the map is cells."""
    forbidden: tuple[str, ...]
    """Their names, if they have polygons."""

    @classmethod
    def of(cls, problem: Problem, frame: GridFrame) -> Areas:
        """The polygons of a GeoJSON map; cells for other maps."""
        source = problem.source
        if source is None or source.path.suffix.lower() not in GEOJSON_SUFFIXES:
            return cls(problem, (), ())
        # The file was read before, so that it is known to be valid and not too large.
        document = json.loads(source.path.read_bytes().decode("utf-8-sig"))
        drawn: dict[str, list[Polygon]] = {}
        shapes = read_shapes(document, source.options.region_property, Faults())
        if source.options.coordinates == "geographic":
            projection = projection_of(source.options.crs, coordinate_system(document))
            shapes = shapes if projection is None else in_degrees(shapes, projection)
        for shape in shapes:
            drawn.setdefault(shape.name, []).extend(shape.polygons)
        forbidden = source.options.forbidden
        names = (forbidden,) if isinstance(forbidden, str) else forbidden
        wanted = (*problem.world_spec.regions.names, *names)
        return cls(problem, tuple(_united(drawn[name], frame) for name in wanted), names)

    @property
    def text(self) -> str:
        """What amounts are counted against."""
        return "the polygons of the map" if self.polygons else "the cells of the map"

    def count(self, lines: Lines) -> tuple[AreaAmounts, dict[str, float]]:
        """What the regions receive, and what forbidden shapes do."""
        regions = self.problem.world_spec.regions
        if self.polygons:
            received, others = count_in_polygons(lines, self.polygons, len(regions.names))
            return received, dict(zip(self.forbidden, others.tolist(), strict=True))
        received = count_in_cells(lines, regions.masks)
        if not regions.forbidden.any():
            return received, {}
        others = count_in_cells(lines, regions.forbidden[None])
        return received, {"forbidden cells": float(others.regions[0])}

    def bounds(self) -> np.ndarray:
        """Left, top, right and bottom of each region, in columns and rows."""
        import shapely

        if self.polygons:
            return shapely.bounds(list(self.polygons[: len(self.problem.world_spec.regions.names)]))
        found = []
        for mask in self.problem.world_spec.regions.masks:
            rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
            found.append([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1])
        return np.array(found, float)


def _united(polygons: list[Polygon], frame: GridFrame) -> Geometry:
    """The union of polygons, in columns and rows."""
    import shapely

    cells = [shapely.transform(each, frame.cells) for each in polygons]
    return cells[0] if len(cells) == 1 else shapely.union_all(cells)
