"""Evaluates a policy, or a mixture of some: runs whole episodes and judges them by the rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import jax
import numpy as np
from jaxtyping import Float

from scrl.errors import PolicyError
from scrl.evaluation.given import given_out
from scrl.evaluation.judging import verdict
from scrl.evaluation.record import Evaluation, asked_text
from scrl.policies import Action, PlacedPolicy, Policy, fixed_policy
from scrl.problems import Problem
from scrl.rollout import run_episodes, unused_keys
from scrl.rules import RuleSet
from scrl.statistics import least_runs

DEFAULT_EPISODES = 100
"""Default number of episodes of an evaluation; 1 if episodes cannot differ."""
REPORT_SEED = 1_000_003
"""Added to a training seed: the episodes that report a policy are not those that chose it."""
REPORT_EPISODES = 1_000
"""Episodes behind a result where chance plays a part; else one tells everything."""

NO_MIXTURE = (
    "a mixture keeps rules on average over its plans, and here rules must hold in a share of "
    "single episodes: only a single plan can be judged by them"
)


class Evaluated(Protocol):
    """A problem that evaluates policies itself, such as an external environment."""

    def evaluate(
        self, policy: Any, *, episodes: int | None, seed: int, name: str | None
    ) -> Evaluation: ...


def evaluate(
    problem: Problem | Evaluated,
    policy: Policy | Action | PlacedPolicy | Callable[[Any], Any] | str,
    *,
    episodes: int | None = None,
    seed: int = 0,
    name: str | None = None,
) -> Evaluation:
    """Run whole episodes and judge their densities by the rules.

    A policy is a name (`full-speed`, `constant:V`) or a function of an observation and a key; for
    an external environment (`scrl.environment`) a function of an observation.
    """
    if not isinstance(problem, Problem):
        return problem.evaluate(policy, episodes=episodes, seed=seed, name=name)
    label = name or (policy if isinstance(policy, str) else type(policy).__name__)
    if isinstance(policy, str):
        policy = fixed_policy(policy, problem)
    cells, path = getattr(policy, "cells", None), len(problem.world_spec.path.cells)
    if cells is not None and cells != path:
        raise PolicyError(
            f"{label}: this policy drives a path of {cells:,} cells, and that of {problem.name} "
            f"has {path:,}"
        )
    asked, there = getattr(policy, "regions", None), len(problem.world_spec.amounts)
    if asked is not None and asked != there:
        raise PolicyError(
            f"{label}: this policy was trained on a map with {asked} regions, and {problem.name} "
            f"has {there}"
        )
    # A function without `is_random` is taken to be random.
    is_random = problem.world_spec.is_random or getattr(policy, "is_random", True)
    episodes = chosen_episodes(problem.rules, episodes, is_random=is_random)
    keys = jax.random.split(jax.random.key(seed), episodes)
    ran = run_episodes(problem.world, policy, keys=keys, discount=problem.discount)
    amounts = problem.world_spec.vehicle.rate * np.asarray(ran.service, float)
    given = given_out(
        problem, amounts, np.asarray(ran.given, float).mean(axis=0),
        float(np.asarray(ran.steps, float).mean()),
    )  # fmt: skip
    return Evaluation(
        problem=problem.name,
        policy=label,
        unit=problem.world_spec.units.unit,
        units=units_of(problem),
        return_=float(np.asarray(ran.return_, float).mean()),
        episodes=episodes,
        episodes_truncated=int((~np.asarray(ran.is_terminated)).sum()),
        **given.fields,
        **verdict(problem, given.density, amounts, problem.tolerance),
    )


def evaluate_mixture(
    problem: Problem,
    policies: Sequence[PlacedPolicy],
    weights: Float[np.ndarray, " policy"],
    *,
    episodes: int,
    seed: int = 0,
    name: str,
) -> Evaluation:
    """Evaluate a mixture, which draws one policy by its weight for each episode, in expectation."""
    episodes = checked_episodes(episodes)
    if len(policies) > 1 and problem.rules.largest_share is not None:
        raise PolicyError(NO_MIXTURE)
    is_random = problem.world_spec.is_random
    keys = jax.random.split(jax.random.key(seed), episodes) if is_random else unused_keys(episodes)
    ran = jax.device_get([
        run_episodes(problem.world, policy, keys=keys, discount=problem.discount)
        for policy in policies
    ])  # fmt: skip
    rate = problem.world_spec.vehicle.rate
    amounts = [rate * np.asarray(each.service, float) for each in ran]

    def expected(values: Iterable[Any]) -> Any:
        return sum(weight * value for weight, value in zip(weights, values, strict=True))

    # All policies run with the same keys, so the error is that of the weighted sum per episode.
    given = given_out(
        problem,
        expected(amounts),
        expected(np.asarray(each.given, float).mean(axis=0) for each in ran),
        float(expected(np.asarray(each.steps, float).mean() for each in ran)),
    )
    return Evaluation(
        problem=problem.name,
        policy=name,
        unit=problem.world_spec.units.unit,
        units=units_of(problem),
        return_=float(expected(np.asarray(each.return_, float).mean() for each in ran)),
        episodes=episodes,
        episodes_truncated=math.ceil(expected((~each.is_terminated).sum() for each in ran) - 1e-9),
        **given.fields,
        **verdict(problem, given.density, np.stack(amounts), problem.tolerance, weights),
    )


def units_of(problem: Problem) -> dict[str, str]:
    """The unit of each amount, where the rules name totals; otherwise all have the same."""
    names = problem.regions if problem.world_spec.totals else ()
    return {name: problem.unit_of([name]) for name in names}


def checked_episodes(episodes: int) -> int:
    if not isinstance(episodes, int) or episodes < 1:
        raise PolicyError(f"episodes = {episodes!r} must be a whole number of at least 1")
    return episodes


def chosen_episodes(
    rules: RuleSet, episodes: int | None, *, is_random: bool, usual: int = DEFAULT_EPISODES
) -> int:
    """The number of episodes asked for, or as many as usual and as the rules need.

    Too few to show the share of single episodes that a rule asks for are refused.
    """
    asked = rules.largest_share
    least = 1 if not is_random or asked is None or asked == 1 else least_runs(asked)
    if episodes is None:
        return max(usual, least) if is_random else 1
    if checked_episodes(episodes) < least:
        share = asked_text(float(asked or 1))
        raise PolicyError(
            f"episodes = {episodes:,} cannot show that rules hold {share} of single episodes: that "
            f"takes at least {least:,}"
        )
    return episodes
