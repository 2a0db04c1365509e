"""Runs judged anew: their policies in fresh episodes, on a map or in somebody's environment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scrl.driver import run_plans
from scrl.errors import PolicyError
from scrl.evaluation import DEFAULT_EPISODES, Evaluation, evaluate, evaluate_mixture
from scrl.problems import Problem
from scrl.runs import RunFolder
from scrl.training import check_options, environment_again, load_policy


def evaluate_run(
    run: Path | str,
    env: Any = None,
    *,
    policy_seed: int | None = None,
    episodes: int | None = None,
    seed: int = 0,
    **environment: Any,
) -> Evaluation:
    """Judge the policy of a run in new episodes: that of a training seed, or of the best one.

    A run in somebody's environment needs it again, with its labels: a folder cannot hold it. Rules,
    regions and horizon come from the folder where they are not given.
    """
    check_options(environment, evaluate_run)
    folder = RunFolder.open(run)
    is_given = env is not None or bool(environment)
    if folder.environment() is None:
        if is_given:
            raise PolicyError(f"{run}: this run is on a map, which needs no environment")
        plans = run_plans(run, policy_seed)
        return evaluate_plans(folder.problem(), plans, episodes=episodes, seed=seed, name=str(run))
    if not is_given:
        raise PolicyError(
            f"{run}: this run was trained in an environment of somebody's, which is needed again: "
            f"scrl.evaluate_run({str(run)!r}, env, labels=...)"
        )
    problem = environment_again(folder, env, environment)
    policy = load_policy(run, policy_seed)
    return evaluate(problem, policy, episodes=episodes, seed=seed, name=str(run))


def evaluate_plans(
    problem: Problem,
    plans: Sequence[tuple[float, Any]],
    *,
    episodes: int | None,
    seed: int,
    name: str,
) -> Evaluation:
    """Judge policies on a map, each of which drives a share of the episodes."""
    if len(plans) == 1:
        return evaluate(problem, plans[0][1], episodes=episodes, seed=seed, name=name)
    weights, policies = zip(*plans, strict=True)
    usual = DEFAULT_EPISODES if problem.is_random else 1
    return evaluate_mixture(
        problem, policies, np.array(weights), episodes=episodes or usual, seed=seed, name=name
    )
