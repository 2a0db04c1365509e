"""Every algorithm of SB3 keeps a rule with `Ruled` and `KeepRules`, and breaks it without."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytest
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.noise import NormalActionNoise

import scrl

from .small import RULE, Sharing

Algorithm: TypeAlias = A2C | DDPG | DQN | PPO | SAC | TD3


class Case(NamedTuple):
    algorithm: type[Algorithm]
    options: dict[str, Any]
    steps: int
    shares: int | None = None

    def model(self, env: Any) -> Algorithm:
        options = {**self.options, "policy_kwargs": {"net_arch": [32]}}
        return self.algorithm("MlpPolicy", env, seed=0, device="cpu", gamma=0.5, **options)


REPLAY: dict[str, Any] = {
    "learning_starts": 100, "batch_size": 64, "train_freq": 4, "gradient_steps": 2,
    "learning_rate": 3e-3, "buffer_size": 4000, "tau": 0.05,
}  # fmt: skip
NOISE = NormalActionNoise(np.zeros(1), np.full(1, 0.2))
CASES = [
    Case(PPO, {"n_steps": 64, "batch_size": 64, "n_epochs": 5, "learning_rate": 3e-3}, 6_000),
    Case(A2C, {"n_steps": 10, "learning_rate": 5e-3}, 6_000),
    Case(SAC, {**REPLAY, "ent_coef": 0.01}, 4_000),
    Case(DDPG, {**REPLAY, "action_noise": NOISE}, 5_000),
    Case(TD3, {**REPLAY, "action_noise": NOISE}, 5_000),
    Case(DQN, {**REPLAY, "target_update_interval": 4, "exploration_fraction": 0.5}, 5_000, 11),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.algorithm.__name__)
def test_a_rule_is_kept_with_it_and_broken_without(case: Case) -> None:
    """The best is -4.9; whoever keeps it by the dearer disjunct gets -6.4."""

    def make() -> Sharing:
        return Sharing(case.shares)

    env = scrl.sb3.Ruled(make, RULE, "amounts", worlds=4)
    keep = scrl.sb3.KeepRules(env, every=200, episodes=1)
    model = case.model(env).learn(case.steps, callback=keep)
    assert keep.evaluation == scrl.sb3.evaluate(model, env)
    assert keep.evaluation is not None
    assert keep.evaluation.is_satisfied
    assert keep.evaluation.density["right"] >= 7.0
    assert -6.4 < keep.evaluation.return_ <= -4.9 + 1e-6
    plain = case.model(make()).learn(case.steps // 4)
    without = scrl.sb3.evaluate(plain, env)
    assert not without.is_satisfied
    assert without.density["right"] < 6.0
