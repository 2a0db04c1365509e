"""The verdict: whether densities and single episodes keep the rules, and by which margin."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from scrl import density as densities
from scrl.evaluation.record import RuleResult
from scrl.problems import BaseProblem
from scrl.rules import AtomTable, RuleSet
from scrl.statistics import share_interval
from scrl.violation import required_from, rule_margins, rule_violation, share_quantile

MOST_NUMBERS = 20_000_000
"""Single episodes are judged in parts, each with at most this many atoms of clauses."""


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
