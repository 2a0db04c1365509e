"""The description of a sweep world as plain data: map, route, vehicle, wind, units."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from scrl.errors import ProblemError
from scrl.settings import check_settings, setting
from scrl.worlds.sweep.dynamics import Place, Served, share_of_step
from scrl.worlds.sweep.path import Direction, Start, SweepPath, sweep_path
from scrl.worlds.sweep.regions import RegionMap
from scrl.worlds.sweep.transits import Transit, transits_of
from scrl.worlds.sweep.vehicle import Units, Vehicle, Wind

Service = Literal["poured", "landing"]


@dataclass(frozen=True)
class SweepRoute:
    """How the vehicle covers and serves the field, and when an episode is cut off."""

    service: Service = setting(
        "poured",
        "What a step gives is spread along its way, or all goes to the cell where it ends.",
        choices=("poured", "landing"),
    )
    direction: Direction = setting(
        "rows", "Sweep along rows or along columns.", choices=("rows", "columns")
    )
    start: Start = setting(
        "top-left",
        "Corner where the sweep begins.",
        choices=("top-left", "top-right", "bottom-left", "bottom-right"),
    )
    swath: int = setting(
        1, "Width of the strip that one pass covers.", unit="cells", low=1, high=10_000
    )
    horizon_steps: int = setting(
        5000, "Longest episode; a longer one is truncated.", unit="steps", low=1, high=10_000_000
    )

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class SweepSpec:
    """Everything that defines a sweep world; no JAX here."""

    regions: RegionMap
    vehicle: Vehicle = field(default_factory=Vehicle)
    wind: Wind = field(default_factory=Wind)
    route: SweepRoute = field(default_factory=SweepRoute)
    units: Units = field(default_factory=Units)

    def __post_init__(self) -> None:
        if self.vehicle.start_noise >= len(self.path.cells):
            raise ProblemError(
                f"start_noise = {self.vehicle.start_noise:g} must be below the path's length, "
                f"{len(self.path.cells)} cells"
            )

    @cached_property
    def path(self) -> SweepPath:
        """The cells in the order in which they are visited."""
        route = self.route
        return sweep_path(
            self.regions, direction=route.direction, start=route.start, swath=route.swath
        )

    @cached_property
    def service(self) -> ServiceTable:
        """Which regions each path cell serves, stored once per kind of cell."""
        return service_table(
            self.path.service,
            self.path.outside,
            is_poured=self.is_poured,
            most_cells=FARTHEST_STEP * self.vehicle.max_speed,
        )

    @property
    def is_poured(self) -> bool:
        """Whether what a step gives is spread along its way."""
        return self.route.service == "poured"

    @cached_property
    def transits(self) -> tuple[Transit, ...]:
        """The ways between the stretches of the path, which the world does not count."""
        return transits_of(self.regions, self.path, cell_sides(self.regions, self.route))

    @property
    def transit_steps(self) -> float:
        """How long all transits take at top speed, in steps."""
        return sum(each.length for each in self.transits) / self.vehicle.max_speed

    @property
    def is_random(self) -> bool:
        """Whether two episodes of the same policy can differ."""
        return not self.wind.is_calm or self.vehicle.start_noise > 0


def cell_on_map(regions: RegionMap, route: SweepRoute) -> float | None:
    """Length of a cell along the sweep in metres, from a geographic map; None for other maps."""
    sizes = regions.georeference.cell_size_metres() if regions.georeference else None
    if sizes is None:
        return None
    east, north = sizes
    return east if route.direction == "rows" else north


def cell_sides(regions: RegionMap, route: SweepRoute) -> tuple[float, float]:
    """Height and width of a cell, in cells along the sweep; (1, 1) where cells are square."""
    where = regions.georeference
    if where is None:
        return 1.0, 1.0
    width, height = where.cell_size_metres() or (where.cell_width, where.cell_height)
    along = width if route.direction == "rows" else height
    return height / along, width / along


@dataclass(frozen=True)
class ServiceTable:
    """Service rows, stored once for each kind of cell: a large map has few kinds of cell.

    Index `len(kind_of_cell) - 1` is the place past the end of the path, which serves nothing.
    """

    kind_of_cell: Int[np.ndarray, " cell_and_end"]
    kinds: Float[np.ndarray, "kind region"]
    outside: Float[np.ndarray, " kind"]
    """The share of a step's amount that no region receives."""
    is_poured: bool
    most_cells: float
    """The largest number of cells that a step may cover."""

    @cached_property
    def of_regions(self) -> Served:
        """What each region receives."""
        return self._served(self.kinds)

    @cached_property
    def of_none(self) -> Served:
        """What no region receives, as one column."""
        return self._served(self.outside[:, None])

    def _served(self, kinds: Float[np.ndarray, "kind column"]) -> Served:
        """The sums of these columns along the path, in fixed point.

        31 bits hold what a step serves and the rest of its first run.
        """
        first, kinds = self._first_cells, kinds.astype(float)
        unit = 2.0 ** (math.ceil(math.log2(self.most_cells + LONGEST_RUN + 2.0)) - 31)
        of_run = np.round(kinds / unit).astype(np.int64)[self.kind_of_cell[first]]
        cells = np.diff(first, append=len(self.kind_of_cell))[:, None]
        sums = np.cumsum(of_run * cells, axis=0) - of_run * cells
        run_of_cell = np.repeat(np.arange(len(first), dtype=np.int32), cells[:, 0])
        return Served(
            self.kind_of_cell, kinds, run_of_cell, first.astype(np.int32), sums.astype(np.int32),
            unit,
        )  # fmt: skip

    @property
    def _first_cells(self) -> Int[np.ndarray, " run"]:
        """Where runs begin; long ones are cut, so that places in them keep their precision."""
        cells = np.arange(len(self.kind_of_cell))
        is_first = np.diff(self.kind_of_cell, prepend=-1) != 0
        return np.flatnonzero(is_first | (cells % LONGEST_RUN == 0))

    def share_between(
        self,
        served: Served,
        begin: Float[np.ndarray, "*step"],
        end: Float[np.ndarray, "*step"],
    ) -> np.ndarray:
        """What each column receives of steps between two distances along the path."""
        last = len(self.kind_of_cell) - 1
        before, after = (np.minimum(along.astype(int), last) for along in (begin, end))
        return share_of_step(
            served, Place(before, begin - before), Place(after, end - after), end - begin,
            is_poured=self.is_poured, look=_columns_first,
        )  # fmt: skip


def _columns_first(table: np.ndarray, index: Int[np.ndarray, "*step"]) -> np.ndarray:
    """Rows of a table, with the axis of its columns before those of the steps."""
    return table[index] if table.ndim == 1 else np.moveaxis(table[index], -1, 0)


LONGEST_RUN = 16
FARTHEST_STEP = 8.0
"""The longest step in any wind, in steps at top speed; the deviation of gusts is at most 1."""


def service_table(
    service: Float[np.ndarray, "cell region"],
    outside: Float[np.ndarray, " cell"],
    *,
    is_poured: bool,
    most_cells: float,
) -> ServiceTable:
    """Group equal rows by a fixed random projection, and check that the grouping is exact."""
    *weights, last = np.random.default_rng(0).standard_normal(service.shape[1] + 1)
    projected = service @ np.array(weights) + last * outside
    _, first, kind = np.unique(projected, return_index=True, return_inverse=True)
    if not np.array_equal(service[first][kind], service) or not np.array_equal(
        outside[first][kind], outside
    ):
        rows = np.column_stack([service, outside])
        _, first, kind = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    kinds = np.concatenate([service[first], np.zeros((1, service.shape[1]))]).astype(np.float32)
    kind = np.concatenate([kind.ravel(), [len(kinds) - 1]]).astype(np.int32)
    outside = np.append(outside[first], 0.0).astype(np.float32)
    return ServiceTable(kind, kinds, outside, is_poured, most_cells)
