"""Episodes in somebody's environment -> an evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np

from scrl import density as densities
from scrl.errors import PolicyError
from scrl.evaluation import DEFAULT_EPISODES, Evaluation, checked_episodes, verdict
from scrl.outside.driving import run_episodes
from scrl.outside.lanes import Lanes
from scrl.outside.policy import OutsidePolicy, acting
from scrl.outside.problem import EnvironmentProblem

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
            f"in somebody's environment a policy is a function of an observation, not {policy!r}"
        )
    if isinstance(policy, OutsidePolicy) and policy.features != problem.observations.features:
        raise PolicyError(
            f"this policy was trained on observations of {policy.features} numbers, and those of "
            f"{problem.name} have {problem.observations.features}"
        )
    wanted = checked_episodes(DEFAULT_EPISODES if episodes is None else episodes)
    with problem.open(problem.source.lanes or min(LANES, wanted)) as lanes:
        label = name or getattr(policy, "__name__", type(policy).__name__)
        return evaluate_in(lanes, problem, policy, episodes=wanted, seed=seed, name=label)


def evaluate_in(
    lanes: Lanes, problem: EnvironmentProblem, policy: Any, *, episodes: int, seed: int, name: str
) -> Evaluation:
    """The same in lanes that are open already."""
    seeds = np.random.SeedSequence(seed).generate_state(lanes.count) >> 1
    each = -(-episodes // lanes.count)
    ran = run_episodes(
        lanes, acting(policy), each=each, seeds=seeds.tolist(), discount=problem.discount
    )
    # The first episodes of all lanes come first: which are left out does not hang on their length.
    return_, amounts, steps, is_terminated = (
        np.swapaxes(np.asarray(leaf), 0, 1).reshape(-1, *leaf.shape[2:])[:episodes]
        for leaf in (ran.return_, ran.service, ran.steps, ran.is_terminated)
    )
    return Evaluation(
        problem=problem.name,
        policy=name,
        unit=problem.unit,
        return_=float(return_.mean()),
        episodes=episodes,
        episodes_truncated=int((~is_terminated).sum()),
        steps=float(steps.mean()),
        is_horizon_an_end=True,
        units={} if isinstance(problem.counts, str) else dict(problem.counts),
        **verdict(problem.rules, densities.from_episodes(amounts), amounts, problem.tolerance),
    )
