"""`Ruled` environments: what steps pay, what is seen, what cannot be used."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack, VecNormalize

import scrl
from scrl.errors import ScrlError
from scrl.sb3.replay import STEP

from .small import RULE, Sharing, action_layer


def act(*shares: float) -> np.ndarray:
    return np.array(shares, np.float32)[:, None]


def test_steps_are_paid_in_full_until_a_rule_is_seen_broken() -> None:
    env = scrl.sb3.Ruled(Sharing, RULE, "amounts", worlds=2)
    env.reset()
    _, rewards, _, infos = env.step(act(0.5, 1.0))
    np.testing.assert_allclose(rewards, [-0.25, -1.0])
    assert [info[STEP][0] for info in infos] == [-0.25, -1.0]
    np.testing.assert_allclose([info[STEP][1] for info in infos], [[0.5, 0.5], [0.0, 1.0]])


def test_a_clause_charges_for_its_smallest_sigma_or_for_a_drawn_one() -> None:
    """Atoms left <= 2 with kappa 3, -right <= -7 with kappa 1; a share of 0.25: 2.25 and -0.25.

    The draw takes the second with odds 1 : 1/9, since sharpness is 2.
    """
    least = scrl.sb3.Ruled(Sharing, RULE, "amounts", penalty="scrl-min")
    drawn = scrl.sb3.Ruled(Sharing, RULE, "amounts", worlds=500)
    paid = {}
    for name, env in (("least", least), ("drawn", drawn)):
        env.charges.kappa = np.array([3.0, 1.0])
        env.renew()
        env.reset()
        paid[name] = env.step(act(*[0.25] * env.num_envs))[1]
    np.testing.assert_allclose(paid["least"], -0.0625 + 0.25)
    values, counts = np.unique(paid["drawn"].round(4), return_counts=True)
    np.testing.assert_allclose(values, [-0.0625 - 2.25, -0.0625 + 0.25])
    assert counts[0] / 500 == pytest.approx(0.1, abs=0.04)  # three standard errors


def test_labels_see_where_the_last_step_led_and_not_the_next_start() -> None:
    """After the tenth step the observation is 1; a VecEnv hands out that of the next episode, 0."""
    env = scrl.sb3.Ruled(Sharing, "late >= 1", {"late": lambda observation: observation[0] == 1})
    env.reset()
    labels = [env.step(act(0.5))[3][0][STEP][1].item() for _ in range(12)]
    assert labels == [0.0] * 9 + [1.0] + [0.0] * 2


def test_our_own_worlds_bring_regions_labels_and_units() -> None:
    problem = scrl.load("agri-situational")
    env = scrl.sb3.Ruled(gymnasium.make("scrl/agri-situational-v0"), problem.rules)
    assert env.labels.names == ("S1", "S2", "S3", "S4", "S5")
    assert not env.measured_in.is_random
    model = PPO("MlpPolicy", env, device="cpu", seed=0)
    # An untrained policy that is told to go at full speed drives as ours does.
    action_layer(model).bias.data.fill_(2.0)
    found = scrl.sb3.evaluate(model, env)
    expected = scrl.evaluate(problem, "full-speed")
    assert found.density == pytest.approx(expected.density)
    assert found.return_ == pytest.approx(expected.return_, abs=1e-3)
    assert (found.steps, found.cons_vio) == (835, pytest.approx(48.75))
    assert [rule.name for rule in found.rules] == [rule.name for rule in expected.rules]
    assert (found.problem, found.policy) == ("scrl/agri-situational-v0", "PPO")


@pytest.mark.parametrize("episodes", [1, 17])
def test_just_as_many_episodes_are_judged_as_were_asked_for(episodes: int) -> None:
    env = scrl.sb3.Ruled("Pendulum-v1", "slow >= 1", {"slow": lambda seen: abs(seen[2]) < 1})
    model = PPO("MlpPolicy", env, device="cpu", seed=0)
    found = scrl.sb3.evaluate(model, env, episodes=episodes)
    # A time limit is an ordinary end there, and nothing to warn of.
    assert (found.episodes, found.episodes_truncated) == (episodes, episodes)
    assert found.warnings() == []
    with pytest.raises(ScrlError, match="episodes"):
        scrl.sb3.evaluate(model, env, episodes=0)


def test_a_model_is_judged_by_the_shares_that_the_rules_ask_for() -> None:
    rules = scrl.rules.RuleSet.of(["left >= 4", "right >= 4"], ("left", "right"), confidence=0.95)
    env = scrl.sb3.Ruled(Sharing, rules, "amounts")
    model = PPO("MlpPolicy", env, device="cpu", seed=0)
    action_layer(model).bias.data.fill_(0.5)
    found = scrl.sb3.evaluate(model, env)
    assert found.is_satisfied
    assert (found.confidence, found.rules[0].asked, found.rules[0].share) == (0.95, 0.95, 1.0)
    with pytest.raises(ScrlError, match="episodes = 17 cannot show"):
        scrl.sb3.evaluate(model, env, episodes=17)


def test_prices_are_seen_beside_the_observation_up_to_the_last_one() -> None:
    env = scrl.sb3.Ruled(Sharing, "right >= 5", "amounts", sees_prices=True)
    env.charges.kappa, env.charges.price_unit = np.array([3.0]), 2.0
    env.renew()
    assert env.observation_space.shape == (3,)
    np.testing.assert_allclose(env.reset(), [[0.0, 0.0, 1.5]])
    for _ in range(9):
        env.step(act(0.5))
    seen, _, _, infos = env.step(act(0.5))
    assert isinstance(seen, np.ndarray)
    np.testing.assert_allclose(seen, [[0.0, 0.0, 1.5]])
    np.testing.assert_allclose(infos[0]["terminal_observation"], [1.0, 0.0, 1.5])


@pytest.mark.parametrize("is_monitored", [False, True])
def test_worlds_in_processes_of_their_own(is_monitored: bool) -> None:
    options = {"start_method": "forkserver"}
    if is_monitored:
        workers = make_vec_env("Pendulum-v1", 2, vec_env_cls=SubprocVecEnv, vec_env_kwargs=options)
    else:
        workers = SubprocVecEnv([lambda: gymnasium.make("Pendulum-v1")] * 2, **options)
    try:
        env = scrl.sb3.Ruled(workers, "slow >= 1", {"slow": lambda seen: abs(seen[2]) < 1})
        env.reset()
        _, _, _, infos = env.step(np.zeros((2, 1), np.float32))
        assert [info[STEP][1].shape for info in infos] == [(1,), (1,)]
    finally:
        workers.close()


class Uncopied(Sharing):
    """Cannot be copied, like one with a window."""

    def __deepcopy__(self, memory: Any) -> Any:
        raise TypeError("cannot copy a window")


def test_an_environment_that_cannot_be_copied_needs_another_one() -> None:
    with pytest.raises(ScrlError, match="give measured_in=f"):
        scrl.sb3.Ruled(Uncopied(), RULE, "amounts")
    env = scrl.sb3.Ruled(Uncopied(), RULE, "amounts", measured_in=Sharing)
    assert env.labels.names == ("left", "right")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"labels": None}, "Sharing does not say which regions a step serves: give labels"),
        ({"rules": "up >= 3"}, "unknown region 'up'"),
        ({"penalty": "srcl"}, "did you mean 'scrl'"),
        ({"sharpnes": 2.0}, "did you mean 'sharpness'"),
        ({"env": 3}, "an environment is its name"),
        ({"rules": "left >= 3 surely"}, "only the environment knows; write 'in 99 %' instead"),
        ({"env": Sharing(), "worlds": 2}, "worlds = 2, but one environment was given"),
        ({"env": lambda: Sharing(11), "labels": lambda seen: float("nan")}, None),
    ],
)
def test_what_cannot_be_used_is_refused(given: dict[str, Any], message: str | None) -> None:
    arguments = {"env": Sharing, "rules": RULE, "labels": "amounts"} | given
    if message is None:
        env = scrl.sb3.Ruled(**{**arguments, "rules": "S1 >= 1"})
        env.reset()
        with pytest.raises(ScrlError, match="no finite number"):
            env.step(np.array([0]))
        return
    with pytest.raises(ScrlError, match=message):
        scrl.sb3.Ruled(**arguments)


def test_wrappers_that_change_what_is_seen_belong_inside() -> None:
    stacked = VecFrameStack(DummyVecEnv([Sharing]), 2)
    with pytest.raises(ScrlError, match="sees something else"):
        scrl.sb3.Ruled(stacked, RULE, "amounts")


def test_normalising_belongs_around_it() -> None:
    normal = VecNormalize(DummyVecEnv([Sharing]))
    with pytest.raises(ScrlError, match="put it around Ruled"):
        scrl.sb3.Ruled(normal, RULE, "amounts")
    with pytest.raises(ScrlError, match="put it around Ruled"):
        scrl.sb3.Ruled(normal, RULE, "amounts", measured_in=Sharing)


def test_prices_can_only_be_seen_beside_numbers() -> None:
    with pytest.raises(ScrlError, match="beside a row of numbers"):
        scrl.sb3.Ruled("FrozenLake-v1", "hole <= 1", lambda seen: {"hole": 0}, sees_prices=True)


def test_steps_pay_for_what_they_change_in_the_forecast_of_their_own_episode() -> None:
    """At least 8 to the right in 90 %, of 10 steps that bring 5 on average, in units of one step.

    A step with 1 makes the forecast 1 + 4.5: the violation falls from 3 to 2.5, one with 0 makes it
    3.5. With a kappa of 2 that is paid 1 and -1. In the end nothing more is forecast.
    """
    rules = scrl.rules.RuleSet.of("right >= 8 in 90 %", ("left", "right"))
    env = scrl.sb3.Ruled(Sharing, rules, "amounts", worlds=2)
    env.charges.follow(np.array([[5.0, 5.0]]), 10.0)
    env.charges.kappa = np.array([2.0])
    env.renew()
    seen: Any = env.reset()
    # Given left and right, the share that is left, 0.3 more in each step, and 3 of 8 steps away.
    np.testing.assert_allclose(seen, [[0.0, 0.0, 0.0, 1.0, 0.3, 3 / 8]] * 2, rtol=1e-6)
    seen, rewards, _, infos = env.step(act(1.0, 0.0))
    np.testing.assert_allclose(rewards, [-1.0 + 1.0, 0.0 - 1.0], atol=1e-5)
    np.testing.assert_allclose(infos[0][STEP][1], [0.0, 1.0, -0.5], atol=1e-5)
    np.testing.assert_allclose(seen[0], [0.1, 0.0, 1 / 6, 0.9, 2.5 / 9, 2.5 / 8], rtol=1e-6)
    seen, _, dones, infos = [env.step(act(1.0, 0.0)) for _ in range(9)][-1]
    assert dones.all()
    # The first gave 10 in all; the last observation is the one before the next episode begins.
    np.testing.assert_allclose(
        infos[0]["terminal_observation"], [1.0, 0.0, 10 / 15, 0.0, -2.0, -2 / 8], rtol=1e-6
    )
    np.testing.assert_allclose(seen[:, 1:], [[0.0, 0.0, 1.0, 0.3, 3 / 8]] * 2, rtol=1e-6)
