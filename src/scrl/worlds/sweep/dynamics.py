"""One step of the vehicle, written once for arrays (JAX) and for plain floats (Gymnasium).

Every function takes the namespace `xp` that holds `floor`, `minimum` and `maximum`: `jax.numpy`
inside compiled code, `Scalars` in Python. So both worlds share one implementation.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, Protocol


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


class WindLike(Protocol):
    """The numbers of a `Wind`, as floats or as traced scalars."""

    @property
    def persistence(self) -> Any: ...
    @property
    def freshness(self) -> Any: ...


Scalars = SimpleNamespace(floor=math.floor, minimum=min, maximum=max)
"""The namespace of plain Python floats."""

SMALLEST_WIND_FACTOR = 0.05
"""Least factor of the wind on the speed, so that every episode ends."""


def next_speed(vehicle: VehicleLike, speed: Any, action: Any, xp: Any) -> Any:
    """v' = inertia v + (1 - inertia) max_speed clip(a, crawl, 1)."""
    throttle = xp.minimum(xp.maximum(action, vehicle.crawl), 1.0)
    return vehicle.inertia * speed + (1.0 - vehicle.inertia) * vehicle.max_speed * throttle


def next_gust(wind: WindLike, gust: Any, noise: Any) -> Any:
    """g' = persistence g + freshness noise."""
    return wind.persistence * gust + wind.freshness * noise


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
