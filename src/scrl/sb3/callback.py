"""`KeepRules`: the callback that measures densities, moves kappa, and hands out the best policy.

The loop of Algorithm 2 around an algorithm of SB3: every so many steps the policy drives whole
episodes without noise, in environments of its own; their density moves kappa; what the algorithm
is paid changes with it.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper

from scrl.errors import ScrlError, did_you_mean
from scrl.evaluation import Evaluation
from scrl.sb3.measuring import Episodes, MeasuringLanes, evaluate
from scrl.sb3.replay import repricing
from scrl.sb3.wrapper import Ruled
from scrl.settings import setting
from scrl.single_runs import RunAtoms
from scrl.training.algorithm import is_better
from scrl.training.config import KappaConfig
from scrl.violation import automatic_kappa_rate, largest_step


@dataclass(frozen=True)
class KeepingConfig(KappaConfig):
    """How often the policy is measured, and how kappa moves."""

    deviations: float = setting(
        2.0, "Standard errors that a measured density must lie inside its bounds.",
        low=0.0, high=10.0,
    )  # fmt: skip
    settle: int = setting(
        50, "Moves of kappa after the learning, for a policy that sees prices.",
        low=0, high=100_000,
    )  # fmt: skip
    every: int = setting(2_000, "Steps of learning between two moves of kappa.", low=1)
    keeps_best: bool = setting(
        True, "Whether the model ends with its best policy, or with its last one."
    )
    tolerance: float = setting(
        1e-6, "Violation up to which the rules count as satisfied.", unit="units", low=0.0
    )
    seed: int = setting(0, "Seed of the episodes that measure.", low=0)


class MeasuredPolicy(NamedTuple):
    """What was seen of the policy at some time."""

    timesteps: int
    return_: float
    density: dict[str, float]
    violation: float
    """Cons.Vio as surely as the rules must hold, by some standard errors more surely."""
    kappa: Float[np.ndarray, " atom"]
    is_whole: bool = True
    """Whether every episode came to its end, where the world has one."""


class Snapshot(NamedTuple):
    """The parameters of a policy, in torch, and in JAX where it comes from SBX."""

    torch: dict[str, Any]
    jax: dict[str, Any]
    usual: Any
    """What observations `VecNormalize` knew then: the policy is used to those."""


class BestModel(NamedTuple):
    """The policy to hand out, and the kappa and the forecasts that it was measured with."""

    measured: MeasuredPolicy
    parameters: Snapshot
    of_runs: RunAtoms | None


class KeepRules(BaseCallback):
    """Makes an algorithm keep the rules of the `Ruled` environment that it learns in."""

    def __init__(self, env: VecEnv, verbose: int = 0, **settings: Any) -> None:
        """Settings are those of `KeepingConfig`."""
        super().__init__(verbose)
        known = [field.name for field in fields(KeepingConfig)]
        for key in settings:
            if key not in known:
                raise ScrlError(f"unknown setting '{key}'{did_you_mean(key, known)}")
        self.config = KeepingConfig(**settings)
        self.env = _ruled(env)
        self.history: list[MeasuredPolicy] = []
        self.best: BestModel | None = None
        self.evaluation: Evaluation | None = None
        """The policy that learning ended with, in episodes that had no part in choosing it."""
        self._next_move = 0
        self._has_units = False

    def _on_training_start(self) -> None:
        learns_in = self.model.get_env()
        if learns_in is None or _ruled(learns_in) is not self.env:
            raise ScrlError("the model learns in another environment than that of KeepRules")
        if isinstance(self.model, OffPolicyAlgorithm) and self.model.replay_buffer is not None:
            buffer = repricing(self.model.replay_buffer)
            buffer.attach(self.env.charges, sees_prices=self.env.sees_prices)
            self.model.replay_buffer = buffer
        episodes = self.config.episodes if self.env.measured_in.is_random else 1
        self._lanes = MeasuringLanes(self.env, episodes, self.config.seed)
        if not self._has_units:
            self._read_units(self._lanes.run_at_random(self.config.seed))
        # Until it learns, an off-policy algorithm collects at random: kappa would wind up.
        self._next_move = max(self.num_timesteps, getattr(self.model, "learning_starts", 0))

    def _on_rollout_start(self) -> None:
        if self.num_timesteps < self._next_move:
            return
        self._next_move = self.num_timesteps + self.config.every
        self._measure_and_move(1.0)

    def _on_step(self) -> bool:
        return True

    def _on_training_end(self) -> None:
        rounds = self.config.settle if self.env.sees_prices else 0
        for round_ in range(rounds):
            self._measure_and_move(self.config.settling_share(round_ / rounds))
        self._measure_and_move(0.0)
        if self.config.keeps_best and self.best is not None:
            _restore(self.model, self.best.parameters)
            self._set_kappa(self.best.measured.kappa)
            self.env.charges.of_runs = self.best.of_runs
        self._lanes.close()
        self.evaluation = evaluate(self.model, self.env, tolerance=self.config.tolerance)
        if self.verbose:
            print(self.evaluation)

    def _measure_and_move(self, share: float) -> None:
        """Measure the present policy, remember it if it is the best, move kappa."""
        charges, config = self.env.charges, self.config
        ran = self._lanes.run(self.model)
        held = charges.held_against(ran.amounts, config.deviations, config.tolerance)
        density = ran.density.mean
        seen = MeasuredPolicy(
            self.num_timesteps,
            float(ran.return_.mean()),
            dict(zip(self.env.labels.names, density.tolist(), strict=True)),
            float(held.violation),
            charges.kappa,
            not (self.env.measured_in.must_end and ran.is_truncated.any()),
        )
        self.history.append(seen)
        if seen.is_whole and (self.best is None or self._is_better(seen, self.best.measured)):
            self.best = BestModel(seen, _snapshot(self.model), charges.of_runs)
        self._log(seen)
        step = largest_step(charges.table.coefficients, charges.rate)
        excess = np.asarray(held.excess) + config.inset * step
        charges.follow(ran.amounts, float(ran.steps.mean()))
        self._set_kappa(charges.moved(excess, share * self._kappa_rate(ran)))

    def _read_units(self, ran: Episodes) -> None:
        """From a drive at random: what a step costs, and what it gives out.

        An untrained policy would not do: if it does nothing at all, a step seems to cost nothing.
        """
        charges, measured_in = self.env.charges, self.env.measured_in
        charges.price_unit = ran.step_cost
        charges.rate = ran.rate if measured_in.rate is None else measured_in.rate
        charges.follow(ran.amounts, float(ran.steps.mean()))
        self._has_units = True

    def _kappa_rate(self, ran: Episodes) -> Float[np.ndarray, " atom"]:
        """Beta of every atom, from the present episodes."""
        charges, bounds = self.env.charges, self.env.charges.table.bounds
        if self.config.kappa_rate is not None:
            return np.full(bounds.shape, self.config.kappa_rate)
        given_out = charges.rate * float(ran.steps.mean())
        pace = self.config.kappa_pace
        return pace * automatic_kappa_rate(charges.price_unit, given_out, bounds)

    def _is_better(self, found: MeasuredPolicy, old: MeasuredPolicy) -> bool:
        """The rules first, then the return."""
        new, best = ((np.asarray(each.violation), each.return_) for each in (found, old))
        return bool(is_better(new, best, self.config.tolerance))

    def _set_kappa(self, kappa: Float[np.ndarray, " atom"]) -> None:
        self.env.charges.kappa = kappa
        self.env.renew()

    def _log(self, seen: MeasuredPolicy) -> None:
        self.logger.record("rules/return", seen.return_)
        self.logger.record("rules/violation", seen.violation)
        is_kept = seen.is_whole and seen.violation <= self.config.tolerance
        self.logger.record("rules/satisfied", float(is_kept))
        for name, amount in seen.density.items():
            self.logger.record(f"density/{name}", amount)
        for index, kappa in enumerate(seen.kappa):
            self.logger.record(f"kappa/{index}", float(kappa))


def _snapshot(model: BaseAlgorithm) -> Snapshot:
    """SBX keeps immutable states such as `actor_state` beside an empty torch module."""
    policy: Any = model.policy
    states = {name: value for name, value in vars(policy).items() if name.endswith("_state")}
    usual = getattr(model.get_vec_normalize_env(), "obs_rms", None)
    return Snapshot(deepcopy(policy.state_dict()), states, deepcopy(usual))


def _restore(model: BaseAlgorithm, kept: Snapshot) -> None:
    policy: Any = model.policy
    policy.load_state_dict(kept.torch)
    for name, state in kept.jax.items():
        setattr(policy, name, state)
    if kept.usual is not None and (normaliser := model.get_vec_normalize_env()) is not None:
        normaliser.obs_rms = deepcopy(kept.usual)


def _ruled(env: VecEnv) -> Ruled:
    """The `Ruled` environment in a stack of wrappers."""
    inner: Any = env
    while isinstance(inner, VecEnvWrapper):
        if isinstance(inner, Ruled):
            return inner
        inner = inner.venv
    raise ScrlError("KeepRules needs a scrl.sb3.Ruled environment, and the model must learn in it")
