"""The callback: what it measures, logs, keeps and refuses."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import VecNormalize

import scrl
from scrl.errors import ScrlError
from scrl.rules import RuleSet
from scrl.sb3 import measuring
from scrl.sb3.callback import MeasuredPolicy
from scrl.worlds.sweep.gym import SweepEnv
from scrl.worlds.sweep.spec import SweepRoute

from ..environments.small import Pouring
from .small import RULE, Sharing, action_layer


def ppo(env: Any, **options: Any) -> PPO:
    network = {"net_arch": [16]}
    return PPO(
        "MlpPolicy", env, seed=0, device="cpu", n_steps=32, batch_size=32, gamma=0.5,
        policy_kwargs=network, **options,
    )  # fmt: skip


def learned(steps: int = 320, **settings: Any) -> tuple[PPO, scrl.sb3.KeepRules]:
    env = scrl.sb3.Ruled(Sharing, RULE, "amounts", worlds=2)
    keep = scrl.sb3.KeepRules(env, **{"every": 64, "episodes": 1, **settings})
    return ppo(env).learn(steps, callback=keep), keep


def test_the_first_move_of_kappa_is_the_one_of_the_paper() -> None:
    """kappa = beta (a . density - b), each bound drawn in by half a step of service.

    Beta is a given 0.1; the atoms are left <= 2 and -right <= -7.
    """
    _, keep = learned(64, kappa_rate=0.1)
    first, second = keep.history[:2]
    rate = keep.env.charges.rate
    assert rate == pytest.approx(1.0)
    expected = [
        0.1 * (first.density["left"] - 2.0 + 0.5 * rate),
        0.1 * (7.0 - first.density["right"] + 0.5 * rate),
    ]
    assert first.kappa.tolist() == [0.0, 0.0]
    np.testing.assert_allclose(second.kappa, expected, rtol=1e-5)


def test_without_a_rate_one_move_is_at_most_nine_price_units() -> None:
    """A rule that asks for seven times what ten steps can give counts as broken by one whole."""
    env = scrl.sb3.Ruled(Sharing, "right >= 70", "amounts")
    keep = scrl.sb3.KeepRules(env, every=32, episodes=1, inset=0.0)
    ppo(env).learn(32, callback=keep)
    first, second = keep.history[:2]
    share = (70.0 - first.density["right"]) / 70.0
    assert second.kappa[0] == pytest.approx(9.0 * env.charges.price_unit * share, rel=1e-5)


def test_labels_of_both_signs_do_not_cancel() -> None:
    """Five steps give 2 and five take 2: nothing in all, and still 2 a step."""

    def tide(observation: Any) -> dict[str, float]:
        return {"tide": 2.0 if observation[0] < 0.55 else -2.0}

    env = scrl.sb3.Ruled(Sharing, "tide >= 1", tide)
    keep = scrl.sb3.KeepRules(env, every=32, episodes=1)
    ppo(env).learn(32, callback=keep)
    assert keep.history[0].density["tide"] == 0.0
    assert env.charges.rate == pytest.approx(2.0)
    assert np.isfinite(keep.history[-1].kappa).all()


def test_densities_come_from_episodes_without_noise() -> None:
    """They are what the policy does by itself, however wide it explores."""
    env = scrl.sb3.Ruled(Sharing, RULE, "amounts")
    model = ppo(env)
    keep = scrl.sb3.KeepRules(env)
    model.learn(32, callback=keep)
    seen, amount = np.zeros((1, 1), np.float32), 0.0
    for step in range(10):
        amount += model.predict(seen, deterministic=True)[0].item()
        seen = np.full((1, 1), (step + 1) / 10, np.float32)
    assert scrl.sb3.evaluate(model, env).density["right"] == pytest.approx(amount, rel=1e-5)


def test_it_is_logged_where_sb3_logs(tmp_path: Path) -> None:
    env = scrl.sb3.Ruled(Sharing, RULE, "amounts", worlds=2)
    model = ppo(env)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    keep = scrl.sb3.KeepRules(env, every=64, episodes=1)
    model.learn(192, callback=keep)
    model.logger.close()
    with (tmp_path / "progress.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3
    for row, seen in zip(rows, keep.history[:3], strict=True):
        assert float(row["rules/violation"]) == pytest.approx(seen.violation)
        assert float(row["rules/return"]) == pytest.approx(seen.return_)
        assert float(row["rules/satisfied"]) == 0.0
        assert float(row["density/right"]) == pytest.approx(seen.density["right"])
        assert [float(row[f"kappa/{atom}"]) for atom in (0, 1)] == pytest.approx(seen.kappa)
        # What SB3 itself logs is the raw return, without charges.
        assert -10.0 <= float(row["rollout/ep_rew_mean"]) <= 0.0


@pytest.mark.parametrize("keeps_best", [True, False])
def test_the_best_policy_is_handed_out_or_the_last_if_asked_for(keeps_best: bool) -> None:
    """Half goes right at first, and without charges ever less: the first policy is the best."""
    env = scrl.sb3.Ruled(Sharing, RULE, "amounts", penalty="none", worlds=2)
    model = ppo(env, learning_rate=1e-2)
    action_layer(model).bias.data.fill_(0.5)
    keep = scrl.sb3.KeepRules(env, every=64, episodes=1, keeps_best=keeps_best)
    model.learn(320, callback=keep)
    first, last = keep.history[0], keep.history[-1]
    assert last.density["right"] < first.density["right"] - 0.1
    assert keep.best is not None
    assert keep.best.measured is first
    chosen = first if keeps_best else last
    assert keep.evaluation is not None
    assert keep.evaluation.density == pytest.approx(chosen.density)
    assert keep.evaluation.return_ == pytest.approx(chosen.return_)


@pytest.mark.parametrize(
    ("found", "old", "is_better"),
    [
        ((-5.0, 0.0), (-6.0, 0.0), True),
        ((-6.0, 0.0), (-5.0, 0.0), False),
        ((-6.0, 0.0), (-1.0, 0.5), True),
        ((-1.0, 0.5), (-6.0, 0.0), False),
        ((-6.0, 0.4), (-1.0, 0.5), True),
        ((-1.0, 0.5), (-6.0, 0.4), False),
    ],
)
def test_rules_come_first_and_return_second(
    found: tuple[float, float], old: tuple[float, float], is_better: bool
) -> None:
    keep = scrl.sb3.KeepRules(scrl.sb3.Ruled(Sharing, RULE, "amounts"))
    first, second = (MeasuredPolicy(0, each[0], {}, each[1], np.zeros(2)) for each in (found, old))
    assert keep._is_better(first, second) == is_better


def test_in_our_worlds_an_episode_that_was_cut_off_keeps_nothing() -> None:
    """A throttle of 0 stands in S1 until the horizon, so S2 has nothing and the rule holds."""
    problem = scrl.load("agri-situational")
    spec = replace(problem.world_spec, route=SweepRoute(horizon_steps=300))
    env = scrl.sb3.Ruled(lambda: SweepEnv(spec), problem.rules)
    model = PPO("MlpPolicy", env, seed=0, device="cpu", n_steps=8, batch_size=8)
    action_layer(model).bias.data.fill_(-2.0)
    keep = scrl.sb3.KeepRules(env)
    model.learn(8, callback=keep)
    assert keep.history[0].violation == 0.0
    assert not keep.history[0].is_whole
    assert keep.best is None
    assert keep.evaluation is not None
    assert keep.evaluation.episodes_truncated == 1


def test_the_same_seed_gives_the_same_run() -> None:
    once, again = (learned()[1] for _ in range(2))
    assert len(once.history) == 6
    for one, other in zip(once.history, again.history, strict=True):
        assert one.density == other.density
        assert one.kappa.tolist() == other.kappa.tolist()


def test_normalised_observations_are_normalised_for_measuring_too() -> None:
    env = scrl.sb3.Ruled(Sharing, RULE, "amounts")
    normal = VecNormalize(env)
    model = ppo(normal)
    keep = scrl.sb3.KeepRules(normal, keeps_best=False)
    model.learn(320, callback=keep)
    seen, amount = np.zeros((1, 1), np.float32), 0.0
    for step in range(10):
        amount += model.predict(normal.normalize_obs(seen), deterministic=True)[0].item()
        seen = np.full((1, 1), (step + 1) / 10, np.float32)
    assert keep.evaluation is not None
    assert keep.evaluation.density["right"] == pytest.approx(amount, rel=1e-5)


def test_the_best_policy_sees_normalised_observations_as_it_did() -> None:
    """The first policy is the best; what is usual goes on changing after it."""
    normal = VecNormalize(scrl.sb3.Ruled(Sharing, RULE, "amounts", penalty="none", worlds=2))
    model = ppo(normal, learning_rate=1e-2)
    action_layer(model).bias.data.fill_(0.5)
    action_layer(model).weight.data.mul_(50.0)  # what is seen matters
    keep = scrl.sb3.KeepRules(normal, every=64, episodes=1)
    model.learn(320, callback=keep)
    assert keep.best is not None
    assert keep.best.measured is not keep.history[-1]
    assert keep.evaluation is not None
    assert keep.evaluation.density == pytest.approx(keep.best.measured.density)


def test_a_policy_that_sees_prices_settles() -> None:
    """After the learning kappa alone moves, and each time there is one more candidate."""
    env = scrl.sb3.Ruled(Sharing, RULE, "amounts", sees_prices=True)
    keep = scrl.sb3.KeepRules(env, every=64, episodes=1, settle=5)
    ppo(env).learn(64, callback=keep)
    assert len(keep.history) == 1 + 5 + 1
    assert len({each.kappa.tobytes() for each in keep.history[1:]}) == 6
    assert keep.best is not None
    np.testing.assert_array_equal(env.charges.kappa, keep.best.measured.kappa)


def test_wrong_settings_and_worlds_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    env = scrl.sb3.Ruled(Sharing, RULE, "amounts")
    other = scrl.sb3.Ruled(Sharing, RULE, "amounts")
    with pytest.raises(ScrlError, match="unknown setting 'evry': did you mean 'every'"):
        scrl.sb3.KeepRules(env, evry=3)
    with pytest.raises(ScrlError, match="every = 0"):
        scrl.sb3.KeepRules(env, every=0)
    with pytest.raises(ScrlError, match=r"needs a scrl\.sb3\.Ruled environment"):
        scrl.sb3.KeepRules(env.venv)
    with pytest.raises(ScrlError, match="another environment"):
        ppo(other).learn(32, callback=scrl.sb3.KeepRules(env))
    monkeypatch.setattr(measuring, "LONGEST_EPISODE", 9)
    with pytest.raises(ScrlError, match="did not end within 9 steps"):
        ppo(env).learn(32, callback=scrl.sb3.KeepRules(env))


def test_models_that_see_what_was_given_keep_a_share_of_single_episodes() -> None:
    """85 % are asked for, and no policy that goes by the time keeps more than 61 %."""
    rules = RuleSet.of(Pouring.RULES, ("cup",), confidence=Pouring.SHARE)
    env = scrl.sb3.Ruled(Pouring, rules, {"cup": "cup"}, worlds=8)
    # What the cup had, what is left of the episode, and the pace and distance of two atoms.
    assert env.reset().shape == (8, 1 + 1 + 1 + 4)
    model = PPO(
        "MlpPolicy", env, n_steps=60, batch_size=60, gamma=1.0, learning_rate=2e-3, seed=0
    )  # fmt: skip
    keep = scrl.sb3.KeepRules(env, every=480, episodes=64)
    model.learn(7_000, callback=keep)
    assert keep.evaluation is not None
    assert keep.evaluation.episodes_satisfied >= Pouring.SHARE * keep.evaluation.episodes
