"""Proximal policy optimisation (Schulman et al. 2017), discounted or not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from scrl.learners.actors import Chooser, chooser
from scrl.learners.config import OnPolicyConfig, PpoConfig
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
        critic = value_net(config, encoder, key=critic_key)
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
        sample, _ = sample_of(
            config, encoder, state.critic, rollout, kappas, pricing, key=charge_key
        )
        rate = config.rate_at(progress)
        entropy = config.ent_coef * rate / config.learning_rate
        now = eqx.tree_at(lambda each: each.ent_coef, config, entropy)
        (actor, critic), optimiser, loss = epochs(
            config, lambda both, part: _loss(both[0], both[1], part, now),
            (state.actor, state.critic), state.optimiser, sample,
            (config.actor_share * rate, rate), key=epoch_key,
        )  # fmt: skip
        return PpoState(actor.limited(config.log_std_limit(progress)), critic, optimiser), loss

    return Learner(init, explore, lambda state: state.actor.handed_out, update)


def value_net(config: OnPolicyConfig, encoder: Encoder, *, key: PRNGKeyArray) -> ValueNet:
    """An untrained critic with an output for each channel."""
    return ValueNet(encoder.critic_size, config.hidden, encoder.channels, key=key)


def sample_of(
    config: OnPolicyConfig,
    encoder: Encoder,
    critic: ValueNet,
    rollout: Rollout,
    kappas: Float[Array, "world atom"],
    pricing: Pricing,
    *,
    key: PRNGKeyArray,
) -> tuple[Sample, Float[Array, "sample channel"]]:
    """The steps of a rollout with penalised rewards, and their advantages by channel."""
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
        discount=config.gamma, gae_lambda=config.gae_lambda,
    )  # fmt: skip
    single = encoder.value(advantage, prices)
    axis = 0 if config.is_by_world else None
    rows = Sample(
        jax.vmap(jax.vmap(encoder.actor), in_axes=(0, None))(rollout.observation, prices),
        inputs,
        rollout.action,
        rollout.log_probability,
        (single - single.mean(axis)) / (single.std(axis) + 1e-8),
        (value + advantage) / encoder.channel_unit,
    )
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), (rows, advantage))


def advantages(
    paid: Float[Array, "time world channel"],
    value: Float[Array, "time world channel"],
    after: Float[Array, "time world channel"],
    is_end: Bool[Array, "time world"],
    is_truncated: Bool[Array, "time world"],
    *,
    discount: float,
    gae_lambda: float,
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
        advantage = delta + jnp.where(is_over[:, None], 0.0, discount * gae_lambda * later)
        return advantage, advantage

    steps = (delta, is_end | is_truncated)
    return jax.lax.scan(back, jnp.zeros_like(delta[0]), steps, reverse=True)[1]


def epochs(
    config: OnPolicyConfig,
    loss: Callable[[Any, Sample], Float[Array, ""]],
    learned: Any,
    memory: optax.OptState,
    sample: Sample,
    rate: Any,
    *,
    key: PRNGKeyArray,
) -> tuple[Any, optax.OptState, Float[Array, ""]]:
    """Several passes over the shuffled sample; returns the mean loss of the last pass."""
    size = len(sample.action) // config.minibatches

    def step(now: tuple[Any, optax.OptState], part: Sample) -> tuple[Any, Array]:
        learned, memory, value = adam_step(
            lambda learned: loss(learned, part), *now, rate,
            max_grad_norm=config.max_grad_norm,
        )  # fmt: skip
        return (learned, memory), value

    def epoch(now: tuple[Any, optax.OptState], key: PRNGKeyArray) -> tuple[Any, Array]:
        order = random_order(len(sample.action), key=key)[: size * config.minibatches]
        parts = jax.tree.map(
            lambda leaf: leaf[order].reshape(config.minibatches, size, *leaf.shape[1:]), sample
        )
        return jax.lax.scan(step, now, parts)

    keys = jax.random.split(key, config.epochs)
    (learned, memory), losses = jax.lax.scan(epoch, (learned, memory), keys)
    return learned, memory, losses[-1].mean()


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
    clipped = jnp.clip(ratio, 1.0 - config.clip_range, 1.0 + config.clip_range)
    gain = jnp.minimum(ratio * part.advantage, clipped * part.advantage)
    return jnp.mean(-gain + value_error(critic, part) + added)


def value_error(critic: ValueNet, part: Sample) -> Float[Array, " sample"]:
    """Half the squared error of the critic, averaged over its channels."""
    return 0.5 * jnp.mean((jax.vmap(critic)(part.critic_inputs) - part.target) ** 2, axis=-1)
