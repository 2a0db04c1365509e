"""The description of a sweep world as plain data: map, route, vehicle, wind, units."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from scrl.errors import ProblemError
from scrl.rules.linear import LinearExpression
from scrl.rules.show import TOTALS, dose_name, is_dose
from scrl.settings import check_settings, setting
from scrl.worlds.sweep.dynamics import Place, Served, share_of_step
from scrl.worlds.sweep.inside import PARTS, Corrections, corrections
from scrl.worlds.sweep.path import Direction, Start, SweepPath, sweep_path
from scrl.worlds.sweep.regions import RegionMap
from scrl.worlds.sweep.transits import Transit, transits_of
from scrl.worlds.sweep.vehicle import Units, Vehicle, Wind

Service = Literal["poured", "landing"]
TIME, DISTANCE, USED = TOTALS
COUNTED = (TIME, USED)
"""Totals that are counted in each step; the distance is that of the path."""


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
    totals: tuple[str, ...] = ()
    """Amounts of the whole drive that are counted after those of the regions."""

    def __post_init__(self) -> None:
        if self.vehicle.start_noise >= len(self.path.cells):
            raise ProblemError(
                f"start_noise = {self.vehicle.start_noise:g} must be below the path's length, "
                f"{len(self.path.cells)} cells"
            )
        if self.vehicle.has_flow and not self.is_poured:
            raise ProblemError(
                'service = "landing" counts whole steps at a fixed rate: with a flow, write '
                'service = "poured"'
            )

        for name in self.totals:
            if name not in COUNTED or name in self.regions.names:
                raise ProblemError(f"totals: '{name}' is none of {', '.join(COUNTED)}, or a region")

    @property
    def amounts(self) -> tuple[str, ...]:
        """The names of all that is counted: the regions, then the totals."""
        return (*self.regions.names, *self.totals)

    @cached_property
    def known_totals(self) -> KnownTotals:
        """What rules may name beside the regions."""
        return KnownTotals(self)

    @property
    def cell_area(self) -> float:
        """Area of a cell of the map: in hectares where the length of a cell is known, else 1."""
        if self.units.cell is None:
            return 1.0
        return math.prod(cell_sides(self.regions, self.route)) * self.units.cell**2 / HECTARE

    @property
    def area_unit(self) -> str:
        """In what areas are counted."""
        return "cells" if self.units.cell is None else "hectares"

    @cached_property
    def areas(self) -> Float[np.ndarray, " region"]:
        """The area of each region that the path covers."""
        table, number = self.service, self.path.number
        swath = np.bincount(number[number >= 0], minlength=len(self.path.cells)) / table.parts
        cells = np.bincount(
            table.on_path, np.repeat(swath, table.parts), minlength=len(table.kinds)
        )
        return self.cell_area * (cells @ table.kinds[:, : len(self.regions.names)].astype(float))

    def unit_of_total(self, name: str) -> str:
        """The unit of a total, as text."""
        match name:
            case "time":
                return "steps" if self.units.step is None else "seconds"
            case "distance":
                return "cells" if self.units.cell is None else "metres"
            case _ if is_dose(name):
                return f"{self.units.unit} per {self.area_unit.removesuffix('s')}"
            case _:
                return self.units.unit

    def with_totals(self, totals: tuple[str, ...]) -> SweepSpec:
        """The same world with these totals counted."""
        return self if totals == self.totals else self._on_same_path(replace(self, totals=totals))

    def with_service(self, table: ServiceTable) -> SweepSpec:
        """The same world with another service of the path's parts."""
        return self._on_same_path(replace(self), service=table)

    def _on_same_path(self, changed: SweepSpec, **derived: ServiceTable) -> SweepSpec:
        """Another world with this one's path, which takes long on large maps."""
        changed.__dict__.update(path=self.path, **derived)
        return changed

    @cached_property
    def has_overlaps(self) -> bool:
        """Whether something counts for several regions, so that what these receive and what is
        outside of all come to more than what is given out."""
        table = self.service
        regions = table.kinds[:-1, : len(self.regions.names)].sum(axis=1, dtype=float)
        return bool((regions + table.outside[:-1] > 1.0 + 1e-5).any())

    @cached_property
    def path(self) -> SweepPath:
        """The cells in the order in which they are visited."""
        route = self.route
        return sweep_path(
            self.regions, direction=route.direction, start=route.start, swath=route.swath
        )

    @cached_property
    def service(self) -> ServiceTable:
        """Which regions the path serves: by the outlines of regions where service is poured and the
        map has them, otherwise by the centres of cells. Totals are served everywhere."""
        table = service_table(
            self.path.service,
            self.path.outside,
            corrections(self.path, self.regions) if self.is_poured else None,
            is_poured=self.is_poured,
            most_cells=FARTHEST_STEP * self.vehicle.max_speed,
        )
        return table.with_everywhere(self.in_step[len(self.regions.names) :])

    @cached_property
    def in_step(self) -> Float[np.ndarray, " region"]:
        """The most that a step adds to each amount, in what it gives out at full flow."""
        time = (self.units.step or 1.0) / self.vehicle.rate
        return np.array([time if name in self.totals and name == TIME else 1.0
                         for name in self.amounts])  # fmt: skip

    @property
    def timed(self) -> int | None:
        """The index of an amount that a flow does not change: the time, where the flow can be
        chosen and the time is counted."""
        is_apart = self.vehicle.has_flow and TIME in self.totals
        return self.amounts.index(TIME) if is_apart else None

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
        vehicle = self.vehicle
        return not (self.wind.is_calm and vehicle.supply.is_calm and vehicle.start_noise == 0)


HECTARE = 10_000.0
"""Square metres of a hectare."""
AREA_DIGITS = 6
"""Significant digits of the areas in rules."""


@dataclass(frozen=True)
class KnownTotals(Mapping[str, LinearExpression | None]):
    """What rules may name beside regions: totals, the distance as a number, and doses.

    dose(R) is the amount of R divided by its area. Areas are computed when a rule names one.
    """

    spec: SweepSpec

    @cached_property
    def _doses(self) -> dict[str, int]:
        return {dose_name(name): index for index, name in enumerate(self.spec.regions.names)}

    def __getitem__(self, name: str) -> LinearExpression | None:
        spec = self.spec
        if name in COUNTED:
            return None
        if name == DISTANCE and spec.vehicle.start_noise == 0.0:
            return LinearExpression((), len(spec.path.cells) * (spec.units.cell or 1.0))
        index = self._doses[name]
        if not spec.areas[index]:
            raise KeyError(name)
        area = Fraction(f"{spec.areas[index]:.{AREA_DIGITS - 1}e}")
        return LinearExpression(((spec.regions.names[index], 1 / area),))

    def __iter__(self) -> Iterator[str]:
        return (name for name in (*COUNTED, DISTANCE, *self._doses) if name in self)

    def __len__(self) -> int:
        return len(tuple(self))


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
    """Service rows, stored once for each kind of part: a large map has few kinds of them.

    Past the end of the path is one more cell, which serves nothing: the last kind.
    """

    kind_of_part: Int[np.ndarray, " part_and_end"]
    kinds: Float[np.ndarray, "kind region"]
    outside: Float[np.ndarray, " kind"]
    """The share of a step's amount that no region receives."""
    is_poured: bool
    most_cells: float
    """The largest number of cells that a step may cover."""
    parts: int = 1
    """Equal parts of a path cell, each of which has a kind."""

    @cached_property
    def of_regions(self) -> Served:
        """What each region receives."""
        return self._served(self.kinds)

    @cached_property
    def of_none(self) -> Served:
        """What no region receives, as one column."""
        return self._served(self.outside[:, None])

    def with_everywhere(self, values: Float[np.ndarray, " column"]) -> ServiceTable:
        """With columns that have the same value on the whole path."""
        if not len(values):
            return self
        columns = np.tile(values.astype(self.kinds.dtype), (len(self.kinds), 1))
        columns[-1] = 0.0
        return replace(self, kinds=np.concatenate([self.kinds, columns], axis=1))

    @property
    def outside_share(self) -> float:
        """The share of the path that lies outside all regions."""
        return float(self.outside[self.on_path].mean(dtype=float))

    @property
    def lengths(self) -> Float[np.ndarray, " region"]:
        """How many cells of the path lie inside each region."""
        count = np.bincount(self.on_path, minlength=len(self.kinds))
        return count @ self.kinds.astype(float) / self.parts

    @property
    def on_path(self) -> Int[np.ndarray, " part"]:
        """The kinds of all parts of the path, without its end."""
        return self.kind_of_part[: -self.parts]

    def _served(self, kinds: Float[np.ndarray, "kind column"]) -> Served:
        """The sums of these columns along the path, in fixed point.

        31 bits hold what a step serves and the rest of its first run.
        """
        first, kinds = self._first_parts, kinds.astype(float)
        longest = self.parts * (self.most_cells + LONGEST_RUN + 2.0)
        longest *= max(1.0, float(kinds.max(initial=0.0)))
        unit = 2.0 ** (math.ceil(math.log2(longest)) - 31)
        of_run = np.round(kinds / unit).astype(np.int64)[self.kind_of_part[first]]
        parts = np.diff(first, append=len(self.kind_of_part))[:, None]
        sums = np.cumsum(of_run * parts, axis=0) - of_run * parts
        run_of_part = np.repeat(np.arange(len(first), dtype=np.int32), parts[:, 0])
        return Served(
            self.kind_of_part, kinds, run_of_part, first.astype(np.int32), sums.astype(np.int32),
            unit,
        )  # fmt: skip

    @property
    def _first_parts(self) -> Int[np.ndarray, " run"]:
        """Where runs begin; long ones are cut, so that places in them keep their precision."""
        parts = np.arange(len(self.kind_of_part))
        is_first = np.diff(self.kind_of_part, prepend=-1) != 0
        return np.flatnonzero(is_first | (parts % (LONGEST_RUN * self.parts) == 0))

    def share_between(
        self,
        served: Served,
        begin: Float[np.ndarray, "*step"],
        end: Float[np.ndarray, "*step"],
    ) -> np.ndarray:
        """What each column receives of steps between two distances along the path, in cells."""
        last = len(self.kind_of_part) - 1
        begin, end = self.parts * begin, self.parts * end
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
    finer: Corrections | None = None,
    *,
    is_poured: bool,
    most_cells: float,
) -> ServiceTable:
    """Group cells with equal rows, or parts of cells whose rows are corrected."""
    first, kind = _grouped(service, outside)
    service, outside = service[first], outside[first]
    parts = 1 if finer is None else PARTS
    if finer is not None:
        changed, entry = np.unique(finer.part, return_inverse=True)
        old = kind[changed // parts]
        rows = np.column_stack([service[old], outside[old]])
        np.add.at(rows, (entry, finer.column), finer.share)
        np.clip(rows, 0.0, 1.0, out=rows)
        service = np.concatenate([service, rows[:, :-1]])
        outside = np.concatenate([outside, rows[:, -1]])
        kind = np.repeat(kind, parts)
        kind[changed] = len(first) + np.arange(len(changed))
        used, kind = _numbered(kind)
        first, group = _grouped(service[used], outside[used])
        service, outside, kind = service[used][first], outside[used][first], group[kind]
    kinds = np.concatenate([service, np.zeros((1, service.shape[1]))]).astype(np.float32)
    kind = np.append(kind, np.full(parts, len(service))).astype(np.int32)
    outside = np.append(outside, 0.0).astype(np.float32)
    return ServiceTable(kind, kinds, outside, is_poured, most_cells, parts)


def _grouped(
    service: Float[np.ndarray, "row region"], outside: Float[np.ndarray, " row"]
) -> tuple[Int[np.ndarray, " group"], Int[np.ndarray, " row"]]:
    """The first row of each group of equal rows, and the group of each row.

    Rows are compared by a fixed random projection, and it is checked that the grouping is exact.
    """
    *weights, last = np.random.default_rng(0).standard_normal(service.shape[1] + 1)
    projected = service @ np.array(weights) + last * outside
    _, first, group = np.unique(projected, return_index=True, return_inverse=True)
    if not np.array_equal(service[first][group], service) or not np.array_equal(
        outside[first][group], outside
    ):
        rows = np.column_stack([service, outside])
        _, first, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, group.ravel()


def _numbered(
    kind: Int[np.ndarray, " part"],
) -> tuple[Int[np.ndarray, " used"], Int[np.ndarray, " part"]]:
    """The kinds that occur, and the number among these of each."""
    is_used = np.bincount(kind) > 0
    return np.flatnonzero(is_used), (np.cumsum(is_used) - 1)[kind]
