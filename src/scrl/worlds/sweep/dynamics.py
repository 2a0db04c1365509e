"""One step of the vehicle, written once for arrays (JAX) and for plain floats (Gymnasium).

Functions take the namespace `xp` that holds `floor`, `minimum` and `maximum`: `jax.numpy` inside
compiled code, `Scalars` in Python. So all worlds share one implementation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol


class VehicleLike(Protocol):
    """The numbers of a `Vehicle`, as floats or as traced scalars."""

    @property
    def max_speed(self) -> Any: ...
    @property
    def inertia(self) -> Any: ...
    @property
    def crawl(self) -> Any: ...
    @property
    def effort(self) -> Any: ...
    @property
    def least_flow(self) -> Any: ...
    @property
    def least_dose(self) -> Any: ...
    @property
    def most_dose(self) -> Any: ...


class NoiseLike(Protocol):
    """The numbers of a `Noise`, as floats or as traced scalars."""

    @property
    def persistence(self) -> Any: ...
    @property
    def freshness(self) -> Any: ...


class Place(NamedTuple):
    """A place on the path, counted in parts of cells: a part and the distance from its start."""

    part: Any
    offset: Any

    @classmethod
    def of(cls, cell: Any, offset: Any, parts: int, whole: Callable[[Any], Any]) -> Place:
        """The place at an offset in a cell; `whole` cuts off what follows the decimal point."""
        if parts == 1:
            return cls(cell, offset)
        within = parts * offset
        before = whole(within)
        return cls(parts * cell + before, within - before)


class Served(NamedTuple):
    """What the parts of a path serve, and sums of it along the path, for some columns.

    A part is a cell or an equal part of one. Past the end of the path is one more cell, which
    serves nothing.
    """

    kind_of_part: Any
    kinds: Any
    """The share of a step's amount that each column receives, by kind of part."""
    run_of_part: Any
    first_part: Any
    """Of each run: some successive parts of one kind."""
    sums: Any
    """What the parts before each run serve, as whole multiples of `unit`; they may wrap around, and
    their differences are exact all the same."""
    unit: Any


Scalars = SimpleNamespace(floor=math.floor, minimum=min, maximum=max)
"""The namespace of plain Python floats."""

SMALLEST_WIND_FACTOR = 0.05
"""Least factor of the wind on the speed, so that every episode ends."""


def next_speed(vehicle: VehicleLike, speed: Any, action: Any, xp: Any) -> Any:
    """v' = inertia v + (1 - inertia) max_speed clip(a, crawl, 1)."""
    throttle = xp.minimum(xp.maximum(action, vehicle.crawl), 1.0)
    return vehicle.inertia * speed + (1.0 - vehicle.inertia) * vehicle.max_speed * throttle


def disturbed(noise: NoiseLike, before: Any, drawn: Any) -> Any:
    """x' = persistence x + freshness drawn: of gusts, and of the rate."""
    return noise.persistence * before + noise.freshness * drawn


def supplied(supply: Any, xp: Any) -> Any:
    """The share of the rate that a step gives out: from 0 to 2, and 1 in expectation."""
    return 1.0 + xp.minimum(xp.maximum(supply, -1.0), 1.0)


def ground_speed(speed: Any, gust: Any, xp: Any) -> Any:
    """Distance of one step: v (1 + g)."""
    return speed * xp.maximum(1.0 + gust, SMALLEST_WIND_FACTOR)


def advance(offset: Any, distance: Any, xp: Any) -> tuple[Any, Any]:
    """The next cell and offset; they are separate so that long paths stay exact."""
    travelled = offset + distance
    whole = xp.floor(travelled)
    return whole, travelled - whole


def step_reward(vehicle: VehicleLike, speed_over_ground: Any) -> Any:
    """r = -effort / (1 + v)."""
    return -vehicle.effort / (1.0 + speed_over_ground)


def flow_limits(vehicle: VehicleLike, distance: Any, xp: Any) -> tuple[Any, Any]:
    """The least and the largest flow in a step of this length, as shares of the full flow.

    They keep the dose, flow / distance, within its limits as far as the pump can: it follows the
    speed. A fixed rate has 1 and 1.
    """

    def within(dose: Any) -> Any:
        return xp.minimum(xp.maximum(dose * distance, vehicle.least_flow), 1.0)

    return within(vehicle.least_dose), within(vehicle.most_dose)


def flow_of(vehicle: VehicleLike, distance: Any, opening: Any, xp: Any) -> Any:
    """The flow of a step: the opening, from 0 to 1, leads from the least to the largest.

    Between the limits of a proportional pump the opening chooses the dose, whatever the speed.
    """
    low, high = flow_limits(vehicle, distance, xp)
    return low + xp.minimum(xp.maximum(opening, 0.0), 1.0) * (high - low)


def share_of_step(
    served: Served,
    before: Place,
    after: Place,
    distance: Any,
    *,
    is_poured: bool,
    look: Callable[[Any, Any], Any],
) -> Any:
    """The share of a step's amount that each column receives. `look` finds a row of a table.

    Places and the distance are counted in parts. Poured: the amount is spread evenly along the
    distance of the step, and what lies past the end of the path is lost. Landing: all of it goes to
    the cell where the step ends.
    """
    if not is_poured:
        return look(served.kinds, look(served.kind_of_part, after.part))
    begin, end = (_on_run(served, place, look) for place in (before, after))
    gained = (end.before - begin.before) * served.unit + (
        end.along * end.row - begin.along * begin.row
    )
    # Within a run the share is known, however little of a short step is left in single precision.
    is_within = begin.run == end.run
    return is_within * begin.row + (1 - is_within) * (gained / distance)


class _OnRun(NamedTuple):
    """A place on its run."""

    run: Any
    along: Any
    """Distance from the start of the run."""
    row: Any
    """What each column receives there."""
    before: Any
    """What each column receives before the run, in units."""


def _on_run(served: Served, place: Place, look: Callable[[Any, Any], Any]) -> _OnRun:
    run = look(served.run_of_part, place.part)
    return _OnRun(
        run,
        place.part - look(served.first_part, run) + place.offset,
        look(served.kinds, look(served.kind_of_part, place.part)),
        look(served.sums, run),
    )
