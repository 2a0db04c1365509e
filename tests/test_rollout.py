"""Episodes and trajectories tell the same story."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scrl.density import count_density
from scrl.policies import Constant
from scrl.problems import load
from scrl.rollout import run_episode, run_episodes, run_trajectory, service_along
from scrl.worlds.sweep.spec import SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Wind
from scrl.worlds.sweep.world import SweepWorld

FULL = Constant(jnp.ones(()))


def test_full_speed_over_agri_takes_835_steps_and_returns_minus_20_92() -> None:
    episode = run_episode(load("agri-joint").world, FULL, key=jax.random.key(0))
    assert int(episode.steps) == 835
    assert float(episode.return_) == pytest.approx(-20.916, abs=1e-3)
    assert bool(episode.is_terminated)


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_an_episode_is_the_sum_of_its_trajectory(strip: SweepSpec, discount: float) -> None:
    windy = SweepWorld.from_spec(dataclasses.replace(strip, wind=Wind(strength=0.5)))
    key = jax.random.key(3)
    episode = run_episode(windy, FULL, key=key, discount=discount)
    path = run_trajectory(windy, FULL, key=key, steps=40)
    weights = discount ** np.arange(40)
    assert int(path.is_active.sum()) == int(episode.steps)
    assert float(path.transition.reward @ weights) == pytest.approx(float(episode.return_))
    density = count_density(path.transition.labels, path.is_active, rate=1.0, discount=discount)
    assert np.allclose(density, episode.service, atol=1e-5)


def test_service_along_the_path_is_that_of_the_step_that_reaches_each_place(
    strip: SweepSpec,
) -> None:
    """Also after a horizon that cuts some episodes off: they keep their last service."""
    short = SweepRoute(horizon_steps=10)
    windy = dataclasses.replace(strip, wind=Wind(strength=0.5), route=short)
    world, slow = SweepWorld.from_spec(windy), Constant(jnp.full((), 0.5))
    keys = jax.random.split(jax.random.key(3), 6)
    cells = np.array([1, 4, 5, world.length])
    columns = np.arange(world.regions)[::-1]
    found = service_along(world, slow, keys=keys, cells=cells, columns=columns, discount=0.9)
    ends = run_episodes(world, slow, keys=keys, discount=0.9)
    assert np.allclose(found[:, -1], np.asarray(ends.service)[:, ::-1])
    for key, along in zip(keys, found, strict=True):
        path = run_trajectory(world, slow, key=key, steps=10)
        labels = np.asarray(path.transition.labels) * 0.9 ** np.arange(10)[:, None]
        so_far = labels.cumsum(axis=0)
        for cell, service in zip(cells, along, strict=True):
            reached = np.flatnonzero(np.asarray(path.transition.state.cell) >= cell)
            step = reached[0] if len(reached) else 9
            assert np.allclose(service, so_far[step][::-1], atol=1e-5)


def test_nothing_counts_after_the_end(strip: SweepSpec) -> None:
    path = run_trajectory(SweepWorld.from_spec(strip), FULL, key=jax.random.key(0), steps=50)
    after = ~np.asarray(path.is_active)
    assert after.any()
    assert np.all(np.asarray(path.transition.reward)[after] == 0.0)
    assert np.all(np.asarray(path.transition.labels)[after] == 0.0)


def test_a_truncated_episode_has_not_terminated(strip: SweepSpec) -> None:
    world = SweepWorld.from_spec(dataclasses.replace(strip, route=SweepRoute(horizon_steps=3)))
    episode = run_episode(world, Constant(jnp.zeros(())), key=jax.random.key(0))
    assert int(episode.steps) == 3
    assert not bool(episode.is_terminated)


def test_same_key_same_bits_and_other_key_other_wind(strip: SweepSpec) -> None:
    world = SweepWorld.from_spec(dataclasses.replace(strip, wind=Wind(strength=0.5)))
    keys = jax.random.split(jax.random.key(0), 8)
    one = run_episodes(world, FULL, keys=keys)
    two = run_episodes(world, FULL, keys=keys)
    assert np.array_equal(one.return_, two.return_)
    assert len(np.unique(np.asarray(one.return_))) > 1
