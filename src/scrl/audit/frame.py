"""Places of a log in the grid of a map: columns to the right, rows downwards, and metres."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from scrl.worlds.sweep.georeference import Georeference, local_georeference
from scrl.worlds.sweep.spec import SweepSpec

NUDGE = np.array([np.sqrt(2.0), np.sqrt(3.0)]) * 1e-7
"""Added to places, in cells, so that none lies on an edge between round coordinates."""


@dataclass(frozen=True)
class GridFrame:
    """The conversion of map coordinates to columns and rows."""

    where: Georeference
    metres: tuple[float, float] | None
    """Width and height of a cell in metres; None if unknown."""

    @classmethod
    def of(cls, spec: SweepSpec) -> GridFrame:
        """The frame of a problem's map; without a location, that of its exports."""
        given, cell = spec.regions.georeference, spec.units.cell
        where = given or local_georeference(spec.regions.shape, cell)
        size = where.cell_size_metres()
        if size is None and given is not None:
            size = where.cell_width, where.cell_height  # plain coordinates are metres
        elif size is None and cell is not None:
            size = cell, cell
        return cls(where, size)

    @property
    def is_geographic(self) -> bool:
        return self.where.kind == "geographic"

    @property
    def shape(self) -> tuple[int, int]:
        return self.where.shape

    @cached_property
    def sides(self) -> tuple[float, float]:
        """Width and height of a cell, in metres or else in cells."""
        return self.metres or (1.0, 1.0)

    def cells(self, places: Float[np.ndarray, "place 2"]) -> Float[np.ndarray, "place 2"]:
        """Column and row of x and y; the centre of the first cell is (0.5, 0.5)."""
        return self.where.cells(places)[:, ::-1]

    def places(self, cells: Float[np.ndarray, "place 2"]) -> Float[np.ndarray, "place 2"]:
        """x and y of columns and rows."""
        return self.where.places(cells[:, ::-1])

    def lengths(self, moves: Float[np.ndarray, "move 2"]) -> Float[np.ndarray, " move"]:
        """Metres (or cells) of moves in columns and rows."""
        return np.hypot(*(moves * self.sides).T)
