"""Stochastic policies for PPO and CPO: Gaussian and categorical.

What is measured and handed out is the mean of a Gaussian, and of a categorical policy its draw:
the best policy under a rule on average may have to draw, and a mean of choices there is none.
The mean of the Gaussian is not squashed: a sigmoid saturates at full speed before any penalty has
grown, and then learns nothing. Instead a loss term pulls the mean back into [0, 1].
"""

from __future__ import annotations

import math
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from scrl.learners.actions import Discrete
from scrl.learners.config import OnPolicyConfig
from scrl.learners.encoders import Encoder
from scrl.learners.networks import Mlp, outside


class MeanActor(eqx.Module):
    """The deterministic continuous action of a network."""

    network: Mlp
    first: float = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, inputs: Float[Array, " input"]) -> Float[Array, "*action"]:
        return self.first + self.network(inputs).reshape(self.shape)


class GaussianActor(eqx.Module):
    """A Gaussian policy with one standard deviation for all inputs."""

    mean: MeanActor
    free_log_spread: Float[Array, "*action"]
    least_std: float = eqx.field(static=True)

    @property
    def handed_out(self) -> MeanActor:
        return self.mean

    @property
    def log_spread(self) -> Float[Array, "*action"]:
        return jnp.maximum(self.free_log_spread, math.log(self.least_std))

    def limited(self, log_std: Float[Array, ""] | float) -> GaussianActor:
        """With standard deviations up to a limit."""
        limited = jnp.minimum(self.free_log_spread, log_std)
        return eqx.tree_at(lambda actor: actor.free_log_spread, self, limited)

    def explore(
        self, inputs: Float[Array, " input"], noise: Float[Array, "*action"]
    ) -> tuple[Float[Array, "*action"], Float[Array, ""]]:
        """An action and its log probability; the noise is standard normal."""
        mean = self.mean(inputs)
        action = mean + noise * jnp.exp(self.log_spread)
        return action, self._log_probability(mean, action)

    def judge(
        self,
        config: OnPolicyConfig,
        inputs: Float[Array, " input"],
        action: Float[Array, "*action"],
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The log probability of an action, and the loss of means outside [0, 1]."""
        mean = self.mean(inputs)
        return self._log_probability(mean, action), config.pull * outside(mean).sum()

    def divergence(self, other: GaussianActor, inputs: Float[Array, " input"]) -> Float[Array, ""]:
        """KL(self || other) = sum log(s' / s) + (s^2 + (m - m')^2) / (2 s'^2) - 1/2."""
        variance, moved = jnp.exp(2.0 * self.log_spread), self.mean(inputs) - other.mean(inputs)
        scaled = 0.5 * (variance + moved**2) * jnp.exp(-2.0 * other.log_spread)
        return jnp.sum(other.log_spread - self.log_spread + scaled - 0.5)

    def _log_probability(
        self, mean: Float[Array, "*action"], action: Float[Array, "*action"]
    ) -> Float[Array, ""]:
        score = (action - mean) / jnp.exp(self.log_spread)
        each = -0.5 * score**2 - self.log_spread - 0.5 * math.log(2.0 * math.pi)
        return each.sum()


class GreedyActor(eqx.Module):
    """In each entry of an action the choice with the largest logit."""

    network: Mlp
    kind: Discrete = eqx.field(static=True)

    def __call__(self, inputs: Float[Array, " input"]) -> Int[Array, "*action"]:
        return _largest(self.kind, _entries(self.kind, self.network(inputs)))


class DrawnActor(eqx.Module):
    """In each entry of an action a draw from the softmax of the logits."""

    network: Mlp
    kind: Discrete = eqx.field(static=True)

    def __call__(
        self, inputs: Float[Array, " input"], uniform: Float[Array, " choice"]
    ) -> Int[Array, "*action"]:
        """The choices for numbers drawn uniformly from (0, 1); equal ones give the likeliest."""
        # -log(-log(u)) is Gumbel distributed, and the argmax of its sum with logits is a draw.
        gumbel = -jnp.log(-jnp.log(jnp.clip(uniform, LEAST_UNIFORM, 1.0 - LEAST_UNIFORM)))
        return _largest(self.kind, _entries(self.kind, self.network(inputs) + gumbel))


LEAST_UNIFORM = 1e-6


class CategoricalActor(eqx.Module):
    """Independent categorical policies for the entries of an action; a network has the logits."""

    network: Mlp
    kind: Discrete = eqx.field(static=True)
    is_greedy: bool = eqx.field(static=True, default=False)
    """Whether the policy that is handed out takes the likeliest choices."""

    @property
    def handed_out(self) -> GreedyActor | DrawnActor:
        return (GreedyActor if self.is_greedy else DrawnActor)(self.network, self.kind)

    def limited(self, log_std: Float[Array, ""] | float) -> CategoricalActor:
        """The same: choices have no standard deviation."""
        del log_std
        return self

    def explore(
        self, inputs: Float[Array, " input"], noise: Float[Array, " choice"]
    ) -> tuple[Int[Array, "*action"], Float[Array, ""]]:
        """Choices and their log probability; the noise is standard normal.

        -log(-log(Phi(noise))) is Gumbel distributed, so that the argmax of its sum with the
        logits is a draw from the softmax.
        """
        likes = self._likes(inputs)
        gumbel = _entries(self.kind, -jnp.log(-jax.scipy.special.log_ndtr(noise)))
        drawn = [like + each for like, each in zip(likes, gumbel, strict=True)]
        choice = _largest(self.kind, drawn)
        return choice, _log_probability(likes, choice)

    def judge(
        self, config: OnPolicyConfig, inputs: Float[Array, " input"], action: Int[Array, "*action"]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The log probability of choices, and the entropy loss."""
        likes = self._likes(inputs)
        negentropy = sum((jnp.sum(jnp.exp(like) * like) for like in likes), jnp.zeros(()))
        return _log_probability(likes, action), config.ent_coef * negentropy

    def divergence(
        self, other: CategoricalActor, inputs: Float[Array, " input"]
    ) -> Float[Array, ""]:
        """KL(self || other) = sum p log(p / p')."""
        both = zip(self._likes(inputs), other._likes(inputs), strict=True)
        return sum((jnp.sum(jnp.exp(own) * (own - its)) for own, its in both), jnp.zeros(()))

    def _likes(self, inputs: Float[Array, " input"]) -> list[Float[Array, " choice"]]:
        """The log probabilities of the choices in each entry."""
        return [jax.nn.log_softmax(each) for each in _entries(self.kind, self.network(inputs))]


def _entries(kind: Discrete, numbers: Float[Array, " choice"]) -> list[Float[Array, " choice"]]:
    """The logits of all entries, entry by entry."""
    return jnp.split(numbers, np.cumsum(kind.counts)[:-1].tolist())


def _largest(kind: Discrete, entries: list[Float[Array, " choice"]]) -> Int[Array, "*action"]:
    return jnp.stack([jnp.argmax(each) for each in entries]).reshape(kind.shape)


def _log_probability(
    likes: list[Float[Array, " choice"]], action: Int[Array, "*action"]
) -> Float[Array, ""]:
    pairs = zip(likes, action.reshape(-1), strict=True)
    return sum((like[choice] for like, choice in pairs), jnp.zeros(()))


Chooser: TypeAlias = GaussianActor | CategoricalActor


def chooser(config: OnPolicyConfig, encoder: Encoder, *, key: PRNGKeyArray) -> Chooser:
    """An untrained policy for the inputs and the action space of an encoder."""
    actions = encoder.actions
    network = Mlp(encoder.actor_size, config.hidden, actions.size, last_scale=0.01, key=key)
    if isinstance(actions, Discrete):
        return CategoricalActor(network, actions, config.is_greedy)
    spread = jnp.full(actions.shape, jnp.log(jnp.asarray(config.initial_std, float)))
    return GaussianActor(
        MeanActor(network, config.first_mean, actions.shape), spread, config.least_std
    )
