"""Random roads to learn on: a path through made-up regions, with a price for each of them."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from scrl.prices.outlook import Outlook
from scrl.prices.ranges import Range, Ranges
from scrl.worlds.sweep import SweepState, SweepWorld, VehicleNumbers

CELLS = 512
REGIONS = 6
LONGEST_STRETCH = 60.0
"""Mean length of the stretches of one region, in cells, at most; at least 1."""
MOMENTS = 16
"""Moments that are looked at on each road."""


class Road(NamedTuple):
    """A world and prices."""

    world: SweepWorld
    outlook: Outlook


def random_road(ranges: Ranges, *, window: int, key: PRNGKeyArray) -> Road:
    """A made-up path, vehicle and wind."""
    vehicle_key, path_key, price_key = jax.random.split(key, 3)
    numbers = random_vehicle(ranges, key=vehicle_key)
    length_key, border_key, region_key = jax.random.split(path_key, 3)
    mean_length = _log_uniform(Range(1.0, LONGEST_STRETCH), key=length_key)
    is_border = jax.random.uniform(border_key, (CELLS,)) < 1.0 / mean_length
    region = jax.random.randint(region_key, (CELLS + 1,), 0, REGIONS)[jnp.cumsum(is_border)]
    unseen = jnp.zeros((1,))
    world = SweepWorld(
        kind_of_cell=jnp.concatenate([region, jnp.full((1,), REGIONS, region.dtype)]),
        kinds=jnp.eye(REGIONS + 1, REGIONS), outside=jnp.zeros(REGIONS + 1),
        place=(unseen, unseen), left=unseen, cells_ahead=unseen, numbers=numbers, stride=1,
        horizon_steps=1, is_windy=True,
    )  # fmt: skip
    return Road(world, Outlook.of(world, random_prices(REGIONS, key=price_key)[None], window))


def random_vehicle(ranges: Ranges, *, key: PRNGKeyArray) -> VehicleNumbers:
    """Any vehicle and wind within the ranges; half of them in calm air, where that is in range."""
    keys = jax.random.split(key, 6)
    strength = _uniform(ranges.wind_strength, key=keys[3])
    is_calm = (jax.random.uniform(keys[5]) < 0.5) & (ranges.wind_strength.low == 0.0)
    strength = jnp.where(is_calm, 0.0, strength)
    persistence = jnp.where(is_calm, 0.0, _uniform(ranges.wind_persistence, key=keys[4]))
    one = jnp.ones(())
    return VehicleNumbers(
        max_speed=_log_uniform(ranges.max_speed, key=keys[0]),
        inertia=_uniform(ranges.inertia, key=keys[1]),
        crawl=_log_uniform(ranges.crawl, key=keys[2]),
        rate=one, effort=one, start_noise=jnp.zeros(()),
        persistence=persistence,
        freshness=jnp.sqrt(1.0 - persistence**2) * strength,
    )  # fmt: skip


MOST_TIME = Range(2.0, 20.0)
LEAST_TIME = 0.1


def random_prices(regions: int, *, key: PRNGKeyArray) -> Float[Array, " region"]:
    """Half of the regions earn something, some cost something, the others are worth nothing.

    Earning prices are drawn by the time per cell that they call for: close to 1 small differences
    matter.
    """
    most_key, time_key, cost_key, kind_key = jax.random.split(key, 4)
    most = _log_uniform(MOST_TIME, key=most_key)
    span = jnp.log(most / LEAST_TIME) * jax.random.uniform(time_key, (regions,))
    earning = 1.0 - (1.0 + LEAST_TIME * jnp.exp(span)) ** -2
    costing = -jnp.exp(jax.random.uniform(cost_key, (regions,), minval=-3.0, maxval=1.0))
    kind = jax.random.uniform(kind_key, (regions,))
    return jnp.where(kind < 0.5, earning, jnp.where(kind < 0.65, costing, 0.0))


def random_moments(world: SweepWorld, *, key: PRNGKeyArray) -> SweepState:
    """Anywhere on the path, at any speed, in any gust; slow ones as often as fast ones."""
    keys = jax.random.split(key, 5)
    numbers = world.numbers
    cell = jax.random.randint(keys[0], (MOMENTS,), 0, world.length)
    speed = jax.random.uniform(keys[1], (MOMENTS,))
    speed = jnp.where(jax.random.uniform(keys[2], (MOMENTS,)) < 0.5, speed, speed**3)
    strength = numbers.freshness / jnp.sqrt(1.0 - numbers.persistence**2)
    return SweepState(
        cell,
        jax.random.uniform(keys[3], (MOMENTS,)),
        numbers.max_speed * speed,
        strength * jax.random.normal(keys[4], (MOMENTS,)),
        jnp.zeros((MOMENTS,), int),
    )


def _uniform(range_: Range, *, key: PRNGKeyArray) -> Float[Array, ""]:
    return jax.random.uniform(key, minval=range_.low, maxval=range_.high)


def _log_uniform(range_: Range, *, key: PRNGKeyArray) -> Float[Array, ""]:
    return jnp.exp(_uniform(Range(*jnp.log(jnp.asarray(range_))), key=key))
