"""Soft actor-critic (Haarnoja et al. 2018) with two critics and a tuned temperature.

The Gaussian is not squashed (see `actors`): a loss term pulls its mean back into [0, 1], and the
world clips actions. The temperature keeps the standard deviation near a given one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from scrl.learners.config import SacConfig
from scrl.learners.encoders import Encoder
from scrl.learners.learner import Learner
from scrl.learners.networks import Mlp, adam_memory, adam_step, flat, outside
from scrl.learners.offpolicy import (
    ActionValue,
    PricedBatch,
    Replay,
    action_values,
    empty,
    follow,
    replaying,
    squared_error,
)

LEAST_LOG_SPREAD, MOST_LOG_SPREAD = math.log(0.01), math.log(1.0)


class SoftThrottle(eqx.Module):
    """A Gaussian policy whose mean and standard deviation come from one network."""

    network: Mlp
    first: float = eqx.field(static=True)
    first_log_spread: float = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, inputs: Float[Array, " input"]) -> Float[Array, "*action"]:
        return self.first + self.network(inputs).reshape(2, *self.shape)[0]

    def draw(
        self, inputs: Float[Array, " input"], noise: Float[Array, "*action"]
    ) -> tuple[Float[Array, "*action"], Float[Array, ""], Float[Array, "*action"]]:
        """An action, its log probability, and its mean."""
        raw_mean, raw_spread = self.network(inputs).reshape(2, *self.shape)
        mean = self.first + raw_mean
        log_spread = jnp.clip(self.first_log_spread + raw_spread, LEAST_LOG_SPREAD, MOST_LOG_SPREAD)
        log_probability = -0.5 * noise**2 - log_spread - 0.5 * math.log(2.0 * math.pi)
        return mean + jnp.exp(log_spread) * noise, log_probability.sum(), mean


class SacState(NamedTuple):
    """Networks, target networks, temperature, optimiser states, and the replay buffer."""

    actor: SoftThrottle
    critics: tuple[ActionValue, ActionValue]
    target_critics: tuple[ActionValue, ActionValue]
    log_temperature: Float[Array, ""]
    optimisers: tuple[optax.OptState, optax.OptState, optax.OptState]
    replay: Replay


def first_state(config: SacConfig, encoder: Encoder, *, key: PRNGKeyArray) -> SacState:
    """Untrained networks and an empty replay buffer."""
    actor_key, one_key, other_key = jax.random.split(key, 3)
    outputs, shape = 2 * encoder.actions.size, encoder.actions.shape
    network = Mlp(encoder.actor_size, config.hidden, outputs, last_scale=0.01, key=actor_key)
    actor = SoftThrottle(network, config.first_mean, math.log(config.target_std), shape)
    one = ActionValue(encoder, config.hidden, key=one_key)
    critics = (one, ActionValue(encoder, config.hidden, key=other_key))
    temperature = jnp.log(0.1 * encoder.price_unit)
    memories = (adam_memory(actor), adam_memory(critics), adam_memory(temperature))
    replay = empty(config.buffer_size, encoder.features, encoder.labels, shape)
    return SacState(actor, critics, critics, temperature, memories, replay)


def learner(config: SacConfig, encoder: Encoder) -> Learner:
    """SAC for inputs of these sizes."""

    def init(*, key: PRNGKeyArray) -> SacState:
        return first_state(config, encoder, key=key)

    def explore(
        state: SacState, inputs: Float[Array, " input"], noise: Float[Array, "*action"]
    ) -> tuple[Float[Array, "*action"], Float[Array, ""]]:
        action, log_probability, _ = state.actor.draw(inputs, noise)
        return action, log_probability

    def step(
        state: SacState, batch: PricedBatch, rate: Float[Array, ""], *, key: PRNGKeyArray
    ) -> tuple[SacState, Float[Array, ""]]:
        return soft_step(config, encoder, state, batch, rate, no_surcharge, key=key)

    update = replaying(config, encoder, step)
    return Learner(init, explore, lambda state: state.actor, update)


def no_surcharge(action: Float[Array, "sample ..."]) -> Float[Array, " sample"]:
    """No additional cost term in the actor's loss."""
    return jnp.zeros(len(action))


def soft_step(
    config: SacConfig,
    encoder: Encoder,
    state: SacState,
    batch: PricedBatch,
    rate: Float[Array, ""],
    surcharge: Callable[[Float[Array, "sample ..."]], Float[Array, " sample"]],
    *,
    key: PRNGKeyArray,
) -> tuple[SacState, Float[Array, ""]]:
    """One update of critics, actor and temperature.

    `surcharge(action)` is an additional cost of the actor's actions in the batch.
    """
    next_key, actor_key = jax.random.split(key)
    temperature = jnp.exp(state.log_temperature)
    target = _soft_target(config, encoder, state, batch, temperature, key=next_key)
    actor_memory, critic_memory, temperature_memory = state.optimisers
    critics, critic_memory, loss = adam_step(
        lambda both: (
            squared_error(encoder, both[0], batch, target)
            + squared_error(encoder, both[1], batch, target)
        ),
        state.critics, critic_memory, rate,
    )  # fmt: skip
    noise = jax.random.normal(actor_key, batch.action.shape)

    def actor_loss(actor: SoftThrottle) -> Float[Array, ""]:
        action, log_probability, mean = jax.vmap(actor.draw)(batch.actor_inputs, noise)
        value = encoder.value(
            _smaller(encoder, critics, batch.critic_inputs, action, batch.price), batch.price
        )
        cost = (temperature * log_probability - value + surcharge(action)) / encoder.price_unit
        return jnp.mean(cost + config.pull * outside(flat(mean)).sum(axis=1))

    actor, actor_memory, _ = adam_step(actor_loss, state.actor, actor_memory, rate)
    _, log_probability, _ = jax.vmap(actor.draw)(batch.actor_inputs, noise)
    entropy = -jnp.mean(log_probability)
    of_one = math.log(config.target_std) + 0.5 * math.log(2.0 * math.pi * math.e)
    wanted = encoder.actions.size * of_one
    log_temperature, temperature_memory, _ = adam_step(
        lambda log_temperature: log_temperature * jax.lax.stop_gradient(entropy - wanted),
        state.log_temperature, temperature_memory, rate,
    )  # fmt: skip
    return SacState(
        actor,
        critics,
        follow(state.target_critics, critics, config.tau),
        log_temperature,
        (actor_memory, critic_memory, temperature_memory),
        state.replay,
    ), loss


def _soft_target(
    config: SacConfig,
    encoder: Encoder,
    state: SacState,
    batch: PricedBatch,
    temperature: Float[Array, ""],
    *,
    key: PRNGKeyArray,
) -> Float[Array, "sample channel"]:
    """r + gamma (Q'(s', a') - temperature log pi(a' | s')); the entropy counts as return."""
    noise = jax.random.normal(key, batch.action.shape)
    action, log_probability, _ = jax.vmap(state.actor.draw)(batch.next_actor_inputs, noise)
    after = _smaller(encoder, state.target_critics, batch.next_critic_inputs, action, batch.price)
    after = after.at[:, 0].add(-temperature * log_probability)
    follows = jnp.where(batch.is_end, 0.0, config.gamma)[:, None]
    return batch.paid + follows * after


def _smaller(
    encoder: Encoder,
    critics: tuple[ActionValue, ActionValue],
    inputs: Float[Array, "sample input"],
    action: Float[Array, "sample ..."],
    price: Float[Array, "sample region"],
) -> Float[Array, "sample channel"]:
    """The channels of the critic that gives the action the smaller value at its price."""
    one, other = (action_values(encoder, critic, inputs, action) for critic in critics)
    is_one = encoder.value(one, price) < encoder.value(other, price)
    return jnp.where(is_one[:, None], one, other)
