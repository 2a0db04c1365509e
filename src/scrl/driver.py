"""What a run folder drives with: trained or asked for, on a map or in somebody's environment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from scrl import training
from scrl.errors import PolicyError
from scrl.evaluation import Evaluation
from scrl.prices.kept import holds_plan, kept_conflict, kept_plans
from scrl.problems import Problem
from scrl.route import Route, drive
from scrl.runs import KeptEnvironment, RunFolder
from scrl.trained import REPORT_SEED, load_policy, read_seed


@dataclass(frozen=True)
class Driver:
    """A policy on its problem, and the episode that shows what it does."""

    problem: Problem | KeptEnvironment
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
        if isinstance(self.problem, KeptEnvironment):
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
        policy = training.load_policy(run, chosen.seed)
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
