"""Environments of pure JAX functions: the same contract as for all others, compiled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from tests.environments.test_examples import SMALL, example

import scrl
from scrl.environments import EnvironmentFault
from scrl.environments.compiled import CompiledRounds
from scrl.environments.driver import EnvironmentRounds, for_seeds
from scrl.environments.training import configure_environment, task_of
from scrl.errors import ScrlError
from scrl.training.algorithm import improve, round_keys

ROWS = Box(-np.inf, np.inf, (1,), np.float32)


def walk_from(start: float, ends: float = 3.0) -> scrl.JaxEnvironment:
    """From a place by -1, 0 or 1 a step, which is the reward too; terminated at another place."""

    def reset(key: Any) -> tuple[Any, Any]:
        del key
        return jnp.asarray(start), jnp.full(1, start)

    def step(place: Any, action: Any, key: Any) -> tuple[Any, ...]:
        del key
        after = place + action
        return after, after[None], action, after >= ends, {"way": jnp.abs(action)}

    return scrl.JaxEnvironment(reset, step, ROWS, Discrete(3, start=-1), 4)  # pyright: ignore[reportArgumentType]


LABELS = {"right": scrl.near(1.0, 0.5), "way": "way"}


def rounds(kind: type[EnvironmentRounds], env: Any) -> tuple[EnvironmentRounds, Any]:
    given = scrl.environment(env, labels=LABELS, rules="way <= 3")
    small = {"worlds": 2, "rollout_steps": 9, "minibatches": 2, "width": 4, "epochs": 1}
    small["is_greedy"] = True  # the two kinds draw from different generators
    task = task_of(given, configure_environment(given, settings=small))
    own = kind(task, given.actions, given.open(2), [0])
    return own, own.begin()[0]


def test_pendulum_is_the_twin_of_gymnasiums() -> None:
    module, twin = example("jax_pendulum"), gymnasium.make("Pendulum-v1").unwrapped
    chance = np.random.default_rng(0)
    for state in chance.uniform([-9.0, -8.0], [9.0, 8.0], (50, 2)):
        action = chance.uniform(-3.0, 3.0, 1)
        twin.reset()
        twin.state = state.copy()  # pyright: ignore[reportAttributeAccessIssue]
        seen, reward, *_ = twin.step(action)
        _, ours, earned, *_ = module.step(tuple(jnp.asarray(state)), jnp.asarray(action), None)
        np.testing.assert_allclose(ours, seen, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(earned, float(reward), rtol=1e-4, atol=1e-4)


def test_episodes_are_those_of_single_steps() -> None:
    fast, state = rounds(CompiledRounds, walk_from(0.5))
    slow = EnvironmentRounds(fast.task, fast.actions, fast.lanes, [0])
    policy, keys = fast.present(state), for_seeds(round_keys, fast.task, state)
    one, other = (each.driver.measure(policy, keys.measure, 2) for each in (fast, slow))
    jax.tree.map(np.testing.assert_array_equal, one, other)
    assert one.episodes.steps.tolist() == [[4, 4]]


def test_a_rollout_ends_and_begins_episodes() -> None:
    own, state = rounds(CompiledRounds, walk_from(2.0))
    keys = for_seeds(round_keys, own.task, state)
    found = []
    driver = own.driver._replace(
        collect=lambda *given: found.append(own.driver.collect(*given)) or found[0]
    )
    metrics = own.learn(state)[1]
    improve(own.task, driver, state, metrics, keys)
    rollout = jax.tree.map(lambda leaf: np.asarray(leaf)[0], found[0][1])
    # The choices 0, 1, 2 are the moves -1, 0, 1.
    place, moved = rollout.observation[..., 0], rollout.action - 1
    np.testing.assert_array_equal(rollout.next_observation[..., 0], place + moved)
    np.testing.assert_array_equal(rollout.is_terminated, place + moved >= 3)
    np.testing.assert_array_equal(rollout.labels[..., 1], abs(moved))
    for world in range(2):
        steps = 0
        for time in range(9):
            assert steps or place[time, world] == 2.0
            steps += 1
            is_cut = steps == 4 and not rollout.is_terminated[time, world]
            assert rollout.is_truncated[time, world] == is_cut
            steps = 0 if is_cut or rollout.is_terminated[time, world] else steps


def test_training_evaluating_and_going_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scrl.environments.training.REPORT_EPISODES", 4)
    given = scrl.environment(walk_from(0.5), labels=LABELS, rules="way <= 3", name="walk")
    small = {**SMALL, "rollout_steps": 8, "is_greedy": True}
    result = scrl.train(given, settings=small, out=tmp_path / "run", watch=None)
    found = scrl.evaluate(given, scrl.load_policy(tmp_path / "run"), episodes=4)
    assert found.density["way"] == result.best.evaluation.density["way"]
    assert scrl.resume(tmp_path / "run", given).to_json() == result.to_json()


def test_what_is_not_finite_is_named_with_its_step() -> None:
    bad = {"right": lambda seen: seen[0], "way": lambda seen: 1 / (seen[0] - 2)}
    given = scrl.environment(walk_from(0.0), labels=bad, rules="way <= 3")
    with pytest.raises(EnvironmentFault, match="environment 0, step 2: the label of 'way' is not"):
        scrl.evaluate(given, lambda _seen: 1, episodes=1)


def test_other_observations_are_refused() -> None:
    env = scrl.JaxEnvironment(None, None, Discrete(3), Discrete(3), 4)  # pyright: ignore[reportArgumentType]
    with pytest.raises(EnvironmentFault, match="the observations of a JAX environment are a Box"):
        scrl.environment(env, labels=LABELS)


ROW = jnp.zeros(1)


def fails(state: Any, action: Any, key: Any) -> tuple[Any, ...]:
    raise RuntimeError("the wheel came off")


def branches(state: Any, action: Any, key: Any) -> tuple[Any, ...]:
    return (1.0 if action > 0 else 0.0), ROW, 0.0, False, {"way": 0.0}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"reset": lambda _: ROW}, r"reset must return \(state, observation\), not"),
        ({"reset": lambda _: (0.0, jnp.zeros(2))}, r"of shape \(2,\), which must be \(1,\)"),
        (
            {"step": lambda *_: (0.0, ROW, 0.0, False)},
            r"step must return \(state, observation, rew",
        ),
        (
            {"step": lambda *_: (0.0, ROW, ROW, False, {})},
            r"the reward of shape \(1,\), which must",
        ),
        ({"step": lambda *_: (0.0, ROW, 0.0, False, None)}, "info must be a dictionary, not None"),
        ({"step": fails}, "step raised RuntimeError: the wheel came off"),
        ({"step": branches}, "step raised TracerBoolConversionError"),
        (
            {"step": lambda *_: (0.0, ROW, 0.0, False, {})},
            "in the first step: there is no 'way' in",
        ),
        ({"horizon_steps": 0}, "horizon_steps = 0 must be a whole number above 0"),
    ],
)
def test_a_broken_contract_is_refused_at_the_first_look(
    parts: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScrlError, match=message):
        scrl.environment(replace(walk_from(0.5), **parts), labels=LABELS, rules="way <= 3")
