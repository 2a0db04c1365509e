"""The ring of past transitions: what it keeps, in what order, and what it hands out."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from scrl.learners import offpolicy
from scrl.learners.offpolicy import Memory, Replay, empty, remember
from scrl.rollout import Rollout

# Compiled as a whole: compiling every operation by itself takes longer.
draw = jax.jit(offpolicy.draw, static_argnums=1)


@partial(jax.jit, static_argnames=("first", "time", "worlds"))
def rollout(first: int, time: int, worlds: int = 2) -> Rollout:
    """Steps numbered from `first` on, all worlds of a moment before the next moment."""
    number = jnp.arange(first, first + time * worlds, dtype=float).reshape(time, worlds)
    return Rollout(
        observation=number[..., None] * jnp.array([1.0, 10.0, 100.0]),
        action=number / 10.0 - 0.2,
        log_probability=-number,
        reward=-number,
        labels=jnp.stack([number % 2, 1 - number % 2], axis=-1),
        is_terminated=number % 3 == 0,
        is_truncated=number % 3 == 1,
        next_observation=number[..., None] + jnp.array([1.0, 2.0, 3.0]),
    )


@jax.jit
def add(replay: Replay, steps: Rollout) -> Replay:
    return remember(replay, steps, steps.is_terminated)


def kept(replay: Replay) -> list[int]:
    """The numbers of the steps in the slots, in the order of the slots."""
    return (-np.asarray(replay.memory.reward)).astype(int).tolist()


def test_steps_are_kept_in_order_beside_room_for_more() -> None:
    replay = add(empty(8, 3, 2), rollout(1, 2))
    assert kept(replay) == [1, 2, 3, 4, 0, 0, 0, 0]
    assert (int(replay.head), int(replay.filled)) == (4, 4)


def test_a_full_ring_gives_up_its_oldest_steps() -> None:
    replay = add(add(empty(6, 3, 2), rollout(1, 2)), rollout(5, 2))
    # Steps 5 and 6 fill the ring, 7 and 8 take the places of 1 and 2.
    assert kept(replay) == [7, 8, 3, 4, 5, 6]
    assert (int(replay.head), int(replay.filled)) == (2, 6)
    assert kept(add(replay, rollout(9, 1))) == [7, 8, 9, 10, 5, 6]


def test_of_a_stretch_longer_than_the_ring_the_newest_stay() -> None:
    replay = add(add(empty(5, 3, 2), rollout(1, 1)), rollout(3, 4))
    # Of 3..10 only 6..10 fit; they begin where the head was, at slot 2.
    assert kept(replay) == [9, 10, 6, 7, 8]
    assert (int(replay.head), int(replay.filled)) == (2, 5)


def test_a_stretch_may_fill_the_ring_exactly() -> None:
    replay = add(empty(4, 3, 2), rollout(1, 2))
    assert kept(replay) == [1, 2, 3, 4]
    assert (int(replay.head), int(replay.filled)) == (0, 4)


def test_all_parts_of_a_step_stay_together() -> None:
    drawn = draw(add(empty(16, 3, 2), rollout(1, 5)), 200, key=jax.random.key(0))
    number = -np.asarray(drawn.reward)
    assert np.allclose(drawn.observation, number[:, None] * np.array([1.0, 10.0, 100.0]))
    assert np.allclose(drawn.next_observation, number[:, None] + np.array([1.0, 2.0, 3.0]))
    assert np.allclose(drawn.labels, np.stack([number % 2, 1 - number % 2], axis=-1))
    # A truncated step is not a terminated one: only every third is.
    assert np.array_equal(drawn.is_end, number % 3 == 0)


def test_empty_slots_are_never_drawn() -> None:
    replay = add(empty(1000, 3, 2), rollout(1, 2))
    drawn = draw(replay, 400, key=jax.random.key(0))
    numbers, counts = np.unique(-np.asarray(drawn.reward), return_counts=True)
    assert numbers.tolist() == [1, 2, 3, 4]
    # 100 each, with a deviation of sqrt(400 * 3/16) = 8.7; five of them.
    assert np.abs(counts - 100).max() < 44


def test_a_full_ring_is_drawn_from_evenly() -> None:
    replay = add(empty(4, 3, 2), rollout(1, 5))
    numbers = -np.asarray(draw(replay, 400, key=jax.random.key(0)).reward)
    assert np.unique(numbers).tolist() == [7, 8, 9, 10]


def test_actions_are_stored_as_the_world_took_them() -> None:
    # Steps 1, 2, ..., 14 chose -0.1, 0, ..., 1.2; the world knows 0 to 1.
    replay = add(empty(14, 3, 2), rollout(1, 7))
    chosen = np.arange(1, 15) / 10.0 - 0.2
    assert np.allclose(replay.memory.action, np.clip(chosen, 0.0, 1.0))


def test_rewards_are_stored_raw_and_no_kappa_is() -> None:
    """What a step costs is decided when it is drawn: a stored punishment would grow stale."""
    assert Memory._fields == (
        "observation",
        "action",
        "reward",
        "labels",
        "is_end",
        "next_observation",
    )
    driven = rollout(1, 2)
    assert np.array_equal(
        add(empty(4, 3, 2), driven).memory.reward, np.ravel(np.asarray(driven.reward))
    )
