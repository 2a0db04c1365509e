"""What the networks see of an external environment: normalised observations, and prices."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from scrl.learners.actions import ActionKind
from scrl.learners.encoders import PricedEncoder
from scrl.rollout import Rollout
from scrl.single_runs import RunAtoms, SeenRun

FARTHEST = 10.0
"""Features are cut off this many standard deviations from their mean."""


FOLLOWING = 0.05
"""How far units go towards those of the last rollout."""
LEAST_SHARE = 0.1
"""A label counts as if at least this share of the steps had it: it may become frequent."""


def _nearer(unit: Float[Array, "*unit"], now: Float[Array, "*unit"]) -> Float[Array, "*unit"]:
    """A unit that follows the policy; it never vanishes."""
    return unit + FOLLOWING * (now - unit)


class RunningMoments(eqx.Module):
    """Mean and variance of all observations so far, feature by feature."""

    count: Float[Array, ""]
    mean: Float[Array, " feature"]
    variance: Float[Array, " feature"]

    def with_more(self, seen: Float[Array, "*batch feature"]) -> RunningMoments:
        """The same over these observations too."""
        rows = seen.reshape(-1, seen.shape[-1])
        more = float(len(rows))
        total = self.count + more
        shift = rows.mean(axis=0) - self.mean
        squares = self.count * self.variance + more * rows.var(axis=0)
        squares = squares + shift**2 * self.count * more / total
        return RunningMoments(total, self.mean + shift * more / total, squares / total)


def spread_of(moments: RunningMoments) -> Float[Array, " feature"]:
    """What features are divided by."""
    return jnp.sqrt(moments.variance) + 1e-6


class EnvironmentEncoder(PricedEncoder, eqx.Module):
    """How observations and prices become inputs, and the critic's outputs a value."""

    price_unit: Float[Array, ""]
    """The mean reward of a step, without its sign."""
    channel_unit: Float[Array, " channel"]
    """Typical sizes of what the critic predicts."""
    label_unit: Float[Array, " region"]
    """What a step gives to a region, when it gives something; below 0 where labels count down."""
    moments: RunningMoments
    actions: ActionKind = eqx.field(static=True)
    own_features: int = eqx.field(static=True)
    """Of the environment."""
    regions: int = eqx.field(static=True)
    sees_prices: bool = eqx.field(static=True)
    atoms: int = eqx.field(static=True)
    of_runs: RunAtoms | None = None
    """Atoms whose violations in single runs have a price; observations then end with what each
    region had so far in this run, and its steps."""

    @property
    def features(self) -> int:
        """The length of an observation."""
        return self.own_features + (0 if self.of_runs is None else self.regions + 1)

    def updated(self, rollout: Rollout) -> Self:
        """With the observations of a rollout in the moments, and units nearer to its steps."""
        labels = jnp.abs(rollout.labels[..., : self.regions])
        times = (labels > 0).sum(axis=(0, 1))
        usual = jnp.where(
            times > 0, labels.sum(axis=(0, 1)) / jnp.maximum(times, 1), jnp.abs(self.label_unit)
        )
        label_unit = _nearer(self.label_unit, jnp.sign(self.label_unit) * usual)
        price_unit = _nearer(self.price_unit, jnp.abs(rollout.reward).mean())
        steps = self.channel_unit[0] / self.price_unit
        given = jnp.maximum(labels.mean(axis=(0, 1)), LEAST_SHARE * jnp.abs(label_unit))
        given = jnp.sign(label_unit) * steps * given
        of_labels = self.channel_unit[1:]
        if self.is_decomposed:
            nearer = _nearer(of_labels[: self.regions], given)
            of_labels = jnp.concatenate([nearer, of_labels[self.regions :]])
        return replace(
            self,
            price_unit=price_unit,
            channel_unit=jnp.concatenate([(steps * price_unit)[None], of_labels]),
            label_unit=label_unit,
            moments=self.moments.with_more(rollout.observation[..., : self.own_features]),
        )

    @property
    def actor_size(self) -> int:
        seen = self.own_features + (self.regions if self.sees_prices else 0)
        if self.of_runs is None:
            return seen
        return seen + self.regions + 1 + 2 * len(self.of_runs.bounds)

    @property
    def critic_size(self) -> int:
        if self.of_runs is None or not self.sees_prices:
            return self.actor_size
        return self.actor_size + 2 * len(self.of_runs.bounds)

    def actor(
        self, observation: Float[Array, " feature"], price: Float[Array, " region"]
    ) -> Float[Array, " input"]:
        """The features in standard deviations, and the prices, large ones on a log scale.

        Where runs are counted, the prices are those of this run, and it sees what it needs.
        """
        shifted = observation[: self.own_features] - self.moments.mean
        parts = [jnp.clip(shifted / spread_of(self.moments), -FARTHEST, FARTHEST)]
        now = price[: self.regions]
        if self.of_runs is not None:
            run = SeenRun.of(self.of_runs, observation)
            now = now + self.of_runs.price(price[self.regions :], run.forecast, run.left)
            parts.append(run.needs(self.of_runs, self.step_of_atom))
        return jnp.concatenate([*parts, self.seen_prices(now)] if self.sees_prices else parts)

    @property
    def step_of_atom(self) -> Float[Array, " atom"]:
        """What a typical step does to the side of an atom of single runs."""
        assert self.of_runs is not None  # noqa: S101 (for the type checker)
        return (jnp.abs(self.of_runs.coefficients) * jnp.abs(self.label_unit)).sum(axis=1)

    def seen_prices(self, price: Float[Array, " region"]) -> Float[Array, " region"]:
        """Prices as networks see them: what a typical step in a region earns."""
        return jnp.arcsinh(price * self.label_unit / self.price_unit)

    def critic(
        self, observation: Float[Array, " feature"], price: Float[Array, " region"]
    ) -> Float[Array, " input"]:
        """The same, and what violations of this run cost and are, by the forecast."""
        seen = self.actor(observation, price)
        if self.of_runs is None or not self.sees_prices:
            return seen
        step = self.step_of_atom
        cost = jnp.arcsinh(price[self.regions :] * step / self.price_unit)
        run = SeenRun.of(self.of_runs, observation)
        violation = self.of_runs.violation(run.forecast, run.left)
        return jnp.concatenate([seen, cost, jnp.arcsinh(violation / step)])
