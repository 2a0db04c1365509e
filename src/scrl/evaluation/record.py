"""Evaluates a policy: return, densities, and which rules hold, on average and per episode."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, NamedTuple, Protocol

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
from scrl.statistics import least_runs, share_interval
from scrl.violation import required_from, rule_margins, rule_violation, share_quantile
from scrl.worlds.sweep.spec import COUNTED

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
DIGITS = 40
"""Binary digits of the largest amount that are kept, so that 4,096 of them add up exactly."""
MOST_NUMBERS = 20_000_000
"""Single episodes are judged in parts, each with at most this many atoms of clauses."""


@dataclass(frozen=True)
class RuleResult:
    """One rule: whether it holds as surely as it must, and its margin (negative if violated).

    The margin of a rule with a share p is one that at least a share p of single runs has.
    """

    name: str
    text: str
    is_satisfied: bool
    margin: float
    asked: float | None = None
    """The share of single runs in which it must hold; none: on average."""
    share: float | None = None
    """The share of single runs that keep it; none in results of earlier versions."""
    share_low: float | None = None
    """The ends of its 95 % interval; none for a single run."""
    share_high: float | None = None

    def margin_text(self, form: str = "+.1f") -> str:
        """The margin with its sign, without a minus on a rule that holds and never -0."""
        if self.is_satisfied:
            return format(max(self.margin, 0.0) + 0.0, form)
        text = format(self.margin, form)
        return text if float(text.replace(",", "")) else f"{self.margin:+.1g}"

    @property
    def asked_text(self) -> str:
        """How surely it must hold."""
        return "on average" if self.asked is None else asked_text(self.asked)

    @property
    def share_text(self) -> str:
        """The share of single runs that keep it, with its interval; empty where none is known."""
        if self.share is None:
            return ""
        text = f"{100.0 * self.share:.1f} %"
        if self.share_low is None or self.share_high is None:
            return text
        return f"{text} ({100.0 * self.share_low:.1f} to {100.0 * self.share_high:.1f})"

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "text": self.text,
            "satisfied": self.is_satisfied,
            "margin": self.margin,
            "asked": self.asked,
            "share": self.share,
            "share_low": self.share_low,
            "share_high": self.share_high,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RuleResult:
        return cls(
            name=document["name"],
            text=document["text"],
            is_satisfied=document["satisfied"],
            margin=document["margin"],
            asked=document.get("asked"),
            share=document.get("share"),
            share_low=document.get("share_low"),
            share_high=document.get("share_high"),
        )


def asked_text(share: float) -> str:
    """How surely rules must hold, as text: in 95 %, surely."""
    return "surely" if share == 1.0 else f"in {100.0 * share:.10g} %"


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
    """Units that no region received."""
    overlap: float = 0.0
    """Units that are counted twice or more, where regions overlap: what all regions and none
    received, less what was given out. 0 where no two regions overlap: the numbers add up."""
    units: Mapping[str, str] = field(default_factory=dict)
    """The unit of each region, where these differ."""
    cost: Mapping[str, float] = field(default_factory=dict)
    """What an episode costs in minutes, in units of product and in money, as far as known."""
    confidence: float | None = None
    """The share of single episodes that must keep all rules together."""
    share_low: float | None = None
    """The ends of the 95 % interval of the share of single episodes that keep every rule; none for
    a single episode."""
    share_high: float | None = None
    broken_violation: float | None = None
    """The mean Cons.Vio of the episodes that break a rule; none if none does."""

    @property
    def is_on_average(self) -> bool:
        """Whether all rules must hold on average, and none in a share of single episodes."""
        return self.confidence is None and all(rule.asked is None for rule in self.rules)

    @property
    def share(self) -> float:
        """The share of single episodes that keep every rule."""
        return self.episodes_satisfied / self.episodes

    @property
    def summary(self) -> str:
        """Whether the rules hold and, with several episodes, in which share of single ones."""
        text = "every rule holds" if self.is_satisfied else f"violated by {self.cons_vio:,.2f}"
        if self.episodes == 1:
            is_mixed = self.is_satisfied and not self.episodes_satisfied
            return f"{text} on average over several plans, not by each alone" if is_mixed else text
        how = f" {self.how}" if self.is_satisfied or self.is_on_average else ""
        return f"{text}{how}; {self.single_episodes}"

    @property
    def how(self) -> str:
        """How the rules are judged."""
        return "on average" if self.is_on_average else "as asked"

    @property
    def single_episodes(self) -> str:
        """How many single episodes keep every rule, what was asked, and how far others are off."""
        asked = "" if self.confidence is None else f", {100.0 * self.confidence:.10g} % asked"
        text = (
            f"{self.episodes_satisfied:,} of {self.episodes:,} single episodes "
            f"({100.0 * self.share:.1f} %{asked}) keep every rule"
        )
        if self.broken_violation is None:
            return text
        return f"{text}, the others break them by {self.broken_violation:,.2f} on average"

    @property
    def total(self) -> str | None:
        """What was given out in all and outside of all regions, as text; None without a map."""
        if self.given_out is None or self.outside is None:
            return None
        share = 100.0 * self.outside / self.given_out if self.given_out else 0.0
        text = (
            f"given out: {self.shown_total:,.2f} {self.unit}, {self.outside:,.2f} of them "
            f"({share:.1f} %) outside all regions"
        )
        if self.overlap < 0.005:  # which is rounding
            return text
        return f"{text}; {self.overlap:,.2f} count for more than one region, where these overlap"

    @property
    def cost_text(self) -> str | None:
        """What an episode costs, as text; None where its units are not known."""
        if not self.cost:
            return None
        told = {**self.cost, **({self.unit: self.shown_total} if self.unit in self.cost else {})}
        return "cost: " + ", ".join(f"{each:,.2f} {name}" for name, each in told.items())

    @property
    def shown_total(self) -> float:
        """What was given out, such that numbers with two decimals add up where they should."""
        total, outside = self.given_out or 0.0, self.outside or 0.0
        parts = [
            amount for name, amount in self.density.items()
            if name not in self.units or name not in COUNTED
        ]  # fmt: skip
        shown = math.fsum(round(each, 2) for each in (*parts, outside))
        return shown if abs(shown - total) <= 0.01 * (1 + len(parts)) else total

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
            "rules": [rule.to_json() for rule in self.rules],
            "confidence": self.confidence,
            "episodes": self.episodes,
            "episodes_satisfied": self.episodes_satisfied,
            "share": self.share,
            "share_low": self.share_low,
            "share_high": self.share_high,
            "broken_violation": self.broken_violation,
            "episodes_truncated": self.episodes_truncated,
            "steps": self.steps,
            "horizon_is_an_end": self.is_horizon_an_end,
            "given_out": self.given_out,
            "outside": self.outside,
            "overlap": self.overlap,
            **({"units": dict(self.units)} if self.units else {}),
            **({"cost": dict(self.cost)} if self.cost else {}),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Evaluation:
        """The evaluation that `to_json` wrote."""
        rules = tuple(map(RuleResult.from_json, document["rules"]))
        renamed = {"return_": document["return"], "is_satisfied": document["satisfied"]}
        same = (
            "problem", "policy", "unit", "density", "density_se", "cons_vio", "episodes",
            "episodes_satisfied", "episodes_truncated", "steps",
        )  # fmt: skip
        is_end = bool(document.get("horizon_is_an_end", False))
        names = (
            "given_out", "outside", "confidence", "share_low", "share_high", "broken_violation",
        )  # fmt: skip
        later: dict[str, Any] = {name: document.get(name) for name in names}
        later |= {name: document.get(name, {}) for name in ("units", "cost")}
        later["overlap"] = document.get("overlap", 0.0)
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
        lines[2:2] = [f"  {text}" for text in (self.total, self.cost_text) if text is not None]
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


class GivenOut(NamedTuple):
    """Densities, and the fields of an evaluation that say what was given out in all."""

    density: densities.Density
    fields: dict[str, Any]


def given_out(
    problem: Problem,
    amounts: Float[np.ndarray, "episode region"],
    given: Float[np.ndarray, " 2"],
    steps: float,
) -> GivenOut:
    """What was given out in so many steps, from amounts and from service in all and to no region.

    All are whole multiples of a small power of two, so that they add up to the last digit, in
    whatever order. Where no two regions overlap, what was given out is the sum of what all
    regions and none received; the sums of single steps would differ from it by their rounding.
    """
    spec, found = problem.world_spec, densities.from_episodes(amounts)
    total, outside = (spec.vehicle.rate * given).tolist()
    largest = max(total, float(np.abs(found.mean).max(initial=0.0)), 1e-300)
    unit = 2.0 ** (math.ceil(math.log2(largest)) - DIGITS)
    mean = np.round(found.mean / unit) * unit
    total, outside = (round(each / unit) * unit for each in (total, outside))
    parts = float(mean[: len(spec.regions.names)].sum()) + outside
    total = total if spec.has_overlaps else parts
    fields = {
        "given_out": total, "outside": outside, "overlap": parts - total, "steps": steps,
        "cost": spec.units.cost(steps + problem.transit_steps, total),
    }  # fmt: skip
    return GivenOut(replace(found, mean=mean), fields)


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


def verdict(
    judged: RuleSet | BaseProblem,
    density: densities.Density,
    amounts: Float[np.ndarray, "*batch episode region"],
    tolerance: float,
    weights: Float[np.ndarray, " policy"] | None = None,
) -> dict[str, Any]:
    """The fields of an evaluation that judge densities and single episodes by the rules.

    With weights, the first axis of `amounts` is the policy of a mixture.
    """
    rule_set, table = (
        (judged, AtomTable.of(judged))
        if isinstance(judged, RuleSet)
        else (judged.rules, judged.atoms)
    )
    if weights is None:
        amounts, weights = amounts[None], np.ones(1)
    names = rule_set.regions
    single = of_runs(table, amounts, lambda part: rule_violation(table, part))
    required = required_from(table, rule_violation(table, density.mean), single[0])
    margins = _margins(table, density.mean, amounts[0])
    together = single.sum(axis=-1)
    is_broken = together > tolerance
    broken = float(weights @ is_broken.sum(axis=1))
    # Rounded down: 60 % of one episode is none.
    satisfied = math.floor(float(weights @ (~is_broken).sum(axis=1)) + 1e-9)
    kept = np.append(weights @ (single <= tolerance).sum(axis=1), satisfied)
    shares, low, high = _shares(kept, density.episodes)
    return {
        "density": dict(zip(names, density.mean.tolist(), strict=True)),
        "density_se": dict(zip(names, density.standard_error.tolist(), strict=True)),
        "cons_vio": float(required.total),
        "is_satisfied": bool(required.total <= tolerance),
        "rules": tuple(
            RuleResult(
                name=rule.name,
                text=rule.text,
                is_satisfied=bool(
                    margins[index] >= -tolerance
                    if asked is None
                    else required.by_rule[index] <= tolerance
                ),
                margin=float(margins[index]),
                asked=None if asked is None else float(asked),
                share=shares[index],
                share_low=low[index],
                share_high=high[index],
            )
            for index, (rule, asked) in enumerate(zip(rule_set.rules, table.shares, strict=True))
        ),
        "confidence": None if rule_set.confidence is None else float(rule_set.confidence),
        "episodes_satisfied": satisfied,
        "share_low": low[-1],
        "share_high": high[-1],
        "broken_violation": (
            float(weights @ (is_broken * together).sum(axis=1)) / broken if broken else None
        ),
    }


def of_runs(
    table: AtomTable,
    amounts: Float[np.ndarray, "*batch episode region"],
    function: Callable[[np.ndarray], np.ndarray],
) -> Float[np.ndarray, "*batch episode rule"]:
    """A function of the amounts of runs, in parts that fit into memory."""
    most = max(1, MOST_NUMBERS // max(table.listed.size, len(table.atoms), 1))
    flat = amounts.reshape(-1, amounts.shape[-1])
    parts = [function(flat[first : first + most]) for first in range(0, len(flat), most)]
    return np.concatenate(parts).reshape(*amounts.shape[:-1], len(table.rules))


def _margins(
    table: AtomTable,
    mean: Float[np.ndarray, " region"],
    amounts: Float[np.ndarray, "episode region"],
) -> Float[np.ndarray, " rule"]:
    """The margin of each rule: of the mean, or one that its share of single runs reaches."""
    rules = len(table.rules)
    margins = rule_margins(table, mean, rules)
    if any(table.shares):
        single = of_runs(table, amounts, lambda part: rule_margins(table, part, rules))
        for rule, share in enumerate(table.shares):
            if share is not None:
                margins[rule] = -share_quantile(-single[:, rule], share)
    return margins


def _shares(
    kept: Float[np.ndarray, " rule"], runs: int
) -> tuple[list[float], list[float | None], list[float | None]]:
    """Shares of runs, and the ends of their intervals."""
    shares = (kept / runs).tolist()
    if runs == 1:
        return shares, [None] * len(shares), [None] * len(shares)
    low, high = share_interval(kept, runs)
    return shares, low.tolist(), high.tolist()
