"""What a run folder drives with, whether it was trained or asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from scrl.errors import PolicyError
from scrl.prices.kept import holds_plan, kept_plans
from scrl.problems import Problem
from scrl.route import Route, drive
from scrl.runs import RunFolder
from scrl.trained import REPORT_SEED, load_policy, read_result


@dataclass(frozen=True)
class Driver:
    """A policy on its problem, and the episode that shows what it does."""

    problem: Problem
    policy: Any
    seed: int
    """Of training, or of the search."""
    episode_seed: int = 0
    warning: str | None = None
    """What a reader of its route should know."""

    @cached_property
    def route(self) -> Route:
        """What it drives in that episode."""
        return drive(self.problem, self.policy, seed=self.episode_seed)


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
    plans = run_plans(run, seed)
    folder = RunFolder.open(run)
    if seed is None:
        result = read_result(folder)
        if result is None:
            raise PolicyError(f"{folder.path}: this run is not finished")
        seed = result.best.seed
    share, policy = plans[0]
    warning = None
    if len(plans) > 1:
        warning = (
            f"the rules are kept by a mixture of {len(plans)} plans; this is one of them, driven "
            f"in {share:.0%} of the episodes, and alone it may break a rule"
        )
    return Driver(folder.problem(), policy, seed, REPORT_SEED + seed, warning)
