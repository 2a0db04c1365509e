"""Lanes give every step as the environment took it, however the vector environment resets."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import TimeLimit

from scrl.environments.contract import EnvironmentFault
from scrl.environments.labels import Labels
from scrl.environments.lanes import Lanes
from scrl.environments.rollout import Explored, collect, run_episodes
from scrl.environments.spaces import Actions

from .small import GOAL, HORIZON, REGIONS, Walk

SEEDS = (11, 12)
SPEEDS = np.array([[1.0], [0.25]], np.float32)


def make() -> gymnasium.Env[Any, Any]:
    return TimeLimit(Walk(), HORIZON)


def lanes_in(mode: AutoresetMode, *, copy: bool = True) -> Lanes:
    vector = SyncVectorEnv([make, make], copy=copy, autoreset_mode=mode)
    return Lanes(vector, Labels.of("amounts", REGIONS), HORIZON, is_ours=False)


def by_hand(seed: int, speed: float, steps: int) -> list[tuple[Any, ...]]:
    """What lanes should tell of one environment: a plain loop over one of them."""
    env, rows = make(), []
    seen, _ = env.reset(seed=seed)
    for _ in range(steps):
        after, reward, terminated, truncated, info = env.step(np.array([speed]))
        rows.append((seen, reward, info["amounts"], terminated, truncated, after))
        seen = env.reset()[0] if terminated or truncated else after
    return rows


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("mode", AutoresetMode)
def test_every_autoreset_mode_comes_to_the_same(mode: AutoresetMode, copy: bool) -> None:
    """Also where the vector environment writes each observation over the one before."""
    steps = 3 * HORIZON
    twins = [by_hand(seed, speed[0], steps) for seed, speed in zip(SEEDS, SPEEDS, strict=True)]
    with lanes_in(mode, copy=copy) as lanes:
        lanes.reset(SEEDS)
        runs = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]  # what each episode gave so far, and its steps
        for time in range(steps):
            seen, counted = lanes.features, lanes.counted
            now = lanes.step(SPEEDS)
            for lane, rows in enumerate(twins):
                expected = rows[time]
                assert np.array_equal(seen[lane], expected[0])
                assert now.reward[lane] == expected[1]
                assert now.labels[lane] == pytest.approx(expected[2])
                assert (now.is_terminated[lane], now.is_truncated[lane]) == expected[3:5]
                assert np.array_equal(now.after[lane], expected[5])
                assert counted[lane] == pytest.approx([*expected[0], *runs[lane]])
                runs[lane] = [*(runs[lane][:2] + expected[2]), runs[lane][2] + 1]
                assert now.counted_after[lane] == pytest.approx([*expected[5], *runs[lane]])
                runs[lane] = [0.0, 0.0, 0.0] if expected[3] or expected[4] else runs[lane]
    assert any(row[3] for row in twins[0])  # the fast one gets there
    assert any(row[4] for row in twins[1])  # the slow one is cut off
    assert not any(row[3] and row[4] for row in twins[0] + twins[1])


def test_the_last_observation_of_an_episode_is_kept() -> None:
    with lanes_in(AutoresetMode.DISABLED) as lanes:
        lanes.reset(SEEDS)
        now = [lanes.step(SPEEDS) for _ in range(HORIZON)]
        over = next(each for each in now if each.is_terminated[0])
    assert over.after[0, 0] >= GOAL


class Squeaking(Walk):
    """Warns in every step, from the same line."""

    def step(self, action: Any) -> Any:
        warnings.warn("a squeak", UserWarning, stacklevel=1)
        return super().step(action)


def test_a_warning_of_an_environment_is_heard_once() -> None:
    vector = SyncVectorEnv([lambda: TimeLimit(Squeaking(), HORIZON)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        with Lanes(vector, Labels.of("amounts", REGIONS), HORIZON, is_ours=False) as lanes:
            lanes.reset([0])
            for _ in range(3):
                lanes.step(SPEEDS[1:])
    assert [str(each.message) for each in caught] == ["a squeak"]


class Other(VectorEnv[Any, Any, Any]):
    """A vector environment of another kind, which resets in the next step."""

    def __init__(self) -> None:
        self.num_envs, self.metadata = 1, {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,))


def test_a_vector_environment_that_we_cannot_reset_is_refused() -> None:
    with pytest.raises(
        EnvironmentFault, match=r"Other has the autoreset mode .*NEXT_STEP: make it"
    ):
        Lanes(Other(), Labels(("a",), lambda step: 0.0), 5, is_ours=False)


def test_whole_episodes_are_summed_as_by_hand() -> None:
    """Lane 0 needs 3 or 4 steps to the goal, lane 1 is cut off after 8; two episodes of each."""
    with lanes_in(AutoresetMode.DISABLED) as lanes:
        ran = run_episodes(lanes, lambda _: SPEEDS, each=2, seeds=SEEDS, discount=0.9)
    for lane in range(2):
        rows = by_hand(SEEDS[lane], SPEEDS[lane, 0], 3 * HORIZON)
        for episode in range(2):
            count = next(at for at, row in enumerate(rows, 1) if row[3] or row[4])
            own, rows = rows[:count], rows[count:]
            weights = 0.9 ** np.arange(count)
            assert ran.steps[lane, episode] == count
            assert ran.is_terminated[lane, episode] == own[-1][3]
            assert ran.return_[lane, episode] == pytest.approx(-weights.sum())
            served = weights @ np.array([row[2] for row in own])
            assert ran.service[lane, episode] == pytest.approx(served)


def test_a_stretch_holds_the_steps_in_order() -> None:
    actions = Actions.of(Walk().action_space)

    def explore(features: np.ndarray, time: int) -> Explored:
        return Explored((SPEEDS + 1.0) / 2.0, np.full(2, -0.1 * time))

    with lanes_in(AutoresetMode.DISABLED) as lanes:
        found = collect(lanes, actions, explore, steps=10, seeds=SEEDS)
    assert found.log_probability[:, 0] == pytest.approx(-0.1 * np.arange(10))
    for lane in range(2):
        for time, row in enumerate(by_hand(SEEDS[lane], SPEEDS[lane, 0], 10)):
            assert np.array_equal(found.observation[time, lane], row[0])
            assert found.labels[time, lane] == pytest.approx(row[2])
            assert (found.is_terminated[time, lane], found.is_truncated[time, lane]) == row[3:5]
            assert np.array_equal(found.next_observation[time, lane], row[5])
