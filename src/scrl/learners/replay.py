"""A ring of past transitions: raw rewards and labels, so that they can be priced when sampled."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from scrl.rollout import Stretch


class Memory(NamedTuple):
    """Single transitions side by side, without kappa: what they cost is decided later."""

    observation: Float[Array, "slot feature"]
    action: Float[Array, "slot ..."]
    reward: Float[Array, " slot"]
    labels: Float[Array, "slot region"]
    is_terminated: Bool[Array, " slot"]
    next_observation: Float[Array, "slot feature"]


class Replay(NamedTuple):
    """The transitions kept, where the next ones go, and how many there are."""

    memory: Memory
    head: Int[Array, ""]
    filled: Int[Array, ""]


def empty(slots: int, features: int, regions: int, action: tuple[int, ...] = ()) -> Replay:
    """Room for as many transitions as there are slots."""
    memory = Memory(
        jnp.zeros((slots, features)),
        jnp.zeros((slots, *action)),
        jnp.zeros(slots),
        jnp.zeros((slots, regions)),
        jnp.zeros(slots, bool),
        jnp.zeros((slots, features)),
    )
    return Replay(memory, jnp.zeros((), int), jnp.zeros((), int))


def remember(replay: Replay, stretch: Stretch) -> Replay:
    """Add the steps of a stretch; when the ring is full they take the place of the oldest."""
    slots = len(replay.memory.action)
    rows = Memory(
        stretch.observation,
        jnp.clip(stretch.action, 0.0, 1.0),
        stretch.reward,
        stretch.labels,
        stretch.is_terminated,
        stretch.next_observation,
    )
    # Only the newest steps of a stretch that is longer than the ring find room.
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[-slots:], rows)
    added = len(flat.action)
    place = (replay.head + jnp.arange(added)) % slots
    memory = jax.tree.map(lambda ring, new: ring.at[place].set(new), replay.memory, flat)
    return Replay(memory, (replay.head + added) % slots, jnp.minimum(replay.filled + added, slots))


def draw(replay: Replay, batch: int, *, key: PRNGKeyArray) -> Memory:
    """Transitions drawn evenly, with repetition, from those that are kept."""
    place = jax.random.randint(key, (batch,), 0, replay.filled)
    return jax.tree.map(lambda ring: ring[place], replay.memory)
