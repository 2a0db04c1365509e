"""A trained policy for an external environment, and the evaluation of any policy in one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import jax
import numpy as np
from jaxtyping import Float

from scrl import density as densities
from scrl.environments.driver import Uniform, act_all, held
from scrl.environments.encoder import EnvironmentEncoder
from scrl.environments.lanes import Lanes
from scrl.environments.problem import EnvironmentProblem
from scrl.environments.rollout import Act, run_episodes
from scrl.environments.spaces import Actions
from scrl.errors import PolicyError
from scrl.evaluation import Evaluation, chosen_episodes, verdict
from scrl.learners import TrainedPolicy
from scrl.learners.actions import Discrete


class EnvironmentPolicy:
    """What a run learned: `action = policy(observation)`.

    Numbers come without noise. Choices are drawn, with the chances of `seed`, unless the policy was
    trained with `is_greedy`.
    """

    def __init__(self, policy: TrainedPolicy, actions: Actions, *, seed: int = 0) -> None:
        self.policy, self.actions = policy, actions
        self._uniform = Uniform(policy, seed)
        of_one = jax.tree.map(lambda leaf: np.asarray(leaf)[None], policy)
        self._answer = held(act_all, of_one)

    @property
    def is_random(self) -> bool:
        return self._uniform.size > 0

    @property
    def features(self) -> int:
        """Numbers in the observations that it was trained on."""
        return cast(EnvironmentEncoder, self.policy.encoder).own_features

    @property
    def is_reacting(self) -> bool:
        """Whether it also sees what each region had so far in the episode, and its steps."""
        return self.policy.encoder.of_runs is not None

    def __call__(self, observation: Any) -> np.ndarray:
        """What to do, as the environment wants it; for an observation of plain numbers.

        One that reacts wants what each region had so far and the steps so far behind them.
        """
        row = np.asarray(observation, np.float32).ravel()
        if len(row) != self.policy.encoder.features:
            more = ", then what each region had so far and the steps so far,"
            raise PolicyError(
                f"this policy was trained on observations of {self.features} numbers"
                f"{more if self.is_reacting else ','} and this one has {len(row)}"
            )
        action = self.on_rows(row[None])[0]
        return action if isinstance(self.actions.kind, Discrete) else np.asarray(action)

    def on_rows(
        self, rows: Float[np.ndarray, "lane feature"], uniform: Uniform | None = None
    ) -> np.ndarray:
        """The same for many observations at once."""
        chosen = self._answer(rows[None], (uniform or self._uniform)(1, len(rows)))
        return self.actions.to_environment(np.asarray(chosen)[0])


def acting(policy: EnvironmentPolicy | Callable[[Any], Any], seeds: Sequence[int]) -> Act:
    """A policy, or any function of an observation, for all lanes; it draws with these seeds."""
    if isinstance(policy, EnvironmentPolicy):
        is_reacting, uniform = policy.is_reacting, Uniform(policy.policy, seeds)
        return lambda lanes: policy.on_rows(
            lanes.counted if is_reacting else lanes.features, uniform
        )

    def act(lanes: Lanes) -> np.ndarray:
        return np.stack([np.asarray(policy(each)) for each in lanes.observations()])

    return act


LANES = 8
"""Environments side by side in an evaluation, where there can be as many as one likes."""


def evaluate(
    problem: EnvironmentProblem,
    policy: Any,
    *,
    episodes: int | None = None,
    seed: int = 0,
    name: str | None = None,
) -> Evaluation:
    """Run whole episodes of a function of an observation, and hold them against the rules."""
    if not callable(policy):
        raise PolicyError(
            f"in an external environment a policy is a function of an observation, not {policy!r}"
        )
    if isinstance(policy, EnvironmentPolicy) and policy.features != problem.observations.features:
        raise PolicyError(
            f"this policy was trained on observations of {policy.features} numbers, and those of "
            f"{problem.name} have {problem.observations.features}"
        )
    wanted = chosen_episodes(problem.rules, episodes, is_random=problem.is_random)
    with problem.open(problem.source.lanes or min(LANES, wanted)) as lanes:
        label = name or getattr(policy, "__name__", type(policy).__name__)
        return evaluate_in(lanes, problem, policy, episodes=wanted, seed=seed, name=label)


def evaluate_in(
    lanes: Lanes, problem: EnvironmentProblem, policy: Any, *, episodes: int, seed: int, name: str
) -> Evaluation:
    """The same in lanes that are open already."""
    return evaluate_mixture_in(
        lanes, problem, [policy], np.ones(1), episodes=episodes, seed=seed, name=name
    )


def evaluate_mixture_in(
    lanes: Lanes,
    problem: EnvironmentProblem,
    policies: Sequence[Any],
    weights: Float[np.ndarray, " policy"],
    *,
    episodes: int,
    seed: int,
    name: str,
) -> Evaluation:
    """The same for a mixture, which draws one policy by its weight for each episode."""
    seeds = np.random.SeedSequence(seed).generate_state(lanes.count) >> 1
    each = -(-episodes // lanes.count)

    def ran(policy: Any) -> list[np.ndarray]:
        found = run_episodes(
            lanes, acting(policy, seeds.tolist()), each=each, seeds=seeds.tolist(),
            discount=problem.discount,
        )  # fmt: skip
        # The first episodes of all lanes come first: which are left out does not hang on their
        # length.
        return [
            np.swapaxes(np.asarray(leaf), 0, 1).reshape(-1, *leaf.shape[2:])[:episodes]
            for leaf in (found.return_, found.service, found.steps, found.is_terminated)
        ]

    parts = [np.stack(leaves) for leaves in zip(*map(ran, policies), strict=True)]
    return_, amounts, steps, is_terminated = parts
    truncated = float(weights @ (~is_terminated).sum(axis=1))
    density = densities.from_episodes(np.tensordot(weights, amounts, axes=1))
    return Evaluation(
        problem=problem.name,
        policy=name,
        unit=problem.unit,
        return_=float(weights @ return_.mean(axis=1)),
        episodes=episodes,
        episodes_truncated=math.ceil(truncated - 1e-9),
        steps=float(weights @ steps.mean(axis=1)),
        is_horizon_an_end=True,
        units={} if isinstance(problem.counts, str) else dict(problem.counts),
        **verdict(problem.rules, density, amounts, problem.tolerance, weights),
    )
