"""Policies over several choices at once, against sums over single ones."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scrl.learners.actions import Discrete
from scrl.learners.actors import (
    CategoricalActor,
    DrawnActor,
    GaussianActor,
    GreedyActor,
    MeanActor,
)
from scrl.learners.config import PpoConfig
from scrl.learners.networks import Linear, Mlp

LOGITS = np.log([0.2, 0.8, 0.5, 0.3, 0.2])
KIND = Discrete((2, 3), (2,))


def actor(logits: np.ndarray) -> CategoricalActor:
    """One whose logits are the same for all inputs."""
    network = Mlp(1, (), len(logits), last_scale=0.01, key=jax.random.key(0))
    constant = Linear(jnp.zeros((len(logits), 1)), jnp.asarray(logits, jnp.float32))
    object.__setattr__(network, "layers", (constant,))
    return CategoricalActor(network, KIND)


def test_the_probability_of_an_action_is_the_product_over_its_entries() -> None:
    seen = jnp.zeros(1)
    policy = actor(LOGITS)
    likely, loss = policy.judge(PpoConfig(ent_coef=1.0), seen, jnp.array([0, 2]))
    assert likely == pytest.approx(np.log(0.2 * 0.2), abs=1e-5)
    chances = np.exp(LOGITS)
    assert loss == pytest.approx(np.sum(chances * LOGITS), abs=1e-5)
    greedy = replace(policy, is_greedy=True).handed_out
    assert isinstance(greedy, GreedyActor)
    assert greedy(seen).tolist() == [1, 0]
    even = actor(np.log([0.5, 0.5, 1 / 3, 1 / 3, 1 / 3]))
    expected = np.sum(chances * (LOGITS - np.log([0.5, 0.5, 1 / 3, 1 / 3, 1 / 3])))
    assert policy.divergence(even, seen) == pytest.approx(expected, abs=1e-5)


def test_entries_are_drawn_by_themselves_with_their_chances() -> None:
    noise = jax.random.normal(jax.random.key(1), (20_000, *KIND.noise_shape))
    drawn, likely = jax.vmap(lambda each: actor(LOGITS).explore(jnp.zeros(1), each))(noise)
    places = 3 * np.asarray(drawn)[:, 0] + np.asarray(drawn)[:, 1]
    shares = np.bincount(places, minlength=6) / len(places)
    expected = np.outer([0.2, 0.8], [0.5, 0.3, 0.2]).ravel()
    assert shares == pytest.approx(expected, abs=0.015)
    assert np.exp(likely) == pytest.approx(expected[places], rel=1e-4)


def test_what_is_handed_out_draws_with_the_same_chances() -> None:
    policy, seen = actor(LOGITS).handed_out, jnp.zeros(1)
    assert isinstance(policy, DrawnActor)
    uniform = jax.random.uniform(jax.random.key(2), (20_000, KIND.size))
    drawn = np.asarray(jax.vmap(lambda each: policy(seen, each))(uniform))
    assert drawn.mean(axis=0) == pytest.approx([0.8, 0.3 + 2 * 0.2], abs=0.02)
    assert policy(seen, jnp.full(KIND.size, 0.3)).tolist() == [1, 0]
    assert policy(seen, jnp.zeros(KIND.size)).tolist() == [1, 0]


def test_the_limit_of_the_noise_falls_geometrically_and_leaves_what_is_below_it() -> None:
    """From 0.4 to 0.1: 0.2 when half of the learning is done."""
    config = PpoConfig(initial_std=0.4, last_std=0.1)
    limits = [float(jnp.exp(config.log_std_limit(jnp.asarray(each)))) for each in (0.0, 0.5, 1.0)]
    assert limits == pytest.approx([0.4, 0.2, 0.1])
    network = Mlp(1, (), 2, last_scale=0.01, key=jax.random.key(0))
    actor = GaussianActor(MeanActor(network, 0.5, (2,)), jnp.log(jnp.array([0.3, 0.15])), 0.02)
    half = actor.limited(config.log_std_limit(jnp.asarray(0.5)))
    assert jnp.exp(half.log_spread) == pytest.approx([0.2, 0.15])
    free = actor.limited(PpoConfig().log_std_limit(jnp.asarray(1.0)))
    assert jnp.exp(free.log_spread) == pytest.approx([0.3, 0.15])
