"""Deep deterministic policy gradient (Lillicrap et al. 2016), the paper's own learner."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from scrl.learners.config import DdpgConfig
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


class Throttle(eqx.Module):
    """The continuous action of a network, with or without a final sigmoid."""

    network: Mlp
    first: float = eqx.field(static=True)
    is_squashed: bool = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, inputs: Float[Array, " input"]) -> Float[Array, "*action"]:
        raw = self.network(inputs).reshape(self.shape)
        if self.is_squashed:
            return jax.nn.sigmoid(raw + jnp.log(self.first / (1.0 - self.first)))
        return self.first + raw


class DdpgState(NamedTuple):
    """Networks, target networks, optimiser states, and the replay buffer."""

    actor: Throttle
    critic: ActionValue
    target_actor: Throttle
    target_critic: ActionValue
    actor_optimiser: optax.OptState
    critic_optimiser: optax.OptState
    replay: Replay


def learner(config: DdpgConfig, encoder: Encoder) -> Learner:
    """DDPG for inputs of these sizes."""

    def init(*, key: PRNGKeyArray) -> DdpgState:
        actor_key, critic_key = jax.random.split(key)
        outputs, shape = encoder.actions.size, encoder.actions.shape
        network = Mlp(encoder.actor_size, config.hidden, outputs, last_scale=0.01, key=actor_key)
        actor = Throttle(network, config.first_mean, config.is_squashed, shape)
        critic = ActionValue(encoder, config.hidden, key=critic_key)
        replay = empty(config.buffer_size, encoder.features, encoder.labels, shape)
        return DdpgState(
            actor, critic, actor, critic, adam_memory(actor), adam_memory(critic), replay
        )

    def explore(
        state: DdpgState, inputs: Float[Array, " input"], noise: Float[Array, "*action"]
    ) -> tuple[Float[Array, "*action"], Float[Array, ""]]:
        return state.actor(inputs) + config.noise * noise, jnp.zeros(())

    def step(
        state: DdpgState, batch: PricedBatch, rate: Float[Array, ""], *, key: PRNGKeyArray
    ) -> tuple[DdpgState, Float[Array, ""]]:
        del key
        return _step(config, encoder, state, batch, rate)

    update = replaying(config, encoder, step)
    return Learner(init, explore, lambda state: state.actor, update)


def _step(
    config: DdpgConfig, encoder: Encoder, state: DdpgState, batch: PricedBatch, rate: Array
) -> tuple[DdpgState, Float[Array, ""]]:
    """Fit the critic to r + gamma Q'(s', mu'(s')), raise Q(s, mu(s)), update the targets."""
    next_action = jax.vmap(state.target_actor)(batch.next_actor_inputs)
    after = action_values(encoder, state.target_critic, batch.next_critic_inputs, next_action)
    follows = jnp.where(batch.is_end, 0.0, config.gamma)[:, None]
    target = batch.paid + follows * after
    critic, critic_optimiser, loss = adam_step(
        lambda critic: squared_error(encoder, critic, batch, target),
        state.critic, state.critic_optimiser, rate,
    )  # fmt: skip

    def actor_loss(actor: Throttle) -> Float[Array, ""]:
        action = jax.vmap(actor)(batch.actor_inputs)
        value = encoder.value(
            action_values(encoder, critic, batch.critic_inputs, action), batch.price
        )
        return jnp.mean(
            -value / encoder.price_unit + config.pull * outside(flat(action)).sum(axis=1)
        )

    actor, actor_optimiser, _ = adam_step(actor_loss, state.actor, state.actor_optimiser, rate)
    return DdpgState(
        actor,
        critic,
        follow(state.target_actor, actor, config.tau),
        follow(state.target_critic, critic, config.tau),
        actor_optimiser,
        critic_optimiser,
        state.replay,
    ), loss
