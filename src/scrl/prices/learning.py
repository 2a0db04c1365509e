"""Fitted value iteration for W on random roads, or on worlds that are named.

W(moment) = max over throttles of what the step gains on the fluid + discount x W(moment after).
The right side, computed with a copy of the network that follows slowly, is what the network is
fitted to; the world is known, so every throttle is tried and nothing needs to be explored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from scrl.learners.adam import adam_memory, adam_step
from scrl.learners.offpolicy import follow
from scrl.prices.outlook import Outlook, sight, window_for
from scrl.prices.policy import AheadOfFluid, scores
from scrl.prices.ranges import Ranges
from scrl.prices.roads import Road, random_moments, random_prices, random_road
from scrl.worlds.settings import check_settings, setting
from scrl.worlds.sweep import SweepState, SweepWorld


@dataclass(frozen=True)
class LearningConfig:
    """How the price policy is learned."""

    updates: int = setting(20_000, "Updates of the network.", low=1, high=100_000_000)
    roads: int = setting(64, "Roads in each update.", low=1, high=65_536)
    width: int = setting(32, "Units in each hidden layer.", low=1, high=1024)
    depth: int = setting(2, "Hidden layers.", low=0, high=8)
    learning_rate: float = setting(
        2e-3, "Of Adam, at the start.", low=0.0, is_low_open=True, high=1.0
    )
    last_rate: float = setting(
        0.02, "Learning rate at the end, as a share of that at the start.", low=0.0, high=1.0
    )
    target_rate: float = setting(
        0.02, "Share by which the copy follows in each update.", low=0.0, is_low_open=True, high=1.0
    )

    def __post_init__(self) -> None:
        check_settings(self)


class LearningState(NamedTuple):
    """What is carried from update to update."""

    ahead: AheadOfFluid
    slow: AheadOfFluid
    """The copy that follows; it is the one handed out."""
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
    """So many updates in one call; with worlds named, each of them in turn. The mean error."""
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
    """Moments on one road, and what the best throttle is worth in each."""
    road_key, moment_key = jax.random.split(key)
    world, outlook = make_road(key=road_key)
    moments = random_moments(world, key=moment_key)

    def one(moment: SweepState) -> tuple[Float[Array, " sight"], Float[Array, ""]]:
        view = outlook.view(moment.cell)
        seen = sight(world, view, moment.offset, moment.speed, moment.gust)
        return seen, scores(ahead, world, outlook, moment).max()

    return jax.vmap(one)(moments)


def _error(difference: Float[Array, " moment"]) -> Float[Array, ""]:
    """Squared where it is small, straight where it is large (pseudo-Huber)."""
    return jnp.mean(jnp.sqrt(1.0 + difference**2) - 1.0)
