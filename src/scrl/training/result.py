"""What training ends with: an evaluation of every seed, and the policies in a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from scrl.errors import PolicyError
from scrl.evaluation import Evaluation, evaluate
from scrl.learners import TrainedPolicy
from scrl.problems import Problem
from scrl.problems.problem import MOST_SHOWN, html_table
from scrl.rules import AtomTable, RuleSet
from scrl.runs.files import Each, Range, conform, damage_in
from scrl.runs.folder import RunError, RunFolder
from scrl.training.algorithm import Measurement, begin_after
from scrl.training.config import TrainingConfig
from scrl.training.devices import task_of
from scrl.violation import is_kept_by_far

_NUMBER = int | float
_EVALUATION: Mapping[str, Any] = {
    "problem": str, "policy": str, "unit": str, "return": _NUMBER,
    "density": Each(_NUMBER), "density_se": Each(_NUMBER), "cons_vio": Range(_NUMBER, 0.0),
    "satisfied": bool, "episodes": Range(int, 1), "episodes_satisfied": Range(int, 0),
    "episodes_truncated": Range(int, 0), "steps": Range(_NUMBER, 0.0),
    "horizon_is_an_end?": bool, "given_out?": _NUMBER | None, "outside?": _NUMBER | None,
    "units?": Each(str),
    "rules": [{"name": str, "text": str, "satisfied": bool, "margin": _NUMBER}],
}  # fmt: skip
RESULT: Mapping[str, Any] = {
    "problem": str, "method": str, "reference": _NUMBER | None, "env_steps": Range(int, 0),
    "wall_s": Range(_NUMBER, 0.0),
    "seeds": [{**_EVALUATION, "seed": Range(int, 0, 2**32), "gap": _NUMBER | None,
               "warnings?": [str]}],
}  # fmt: skip
"""What a result holds in result.json."""


@dataclass(frozen=True)
class SeedResult:
    """The policy that one seed ended with, evaluated."""

    seed: int
    evaluation: Evaluation
    gap: float | None
    """(reference return - return) / |reference return|; none where there is no reference."""
    warnings: tuple[str, ...] = ()
    """Why its return may be worse than need be."""

    @property
    def is_satisfied(self) -> bool:
        return self.evaluation.is_satisfied


def overpriced(rules: RuleSet, found: Evaluation, price: Any) -> tuple[str, ...]:
    """A warning where a policy still pays for rules of which none is anywhere near its bound.

    At the best possible only rules that bind have a price. So such a policy was charged too much,
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


@dataclass(frozen=True, repr=False)
class TrainingResult:
    """All seeds of a run."""

    problem: str
    method: str
    reference: float | None
    """The best possible return, computed without learning."""
    seeds: tuple[SeedResult, ...]
    env_steps: int
    wall_s: float
    run: Path

    @property
    def satisfied(self) -> int:
        """How many seeds keep every rule."""
        return sum(seed.is_satisfied for seed in self.seeds)

    @property
    def is_satisfied(self) -> bool:
        """Whether every seed keeps every rule."""
        return self.satisfied == len(self.seeds)

    @property
    def best(self) -> SeedResult:
        """The seed with the best return among those that keep the rules, or violate least."""

        def rank(each: SeedResult) -> tuple[float, float]:
            violated = 0.0 if each.is_satisfied else each.evaluation.cons_vio
            return -violated, each.evaluation.return_

        return max(self.seeds, key=rank)

    @property
    def warnings(self) -> list[str]:
        """Those of all seeds."""
        return [f"seed {each.seed}: {text}" for each in self.seeds for text in each.warnings]

    @property
    def gaps(self) -> list[float]:
        """Of the seeds that keep every rule."""
        return [seed.gap for seed in self.seeds if seed.is_satisfied and seed.gap is not None]

    @property
    def gap_mean(self) -> float | None:
        return sum(self.gaps) / len(self.gaps) if self.gaps else None

    @property
    def gap_worst(self) -> float | None:
        return max(self.gaps, default=None)

    def to_json(self) -> dict[str, Any]:
        """The fields of the command contract."""
        return {
            "problem": self.problem,
            "method": self.method,
            "reference": self.reference,
            "seeds": [
                {
                    **each.evaluation.to_json(),
                    "seed": each.seed,
                    "gap": each.gap,
                    "run": str(self.run),
                    "warnings": list(each.warnings),
                }
                for each in self.seeds
            ],
            "satisfied": self.satisfied,
            "gap_mean": self.gap_mean,
            "gap_worst": self.gap_worst,
            "env_steps": self.env_steps,
            "wall_s": self.wall_s,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any], run: Path) -> TrainingResult:
        """The same again from what `to_json` wrote, checked."""
        conform(document, RESULT, str(run / "result.json"), "result")
        return cls(
            problem=document["problem"],
            method=document["method"],
            reference=document["reference"],
            seeds=tuple(
                SeedResult(
                    each["seed"],
                    Evaluation.from_json(each),
                    each["gap"],
                    tuple(each.get("warnings", ())),
                )
                for each in document["seeds"]
            ),
            env_steps=document["env_steps"],
            wall_s=document["wall_s"],
            run=run,
        )

    @property
    def summary(self) -> str:
        """Problem, method, and how many seeds keep every rule, in one line."""
        return (
            f"{self.problem} with {self.method}: {self.satisfied} of {len(self.seeds)} seeds keep "
            f"every rule ({self.wall_s:.0f} s, {self.env_steps:,} steps)"
        )

    def __repr__(self) -> str:
        return f"<TrainingResult {self.summary}, {self.run}>"

    def _repr_html_(self) -> str:
        """A row for each seed, for notebooks."""
        rows = [
            (
                str(each.seed), f"{each.evaluation.return_:.2f}",
                "" if each.gap is None else f"{each.gap:+.1%}",
                "hold" if each.is_satisfied else f"violated by {each.evaluation.cons_vio:.2f}",
            )
            for each in self.seeds[:MOST_SHOWN]
        ]  # fmt: skip
        table = html_table(("seed", "return", "gap", "rules"), rows)
        return f"<b>{escape(self.summary)}</b>{table}run folder: {escape(str(self.run))}"

    def __str__(self) -> str:
        lines = [self.summary]
        if self.gap_mean is not None and self.gap_worst is not None:
            lines.append(
                f"  gap to the reference: mean {self.gap_mean:.1%}, worst {self.gap_worst:.1%}"
            )
        for each in self.seeds:
            found = each.evaluation
            lines.append(f"  seed {each.seed}: return {found.return_:.2f}, {found.summary}")
        lines += [f"  warning: {text}" for text in self.warnings]
        return "\n".join([*lines, f"  run folder: {self.run}"])


REPORT_SEED = 1_000_003
"""Added to a training seed: the episodes that report a policy are not those that chose it."""
REPORT_EPISODES = 1_000
"""Episodes behind a result where chance plays a part; else one tells everything."""


def load_policy(run: Path | str, seed: int | None = None) -> TrainedPolicy:
    """The policy that a run on a map ended with: that of a seed, or of the best one."""
    folder = RunFolder.open(run)
    index = seed_index(folder, seed)
    return seed_policy(folder.load_policy(_policies_like(folder)), index)


def seed_index(folder: RunFolder, seed: int | None) -> int:
    """The place of a seed, or of the best one, among those of a finished run."""
    return folder.record.seeds.index(read_seed(folder, seed).seed)


def read_seed(folder: RunFolder, seed: int | None) -> SeedResult:
    """What a finished run says of a seed, or of the best one."""
    result = read_result(folder)
    if result is None:
        raise PolicyError(
            f"{folder.path}: this run is not finished; go on with {folder.going_on} first"
        )
    if seed is None:
        return result.best
    for each in result.seeds:
        if each.seed == seed:
            return each
    known = ", ".join(str(each.seed) for each in result.seeds)
    raise PolicyError(f"{folder.path}: there is no seed {seed} in this run, only {known}")


def read_result(folder: RunFolder) -> TrainingResult | None:
    """What a run ended with; none while it has not."""
    found = folder.result()
    if found is None:
        return None
    result = TrainingResult.from_json(found, folder.path)
    _check(result, folder)
    return result


def _check(result: TrainingResult, folder: RunFolder) -> None:
    """Raise where a result is not one of the seeds and of the problem beside it."""
    path = folder.path / "result.json"
    if sorted(each.seed for each in result.seeds) != sorted(folder.record.seeds):
        raise RunError(f"{path}: damaged: the seeds in it are not those of run.json")
    if not folder.has_problem:
        return
    problem = folder.terms()
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


def _policies_like(folder: RunFolder) -> TrainedPolicy:
    """The shapes of the policies of all seeds, without training."""
    config = config_of(folder)
    task = task_of(folder.problem(), config)
    number = jax.ShapeDtypeStruct((), float)
    amounts, errors = (
        jax.ShapeDtypeStruct((count,), float)
        for count in (task.world.regions, len(task.reading.bounds))
    )
    whole = jax.ShapeDtypeStruct((), bool)
    first = Measurement._make([number, amounts, number, number, number, whole, errors])

    def policy(first: Measurement, key: PRNGKeyArray) -> TrainedPolicy:
        return begin_after(config.plan, task, first, keys=(key, key, key)).best.policy

    seeds = len(folder.record.seeds)
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((seeds, *leaf.shape), leaf.dtype),
        jax.eval_shape(policy, first, jax.random.key(0)),
    )


def report(problem: Problem, policy: TrainedPolicy, seed: int, name: str) -> Evaluation:
    """What a trained policy does in episodes that had no part in choosing it."""
    episodes = REPORT_EPISODES if problem.world_spec.is_random else 1
    return evaluate(problem, policy, episodes=episodes, seed=REPORT_SEED + seed, name=name)


def seed_policy(policies: TrainedPolicy, index: int) -> TrainedPolicy:
    """The policy of one seed out of those of all."""
    return jax.tree.map(lambda leaf: leaf[index], policies)
