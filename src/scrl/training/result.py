"""What training ends with, and how it is read from a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import jax
import numpy as np

from scrl.evaluation import Evaluation
from scrl.learners import TrainedPolicy
from scrl.problems import BaseProblem
from scrl.rules import AtomTable, RuleSet
from scrl.runs.files import Range, damage_in
from scrl.runs.folder import RunError, RunFolder
from scrl.runs.result import RESULT, RunResult
from scrl.training.config import TrainingConfig
from scrl.violation import is_kept_by_far

Result = TypeVar("Result", bound=RunResult)


@dataclass(frozen=True, repr=False)
class TrainingResult(RunResult):
    """What training ended with."""

    SCHEMA: ClassVar[Mapping[str, Any]] = RESULT | {"env_steps": Range(int, 0)}

    env_steps: int
    """Environment steps of all seeds: learning, measuring and settling."""

    def to_json(self) -> dict[str, Any]:
        """The fields of the command contract."""
        found = super().to_json()
        return {**found, "env_steps": self.env_steps, "wall_s": found.pop("wall_s")}

    @classmethod
    def _own_fields(cls, document: Mapping[str, Any]) -> dict[str, Any]:
        return {"env_steps": document["env_steps"]}

    @property
    def effort(self) -> str:
        return f"{self.env_steps:,} environment steps in {self.wall_s:.0f} s"


def overpriced(rules: RuleSet, found: Evaluation, price: Any) -> tuple[str, ...]:
    """A warning where a policy still pays for rules of which none is anywhere near its bound.

    At the optimum only rules that bind have a price. So such a policy was charged too much,
    and one that pays less, or nothing at all, may keep the rules with a better return. Whether it
    does, only another training tells.
    """
    table = AtomTable.of(rules)
    if not np.any(price) or not is_kept_by_far(table, list(found.density.values())):
        return ()
    paid = zip(table.regions, np.ravel(price).tolist(), strict=True)
    prices = ", ".join(f"{name} {each:+.3g}" for name, each in paid if each)
    return (
        f"every rule is kept by far, and yet the policy acts as if steps were priced ({prices}): "
        "its return may be worse than the rules ask for. Compare with penalty='none', and try a "
        "smaller kappa_rate or more iterations",
    )


def read_result(
    folder: RunFolder, problem: BaseProblem, kind: type[Result] = TrainingResult
) -> Result | None:
    """What a run on a problem ended with; none while it is not finished."""
    found = folder.result()
    if found is None:
        return None
    result = kind.from_json(found, folder.path)
    _check(result, folder, problem)
    return result


def _check(result: RunResult, folder: RunFolder, problem: BaseProblem) -> None:
    """Raise where a result is not one of the seeds and of the problem beside it."""
    path = folder.path / "result.json"
    if sorted(each.seed for each in result.seeds) != sorted(folder.record.seeds):
        raise RunError(f"{path}: damaged: the seeds in it are not those of run.json")
    rules = [rule.name for rule in problem.rules.rules]
    regions = set(problem.regions)
    for each in result.seeds:
        found = each.evaluation
        amounts = (found.density, found.density_se)
        if [rule.name for rule in found.rules] != rules or any(set(x) != regions for x in amounts):
            raise RunError(f"{path}: speaks of other rules or regions than the problem beside it")


def config_of(folder: RunFolder) -> TrainingConfig:
    """The method of a run with its settings; what is wrong with them is a fault of run.json."""
    with damage_in(folder.path / "run.json"):
        return TrainingConfig.from_json(folder.record.settings)


@jax.jit
def seed_policy(policies: TrainedPolicy, index: int) -> TrainedPolicy:
    """The policy of one seed out of those of all."""
    return jax.tree.map(lambda leaf: leaf[index], policies)
