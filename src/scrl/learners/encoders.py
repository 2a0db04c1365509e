"""Encoders: the inputs of the networks from an observation and, optionally, the prices.

A price is the expected gain of a step in a region under the present kappa (-E sigma). A policy that
sees the prices adapts to a change of kappa without an update; one that does not must relearn. Since
penalised rewards are linear in the labels, the critic can predict the return and what each region
will still receive separately; these predictions stay valid when kappa changes.
"""

from __future__ import annotations

from typing import Any, Protocol, Self

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from scrl.learners.actions import THROTTLE, Continuous
from scrl.learners.networks import Blocks
from scrl.worlds.sweep.observation import (
    OBSERVED_SCALARS,
    VIEWS,
    observation_size,
    read_observation,
)


class Encoder(Protocol):
    """The interface of encoders that learners use, for any world."""

    @property
    def price_unit(self) -> Float[Array, ""]: ...
    @property
    def channel_unit(self) -> Float[Array, " channel"]: ...
    @property
    def regions(self) -> int: ...
    @property
    def sees_prices(self) -> bool: ...
    @property
    def is_decomposed(self) -> bool: ...
    @property
    def atoms(self) -> int: ...
    @property
    def actions(self) -> Any: ...
    @property
    def features(self) -> int: ...
    @property
    def actor_size(self) -> int: ...
    @property
    def critic_size(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def blocks(self) -> Blocks | None: ...
    def actor(self, observation: Array, price: Array) -> Array: ...
    def critic(self, observation: Array, price: Array) -> Array: ...
    def value(self, channels: Array, price: Array) -> Array: ...
    @property
    def label_unit(self) -> Float[Array, " region"]: ...
    def updated(self, observation: Array) -> Self: ...


class PricedEncoder:
    """An encoder whose critic predicts the penalised return, or the return and all labels."""

    channel_unit: Float[Array, " channel"]

    @property
    def channels(self) -> int:
        """How many numbers the critic predicts."""
        return self.channel_unit.shape[-1]

    @property
    def is_decomposed(self) -> bool:
        """Whether the critic predicts the return and all labels separately."""
        return self.channels > 1

    def value(
        self, channels: Float[Array, "*batch channel"], price: Float[Array, "*#batch region"]
    ) -> Float[Array, "*batch"]:
        """The channels at their price: return + price . labels."""
        return at_price(channels, price) if self.is_decomposed else channels[..., 0]


class SweepEncoder(PricedEncoder, eqx.Module):
    """The encoder of the sweep world."""

    price_unit: Float[Array, ""]
    """The scale of prices: the mean absolute reward of a step."""
    channel_unit: Float[Array, " channel"]
    """Typical sizes of what the critic predicts."""
    regions: int = eqx.field(static=True)
    sees_prices: bool = eqx.field(static=True)
    atoms: int = eqx.field(static=True, default=0)
    """Number of atoms in the reading, for learners with their own multipliers."""

    @property
    def label_unit(self) -> Float[Array, " region"]:
        """A step serves a region or does not: labels are 0 or 1."""
        return jnp.ones(self.regions)

    def updated(self, observation: Float[Array, "time world feature"]) -> Self:
        """Observations have units of their own: there is nothing to learn from them."""
        del observation
        return self

    @property
    def actions(self) -> Continuous:
        """The action space."""
        return THROTTLE

    @property
    def features(self) -> int:
        """The length of an observation."""
        return observation_size(self.regions)

    @property
    def actor_size(self) -> int:
        if not self.sees_prices:
            return self.features
        return OBSERVED_SCALARS + self.regions + VIEWS

    @property
    def critic_size(self) -> int:
        if not self.sees_prices:
            return self.features
        return OBSERVED_SCALARS + 4 * self.regions

    @property
    def blocks(self) -> Blocks | None:
        """Layout of the regional inputs of the critic; None without a channel per region."""
        is_by_region = self.sees_prices and self.is_decomposed
        return Blocks(OBSERVED_SCALARS, 4) if is_by_region else None

    def actor(
        self, observation: Float[Array, " feature"], price: Float[Array, " region"]
    ) -> Float[Array, " input"]:
        """The inputs of the actor: scalars, regions served here, prices here and ahead."""
        if not self.sees_prices:
            return observation
        seen = read_observation(observation)
        return jnp.concatenate([seen.scalars, seen.views[0], seen.views @ price / self.price_unit])

    def critic(
        self, observation: Float[Array, " feature"], price: Float[Array, " region"]
    ) -> Float[Array, " input"]:
        """The inputs of the critic: scalars, regions here, shares left, prices, products."""
        if not self.sees_prices:
            return observation
        seen = read_observation(observation)
        scaled = price / self.price_unit
        parts = [seen.scalars, seen.views[0], seen.left, scaled, seen.left * scaled]
        return jnp.concatenate(parts)


def at_price(
    channels: Float[Array, "*batch channel"], price: Float[Array, "*#batch region"]
) -> Float[Array, "*batch"]:
    """return + price . labels, where the channels are the return and the labels."""
    return channels[..., 0] + jnp.sum(channels[..., 1:] * price, axis=-1)
