"""`Ruled`: environments whose steps are charged for rules, for any algorithm of SB3."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Float
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper

from scrl.environments.labels import Labels, LabelSource, Step
from scrl.environments.problem import UNKNOWN_CHANCE
from scrl.errors import ScrlError
from scrl.problems.problem import check_shares
from scrl.rules import RuleSet
from scrl.rules.ruleset import Source
from scrl.sb3.charges import Charges
from scrl.sb3.environments import (
    EnvSource,
    MeasuringEnvironments,
    maker,
    refuse_normalised,
    vectorised,
)
from scrl.sb3.replay import STEP


class Ruled(VecEnvWrapper):
    """Environments in which every step pays for the rules: r' = r - sigma(Psi, s).

    What it pays is 0 until the callback `KeepRules` has seen a rule broken. The raw reward and the
    labels of each step travel in `info`, so that replay buffers can be priced when sampled.
    """

    def __init__(  # noqa: PLR0913 (one for each thing that a user may want to say)
        self,
        env: EnvSource,
        rules: Source | RuleSet,
        labels: LabelSource | Labels | None = None,
        *,
        penalty: str = "scrl",
        worlds: int = 1,
        measured_in: EnvSource | None = None,
        sees_prices: bool = False,
        seed: int = 0,
        **drawing: Any,
    ) -> None:
        """`env` is a name, an environment, a function that makes one, or a VecEnv.

        Args:
            env: Where a model learns; a name or function is used `worlds` times.
            rules: As text or formulas, or a whole rule set (which may have a confidence).
            labels: What a step gives to each region (see `Labels`); our own worlds know it.
            penalty: `scrl`, `scrl-min`, `lagrangian` or `none`.
            worlds: How many environments side by side.
            measured_in: Another environment like `env`, for one that cannot be copied.
            sees_prices: Whether what steps earn is part of the observation.
            seed: Of the draws.
            **drawing: `sharpness` and `is_netted`, see `scrl.training.config.PenaltyConfig`.
        """
        refuse_normalised(env)
        self.measured_in = MeasuringEnvironments(
            maker(env if measured_in is None else measured_in), labels
        )
        venv = vectorised(env, worlds)
        self.labels = self.measured_in.labels
        rule_set = rules if isinstance(rules, RuleSet) else RuleSet.of(rules, self.labels.names)
        if rule_set.regions != self.labels.names:
            raise ScrlError(
                f"the rules are over {', '.join(rule_set.regions)}, the labels over "
                f"{', '.join(self.labels.names)}"
            )
        unbounded = "" if self.measured_in.is_bounded else UNKNOWN_CHANCE
        check_shares(rule_set, is_random=self.measured_in.is_random, unbounded=unbounded)
        if self.measured_in.observation_space != venv.observation_space:
            raise ScrlError(
                "the environment for measuring sees something else than the one for learning: "
                "wrappers that change observations belong into the environment, not around a VecEnv"
            )
        self.sees_prices = sees_prices
        self.charges = Charges(rule_set, penalty, seed, **drawing)
        super().__init__(venv, self._widened(venv))
        self.renew()

    @property
    def rules(self) -> RuleSet:
        return self.charges.rules

    def renew(self) -> None:
        """Give every world its kappa, after kappa has moved."""
        self._kappas = self.charges.kappas_of_worlds(self.num_envs)
        self._prices = self.charges.prices(self._kappas)

    def reset(self) -> Any:
        return self.seen(self.venv.reset())

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions
        self.venv.step_async(actions)

    def step_wait(self) -> Any:
        observations, rewards, dones, infos = self.venv.step_wait()
        labels = labels_of(self.labels, self._actions, observations, rewards, infos)
        for info, reward, given in zip(infos, rewards, labels, strict=True):
            info[STEP] = (float(reward), given)
        if self.sees_prices:
            for world in np.flatnonzero(dones):
                last = infos[world]["terminal_observation"]
                infos[world]["terminal_observation"] = np.concatenate([last, self._prices[world]])
        charged = rewards - self.charges.of(labels, self._kappas)
        return self.seen(observations), charged, dones, infos

    def seen(
        self, observations: Any, prices: Float[np.ndarray, "world region"] | None = None
    ) -> Any:
        """Observations with what steps earn, where a policy may see it."""
        if not self.sees_prices:
            return observations
        prices = self._prices if prices is None else prices
        return np.concatenate([observations, prices], axis=1)

    def _widened(self, venv: VecEnv) -> gymnasium.Space[Any]:
        space = venv.observation_space
        if not self.sees_prices:
            return space
        if (
            not isinstance(space, gymnasium.spaces.Box)
            or len(space.shape) != 1
            or not np.issubdtype(space.dtype, np.floating)
        ):
            raise ScrlError(f"prices can only be seen beside a row of numbers, not in {space}")
        wide = np.full(len(self.labels.names), np.inf, np.float32)
        return gymnasium.spaces.Box(
            np.concatenate([space.low, -wide]), np.concatenate([space.high, wide]), dtype=np.float32
        )


def labels_of(
    labels: Labels, actions: Any, observations: Any, rewards: Any, infos: Any
) -> Float[np.ndarray, "world region"]:
    """What a step of every world gave, in units: at the observation it led to, also the last."""

    def one(world: int) -> np.ndarray:
        info = infos[world]
        observation = info.get("terminal_observation")
        if observation is None:
            observation = _row(observations, world)
        return labels(Step(observation, actions[world], float(rewards[world]), info))

    return np.stack([one(world) for world in range(len(rewards))])


def _row(observations: Any, world: int) -> Any:
    if isinstance(observations, dict):
        return {key: each[world] for key, each in observations.items()}
    if isinstance(observations, tuple):
        return tuple(each[world] for each in observations)
    return observations[world]
