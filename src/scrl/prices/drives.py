"""Prices -> what driving by them does: many plans side by side in one compiled call."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from scrl.prices.outlook import Outlook, window_for
from scrl.prices.policy import AheadOfFluid, PricePolicy
from scrl.rollout import Episode, run_recorded
from scrl.worlds.spec import SweepSpec
from scrl.worlds.sweep import SweepWorld

AT_ONCE = 4
"""Plans in one call. Calls run in threads of their own, which is what fills the cores."""


class Driven(NamedTuple):
    """What plans did; amounts in raw units, return raw."""

    returns: Float[np.ndarray, "plan episode"]
    amounts: Float[np.ndarray, "plan episode region"]
    steps: Float[np.ndarray, "plan episode"]
    is_finished: Bool[np.ndarray, " plan"]
    """Whether every episode came to its end in the time it was given."""
    throttles: list[Float[np.ndarray, " step"]]
    """Those of each plan in its first episode."""


class Driver:
    """Drives one world by any prices."""

    def __init__(self, ahead: AheadOfFluid, spec: SweepSpec, world: SweepWorld) -> None:
        self.ahead, self.spec, self.world = ahead, spec, world
        self.window = window_for(spec.vehicle.max_speed, spec.vehicle.inertia)

    def policy(self, price: Float[np.ndarray, " region"]) -> PricePolicy:
        """The policy for prices in return per step."""
        scaled = jnp.asarray(price / self.spec.vehicle.effort, jnp.float32)
        return PricePolicy(self.ahead, Outlook.of(self.world, scaled, self.window))

    def drive(
        self,
        prices: Float[np.ndarray, "plan region"],
        *,
        most_steps: float,
        keys: PRNGKeyArray,
    ) -> Driven:
        """Every plan in the same episodes, one for each key; longer ones are broken off."""
        until = int(min(most_steps, self.spec.route.horizon_steps))
        parts = [prices[first : first + AT_ONCE] for first in range(0, len(prices), AT_ONCE)]
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            ran = list(threads.map(lambda part: self._drive_some(part, until, keys), parts))
        joined, actions = jax.tree.map(lambda *leaves: np.concatenate(leaves), *ran)
        return Driven(
            joined.return_.astype(float),
            self.spec.vehicle.rate * joined.service.astype(float),
            joined.steps.astype(float),
            joined.is_terminated.all(axis=1),
            [each[:steps] for each, steps in zip(actions, joined.steps[:, 0], strict=True)],
        )

    def _drive_some(
        self, prices: Float[np.ndarray, "plan region"], until: int, keys: PRNGKeyArray
    ) -> tuple[Episode, Float[np.ndarray, "plan step"]]:
        """Some plans in one call: the same number each time, so that it is compiled once."""
        padded = np.concatenate([prices, np.repeat(prices[:1], AT_ONCE - len(prices), axis=0)])
        ran = _drive_all(
            self.ahead, self.world, jnp.asarray(padded / self.spec.vehicle.effort, jnp.float32),
            jnp.asarray(until, int), keys, window=self.window, room=_power(until),
        )  # fmt: skip
        return jax.tree.map(lambda leaf: np.asarray(leaf)[: len(prices)], ran)


def _power(number: int) -> int:
    """The next power of two."""
    return 2 ** (number - 1).bit_length()


@partial(jax.jit, static_argnames=("window", "room"))
def _drive_all(
    ahead: AheadOfFluid,
    world: SweepWorld,
    prices: Float[Array, "plan region"],
    until_step: Int[Array, ""],
    keys: PRNGKeyArray,
    *,
    window: int,
    room: int,
) -> tuple[Episode, Float[Array, "plan step"]]:
    def plan(price: Float[Array, " region"]) -> tuple[Episode, Float[Array, " step"]]:
        policy = PricePolicy(ahead, Outlook.of(world, price, window))

        def episode(key: PRNGKeyArray) -> tuple[Episode, Float[Array, " step"]]:
            return run_recorded(world, policy, key=key, until_step=until_step, room=room)

        episodes, actions = jax.vmap(episode)(keys)
        return episodes, actions[0]

    return jax.vmap(plan)(prices)
