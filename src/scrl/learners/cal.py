"""CAL, the conservative augmented Lagrangian (Wu et al. 2024): SAC with cost critics.

The cost of atom j in a step is w_j = a_j . labels / sum |a_j|. An ensemble of critics predicts the
cost Qc of the rest of the episode; the estimate is their mean plus a multiple of their standard
deviation. The actor's loss has the term

    max(0, lambda_j + c (Qc_j(start) - budget_j)) Qc_j(s, a)

and Adam raises log lambda along Qc_j(start) - budget_j. Amounts are plain sums over an episode, so
costs are compared with the budget at the start of an episode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from scrl.learners.config import CalConfig
from scrl.learners.encoders import Encoder
from scrl.learners.learner import Learner, Pricing
from scrl.learners.networks import ValueNet, adam_memory, adam_step, flat
from scrl.learners.offpolicy import PricedBatch, Replay, follow, replaying
from scrl.learners.sac import SacState, first_state, soft_step
from scrl.penalty import weights
from scrl.rollout import Rollout

COST_UNIT = 0.2
"""Unit of the cost critics as a share of an episode, so that their outputs are about 1."""

MOST_LOG_MULTIPLIER = 10.0
"""Upper limit, since the multiplier of an atom that can never hold grows without bound."""


class CalState(NamedTuple):
    """The state of SAC, cost critics with targets, multipliers, and an initial observation."""

    soft: SacState
    critics: ValueNet
    """All cost critics, stacked along the first axis of each leaf."""
    target_critics: ValueNet
    log_multiplier: Float[Array, " atom"]
    optimisers: tuple[optax.OptState, optax.OptState]
    start: Float[Array, " feature"]
    """The observation at the start of an episode."""
    replay: Replay | None


def learner(config: CalConfig, encoder: Encoder) -> Learner:
    """CAL for inputs of these sizes."""

    def init(*, key: PRNGKeyArray) -> CalState:
        soft_key, cost_key = jax.random.split(key)
        soft = first_state(config, encoder, key=soft_key)

        @jax.vmap
        def make(key: PRNGKeyArray) -> ValueNet:
            return ValueNet(
                encoder.critic_size + encoder.actions.size, config.hidden, encoder.atoms, key=key
            )

        critics = make(jax.random.split(cost_key, config.cost_critics))
        log_multiplier = jnp.log(jnp.full(encoder.atoms, config.first_multiplier, float))
        memories = (adam_memory(critics), adam_memory(log_multiplier))
        start = jnp.zeros(encoder.features)
        replay = soft.replay
        return CalState(
            soft._replace(replay=None), critics, critics, log_multiplier, memories, start, replay
        )

    def explore(
        state: CalState, inputs: Float[Array, " input"], noise: Float[Array, "*action"]
    ) -> tuple[Float[Array, "*action"], Float[Array, ""]]:
        action, log_probability, _ = state.soft.actor.draw(inputs, noise)
        return action, log_probability

    def update(
        state: CalState,
        rollout: Rollout,
        kappas: Float[Array, "world atom"],
        pricing: Pricing,
        progress: Float[Array, ""],
        *,
        key: PRNGKeyArray,
    ) -> tuple[CalState, Float[Array, ""]]:
        # The first rollout begins at the start of episodes.
        start = jnp.where(progress == 0.0, rollout.observation[0, 0], state.start)
        return replaying(config, encoder, step_for(pricing))(
            state._replace(start=start), rollout, kappas, pricing, progress, key=key
        )

    def step_for(pricing: Pricing) -> Callable[..., tuple[CalState, Float[Array, ""]]]:
        def step(
            state: CalState, batch: PricedBatch, rate: Float[Array, ""], *, key: PRNGKeyArray
        ) -> tuple[CalState, Float[Array, ""]]:
            return _step(config, encoder, pricing, state, batch, rate, key=key)

        return step

    def multipliers(state: CalState) -> Float[Array, " atom"]:
        """What a step is charged: multipliers are in units of the mean cost of a step."""
        return encoder.price_unit * jnp.exp(state.log_multiplier)

    return Learner(init, explore, lambda state: state.soft.actor, update, multipliers)


def _step(
    config: CalConfig,
    encoder: Encoder,
    pricing: Pricing,
    state: CalState,
    batch: PricedBatch,
    rate: Float[Array, ""],
    *,
    key: PRNGKeyArray,
) -> tuple[CalState, Float[Array, ""]]:
    """Update the cost critics and multipliers, then SAC with the costs in the actor's loss."""
    next_key, soft_key = jax.random.split(key)
    critic_memory, multiplier_memory = state.optimisers
    target = _cost_target(config, encoder, pricing, state, batch, key=next_key)

    def cost_error(critics: ValueNet) -> Float[Array, ""]:
        return jnp.mean((_costs(critics, batch.critic_inputs, batch.action) - target) ** 2)

    critics, critic_memory, _ = adam_step(cost_error, state.critics, critic_memory, rate)
    over = _over_budget(config, encoder, pricing, state, critics)
    log_multiplier, multiplier_memory, _ = adam_step(
        lambda log_multiplier: -jnp.sum(jnp.exp(log_multiplier) * over),
        state.log_multiplier, multiplier_memory, config.multiplier_rate,
    )  # fmt: skip
    # Each transition has a kappa of its own around the present one, as the policy is to see it.
    share = jnp.where(pricing.kappa > 0.0, batch.kappa / pricing.kappa, 1.0)
    multiplier = share * jnp.exp(state.log_multiplier)
    weight = jnp.maximum(multiplier + config.convexity * over, 0.0)

    def surcharge(action: Float[Array, "sample ..."]) -> Float[Array, " sample"]:
        """The cost term of the actor's loss in units of reward; multipliers are step prices."""
        cost = _upper(config, _costs(critics, batch.critic_inputs, action))
        return encoder.channel_unit[0] * COST_UNIT * jnp.sum(cost * weight, axis=1)

    soft, loss = soft_step(config, encoder, state.soft, batch, rate, surcharge, key=soft_key)
    return CalState(
        soft,
        critics,
        follow(state.target_critics, critics, config.tau),
        jnp.minimum(log_multiplier, MOST_LOG_MULTIPLIER),
        (critic_memory, multiplier_memory),
        state.start,
        state.replay,
    ), loss


def _cost_target(
    config: CalConfig,
    encoder: Encoder,
    pricing: Pricing,
    state: CalState,
    batch: PricedBatch,
    *,
    key: PRNGKeyArray,
) -> Float[Array, "critic sample atom"]:
    """w + gamma Qc'(s', a'), for every critic by its own target network."""
    paid = batch.labels @ weights(pricing.atoms).T / _unit(encoder)
    noise = jax.random.normal(key, batch.action.shape)
    action, _, _ = jax.vmap(state.soft.actor.draw)(batch.next_actor_inputs, noise)
    after = _costs(state.target_critics, batch.next_critic_inputs, action)
    return paid + jnp.where(batch.is_end, 0.0, config.gamma)[:, None] * after


def _over_budget(
    config: CalConfig, encoder: Encoder, pricing: Pricing, state: CalState, critics: ValueNet
) -> Float[Array, " atom"]:
    """Excess of an episode's cost over its budget, as a share of the episode."""
    price = pricing.price(pricing.kappa)
    action = state.soft.actor(encoder.actor(state.start, price))
    inputs = encoder.critic(state.start, price)
    cost = _upper(config, _costs(critics, inputs[None], action[None]))[0]
    budget = pricing.atoms.bounds / (pricing.rate * pricing.atoms.size * _unit(encoder))
    return COST_UNIT * (cost - budget)


def _costs(
    critics: ValueNet, inputs: Float[Array, "sample input"], action: Float[Array, "sample ..."]
) -> Float[Array, "critic sample atom"]:
    seen = jnp.concatenate([inputs, flat(jnp.clip(action, 0.0, 1.0))], axis=1)
    return jax.vmap(lambda critic: jax.vmap(critic)(seen))(critics)


def _upper(
    config: CalConfig, costs: Float[Array, "critic sample atom"]
) -> Float[Array, "sample atom"]:
    """Mean + k standard deviations over the critics."""
    # The gradient of the square root at 0 is not finite.
    spread = jnp.sqrt(costs.var(axis=0) + 1e-12)
    return costs.mean(axis=0) + config.confidence * spread


def _unit(encoder: Encoder) -> Float[Array, ""]:
    """Number of steps in one unit of the cost critics."""
    return COST_UNIT * encoder.channel_unit[0] / encoder.price_unit
