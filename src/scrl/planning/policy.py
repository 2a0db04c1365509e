"""The price policy: the throttle of the largest value, one step ahead.

The value of a throttle is what its step earns beyond the fluid, plus the learned value W of the
next state relative to the fluid:

    score(a) = -1 / (1 + d) + (price earned) - (fluid gain of the way) + discount(d) W(after)

W is a network. Its inputs (`features.sight`) are the prices a short way ahead, the speed and the
vehicle, so one network serves all maps, regions and rules. The discount is one of distance, not of
time: slow driving does not reduce it, and W stays local.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from scrl.learners.networks import ValueNet
from scrl.planning.features import (
    SIGHTS,
    Outlook,
    at_best_flow,
    reach,
    sight,
    with_best_flow,
)
from scrl.worlds.sweep.world import SweepState, SweepWorld, dynamics

NODES, STEPS_BETWEEN = 6, 5
"""W is evaluated at some throttles and interpolated linearly between them."""
_NODES = np.linspace(0.0, 1.0, NODES) ** 2
_TRIED = np.linspace(0.0, 1.0, (NODES - 1) * STEPS_BETWEEN + 1) ** 2
"""The throttles that are tried, from the crawl to 1, denser at low speeds."""
_BETWEEN = np.stack([np.interp(_TRIED, _NODES, row) for row in np.eye(NODES)], axis=1)
MEMORY = 4.0
"""Distance, in lengths of `reach`, over which the discount falls to 1 / e."""
_NOISE = np.sqrt(3.0) * np.array([-1.0, 0.0, 1.0])
_NOISE_WEIGHT = np.array([1.0, 4.0, 1.0]) / 6.0
"""Three-point Gauss-Hermite quadrature of a normal distribution."""


class AheadOfFluid(eqx.Module):
    """W: the value of a state relative to the fluid, in efforts."""

    network: ValueNet

    def __init__(self, hidden: tuple[int, ...], *, key: PRNGKeyArray) -> None:
        self.network = ValueNet(SIGHTS, hidden, 1, key=key)

    def __call__(self, seen: Float[Array, " sight"]) -> Float[Array, ""]:
        return self.network(seen)[0]


class PricePolicy(eqx.Module):
    """The price policy on one world at given prices."""

    ahead: AheadOfFluid
    outlook: Outlook

    @property
    def is_random(self) -> bool:
        return False

    @property
    def cells(self) -> int:
        """Number of cells of the path that the prices belong to."""
        return self.outlook.cells

    def begin(self) -> tuple[()]:
        return ()

    def at(
        self, world: SweepWorld, state: SweepState, service: Float[Array, " region"], memory: Any
    ) -> tuple[Float[Array, " *action"], Any]:
        """The action in this state, whatever was given so far."""
        del service
        best = jnp.argmax(scores(self.ahead, world, self.outlook, state))
        throttle = _throttles(world, _TRIED)[best]
        if not world.has_flow:
            return throttle, memory
        speed = dynamics.next_speed(world.numbers, state.speed, throttle, jnp)
        gust = world.numbers.persistence * state.gust
        distance = dynamics.ground_speed(speed, gust, jnp)
        earned = self.outlook.view(state.cell).earned(state.offset, distance)
        return with_best_flow(world, throttle, earned), memory


def scores(
    ahead: AheadOfFluid, world: SweepWorld, outlook: Outlook, state: SweepState
) -> Float[Array, " tried"]:
    """The value of each throttle."""
    numbers, view = world.numbers, outlook.view(state.cell)
    left = world.length - state.cell
    speed = dynamics.next_speed(numbers, state.speed, _throttles(world, _TRIED), jnp)
    before = view.gain_upto(state.offset)

    def gained(gust: Float[Array, ""]) -> Float[Array, " tried"]:
        """What the step earns beyond the fluid."""
        distance = dynamics.ground_speed(speed, gust, jnp)
        landing = state.offset + distance
        way = view.gain_upto(landing) - before
        earned = at_best_flow(world, view.earned(state.offset, distance), distance)
        return -1.0 / (1.0 + distance) + earned - way

    gust = state.gust
    if world.is_windy:
        gust = numbers.persistence * state.gust
        gusts = gust + numbers.freshness * jnp.asarray(_NOISE)
        now = jnp.asarray(_NOISE_WEIGHT) @ jax.vmap(gained)(gusts)
    else:
        now = gained(gust)

    def later(speed: Float[Array, ""]) -> Float[Array, ""]:
        """The value W of the state after the step."""
        distance = dynamics.ground_speed(speed, gust, jnp)
        landing = state.offset + distance
        worth = ahead(sight(world, view, landing, speed, gust))
        discount = jnp.exp(-distance / (MEMORY * reach(numbers)))
        return jnp.where(landing >= left, 0.0, discount * worth)

    nodes = dynamics.next_speed(numbers, state.speed, _throttles(world, _NODES), jnp)
    # A sum, since XLA would call a library for a matrix product, which costs more.
    return now + (jnp.asarray(_BETWEEN, jnp.float32) * jax.vmap(later)(nodes)).sum(axis=1)


def _throttles(world: SweepWorld, shares: np.ndarray) -> Float[Array, " throttle"]:
    crawl = world.numbers.crawl
    return crawl + (1.0 - crawl) * shares
