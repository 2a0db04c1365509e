"""Proximal policy optimisation (Schulman et al. 2017), discounted or not."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from scrl.learners.actors import Chooser, chooser
from scrl.learners.config import PpoConfig
from scrl.learners.encoders import Encoder
from scrl.learners.learner import Learner, Pricing
from scrl.learners.networks import ValueNet, adam_memory, adam_step
from scrl.rollout import Rollout


class PpoState(NamedTuple):
    """Actor, critic, and the optimiser state."""

    actor: Chooser
    critic: ValueNet
    optimiser: optax.OptState


class Sample(NamedTuple):
    """Steps with their advantages and the critic's targets."""

    actor_inputs: Float[Array, "sample actor_input"]
    critic_inputs: Float[Array, "sample critic_input"]
    action: Shaped[Array, "sample ..."]
    log_probability: Float[Array, " sample"]
    advantage: Float[Array, " sample"]
    target: Float[Array, "sample channel"]


def learner(config: PpoConfig, encoder: Encoder) -> Learner:
    """PPO for inputs of these sizes."""

    def init(*, key: PRNGKeyArray) -> PpoState:
        actor_key, critic_key = jax.random.split(key)
        actor = chooser(config, encoder, key=actor_key)
        critic = ValueNet(
            encoder.critic_size,
            config.hidden,
            encoder.channels,
            blocks=encoder.blocks,
            key=critic_key,
        )
        return PpoState(actor, critic, adam_memory((actor, critic)))

    def explore(
        state: PpoState, inputs: Float[Array, " input"], noise: Float[Array, "*noise"]
    ) -> tuple[Shaped[Array, "*action"], Float[Array, ""]]:
        return state.actor.explore(inputs, noise)

    def update(
        state: PpoState,
        rollout: Rollout,
        kappas: Float[Array, "world atom"],
        pricing: Pricing,
        progress: Float[Array, ""],
        *,
        key: PRNGKeyArray,
    ) -> tuple[PpoState, Float[Array, ""]]:
        charge_key, epoch_key = jax.random.split(key)
        sample = _sample(config, encoder, state.critic, rollout, kappas, pricing, key=charge_key)
        return _epochs(config, state, sample, config.rate_at(progress), key=epoch_key)

    return Learner(init, explore, lambda state: state.actor.without_noise, update)


def _sample(
    config: PpoConfig,
    encoder: Encoder,
    critic: ValueNet,
    rollout: Rollout,
    kappas: Float[Array, "world atom"],
    pricing: Pricing,
    *,
    key: PRNGKeyArray,
) -> Sample:
    """Compute penalised rewards and advantages of a rollout, and flatten its steps."""
    prices = jax.vmap(pricing.price)(kappas)
    paid = jax.vmap(jax.vmap(partial(pricing.channels, encoder)), in_axes=(None, 0, 0, 0))(
        kappas, rollout.reward, rollout.labels, pricing.uniform(rollout.reward.shape, key=key)
    )

    def values(inputs: Float[Array, "time world input"]) -> Float[Array, "time world channel"]:
        return encoder.channel_unit * jax.vmap(jax.vmap(critic))(inputs)

    seen = jax.vmap(jax.vmap(encoder.critic), in_axes=(0, None))
    inputs = seen(rollout.observation, prices)
    value = values(inputs)
    after = values(seen(rollout.next_observation, prices))
    advantage = advantages(
        paid, value, after, pricing.is_end(rollout), rollout.is_truncated,
        discount=config.gamma, trace=config.trace,
    )  # fmt: skip
    single = encoder.value(advantage, prices)
    rows = Sample(
        jax.vmap(jax.vmap(encoder.actor), in_axes=(0, None))(rollout.observation, prices),
        inputs,
        rollout.action,
        rollout.log_probability,
        (single - single.mean()) / (single.std() + 1e-8),
        (value + advantage) / encoder.channel_unit,
    )
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), rows)


def advantages(
    paid: Float[Array, "time world channel"],
    value: Float[Array, "time world channel"],
    after: Float[Array, "time world channel"],
    is_end: Bool[Array, "time world"],
    is_truncated: Bool[Array, "time world"],
    *,
    discount: float,
    trace: float,
) -> Float[Array, "time world channel"]:
    """A_t = delta_t + gamma lambda A_(t+1) with delta_t = r + gamma V(s') - V(s).

    Nothing follows the end of a sum. A step that is only truncated is followed by V(s') but by no
    A_(t+1): the next row belongs to another episode.
    """
    follow = jnp.where(is_end[..., None], 0.0, after)
    delta = paid + discount * follow - value

    def back(
        later: Float[Array, "world channel"], now: tuple[Array, Array]
    ) -> tuple[Float[Array, "world channel"], Float[Array, "world channel"]]:
        delta, is_over = now
        advantage = delta + jnp.where(is_over[:, None], 0.0, discount * trace * later)
        return advantage, advantage

    steps = (delta, is_end | is_truncated)
    return jax.lax.scan(back, jnp.zeros_like(delta[0]), steps, reverse=True)[1]


def _epochs(
    config: PpoConfig, state: PpoState, sample: Sample, rate: Array, *, key: PRNGKeyArray
) -> tuple[PpoState, Float[Array, ""]]:
    """Several passes over the shuffled sample; returns the mean loss of the last pass."""
    size = len(sample.action) // config.minibatches

    def step(state: PpoState, part: Sample) -> tuple[PpoState, Array]:
        (actor, critic), optimiser, loss = adam_step(
            lambda learned: _loss(learned[0], learned[1], part, config),
            (state.actor, state.critic),
            state.optimiser,
            (config.actor_share * rate, rate),
            largest_gradient=config.largest_gradient,
        )
        return PpoState(actor, critic, optimiser), loss

    def epoch(state: PpoState, key: PRNGKeyArray) -> tuple[PpoState, Array]:
        order = random_order(len(sample.action), key=key)[: size * config.minibatches]
        parts = jax.tree.map(
            lambda leaf: leaf[order].reshape(config.minibatches, size, *leaf.shape[1:]), sample
        )
        return jax.lax.scan(step, state, parts)

    state, losses = jax.lax.scan(epoch, state, jax.random.split(key, config.epochs))
    return state, losses[-1].mean()


def random_order(count: int, *, key: PRNGKeyArray) -> Int[Array, " place"]:
    """A random permutation of the indices.

    Each sorted number has random high bits and the index in its low bits, which is several times
    as fast as `jax.random.permutation`. Indices with equal random bits stay in order.
    """
    place = jnp.arange(count, dtype=jnp.uint32)
    below = jnp.uint32((1 << (count - 1).bit_length()) - 1)
    bits = jax.random.bits(key, (count,), jnp.uint32)
    return (jnp.sort((bits & ~below) | place) & below).astype(int)


def _loss(actor: Chooser, critic: ValueNet, part: Sample, config: PpoConfig) -> Float[Array, ""]:
    """Clipped surrogate + squared value error + the actor's own loss term."""
    log_probability, added = jax.vmap(partial(actor.judge, config))(part.actor_inputs, part.action)
    ratio = jnp.exp(log_probability - part.log_probability)
    clipped = jnp.clip(ratio, 1.0 - config.clip, 1.0 + config.clip)
    gain = jnp.minimum(ratio * part.advantage, clipped * part.advantage)
    error = jnp.mean((jax.vmap(critic)(part.critic_inputs) - part.target) ** 2, axis=-1)
    return jnp.mean(-gain + 0.5 * error + added)
