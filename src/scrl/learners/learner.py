"""The interface of learners, a record of pure functions, and their penalised rewards."""

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
from scrl.single_runs import observe_run
from scrl.worlds.sweep.world import SweepState, SweepWorld


class Pricing(eqx.Module):
    """The present kappa, its penalty and the atoms: what turns rewards into penalised rewards."""

    atoms: Atoms
    kappa: Float[Array, " atom"]
    excess: Float[Array, " atom"]
    """a . density - b of the policy without noise, with the bounds drawn in."""
    penalty: Penalty
    rate: Float[Array, ""]
    """Units that a step of service gives out."""
    ends_with_horizon: bool = eqx.field(static=True, default=False)
    """Whether nothing is summed after a truncated step, although the world goes on."""
    unit: float | Float[Array, " region"] = 1.0
    """The price at which a typical label is worth a typical reward."""

    def is_end(self, rollout: Rollout) -> Bool[Array, "time world"]:
        """After which steps there is nothing more to sum: V(s') counts as 0 there."""
        return rollout.is_terminated | (rollout.is_truncated & self.ends_with_horizon)

    def kappas_of_worlds(self, count: int, *, key: PRNGKeyArray) -> Float[Array, "lane atom"]:
        """The kappa of each of some worlds, as the penalty says."""
        return self.penalty.kappas_of_worlds(self.kappa, count, unit=self.unit, key=key)

    def uniform(
        self, shape: tuple[int, ...], *, key: PRNGKeyArray
    ) -> Float[Array, "*shape clause"]:
        """Uniform numbers for the atom draws of a batch of transitions."""
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
        """The penalised reward r - sigma, whole or as channels that sum to it at the prices.

        The labels are paid at their price; the difference between the drawn charge and its
        expectation is added to the reward channel.
        """
        punished = reward - self.penalty.charge(self.atoms, kappa, labels, uniform)
        if not encoder.is_decomposed:
            return punished[None]
        rest = punished - self.price(kappa) @ labels
        return jnp.concatenate([rest[None], labels])


LearnerState = Any
"""The state of a learner between updates: networks, optimiser states, a replay buffer."""


class Learner(NamedTuple):
    """A learner as a record of pure functions that may be compiled."""

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
    multipliers: Callable[[LearnerState], Float[Array, " atom"]] | None = None
    """(state) -> the kappa of a learner that moves its multipliers itself, if it does."""


class TrainedPolicy(eqx.Module):
    """A learned policy: a network, its encoder, and the prices in its inputs."""

    network: eqx.Module
    encoder: Encoder
    price: Float[Array, " region"]

    @property
    def is_random(self) -> bool:
        return False

    @property
    def regions(self) -> int:
        """The number of regions it was trained for."""
        return self.encoder.regions

    def __call__(
        self, observation: Float[Array, " feature"], *, key: PRNGKeyArray
    ) -> Float[Array, " *action"]:
        del key
        return self.throttle(observation)

    def throttle(self, observation: Float[Array, " feature"]) -> Float[Array, " *action"]:
        """What the network answers to an observation, within [0, 1]."""
        throttle = self.network(self.encoder.actor(observation, self.price))  # pyright: ignore[reportCallIssue]
        return jnp.clip(throttle, 0.0, 1.0)


class ReactingPolicy(TrainedPolicy):
    """A learned policy that also sees what each region had so far."""

    def begin(self) -> tuple[()]:
        return ()

    def at(
        self, world: SweepWorld, state: SweepState, service: Float[Array, " region"], memory: Any
    ) -> tuple[Float[Array, " *action"], Any]:
        """The throttle after so many steps of service in each region."""
        return self.throttle(observe_run(world, state, service)), memory


def policy_of(
    network: eqx.Module, encoder: Encoder, price: Float[Array, " label"]
) -> TrainedPolicy:
    """The policy of a network; one that reacts if its encoder counts what a run had so far."""
    kind = TrainedPolicy if encoder.of_runs is None else ReactingPolicy
    return kind(network, encoder, price)
