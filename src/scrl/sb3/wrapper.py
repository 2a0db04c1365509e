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

    What it pays is 0 until the callback `KeepRules` has seen a rule broken. Where a rule must hold
    in a share of single episodes, observations end with what the episode gave so far and still
    needs, and a step pays for what it changes in the forecast of its own episode. The raw reward
    and the labels of each step travel in `info`, so that replay buffers can be priced when sampled.
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
            **drawing: `sharpness`, `run_sharpness` and `is_netted`, see
                `scrl.training.config.PenaltyConfig`.
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
        is_in_runs = rule_set.largest_share is not None and self.measured_in.is_random
        self.charges = Charges(rule_set, penalty, seed, is_in_runs=is_in_runs, **drawing)
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
        self._runs = self.new_runs(self.num_envs)
        return self.seen(self.venv.reset(), self._runs)

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions
        self.venv.step_async(actions)

    def step_wait(self) -> Any:
        observations, rewards, dones, infos = self.venv.step_wait()
        labels = labels_of(self.labels, self._actions, observations, rewards, infos)
        before, after = self._runs, counted(self._runs, labels)
        labels = np.concatenate([labels, self.charges.added(before, after, dones)], axis=1)
        for info, reward, given in zip(infos, rewards, labels, strict=True):
            info[STEP] = (float(reward), given)
        if self.is_wider:
            for world in np.flatnonzero(dones):
                last = infos[world]["terminal_observation"]
                prices, runs = self._prices[world, None], after[world, None]
                infos[world]["terminal_observation"] = self.seen(last[None], runs, prices)[0]
        charged = rewards - self.charges.of(labels, self._kappas)
        self._runs = np.where(dones[:, None], np.float32(0.0), after)
        return self.seen(observations, self._runs), charged, dones, infos

    @property
    def is_wider(self) -> bool:
        """Whether more is seen than what the environment shows."""
        return self.sees_prices or self.charges.is_in_runs

    def new_runs(self, count: int) -> Float[np.ndarray, "world amounts_and_steps"]:
        """What episodes had before their first step: nothing."""
        return np.zeros((count, len(self.labels.names) + 1), np.float32)

    def seen(
        self,
        observations: Any,
        runs: Float[np.ndarray, "world amounts_and_steps"],
        prices: Float[np.ndarray, "world label"] | None = None,
    ) -> Any:
        """Observations with what episodes need and what steps earn, where a policy may see it."""
        if not self.is_wider:
            return observations
        prices = self._prices if prices is None else prices
        needs = [self.charges.needs(runs)] if self.charges.is_in_runs else []
        return np.concatenate(
            [observations, *needs, *([prices] if self.sees_prices else [])], axis=1
        )

    def _widened(self, venv: VecEnv) -> gymnasium.Space[Any]:
        space = venv.observation_space
        if not self.is_wider:
            return space
        if (
            not isinstance(space, gymnasium.spaces.Box)
            or len(space.shape) != 1
            or not np.issubdtype(space.dtype, np.floating)
        ):
            what = "prices" if self.sees_prices else "what an episode needs for rules 'in a share'"
            raise ScrlError(f"{what} can only be seen beside a row of numbers, not in {space}")
        more = self.charges.run_features + (self.charges.labels if self.sees_prices else 0)
        wide = np.full(more, np.inf, np.float32)
        return gymnasium.spaces.Box(
            np.concatenate([space.low, -wide]), np.concatenate([space.high, wide]), dtype=np.float32
        )


def counted(
    runs: Float[np.ndarray, "world amounts_and_steps"], labels: Float[np.ndarray, "world region"]
) -> Float[np.ndarray, "world amounts_and_steps"]:
    """What episodes had after one more step."""
    return runs + np.pad(labels, ((0, 0), (0, 1)), constant_values=1.0).astype(np.float32)


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
