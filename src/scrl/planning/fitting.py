"""Fitted value iteration for the price policy, on random paths or on named worlds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from scrl.errors import MethodError
from scrl.learners.networks import adam_memory, adam_step
from scrl.learners.offpolicy import follow
from scrl.planning.features import Outlook, sight, window_for
from scrl.planning.policy import AheadOfFluid, scores
from scrl.planning.ranges import Ranges, SettingRange
from scrl.settings import check_settings, setting
from scrl.worlds.sweep.dynamics import Served
from scrl.worlds.sweep.world import SweepState, SweepWorld, VehicleNumbers

CELLS = 512
REGIONS = 6
LONGEST_STRETCH = 60.0
"""Largest mean length of the stretches of one region, in cells; the smallest is 1."""
MOMENTS = 16
"""States that are sampled on each road."""


class Road(NamedTuple):
    """A path with its vehicle, wind and prices, on which the policy is trained."""

    world: SweepWorld
    outlook: Outlook


def random_road(ranges: Ranges, *, window: int, key: PRNGKeyArray) -> Road:
    """A random path, vehicle and wind."""
    vehicle_key, path_key, price_key = jax.random.split(key, 3)
    numbers = random_vehicle(ranges, key=vehicle_key)
    length_key, border_key, region_key = jax.random.split(path_key, 3)
    mean_length = _log_uniform(SettingRange(1.0, LONGEST_STRETCH), key=length_key)
    is_border = jax.random.uniform(border_key, (CELLS,)) < 1.0 / mean_length
    region = jax.random.randint(region_key, (CELLS + 1,), 0, REGIONS)[jnp.cumsum(is_border)]
    unseen = jnp.zeros(CELLS + 1)
    served = Served(
        kind_of_part=jnp.concatenate([region, jnp.full((1,), REGIONS, region.dtype)]),
        kinds=jnp.eye(REGIONS + 1, REGIONS),
        **dict.fromkeys(("run_of_part", "first_part", "sums", "unit"), unseen),  # not asked for
    )
    world = SweepWorld(
        served=(served, served), place=(unseen, unseen), left=jnp.zeros((1, REGIONS)),
        cells_ahead=jnp.zeros(1, int), numbers=numbers, stride=1, horizon_steps=1, is_windy=True,
        is_poured=False,
    )  # fmt: skip
    return Road(world, Outlook.of(world, random_prices(REGIONS, key=price_key)[None], window))


def random_vehicle(ranges: Ranges, *, key: PRNGKeyArray) -> VehicleNumbers:
    """A random vehicle and wind within the ranges; half of them in calm air, if in range."""
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
        rate=one, effort=one, least_flow=one, least_dose=jnp.zeros(()), most_dose=one * jnp.inf,
        product=jnp.zeros(()), start_noise=jnp.zeros(()),
        persistence=persistence,
        freshness=jnp.sqrt(1.0 - persistence**2) * strength,
    )  # fmt: skip


MOST_TIME = SettingRange(2.0, 20.0)
LEAST_TIME = 0.1


def random_prices(regions: int, *, key: PRNGKeyArray) -> Float[Array, " region"]:
    """Random prices: half of the regions have a positive price, some a negative one, the rest 0.

    Positive prices are drawn by their best time per cell, since small differences near 1 matter.
    """
    most_key, time_key, cost_key, kind_key = jax.random.split(key, 4)
    most = _log_uniform(MOST_TIME, key=most_key)
    span = jnp.log(most / LEAST_TIME) * jax.random.uniform(time_key, (regions,))
    earning = 1.0 - (1.0 + LEAST_TIME * jnp.exp(span)) ** -2
    costing = -jnp.exp(jax.random.uniform(cost_key, (regions,), minval=-3.0, maxval=1.0))
    kind = jax.random.uniform(kind_key, (regions,))
    return jnp.where(kind < 0.5, earning, jnp.where(kind < 0.65, costing, 0.0))


def random_moments(world: SweepWorld, *, key: PRNGKeyArray) -> SweepState:
    """Random states: any place on the path, any speed, any gust."""
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


def _uniform(range_: SettingRange, *, key: PRNGKeyArray) -> Float[Array, ""]:
    return jax.random.uniform(key, minval=range_.low, maxval=range_.high)


def _log_uniform(range_: SettingRange, *, key: PRNGKeyArray) -> Float[Array, ""]:
    return jnp.exp(_uniform(SettingRange(*jnp.log(jnp.asarray(range_))), key=key))


@dataclass(frozen=True)
class LearningConfig:
    """Settings for training the price policy."""

    updates: int = setting(20_000, "Updates of the network.", low=1, high=100_000_000)
    roads: int = setting(64, "Roads in each update.", low=1, high=65_536)
    width: int = setting(32, "Units in each hidden layer.", low=1, high=1024)
    depth: int = setting(2, "Hidden layers.", low=0, high=8)
    learning_rate: float = setting(
        2e-3, "Learning rate of Adam at the start.", low=0.0, is_low_open=True, high=1.0
    )
    last_rate: float = setting(
        0.02, "Learning rate at the end, as a share of that at the start.", low=0.0, high=1.0
    )
    target_rate: float = setting(
        0.02,
        "Coefficient of the soft update of the target network.",
        low=0.0,
        is_low_open=True,
        high=1.0,
    )

    def __post_init__(self) -> None:
        check_settings(self, error=MethodError)


class LearningState(NamedTuple):
    """The state of the training between updates."""

    ahead: AheadOfFluid
    slow: AheadOfFluid
    """The target network, which is also the result."""
    memory: optax.OptState
    done: Array
    key: PRNGKeyArray


def begin(config: LearningConfig, *, key: PRNGKeyArray) -> LearningState:
    """An untrained network."""
    network_key, next_key = jax.random.split(key)
    ahead = AheadOfFluid((config.width,) * config.depth, key=network_key)
    return LearningState(ahead, ahead, adam_memory(ahead), jnp.zeros((), int), next_key)


def some_updates(
    config: LearningConfig,
    ranges: Ranges,
    worlds: Sequence[SweepWorld],
    state: LearningState,
    count: int,
) -> tuple[LearningState, Float[Array, ""]]:
    """Several updates in one call, over the named worlds in turn; returns the mean error."""
    if not worlds:
        return _on_random_roads(config, ranges, state, count)
    losses = []
    window = window_for(ranges.max_speed.high, ranges.inertia.high)
    for world in worlds:
        state, loss = _on_world(config, world, state, max(1, count // len(worlds)), window)
        losses.append(loss)
    return state, jnp.stack(losses).mean()


@partial(jax.jit, static_argnums=(0, 1, 3))
def _on_random_roads(
    config: LearningConfig, ranges: Ranges, state: LearningState, count: int
) -> tuple[LearningState, Float[Array, ""]]:
    window = window_for(ranges.max_speed.high, ranges.inertia.high)
    return _updates(config, state, count, partial(random_road, ranges, window=window))


@partial(jax.jit, static_argnums=(0, 3, 4))
def _on_world(
    config: LearningConfig, world: SweepWorld, state: LearningState, count: int, window: int
) -> tuple[LearningState, Float[Array, ""]]:
    def road(*, key: PRNGKeyArray) -> Road:
        price = random_prices(world.kinds.shape[1], key=key)
        return Road(world, Outlook.of(world, price[None], window))

    return _updates(config, state, count, road)


def _updates(
    config: LearningConfig, state: LearningState, count: int, make_road: Callable[..., Road]
) -> tuple[LearningState, Float[Array, ""]]:
    def one(state: LearningState, _: None) -> tuple[LearningState, Float[Array, ""]]:
        road_key, next_key = jax.random.split(state.key)
        keys = jax.random.split(road_key, config.roads)
        seen, target = jax.vmap(lambda key: _targets(make_road, state.slow, key=key))(keys)
        flat, wanted = seen.reshape(-1, seen.shape[-1]), target.reshape(-1)
        progress = state.done / config.updates
        rate = config.learning_rate * (
            config.last_rate + (1.0 - config.last_rate) * 0.5 * (1.0 + jnp.cos(jnp.pi * progress))
        )
        ahead, memory, loss = adam_step(
            lambda ahead: _error(jax.vmap(ahead)(flat) - wanted), state.ahead, state.memory, rate
        )
        slow = follow(state.slow, ahead, config.target_rate)
        return LearningState(ahead, slow, memory, state.done + 1, next_key), loss

    state, losses = jax.lax.scan(one, state, None, length=count)
    return state, losses.mean()


def _targets(
    make_road: Callable[..., Road], ahead: AheadOfFluid, *, key: PRNGKeyArray
) -> tuple[Float[Array, "moment sight"], Float[Array, " moment"]]:
    """States on one road, and the value of the best throttle in each."""
    road_key, moment_key = jax.random.split(key)
    world, outlook = make_road(key=road_key)
    moments = random_moments(world, key=moment_key)

    def one(moment: SweepState) -> tuple[Float[Array, " sight"], Float[Array, ""]]:
        view = outlook.view(moment.cell)
        seen = sight(world, view, moment.offset, moment.speed, moment.gust)
        return seen, scores(ahead, world, outlook, moment).max()

    return jax.vmap(one)(moments)


def _error(difference: Float[Array, " moment"]) -> Float[Array, ""]:
    """The pseudo-Huber loss: quadratic for small errors, linear for large ones."""
    return jnp.mean(jnp.sqrt(1.0 + difference**2) - 1.0)
