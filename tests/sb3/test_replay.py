"""Replay buffers hand out what was remembered at today's prices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.buffers import ReplayBuffer

import scrl
from scrl.errors import ScrlError

from .small import Sharing


def remembering(**options: Any) -> tuple[SAC, scrl.sb3.Ruled]:
    """A model that has only collected, with `right >= 5` and a plain multiplier."""
    env = scrl.sb3.Ruled(
        Sharing, "right >= 5", "amounts", penalty="lagrangian", worlds=2,
        sees_prices=options.pop("sees_prices", False),
    )  # fmt: skip
    model = SAC(
        "MlpPolicy", env, seed=0, device="cpu", learning_starts=1_000, buffer_size=200, **options
    )
    model.learn(60, callback=scrl.sb3.KeepRules(env, keeps_best=False))
    env.charges.kappa = np.zeros(1)
    return model, env


def memory_of(model: SAC) -> ReplayBuffer:
    assert model.replay_buffer is not None
    return model.replay_buffer


def shares(model: SAC, batch: Any) -> np.ndarray:
    """SB3 remembers actions from -1 to 1."""
    return (batch.actions.numpy()[:, 0] + 1.0) / 2.0


def test_the_same_steps_are_priced_anew_whenever_kappa_has_moved() -> None:
    """The atom is -right <= -5: a step pays -kappa * share for it, so r' = -share^2 + kappa share.

    (The charge of the model's own rollout was another one: it had kappa 0 or what it was then.)
    """
    model, env = remembering()
    for kappa in (0.0, 2.0, 0.5):
        env.charges.kappa = np.array([kappa])
        batch = memory_of(model).sample(50)
        share = shares(model, batch)
        assert np.ptp(share) > 0.1
        expected = -(share**2) + kappa * share
        np.testing.assert_allclose(batch.rewards.numpy()[:, 0], expected, atol=1e-5)


def test_returns_over_several_steps_are_priced_step_by_step() -> None:
    """Three steps without a discount: the sum of -share^2 + 2 share."""
    model, env = remembering(n_steps=3, gamma=1.0)
    env.charges.kappa = np.array([2.0])
    buffer = memory_of(model)
    stored = (buffer.actions[:, :, 0] + 1.0) / 2.0
    paid = -(stored**2) + 2.0 * stored
    batch = buffer._get_samples(np.array([0, 1, 8]))
    # Episodes have ten steps: from step 8 on, two are left.
    rows = [paid[0:3], paid[1:4], paid[8:10]]
    for reward, row in zip(batch.rewards.numpy()[:, 0], rows, strict=True):
        assert np.isclose(reward, row.sum(axis=0), atol=1e-5).any()


def test_remembered_observations_show_todays_prices() -> None:
    """One observation and two prices, left and right; a step to the right earns kappa.

    The price unit is the mean cost of a step at random.
    """
    model, env = remembering(sees_prices=True)
    env.charges.kappa = np.array([2.0])
    batch = memory_of(model).sample(20)
    expected = np.tile([0.0, 2.0 / env.charges.price_unit], (20, 1))
    np.testing.assert_allclose(batch.observations.numpy()[:, 1:], expected, rtol=1e-5)
    np.testing.assert_allclose(batch.next_observations.numpy()[:, 1:], expected, rtol=1e-5)


def test_a_saved_buffer_comes_back_and_is_priced_again(tmp_path: Path) -> None:
    model, env = remembering()
    model.save_replay_buffer(tmp_path / "past.pkl")
    other = SAC("MlpPolicy", env, device="cpu", learning_starts=1_000, buffer_size=200)
    other.load_replay_buffer(tmp_path / "past.pkl")
    other.learn(2, callback=scrl.sb3.KeepRules(env, keeps_best=False))
    env.charges.kappa = np.array([2.0])
    assert memory_of(other).size() == memory_of(model).size() + 1
    batch = memory_of(other).sample(50)
    share = shares(other, batch)
    expected = -(share**2) + 2.0 * share
    np.testing.assert_allclose(batch.rewards.numpy()[:, 0], expected, atol=1e-5)


def test_the_size_of_the_buffer_is_the_one_asked_for() -> None:
    model, _ = remembering()
    assert isinstance(model.replay_buffer, scrl.sb3.RuledReplayBuffer)
    assert model.replay_buffer.buffer_size == 100  # for each of two worlds


def test_steps_without_labels_cannot_be_priced() -> None:
    plain = DQN("MlpPolicy", Sharing(11), device="cpu", learning_starts=1_000, buffer_size=100)
    plain.learn(8)
    env = scrl.sb3.Ruled(lambda: Sharing(11), "right >= 5", "amounts")
    plain.set_env(env)
    with pytest.raises(ScrlError, match="holds 8 steps without labels"):
        plain.learn(5, callback=scrl.sb3.KeepRules(env))


def test_a_buffer_of_another_kind_is_refused() -> None:
    class Mine(ReplayBuffer):
        pass

    env = scrl.sb3.Ruled(Sharing, "right >= 5", "amounts")
    model = SAC("MlpPolicy", env, device="cpu", replay_buffer_class=Mine, buffer_size=100)
    with pytest.raises(ScrlError, match="cannot price a Mine"):
        model.learn(5, callback=scrl.sb3.KeepRules(env))


def test_a_ruled_buffer_in_a_world_without_rules_says_so() -> None:
    options: dict[str, Any] = {"replay_buffer_class": scrl.sb3.RuledReplayBuffer}
    model = SAC("MlpPolicy", Sharing(), device="cpu", buffer_size=100, **options)
    with pytest.raises(ScrlError, match=r"must learn in a scrl\.sb3\.Ruled environment"):
        model.learn(5)
