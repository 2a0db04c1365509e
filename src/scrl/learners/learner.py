"""What every learner is: a few pure functions in a record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from scrl.learners.eyes import Eyes

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
    """(state, stretch, kappas, pricing, progress, key) -> state, loss.

    `kappas` are those of the worlds of the stretch, `progress` goes from 0 to 1.
    """


class SeeingPolicy(eqx.Module):
    """A learned policy: a network, its eyes, and the prices it drives under."""

    network: eqx.Module
    eyes: Eyes
    price: Float[Array, " region"]

    @property
    def is_random(self) -> bool:
        return False

    @property
    def regions(self) -> int:
        """How many regions it was trained for."""
        return self.eyes.regions

    def __call__(
        self, observation: Float[Array, " feature"], *, key: PRNGKeyArray
    ) -> Float[Array, ""]:
        del key
        throttle = self.network(self.eyes.actor(observation, self.price))  # pyright: ignore[reportCallIssue]
        return jnp.clip(throttle, 0.0, 1.0)
