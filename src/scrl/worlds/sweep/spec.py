"""The description of a sweep world as plain data: map, route, vehicle, wind, units."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

from scrl.errors import ProblemError
from scrl.rules.linear import LinearExpression
from scrl.rules.show import TOTALS, dose_name, is_dose, region_name
from scrl.settings import check_settings, setting
from scrl.worlds.sweep.georeference import local_georeference
from scrl.worlds.sweep.inside import corrections
from scrl.worlds.sweep.path import CountedWay, Direction, Start, SweepPath, sweep_path
from scrl.worlds.sweep.regions import RegionMap
from scrl.worlds.sweep.service import FARTHEST_STEP, ServiceTable, service_table
from scrl.worlds.sweep.transits import Transit, transits_of
from scrl.worlds.sweep.vehicle import Units, Vehicle, Wind

Service = Literal["poured", "landing"]
TIME, DISTANCE, USED, WORKING_TIME = TOTALS
TIMES = (TIME, WORKING_TIME)
COUNTED = (*TIMES, USED)
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
    start: Start | tuple[float, float] = setting(
        "top-left",
        "Corner where the sweep begins, or [x, y] where the vehicle stands and comes back to.",
        choices=get_args(Start),
    )
    swath: int = setting(
        1, "Width of the strip that one pass covers.", unit="cells", low=1, high=10_000
    )
    horizon_steps: int = setting(
        5000, "Longest episode; a longer one is truncated.", unit="steps", low=1, high=10_000_000
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if isinstance(self.start, str):
            return
        place = tuple(self.start)
        if len(place) != 2 or not all(
            isinstance(each, int | float) and not isinstance(each, bool) and abs(each) <= 1e12
            for each in place
        ):
            raise ProblemError(
                f"start = {list(place)!r:.60} must be a corner or two numbers: [x, y]"
            )
        object.__setattr__(self, "start", place)

    @property
    def corner(self) -> Start:
        """The corner from which the grid is seen."""
        return "top-left" if isinstance(self.start, tuple) else self.start


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
        first_pass = (*self.path.stretches, len(self.path.cells))[1]
        if self.vehicle.counts_turns and self.vehicle.start_noise > first_pass:
            raise ProblemError(
                "start_noise must end within the first pass where turns count: transfer_speed and "
                "turn_time in [vehicle]"
            )
        if self.vehicle.has_flow and not self.is_poured:
            raise ProblemError(
                'service = "landing" counts whole steps at a fixed rate: with a flow, write '
                'service = "poured"'
            )

        self._check_start()
        for name in self.totals:
            if name not in COUNTED or name in self.regions.names:
                raise ProblemError(f"totals: '{name}' is none of {', '.join(COUNTED)}, or a region")

    def _check_start(self) -> None:
        if not isinstance(self.route.start, tuple):
            return
        if not self.vehicle.counts_turns:
            raise ProblemError(
                "a start at a place needs ways that count: transfer_speed or turn_time in [vehicle]"
            )
        rows, columns = self.regions.shape
        row, column = self.stand or (0.0, 0.0)
        if not (-rows <= row <= 2 * rows and -columns <= column <= 2 * columns):
            x, y = self.route.start
            raise ProblemError(
                f"start = [{x:g}, {y:g}] lies far from the map: write x (longitude) first"
            )

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
            case "time" | "working_time":
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

    @property
    def may_miss_dose(self) -> bool:
        """Whether the pump cannot keep the doses at every speed over the ground."""
        vehicle = self.vehicle
        return vehicle.dose is not None and (vehicle.least_flow > 0.0 or not self.wind.is_calm)

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
        route, counted = self.route, None
        if self.vehicle.counts_turns:
            counted = CountedWay(cell_sides(self.regions, route), self.stand)
        return sweep_path(
            self.regions,
            direction=route.direction,
            start=route.corner,
            swath=route.swath,
            counted=counted,
        )

    @cached_property
    def stand(self) -> tuple[float, float] | None:
        """Row and column where the vehicle stands, if the route begins at a place."""
        if not isinstance(self.route.start, tuple):
            return None
        where = self.regions.georeference
        where = where or local_georeference(self.regions.shape, self.units.cell)
        ((row, column),) = where.cells(np.array([self.route.start])).tolist()
        return row, column

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
        return np.array([time if name in self.totals and name in TIMES else 1.0
                         for name in self.amounts])  # fmt: skip

    @property
    def timed(self) -> int | None:
        """The index of an amount that a flow does not change: the time, where the flow can be
        chosen and the time is counted."""
        named = [name for name in self.totals if name in TIMES]
        return self.amounts.index(named[0]) if self.vehicle.has_flow and named else None

    @property
    def is_poured(self) -> bool:
        """Whether what a step gives is spread along its way."""
        return self.route.service == "poured"

    @cached_property
    def ways(self) -> tuple[Transit, ...]:
        """All ways on which nothing is given out, in order: with those from and to the start."""
        sides = cell_sides(self.regions, self.route)
        return transits_of(self.regions, self.path, sides, self.stand)

    @property
    def transits(self) -> tuple[Transit, ...]:
        """The ways between the stretches of the path."""
        return self.ways if self.stand is None else self.ways[1:-1]

    @property
    def transfer_speed(self) -> float:
        """The speed on ways on which nothing is given out, in cells per step."""
        return self.vehicle.transfer_speed or self.vehicle.max_speed

    @property
    def turn_steps(self) -> float:
        """How long a turn takes beside its way, in steps."""
        return self.vehicle.turn_time or 0.0

    @cached_property
    def transit_length(self) -> float:
        """Length of all ways on which nothing is given out, in cells along the sweep."""
        return sum(each.length for each in self.ways)

    @property
    def transit_steps(self) -> float:
        """How long these ways take, with a turn into each pass but the first, in steps."""
        return self.transit_length / self.transfer_speed + len(self.transits) * self.turn_steps

    @property
    def fewest_steps(self) -> float:
        """How long the whole drive takes at top speed, in steps."""
        return len(self.path.cells) / self.vehicle.max_speed + self.transit_steps

    @property
    def is_random(self) -> bool:
        """Whether two episodes of the same policy can differ."""
        vehicle = self.vehicle
        return not (self.wind.is_calm and vehicle.supply.is_calm and vehicle.start_noise == 0)


HECTARE = 10_000.0
"""Square metres of a hectare."""
DIGITS = 6
"""Significant digits of areas and times of ways in rules."""


def exact_digits(value: float) -> Fraction:
    """A number of the map, rounded, as rules have it."""
    return Fraction(f"{value:.{DIGITS - 1}e}")


@dataclass(frozen=True)
class KnownTotals(Mapping[str, LinearExpression | None]):
    """What rules may name beside regions: totals, the distance as a number, and doses.

    dose(R) is the amount of R divided by its area. Areas are computed when a rule names one. Where
    ways between passes count, they are constants of the path: time = working_time + theirs.
    """

    spec: SweepSpec

    @cached_property
    def _doses(self) -> dict[str, int]:
        return {dose_name(name): index for index, name in enumerate(self.spec.regions.names)}

    def __contains__(self, name: object) -> bool:
        """Whether rules may name it; known before ways are looked for."""
        if name == WORKING_TIME:
            return self.spec.vehicle.counts_turns
        if name == DISTANCE:
            return self.spec.vehicle.start_noise == 0.0
        dose = self._doses.get(str(name))
        return name in COUNTED or (dose is not None and bool(self.spec.areas[dose]))

    def __getitem__(self, name: str) -> LinearExpression | None:
        if name not in self:
            raise KeyError(name)
        spec, counts_turns = self.spec, self.spec.vehicle.counts_turns
        if name == TIME and counts_turns:
            ways = exact_digits(spec.transit_steps * (spec.units.step or 1.0))
            return LinearExpression(((WORKING_TIME, Fraction(1)),), ways)
        if name in COUNTED:
            return None
        if name == DISTANCE:
            cells = len(spec.path.cells) + (spec.transit_length if counts_turns else 0.0)
            return LinearExpression((), cells * (spec.units.cell or 1.0))
        index = self._doses[name]
        area = exact_digits(spec.areas[index])
        return LinearExpression(((region_name(spec.regions.names[index]), 1 / area),))

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
