"""Advantages against numbers worked by hand and against an obvious, slow twin."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scrl.learners.ppo import advantages, random_order

Steps = dict[str, np.ndarray]


def slow_advantages(steps: Steps, discount: float, gae_lambda: float) -> np.ndarray:
    """Sum of (gamma lambda)^k delta_(t+k) up to the end of the episode, term by term."""
    paid, value, after = steps["paid"], steps["value"], steps["after"]
    found = np.zeros_like(paid)
    for start, world in np.ndindex(paid.shape[:2]):
        weight = 1.0
        for step in range(start, len(paid)):
            is_end = steps["is_end"][step, world]
            follow = 0.0 if is_end else after[step, world]
            delta = paid[step, world] + discount * follow - value[step, world]
            found[start, world] += weight * delta
            if is_end or steps["is_truncated"][step, world]:
                break
            weight *= discount * gae_lambda
    return found


def fast_advantages(steps: Steps, discount: float, gae_lambda: float) -> np.ndarray:
    arrays = {name: jnp.asarray(array) for name, array in steps.items()}
    return np.asarray(advantages(**arrays, discount=discount, gae_lambda=gae_lambda))


def one_world(
    paid: list[float], value: list[float], after: list[float], terminated: int, truncated: int
) -> Steps:
    """One world, one channel; the numbers of the steps that terminate and truncate (-1: none)."""
    steps = np.arange(len(paid))[:, None]
    columns = {"paid": paid, "value": value, "after": after}
    return {name: np.array(column)[:, None, None] for name, column in columns.items()} | {
        "is_end": steps == terminated,
        "is_truncated": steps == truncated,
    }


def test_nothing_follows_a_terminated_step() -> None:
    """gamma 1, lambda 1/2; the second step terminates, so V(s') = 50 must not be seen."""
    steps = one_world([1.0, 2.0, 4.0], [10.0, 20.0, 40.0], [20.0, 50.0, 44.0], 1, -1)
    # delta: 1 + 20 - 10 = 11; 2 - 20 = -18; 4 + 44 - 40 = 8.
    # A: 11 + 0.5 * -18 = 2; -18; 8 (the last of the rollout, followed by V(s') alone).
    assert fast_advantages(steps, 1.0, 0.5).ravel() == pytest.approx([2.0, -18.0, 8.0])


def test_a_truncated_step_is_followed_by_its_value_alone() -> None:
    """The same, but cut off: V(s') = 50 counts, the next row's advantage does not."""
    steps = one_world([1.0, 2.0, 4.0], [10.0, 20.0, 40.0], [20.0, 50.0, 44.0], -1, 1)
    # delta: 11; 2 + 50 - 20 = 32; 8. A: 11 + 0.5 * 32 = 27; 32; 8.
    assert fast_advantages(steps, 1.0, 0.5).ravel() == pytest.approx([27.0, 32.0, 8.0])


def test_an_episode_that_goes_on_by_hand_discounted() -> None:
    """gamma 1/2, lambda 1/2: the next advantage weighs a quarter."""
    steps = one_world([1.0, 2.0, 4.0], [10.0, 20.0, 40.0], [20.0, 40.0, 44.0], -1, -1)
    # delta: 1 + 10 - 10 = 1; 2 + 20 - 20 = 2; 4 + 22 - 40 = -14.
    # A: -14; 2 - 14/4 = -1.5; 1 - 1.5/4 = 0.625.
    assert fast_advantages(steps, 0.5, 0.5).ravel() == pytest.approx([0.625, -1.5, -14.0])


@pytest.mark.parametrize(
    ("discount", "gae_lambda"), [(1.0, 0.97), (1.0, 1.0), (0.9, 0.8), (0.9, 0.0)]
)
def test_the_scan_agrees_with_its_slow_twin(discount: float, gae_lambda: float) -> None:
    rng = np.random.default_rng(0)
    time, worlds, channels = 40, 5, 3
    is_end = rng.random((time, worlds)) < 0.15
    steps = {
        name: rng.normal(size=(time, worlds, channels)) for name in ("paid", "value", "after")
    } | {
        "is_end": is_end,
        "is_truncated": ~is_end & (rng.random((time, worlds)) < 0.15),
    }
    fast = fast_advantages(steps, discount, gae_lambda)
    assert np.allclose(fast, slow_advantages(steps, discount, gae_lambda), atol=1e-4)


@pytest.mark.parametrize("count", [1, 2, 7, 1024, 5000])
def test_a_random_order_holds_every_place_once_and_is_even(count: int) -> None:
    keys = jax.random.split(jax.random.key(0), 400)
    orders = np.asarray(jax.vmap(lambda key: random_order(count, key=key))(keys))
    assert (np.sort(orders, axis=1) == np.arange(count)).all()
    # The first in line is uniform: its mean over 400 orders lies within four standard errors.
    error = max(count - 1, 0) / math.sqrt(12 * 400)
    assert abs(orders[:, 0].mean() - (count - 1) / 2) <= 4 * error + 0.1
