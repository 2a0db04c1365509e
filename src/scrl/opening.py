"""Run folders opened: the policy, the route and a new evaluation of any kind of run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from scrl import api
from scrl.api import check_options, environment_again
from scrl.errors import PolicyError
from scrl.evaluation import DEFAULT_EPISODES, Evaluation, evaluate, evaluate_mixture
from scrl.planning.plan_files import holds_plan, kept_conflict, kept_plans
from scrl.problems import Problem
from scrl.route import Route, drive
from scrl.runs.folder import EnvironmentRecord, RunFolder
from scrl.training.result import REPORT_SEED, load_policy, read_seed


@dataclass(frozen=True)
class Driver:
    """A policy on its problem, and the episode that shows what it does."""

    problem: Problem | EnvironmentRecord
    policy: Any
    seed: int
    """Of training, or of the search."""
    episode_seed: int = 0
    warning: str | None = None
    """What a reader of its route should know."""

    measured: Evaluation | None = None
    """What was measured when the run ended, where it cannot be driven again from its folder."""
    judged: Evaluation | None = None
    """How the run's result holds this policy alone against the rules, if it does."""
    conflict: tuple[str, ...] = ()
    """Names of rules that `scrl ask` found impossible to keep together."""

    @cached_property
    def route(self) -> Route:
        """What it drives in that episode, on a map."""
        if isinstance(self.problem, EnvironmentRecord):
            raise PolicyError(
                f"{self.problem.name}: there is no route, since there is no map: the policy acts "
                f"in an environment of somebody's ({self.problem.environment})"
            )
        return drive(self.problem, self.policy, seed=self.episode_seed)

    @property
    def received(self) -> dict[str, float]:
        """What each region receives in that episode, or on average in those that were measured."""
        return self.route.totals if self.measured is None else self.measured.density

    @property
    def steps(self) -> float:
        """How many it takes."""
        return self.route.steps if self.measured is None else self.measured.steps


def run_plans(run: Path | str, seed: int | None = None) -> list[tuple[float, Any]]:
    """The policies of a finished run and the share of episodes that each drives.

    One of training: that of a seed, or the best one. One of `scrl ask` may mix several.
    """
    if not holds_plan(run):
        return [(1.0, load_policy(run, seed))]
    if seed not in (None, *RunFolder.open(run).record.seeds):
        raise PolicyError(f"{run}: a plan of `scrl ask`, which has no seeds to choose from")
    return kept_plans(run)


def run_driver(run: Path | str, seed: int | None = None) -> Driver:
    """What a finished run drives with: the policy of a seed, or of the best one."""
    folder = RunFolder.open(run)
    if (kept := folder.environment()) is not None:
        chosen = read_seed(folder, seed)
        policy = api.load_policy(run, chosen.seed)
        measured = chosen.evaluation
        return Driver(kept, policy, chosen.seed, measured=measured, judged=measured)
    plans = run_plans(run, seed)
    chosen = read_seed(folder, seed)
    share, policy = plans[0]
    warning = None
    if len(plans) > 1:
        whole = "the rules are kept by" if chosen.is_satisfied else "the answer is"
        warning = (
            f"{whole} a mixture of {len(plans)} plans; this is one of them, driven "
            f"in {share:.0%} of the episodes, and alone it may break a rule"
        )
    return Driver(
        folder.problem(), policy, chosen.seed, REPORT_SEED + chosen.seed, warning,
        judged=chosen.evaluation if len(plans) == 1 else None,
        conflict=kept_conflict(run) if holds_plan(run) else (),
    )  # fmt: skip


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
    policy = api.load_policy(run, policy_seed)
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
