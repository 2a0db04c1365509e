"""A model -> what its policy does in whole episodes without noise, as an `Evaluation`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv

from scrl.density import Density, from_episodes
from scrl.errors import ScrlError
from scrl.evaluation import REPORT_SEED, Evaluation, chosen_episodes, verdict
from scrl.sb3.wrapper import Ruled, counted, labels_of

LONGEST_EPISODE = 1_000_000
"""Steps after which an episode is taken to be one that never ends."""


class Episodes(NamedTuple):
    """Whole episodes, side by side."""

    return_: Float[np.ndarray, " episode"]
    amounts: Float[np.ndarray, "episode region"]
    steps: Float[np.ndarray, " episode"]
    is_truncated: Float[np.ndarray, " episode"]
    effort: Float[np.ndarray, " episode"]
    """Sum of the rewards without their signs."""
    serving: Float[np.ndarray, " episode"]
    """Steps that served any region."""
    given: Float[np.ndarray, " episode"]
    """Sum of the labels of all regions, without their signs."""

    def first(self, count: int) -> Episodes:
        """The first so many."""
        columns: list[Any] = [column[:count] for column in self]
        return Episodes(*columns)

    @property
    def density(self) -> Density:
        return from_episodes(self.amounts)

    @property
    def step_cost(self) -> float:
        """Mean reward of a step without its sign; 1 where nothing is rewarded."""
        return float(self.effort.sum() / self.steps.sum()) or 1.0

    @property
    def rate(self) -> float:
        """Units that a step of service gives out: all of them over the steps that served."""
        served = self.serving.sum()
        return float(self.given.sum() / served) if served else 1.0


class MeasuringLanes:
    """Environments side by side, each of which drives whole episodes."""

    def __init__(self, env: Ruled, count: int, seed: int) -> None:
        self._env = env
        self._lanes: DummyVecEnv = env.measured_in.many(count)
        self._lanes.seed(seed)

    def run(self, model: BaseAlgorithm) -> Episodes:
        """One episode of a model's policy in each, without noise, under the present kappa."""
        kappas = np.tile(self._env.charges.kappa.astype(np.float32), (self._lanes.num_envs, 1))
        prices = self._env.charges.prices(kappas)
        normaliser = model.get_vec_normalize_env()

        def choose(observations: Any, runs: np.ndarray) -> np.ndarray:
            seen = self._env.seen(observations, runs, prices)
            seen = seen if normaliser is None else normaliser.normalize_obs(seen)
            return model.predict(seen, deterministic=True)[0]

        return self._drive(choose)

    def run_at_random(self, seed: int) -> Episodes:
        """One episode of random actions in each."""
        space = self._lanes.action_space
        space.seed(seed)
        return self._drive(lambda *_: np.stack([space.sample() for _ in self._lanes.envs]))

    def _drive(self, choose: Callable[[Any, np.ndarray], np.ndarray]) -> Episodes:
        env, lanes = self._env, self._lanes
        count = lanes.num_envs
        sums = np.zeros((6, count))
        amounts, runs = np.zeros((count, len(env.labels.names))), env.new_runs(count)
        is_on = np.ones(count, bool)
        observations = lanes.reset()
        for _ in range(LONGEST_EPISODE):
            actions = choose(observations, runs)
            observations, rewards, dones, infos = lanes.step(actions)
            labels = labels_of(env.labels, actions, observations, rewards, infos)
            cut = [info.get("TimeLimit.truncated", False) for info in infos]
            sums += is_on * np.stack([
                rewards, np.ones(count), dones & cut, np.abs(rewards),
                labels.any(axis=1), np.abs(labels).sum(axis=1),
            ])  # fmt: skip
            amounts += is_on[:, None] * labels
            runs = counted(runs, labels)
            is_on &= ~dones
            if not is_on.any():
                return Episodes(sums[0], amounts, *sums[1:])
        raise ScrlError(
            f"{env.measured_in.name}: an episode did not end within {LONGEST_EPISODE:,} steps; "
            "rules are about whole episodes: give it a time limit (gymnasium.wrappers.TimeLimit)"
        )

    def close(self) -> None:
        self._lanes.close()


def together(parts: list[Episodes]) -> Episodes:
    """Episodes of several rounds as one."""
    columns: list[Any] = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return Episodes(*columns)


SIDE_BY_SIDE = 16
"""Episodes driven at once."""


def evaluate(
    model: BaseAlgorithm,
    env: Ruled,
    *,
    episodes: int | None = None,
    seed: int = REPORT_SEED,
    tolerance: float = 1e-6,
) -> Evaluation:
    """Drive whole episodes without noise and hold their densities against the rules.

    Without `episodes`: 100, or more where a rule asks for a share that these cannot show, or one
    where chance plays no part.
    """
    wanted = chosen_episodes(env.rules, episodes, is_random=env.measured_in.is_random)
    lanes = MeasuringLanes(env, min(wanted, SIDE_BY_SIDE), seed)
    rounds = -(-wanted // SIDE_BY_SIDE)
    # Every round is driven to its end, so which are left out does not hang on their length.
    ran = together([lanes.run(model) for _ in range(rounds)]).first(wanted)
    lanes.close()
    return Evaluation(
        problem=env.measured_in.name,
        policy=type(model).__name__,
        unit=env.measured_in.unit,
        return_=float(ran.return_.mean()),
        episodes=len(ran.return_),
        episodes_truncated=int(ran.is_truncated.sum()),
        steps=float(ran.steps.mean()),
        is_horizon_an_end=not env.measured_in.must_end,
        **verdict(env.rules, ran.density, ran.amounts, tolerance),
    )
