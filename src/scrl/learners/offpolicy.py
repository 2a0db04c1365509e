"""Shared parts of DDPG and SAC: a replay buffer priced at sampling time, critics, targets."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from scrl.learners.config import ReplayConfig
from scrl.learners.encoders import Encoder
from scrl.learners.learner import Pricing
from scrl.learners.networks import ValueNet
from scrl.rollout import Rollout


class Memory(NamedTuple):
    """Stored transitions without penalty, which is computed when they are sampled."""

    observation: Float[Array, "*slots feature"]
    action: Float[Array, "*slots_and_action"]
    reward: Float[Array, "*slots"]
    labels: Float[Array, "*slots region"]
    is_end: Bool[Array, "*slots"]
    next_observation: Float[Array, "*slots feature"]


class Replay(NamedTuple):
    """A ring buffer of transitions, its next slot, and its size."""

    memory: Memory
    head: Int[Array, ""]
    filled: Int[Array, ""]


def empty(slots: int, features: int, labels: int, action: tuple[int, ...] = ()) -> Replay:
    """An empty buffer with this many slots."""
    memory = Memory(
        jnp.zeros((slots, features)),
        jnp.zeros((slots, *action)),
        jnp.zeros(slots),
        jnp.zeros((slots, labels)),
        jnp.zeros(slots, bool),
        jnp.zeros((slots, features)),
    )
    return Replay(memory, jnp.zeros((), int), jnp.zeros((), int))


def remember(replay: Replay, rollout: Rollout, is_end: Bool[Array, "time world"]) -> Replay:
    """Add the steps of a rollout; a full buffer overwrites its oldest ones."""
    slots = len(replay.memory.action)
    rows = Memory(
        rollout.observation,
        jnp.clip(rollout.action, 0.0, 1.0),
        rollout.reward,
        rollout.labels,
        is_end,
        rollout.next_observation,
    )
    # Of a rollout longer than the buffer only the newest steps are stored.
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[-slots:], rows)
    added = len(flat.action)
    place = (replay.head + jnp.arange(added)) % slots
    memory = jax.tree.map(lambda ring, new: ring.at[place].set(new), replay.memory, flat)
    return Replay(memory, (replay.head + added) % slots, jnp.minimum(replay.filled + added, slots))


def draw(replay: Replay, batch: int, *, key: PRNGKeyArray) -> Memory:
    """Stored transitions drawn uniformly with replacement."""
    place = jax.random.randint(key, (batch,), 0, replay.filled)
    return jax.tree.map(lambda ring: ring[place], replay.memory)


class PricedBatch(NamedTuple):
    """Stored transitions with inputs and rewards under the present kappa."""

    actor_inputs: Float[Array, "*samples actor_input"]
    critic_inputs: Float[Array, "*samples critic_input"]
    action: Float[Array, "*samples_and_action"]
    paid: Float[Array, "*samples channel"]
    is_end: Bool[Array, "*samples"]
    next_actor_inputs: Float[Array, "*samples actor_input"]
    next_critic_inputs: Float[Array, "*samples critic_input"]
    price: Float[Array, "*samples region"]
    labels: Float[Array, "*samples region"]
    kappa: Float[Array, "*samples atom"]


def priced_batch(
    encoder: Encoder, replay: Replay, pricing: Pricing, size: int, *, key: PRNGKeyArray
) -> PricedBatch:
    """Draw transitions and compute their rewards under a kappa each, so that none is stale."""
    draw_key, kappa_key, charge_key = jax.random.split(key, 3)
    drawn = draw(replay, size, key=draw_key)
    kappas = pricing.kappas_of_worlds(size, key=kappa_key)
    prices = jax.vmap(pricing.price)(kappas)

    def one(step: Memory, kappa: Array, price: Array, uniform: Array) -> PricedBatch:
        return PricedBatch(
            encoder.actor(step.observation, price),
            encoder.critic(step.observation, price),
            step.action,
            pricing.channels(encoder, kappa, step.reward, step.labels, uniform),
            step.is_end,
            encoder.actor(step.next_observation, price),
            encoder.critic(step.next_observation, price),
            price,
            step.labels,
            kappa,
        )

    return jax.vmap(one)(drawn, kappas, prices, pricing.uniform((size,), key=charge_key))


class ActionValue(eqx.Module):
    """Q(s, a) in channels: the return and the labels from this action on.

    Outputs are in units of `Encoder.channel_unit`, so that all channels are about 1.
    """

    network: ValueNet

    def __init__(self, encoder: Encoder, hidden: tuple[int, ...], *, key: PRNGKeyArray) -> None:
        self.network = ValueNet(
            encoder.critic_size + encoder.actions.size,
            hidden,
            encoder.channels,
            key=key,
        )

    def __call__(
        self, inputs: Float[Array, " input"], action: Float[Array, "*action"]
    ) -> Float[Array, " channel"]:
        bounded = jnp.clip(action, 0.0, 1.0)
        return self.network(jnp.concatenate([inputs, bounded.ravel()]))


def action_values(
    encoder: Encoder,
    critic: ActionValue,
    inputs: Float[Array, "sample input"],
    action: Float[Array, "sample ..."],
) -> Float[Array, "sample channel"]:
    """Q(s, a) of a batch, in units of reward and steps of service."""
    return encoder.channel_unit * jax.vmap(critic)(inputs, action)


def squared_error(
    encoder: Encoder,
    critic: ActionValue,
    batch: PricedBatch,
    target: Float[Array, "sample channel"],
) -> Float[Array, ""]:
    """Mean squared error of a critic in its own units."""
    guess = jax.vmap(critic)(batch.critic_inputs, batch.action)
    return jnp.mean((guess - target / encoder.channel_unit) ** 2)


def follow(target: Any, leader: Any, share: float) -> Any:
    """Soft update of the target networks: target + share (leader - target)."""
    return jax.tree.map(lambda slow, fast: slow + share * (fast - slow), target, leader)


BATCHES_AT_ONCE = 64
"""Batches that are drawn and priced together, which is three times as fast as one by one."""


def replaying(
    config: ReplayConfig, encoder: Encoder, step: Callable[..., tuple[Any, Float[Array, ""]]]
) -> Callable[..., tuple[Any, Float[Array, ""]]]:
    """The `update` of a learner whose state has a `replay`, from its step on one batch.

    `step(state, batch, rate, key)` gives the next state and a loss.
    """
    at_once = math.gcd(config.updates, BATCHES_AT_ONCE)

    def update(
        state: Any,
        rollout: Rollout,
        kappas: Float[Array, "world atom"],
        pricing: Pricing,
        progress: Float[Array, ""],
        *,
        key: PRNGKeyArray,
    ) -> tuple[Any, Float[Array, ""]]:
        """Store a rollout, then update on batches from the buffer; returns the mean loss."""
        del kappas  # remembered transitions get their own
        replay, rate = (
            remember(state.replay, rollout, pricing.is_end(rollout)),
            config.rate_at(progress),
        )

        def one(learned: Any, now: tuple[PricedBatch, Array]) -> tuple[Any, Float[Array, ""]]:
            batch, key = now
            return step(learned, batch, rate, key=key)

        def some(learned: Any, key: PRNGKeyArray) -> tuple[Any, Float[Array, " update"]]:
            batch_key, step_key = jax.random.split(key)
            drawn = priced_batch(
                encoder, replay, pricing, at_once * config.batch_size, key=batch_key
            )
            batches = jax.tree.map(
                lambda leaf: leaf.reshape(at_once, config.batch_size, *leaf.shape[1:]), drawn
            )
            return jax.lax.scan(one, learned, (batches, jax.random.split(step_key, at_once)))

        # The buffer does not change in these updates, so it is left out of the scan's carry.
        keys = jax.random.split(key, config.updates // at_once)
        learned, losses = jax.lax.scan(some, state._replace(replay=None), keys)
        return learned._replace(replay=replay), losses.mean()

    return update
