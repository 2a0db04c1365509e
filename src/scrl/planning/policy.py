"""The price policy: of all throttles the one that is worth most, one step ahead.

A throttle is worth what its step earns beyond the fluid, and what is still to be gained or lost
against the fluid where it leads to:

    score(a) = -1 / (1 + d) + price(landing) - (fluid gain of the way) + discount(d) W(after)

W is what is learned. It sees only the moment (`outlook.sight`): the prices a little way ahead, the
speed, the vehicle. So it knows no map, no region and no rule, and serves them all. The discount is
one of distance, not of time: standing still is never cheaper for it, and W stays local.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from scrl.learners.networks import ValueNet
from scrl.planning.features import SIGHTS, Outlook, reach, sight
from scrl.worlds.sweep.world import SweepState, SweepWorld, dynamics

NODES, STEPS_BETWEEN = 6, 5
"""W is evaluated at some throttles and taken to be linear between them."""
_NODES = np.linspace(0.0, 1.0, NODES) ** 2
_TRIED = np.linspace(0.0, 1.0, (NODES - 1) * STEPS_BETWEEN + 1) ** 2
"""Throttles, from the crawl to 1: close together where the vehicle is slow."""
_BETWEEN = np.stack([np.interp(_TRIED, _NODES, row) for row in np.eye(NODES)], axis=1)
MEMORY = 4.0
"""What is gained or lost so many lengths of `reach` further on counts 1 / e."""
_NOISE = np.sqrt(3.0) * np.array([-1.0, 0.0, 1.0])
_NOISE_WEIGHT = np.array([1.0, 4.0, 1.0]) / 6.0
"""Three draws that stand for a normal one (Gauss and Hermite)."""


class AheadOfFluid(eqx.Module):
    """W: what will still be gained (or lost) against the fluid, in efforts."""

    network: ValueNet

    def __init__(self, hidden: tuple[int, ...], *, key: PRNGKeyArray) -> None:
        self.network = ValueNet(SIGHTS, hidden, 1, key=key)

    def __call__(self, seen: Float[Array, " sight"]) -> Float[Array, ""]:
        return self.network(seen)[0]


class PricePolicy(eqx.Module):
    """Drives one world at given prices."""

    ahead: AheadOfFluid
    outlook: Outlook

    @property
    def is_random(self) -> bool:
        return False

    @property
    def cells(self) -> int:
        """Of the path that it drives: its prices lie along that."""
        return self.outlook.cells

    def at(self, world: SweepWorld, state: SweepState) -> Float[Array, ""]:
        """The throttle in this state."""
        best = jnp.argmax(scores(self.ahead, world, self.outlook, state))
        return _throttles(world, _TRIED)[best]


def scores(
    ahead: AheadOfFluid, world: SweepWorld, outlook: Outlook, state: SweepState
) -> Float[Array, " tried"]:
    """What each throttle is worth."""
    numbers, view = world.numbers, outlook.view(state.cell)
    left = world.length - state.cell
    speed = dynamics.next_speed(numbers, state.speed, _throttles(world, _TRIED), jnp)
    before = view.gain_upto(state.offset)

    def gained(gust: Float[Array, ""]) -> Float[Array, " tried"]:
        """What the step itself earns beyond the fluid."""
        distance = dynamics.ground_speed(speed, gust, jnp)
        landing = state.offset + distance
        way = view.gain_upto(landing) - before
        return -1.0 / (1.0 + distance) + view.price_at(landing) - way

    gust = state.gust
    if world.is_windy:
        gust = numbers.persistence * state.gust
        gusts = gust + numbers.freshness * jnp.asarray(_NOISE)
        now = jnp.asarray(_NOISE_WEIGHT) @ jax.vmap(gained)(gusts)
    else:
        now = gained(gust)

    def later(speed: Float[Array, ""]) -> Float[Array, ""]:
        """What is still to come after the step."""
        distance = dynamics.ground_speed(speed, gust, jnp)
        landing = state.offset + distance
        worth = ahead(sight(world, view, landing, speed, gust))
        kept = jnp.exp(-distance / (MEMORY * reach(numbers)))
        return jnp.where(landing >= left, 0.0, kept * worth)

    nodes = dynamics.next_speed(numbers, state.speed, _throttles(world, _NODES), jnp)
    # A sum, not a matrix product: XLA would call a library for it, which costs more than it does.
    return now + (jnp.asarray(_BETWEEN, jnp.float32) * jax.vmap(later)(nodes)).sum(axis=1)


def _throttles(world: SweepWorld, shares: np.ndarray) -> Float[Array, " throttle"]:
    crawl = world.numbers.crawl
    return crawl + (1.0 - crawl) * shares
