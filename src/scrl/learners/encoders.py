"""Encoders: the inputs of the networks from an observation and, optionally, the prices.

A price is the expected gain of a step in a region under the present kappa (-E sigma). A policy that
sees the prices adapts to a change of kappa without an update; one that does not must relearn. Since
penalised rewards are linear in the labels, a critic can predict the return and what each region
will still receive separately, for learners that need this and for a policy that learns any prices.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, Self

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from scrl.learners.actions import Continuous
from scrl.rollout import Rollout
from scrl.single_runs import FASTEST_PACE, NEAR, RunAtoms
from scrl.worlds.sweep.observation import (
    OBSERVED_SCALARS,
    VIEWS,
    Seen,
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
    def labels(self) -> int: ...
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
    def actor(self, observation: Array, price: Array) -> Array: ...
    def critic(self, observation: Array, price: Array) -> Array: ...
    def value(self, channels: Array, price: Array) -> Array: ...
    @property
    def label_unit(self) -> Float[Array, " region"]: ...
    @property
    def of_runs(self) -> RunAtoms | None: ...
    def updated(self, rollout: Rollout) -> Self: ...


class PricedEncoder:
    """An encoder whose critic predicts the penalised return, or the return and all labels."""

    channel_unit: Float[Array, " channel"]
    regions: int
    of_runs: RunAtoms | None

    @property
    def labels(self) -> int:
        """How many labels a step has: where runs are counted, also the violation of each atom."""
        return self.regions + (0 if self.of_runs is None else len(self.of_runs.bounds))

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


class SeenOfRun(NamedTuple):
    """What the service so far tells of a run."""

    price: Float[Array, " region"]
    """What service is worth in this run."""
    seen: Float[Array, " input"]
    """For each atom its pace, its pace if it counts here, and how near its bound it is."""
    at_price: Float[Array, " input"]
    """For each atom what its violation costs, the same times its pace, and its violation."""


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
    of_runs: RunAtoms | None = None
    """Atoms whose violations in single runs have a price; observations then end with service."""
    action_shape: tuple[int, ...] = eqx.field(static=True, default=())
    """Of a throttle, or with a flow of a throttle and an opening."""
    largest_labels: Float[Array, " region"] | None = None
    """Where totals are counted, which have labels of their own size."""

    @property
    def label_unit(self) -> Float[Array, " region"]:
        """A step serves a region or does not: labels are 0 or 1, but for totals."""
        return jnp.ones(self.regions) if self.largest_labels is None else self.largest_labels

    def updated(self, rollout: Rollout) -> Self:
        """Maps tell all units: there is nothing to learn from a rollout."""
        del rollout
        return self

    @property
    def actions(self) -> Continuous:
        """The action space."""
        return Continuous(self.action_shape)

    @property
    def features(self) -> int:
        """The length of an observation."""
        return observation_size(self.regions) + (0 if self.of_runs is None else self.regions)

    @property
    def actor_size(self) -> int:
        if not self.sees_prices:
            return self.features
        return OBSERVED_SCALARS + self.regions + VIEWS + 3 * self._atoms_of_runs

    @property
    def critic_size(self) -> int:
        if not self.sees_prices:
            return self.features
        return OBSERVED_SCALARS + 4 * self.regions + 6 * self._atoms_of_runs

    @property
    def _atoms_of_runs(self) -> int:
        return 0 if self.of_runs is None else len(self.of_runs.bounds)

    def actor(
        self, observation: Float[Array, " feature"], price: Float[Array, " region"]
    ) -> Float[Array, " input"]:
        """The inputs of the actor: scalars, regions served here, prices here and ahead.

        Where runs are counted, the prices are those of this run, and it sees its forecasts.
        """
        if not self.sees_prices:
            return self._plain(observation)
        seen, run = self._read(observation, price)
        if run is None:
            ahead = seen.views @ price / self.price_unit
            return jnp.concatenate([seen.scalars, seen.views[0], ahead])
        ahead = jnp.arcsinh(seen.views @ run.price / self.price_unit)
        return jnp.concatenate([seen.scalars, seen.views[0], ahead, run.seen])

    def critic(
        self, observation: Float[Array, " feature"], price: Float[Array, " region"]
    ) -> Float[Array, " input"]:
        """The inputs of the critic: scalars, regions here, shares left, prices, products."""
        if not self.sees_prices:
            return self._plain(observation)
        seen, run = self._read(observation, price)
        scaled = (price if run is None else run.price) / self.price_unit
        if self.largest_labels is not None:
            scaled *= self.largest_labels
        scaled = scaled if run is None else jnp.arcsinh(scaled)
        parts = [seen.scalars, seen.views[0], seen.left, scaled, seen.left * scaled]
        return jnp.concatenate(parts if run is None else [*parts, run.seen, run.at_price])

    def _plain(self, observation: Float[Array, " feature"]) -> Float[Array, " feature"]:
        """The observation itself; service so far as a multiple of one step for each cell."""
        if self.of_runs is None:
            return observation
        service = observation[-self.regions :] / jnp.maximum(self.of_runs.cells, 1.0)
        return jnp.concatenate([observation[: -self.regions], service])

    def _read(
        self, observation: Float[Array, " feature"], price: Float[Array, " label"]
    ) -> tuple[Seen, SeenOfRun | None]:
        """The parts of an observation, and what it tells of this run where runs are counted."""
        if self.of_runs is None:
            return read_observation(observation), None
        seen = read_observation(observation[: -self.regions])
        atoms = self.of_runs
        forecast = atoms.forecast(observation[-self.regions :], seen.left)
        pace = jnp.clip(atoms.pace(forecast, seen.left), -FASTEST_PACE, FASTEST_PACE)
        side = jnp.clip(atoms.side(forecast) / NEAR, -1.0, 1.0)
        here = (atoms.coefficients * seen.views[0]).sum(axis=1)
        here /= jnp.abs(atoms.coefficients).max(axis=1)
        of_violation = price[self.regions :]
        worth = jnp.arcsinh(of_violation / self.price_unit)
        violated = atoms.violation(forecast, seen.left) / (1.0 + jnp.abs(atoms.bounds))
        return seen, SeenOfRun(
            price[: self.regions] + atoms.price(of_violation, forecast, seen.left),
            jnp.concatenate([pace, pace * here, side]),
            jnp.concatenate([worth, worth * pace, violated]),
        )


def at_price(
    channels: Float[Array, "*batch channel"], price: Float[Array, "*#batch region"]
) -> Float[Array, "*batch"]:
    """return + price . labels, where the channels are the return and the labels."""
    return channels[..., 0] + jnp.sum(channels[..., 1:] * price, axis=-1)
