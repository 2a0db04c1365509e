"""What a run folder drives with, whether it was trained or asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from scrl.errors import PolicyError
from scrl.prices.kept import holds_plan, kept_policy
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

    @cached_property
    def route(self) -> Route:
        """What it drives in that episode."""
        return drive(self.problem, self.policy, seed=self.episode_seed)


def run_policy(run: Path | str, seed: int | None = None) -> Any:
    """The policy of a finished run: of a seed, or the best one."""
    if not holds_plan(run):
        return load_policy(run, seed)
    if seed not in (None, *RunFolder.open(run).record.seeds):
        raise PolicyError(f"{run}: a plan of `scrl ask`, which has no seeds to choose from")
    return kept_policy(run)


def run_driver(run: Path | str, seed: int | None = None) -> Driver:
    """What a finished run drives with: the policy of a seed, or of the best one."""
    policy = run_policy(run, seed)
    folder = RunFolder.open(run)
    if seed is None:
        result = read_result(folder)
        if result is None:
            raise PolicyError(f"{folder.path}: this run is not finished")
        seed = result.best.seed
    return Driver(folder.problem(), policy, seed, REPORT_SEED + seed)
