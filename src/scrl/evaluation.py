"""Evaluates a policy: return, densities, and which rules hold, on average and per episode."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Protocol

import jax
import numpy as np
from jaxtyping import Float

from scrl import density as densities
from scrl.errors import PolicyError
from scrl.policies import Action, PlacedPolicy, Policy, fixed_policy
from scrl.problems import BaseProblem, Problem
from scrl.problems.problem import MOST_SHOWN, html_table
from scrl.rollout import run_episodes, unused_keys
from scrl.rules import AtomTable, RuleSet
from scrl.violation import cons_vio, rule_margins

DEFAULT_EPISODES = 100
"""Default number of episodes of an evaluation; 1 if episodes cannot differ."""
REPORT_SEED = 1_000_003
"""Added to a training seed: the episodes that report a policy are not those that chose it."""
REPORT_EPISODES = 1_000
"""Episodes behind a result where chance plays a part; else one tells everything."""


@dataclass(frozen=True)
class RuleResult:
    """One rule: whether it holds for the densities, and its margin (negative if violated)."""

    name: str
    text: str
    is_satisfied: bool
    margin: float

    def margin_text(self, form: str = "+.1f") -> str:
        """The margin with its sign, without a minus on a rule that holds and never -0."""
        if self.is_satisfied:
            return format(max(self.margin, 0.0) + 0.0, form)
        text = format(self.margin, form)
        return text if float(text.replace(",", "")) else f"{self.margin:+.1g}"


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The result of a policy on a problem, in raw units of resource and raw return."""

    problem: str
    policy: str
    unit: str
    return_: float
    density: dict[str, float]
    density_se: dict[str, float]
    cons_vio: float
    is_satisfied: bool
    rules: tuple[RuleResult, ...]
    episodes: int
    episodes_satisfied: int
    episodes_truncated: int
    """Episodes that the horizon cut off before the end of the path."""
    steps: float
    is_horizon_an_end: bool = False
    """Whether an episode may end at the horizon, without a path to finish."""
    given_out: float | None = None
    """Units given out in all, summed like the densities; None without a map."""
    outside: float | None = None
    """Units given out in cells of no region."""
    units: Mapping[str, str] = field(default_factory=dict)
    """The unit of each region, where these differ."""

    @property
    def summary(self) -> str:
        """Whether the rules hold and, with several episodes, in which share of single ones."""
        text = "every rule holds" if self.is_satisfied else f"violated by {self.cons_vio:,.2f}"
        if self.episodes == 1:
            is_mixed = self.is_satisfied and not self.episodes_satisfied
            return f"{text} on average over several plans, not by each alone" if is_mixed else text
        share = 100.0 * self.episodes_satisfied / self.episodes
        return (
            f"{text} on average; {self.episodes_satisfied:,} of {self.episodes:,} single episodes "
            f"({share:.1f} %) keep every rule"
        )

    @property
    def total(self) -> str | None:
        """What was given out in all and outside of all regions, as text; None without a map."""
        if self.given_out is None or self.outside is None:
            return None
        share = 100.0 * self.outside / self.given_out if self.given_out else 0.0
        return (
            f"given out: {self.given_out:,.2f} {self.unit}, {self.outside:,.2f} of them "
            f"({share:.1f} %) outside all regions"
        )

    def to_json(self) -> dict[str, Any]:
        """The fields of the command contract."""
        return {
            "problem": self.problem,
            "policy": self.policy,
            "unit": self.unit,
            "return": self.return_,
            "density": self.density,
            "density_se": self.density_se,
            "cons_vio": self.cons_vio,
            "satisfied": self.is_satisfied,
            "rules": [
                {
                    "name": rule.name,
                    "text": rule.text,
                    "satisfied": rule.is_satisfied,
                    "margin": rule.margin,
                }
                for rule in self.rules
            ],
            "episodes": self.episodes,
            "episodes_satisfied": self.episodes_satisfied,
            "episodes_truncated": self.episodes_truncated,
            "steps": self.steps,
            "horizon_is_an_end": self.is_horizon_an_end,
            "given_out": self.given_out,
            "outside": self.outside,
            **({"units": dict(self.units)} if self.units else {}),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Evaluation:
        """The evaluation that `to_json` wrote."""
        rules = tuple(
            RuleResult(rule["name"], rule["text"], rule["satisfied"], rule["margin"])
            for rule in document["rules"]
        )
        renamed = {"return_": document["return"], "is_satisfied": document["satisfied"]}
        same = (
            "problem", "policy", "unit", "density", "density_se", "cons_vio", "episodes",
            "episodes_satisfied", "episodes_truncated", "steps",
        )  # fmt: skip
        is_end = bool(document.get("horizon_is_an_end", False))
        later: dict[str, Any] = {name: document.get(name) for name in ("given_out", "outside")}
        later["units"] = document.get("units", {})
        return cls(
            rules=rules, is_horizon_an_end=is_end, **renamed, **later,
            **{name: document[name] for name in same},
        )  # fmt: skip

    @property
    def headline(self) -> str:
        """Problem, policy, return and verdict in one line."""
        return f"{self.problem} with {self.policy}: return {self.return_:.2f}, {self.summary}"

    def __repr__(self) -> str:
        return f"<Evaluation {self.headline}>"

    def _repr_html_(self) -> str:
        """Amounts and rules as tables, for notebooks."""
        amounts = [(name, f"{amount:,.1f}") for name, amount in self.density.items()]
        rules = [
            (rule.name, "holds" if rule.is_satisfied else "broken", rule.margin_text(), rule.text)
            for rule in self.rules
        ]
        tables = [
            html_table(("region", self.unit), amounts[:MOST_SHOWN]),
            html_table(("rule", "", "margin", "text"), rules[:MOST_SHOWN]),
        ]
        return f"<b>{escape(self.headline)}</b>" + "".join(tables)

    def __str__(self) -> str:
        amounts = ", ".join(
            f"{name} {amount:.1f}" + (f" {self.units[name]}" if self.units else "")
            for name, amount in self.density.items()
        )
        rules = [f"  {rule.name}: {rule.text} (margin {rule.margin_text()})" for rule in self.rules]
        lines = [self.headline, f"  {self.unit}: {amounts}", *rules]
        if self.total is not None:
            lines.insert(2, f"  {self.total}")
        return "\n".join([*lines, *self.warnings()])

    def warnings(self) -> list[str]:
        """Warnings about these numbers, such as truncated episodes."""
        if self.episodes_truncated == 0 or self.is_horizon_an_end:
            return []
        return [
            f"{self.episodes_truncated} of {self.episodes} episodes were cut off by horizon_steps "
            "before the end of the path; raise it to see them whole"
        ]


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
    asked, there = getattr(policy, "regions", None), len(problem.world_spec.regions.names)
    if asked is not None and asked != there:
        raise PolicyError(
            f"{label}: this policy was trained on a map with {asked} regions, and {problem.name} "
            f"has {there}"
        )
    if episodes is None:
        # A function without `is_random` is taken to be random.
        is_random = problem.world_spec.is_random or getattr(policy, "is_random", True)
        episodes = DEFAULT_EPISODES if is_random else 1
    keys = jax.random.split(jax.random.key(seed), checked_episodes(episodes))
    ran = run_episodes(problem.world, policy, keys=keys, discount=problem.discount)
    amounts = problem.world_spec.vehicle.rate * np.asarray(ran.service, float)
    return Evaluation(
        problem=problem.name,
        policy=label,
        unit=problem.world_spec.units.unit,
        return_=float(np.asarray(ran.return_, float).mean()),
        episodes=episodes,
        episodes_truncated=int((~np.asarray(ran.is_terminated)).sum()),
        steps=float(np.asarray(ran.steps, float).mean()),
        **given_out(problem, np.asarray(ran.given, float).mean(axis=0)),
        **verdict(problem, densities.from_episodes(amounts), amounts, problem.tolerance),
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
    density = densities.from_episodes(expected(amounts))
    judged = [verdict(problem, density, each, problem.tolerance) for each in amounts]
    alone = expected(each["episodes_satisfied"] for each in judged)
    return Evaluation(
        problem=problem.name,
        policy=name,
        unit=problem.world_spec.units.unit,
        return_=float(expected(np.asarray(each.return_, float).mean() for each in ran)),
        episodes=episodes,
        episodes_truncated=math.ceil(expected((~each.is_terminated).sum() for each in ran) - 1e-9),
        steps=float(expected(np.asarray(each.steps, float).mean() for each in ran)),
        **given_out(problem, expected(np.asarray(each.given, float).mean(axis=0) for each in ran)),
        # Rounded down: 60 % of one episode is none.
        **{**judged[0], "episodes_satisfied": math.floor(alone + 1e-9)},
    )


def given_out(problem: Problem, given: Float[np.ndarray, " 2"]) -> dict[str, float]:
    """The fields `given_out` and `outside` of an evaluation, from steps of service."""
    total, outside = (problem.world_spec.vehicle.rate * given).tolist()
    return {"given_out": total, "outside": outside}


def checked_episodes(episodes: int) -> int:
    if not isinstance(episodes, int) or episodes < 1:
        raise PolicyError(f"episodes = {episodes!r} must be a whole number of at least 1")
    return episodes


def verdict(
    judged: RuleSet | BaseProblem,
    density: densities.Density,
    amounts: Float[np.ndarray, "episode region"],
    tolerance: float,
) -> dict[str, Any]:
    """The fields of an evaluation that judge densities and single episodes by the rules."""
    rule_set, table = (
        (judged, AtomTable.of(judged))
        if isinstance(judged, RuleSet)
        else (judged.rules, judged.atoms)
    )
    names = rule_set.regions
    violation = float(cons_vio(table, density.mean))
    margins = rule_margins(table, density.mean, len(rule_set.rules))
    single = np.asarray(cons_vio(table, amounts))
    return {
        "density": dict(zip(names, density.mean.tolist(), strict=True)),
        "density_se": dict(zip(names, density.standard_error.tolist(), strict=True)),
        "cons_vio": violation,
        "is_satisfied": violation <= tolerance,
        "rules": tuple(
            RuleResult(rule.name, rule.text, bool(margin >= -tolerance), float(margin))
            for rule, margin in zip(rule_set.rules, margins, strict=True)
        ),
        "episodes_satisfied": int((single <= tolerance).sum()),
    }
