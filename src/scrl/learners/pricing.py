"""Transitions and kappa -> what a learner is paid. Raw rewards are stored, prices come last."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from scrl.learners.eyes import Eyes
from scrl.punish import Atoms, Mechanism


class Pricing(eqx.Module):
    """The present kappa and how it charges."""

    atoms: Atoms
    kappa: Float[Array, " atom"]
    mechanism: Mechanism = eqx.field(static=True)
    wobble: float = eqx.field(static=True)
    """Each world drives under its own kappa, up to a factor e^wobble from the present one."""
    rate: Float[Array, ""]
    """Units that a step of service gives out."""

    def kappas_around(self, count: int, *, key: PRNGKeyArray) -> Float[Array, "lane atom"]:
        """Kappas near the present one, so that a policy that sees prices knows its surroundings."""
        # The atom comes first, so that atoms added as padding do not change what others draw.
        shape = (len(self.kappa), count)
        factor = jax.random.uniform(key, shape, minval=-self.wobble, maxval=self.wobble)
        return self.kappa * jnp.exp(factor.T)

    def luck(self, shape: tuple[int, ...], *, key: PRNGKeyArray) -> Float[Array, "*shape clause"]:
        """What the draws of as many transitions hang on."""
        drawn = jax.random.uniform(key, (len(self.atoms.listed), *shape))
        return jnp.moveaxis(drawn, 0, -1)

    def price(self, kappa: Float[Array, " atom"]) -> Float[Array, " region"]:
        return self.mechanism.price(self.atoms, kappa)

    def channels(
        self,
        eyes: Eyes,
        kappa: Float[Array, " atom"],
        reward: Float[Array, ""],
        labels: Float[Array, " region"],
        luck: Float[Array, " clause"],
    ) -> Float[Array, " channel"]:
        """The punished reward r - sigma, in one piece or in parts that add up to it at the price.

        The labels are paid at their price, and what the draw charged beyond its expectation stays
        with the reward.
        """
        punished = reward - self.mechanism.charge(self.atoms, kappa, labels, luck)
        if not eyes.sees_prices:
            return punished[None]
        rest = punished - self.price(kappa) @ labels
        return jnp.concatenate([rest[None], labels])
