"""What every learner is: a few pure functions in a record; and what it is paid at a kappa."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from scrl.learners.encoders import Encoder
from scrl.penalty import Atoms, Penalty
from scrl.rollout import Rollout


class Pricing(eqx.Module):
    """The present kappa and how it charges."""

    atoms: Atoms
    kappa: Float[Array, " atom"]
    penalty: Penalty = eqx.field(static=True)
    wobble: float = eqx.field(static=True)
    """Each world drives under its own kappa, up to a factor e^wobble from the present one."""
    rate: Float[Array, ""]
    """Units that a step of service gives out."""
    ends_with_horizon: bool = eqx.field(static=True, default=False)
    """Whether nothing is summed after a truncated step, although the world goes on."""

    def is_end(self, rollout: Rollout) -> Bool[Array, "time world"]:
        """After which steps there is nothing more to sum: V(s') counts as 0 there."""
        return rollout.is_terminated | (rollout.is_truncated & self.ends_with_horizon)

    def kappas_around(self, count: int, *, key: PRNGKeyArray) -> Float[Array, "lane atom"]:
        """Kappas near the present one, so that a policy that sees prices knows its surroundings."""
        # The atom comes first, so that atoms added as padding do not change what others draw.
        shape = (len(self.kappa), count)
        factor = jax.random.uniform(key, shape, minval=-self.wobble, maxval=self.wobble)
        return self.kappa * jnp.exp(factor.T)

    def uniform(
        self, shape: tuple[int, ...], *, key: PRNGKeyArray
    ) -> Float[Array, "*shape clause"]:
        """What the draws of as many transitions hang on."""
        drawn = jax.random.uniform(key, (len(self.atoms.listed), *shape))
        return jnp.moveaxis(drawn, 0, -1)

    def price(self, kappa: Float[Array, " atom"]) -> Float[Array, " region"]:
        return self.penalty.price(self.atoms, kappa)

    def channels(
        self,
        encoder: Encoder,
        kappa: Float[Array, " atom"],
        reward: Float[Array, ""],
        labels: Float[Array, " region"],
        uniform: Float[Array, " clause"],
    ) -> Float[Array, " channel"]:
        """The punished reward r - sigma, in one piece or in parts that add up to it at the price.

        The labels are paid at their price, and what the draw charged beyond its expectation stays
        with the reward.
        """
        punished = reward - self.penalty.charge(self.atoms, kappa, labels, uniform)
        if not encoder.sees_prices:
            return punished[None]
        rest = punished - self.price(kappa) @ labels
        return jnp.concatenate([rest[None], labels])


LearnerState = Any
"""Networks, optimisers, a replay buffer: whatever a learner carries from update to update."""


class Learner(NamedTuple):
    """Improves a policy from stretches of steps; all functions are pure and may be compiled."""

    init: Callable[..., LearnerState]
    """(key) -> state."""
    explore: Callable[..., tuple[Array, Float[Array, ""]]]
    """(state, inputs, noise) -> an action, and its log probability; noise is standard normal."""
    actor: Callable[[LearnerState], eqx.Module]
    """(state) -> the network that maps inputs to an action, without noise."""
    update: Callable[..., tuple[LearnerState, Float[Array, ""]]]
    """(state, rollout, kappas, pricing, progress, key) -> state, loss.

    `kappas` are those of the worlds of the rollout, `progress` goes from 0 to 1.
    """


class TrainedPolicy(eqx.Module):
    """A learned policy: a network, its encoder, and the prices it drives under."""

    network: eqx.Module
    encoder: Encoder
    price: Float[Array, " region"]

    @property
    def is_random(self) -> bool:
        return False

    @property
    def regions(self) -> int:
        """How many regions it was trained for."""
        return self.encoder.regions

    def __call__(
        self, observation: Float[Array, " feature"], *, key: PRNGKeyArray
    ) -> Float[Array, ""]:
        del key
        throttle = self.network(self.encoder.actor(observation, self.price))  # pyright: ignore[reportCallIssue]
        return jnp.clip(throttle, 0.0, 1.0)
