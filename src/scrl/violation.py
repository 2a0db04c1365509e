"""How far densities and single runs are from the rules: of atoms, clauses, rules and all rules.

The functions accept NumPy and JAX arrays. `scrl.penalty` turns violations into charges.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from scrl.rules import AtomTable

AUTOMATIC_KAPPA_RATE = 9.0
"""Default beta is this many times (mean reward of a step) / (all that was given out)."""


def signed_violation(coefficients: Any, bounds: Any, density: Any) -> Any:
    """Vio(phi) = a . rho - b for every atom; at most 0 means satisfied (Sec. 4.2)."""
    return density @ coefficients.T - bounds


def largest_step(coefficients: Any, rate: Any) -> Any:
    """The largest change that one step of service makes to a . rho of every atom."""
    xp = coefficients.__array_namespace__()
    return rate * xp.max(xp.abs(coefficients), axis=1, initial=0.0)


def automatic_kappa_rate(price_unit: Any, given_out: Any, bounds: Any) -> Any:
    """Beta of every atom: beta = 9 price_unit / max(given_out, |b|).

    `given_out` is what an episode of the current policy could give if every step gave something, so
    beta times a violation is 9 price units times a share of it. Episodes of random actions would be
    too short: in CartPole they have 22 steps and trained ones 500, so that a violation of 150 would
    count as 7 episodes, and ending the episode would pay better than keeping the rule. |b| bounds
    the share while episodes are too short to give what a rule asks for. So one update of kappa is
    at most about 9 price units.
    """
    xp = bounds.__array_namespace__()
    return AUTOMATIC_KAPPA_RATE * price_unit / xp.maximum(given_out, xp.abs(bounds))


def clause_violation(listed: Any, signed: Any) -> Any:
    """The smallest max(0, Vio) among the listed atoms of each clause."""
    xp = signed.__array_namespace__()
    if not listed.size or not signed.shape[-1]:
        return xp.full((*signed.shape[:-1], len(listed)), xp.inf)
    positive = xp.maximum(signed, 0.0)[..., listed]
    return xp.min(xp.where(listed >= 0, positive, xp.inf), axis=-1)


def cons_vio(table: AtomTable, density: Any) -> Any:
    """Cons.Vio: the sum of the clauses' violations; the last axis of `density` is the region."""
    signed = signed_violation(table.coefficients, table.bounds, density)
    return clause_violation(table.listed, signed).sum(axis=-1)


def rule_violation(table: AtomTable, density: Any) -> Any:
    """Cons.Vio of each rule alone; the last axis is the region, and in the result the rule."""
    signed = signed_violation(table.coefficients, table.bounds, density)
    of_clause = clause_violation(table.listed, signed)
    xp = signed.__array_namespace__()
    found = [of_clause[..., own].sum(axis=-1) for own in _clauses_of_rules(table)]
    return xp.stack(found, axis=-1) if found else xp.zeros((*signed.shape[:-1], 0))


def share_quantile(values: Any, share: Fraction, *, axis: int = -1) -> Any:
    """The smallest value that at least this share of a sample does not exceed.

    It is the k-th smallest of n values, k = ceil(share n). So the quantile of violations is at most
    a tolerance if and only if at least this share of them is.
    """
    xp = values.__array_namespace__()
    place = math.ceil(share * values.shape[axis]) - 1
    return xp.take(xp.sort(values, axis=axis), place, axis=axis)


class Required(NamedTuple):
    """Violations of rules as surely as these must hold."""

    by_rule: Any
    """[..., rule]: of the mean amounts, or with a share p the p-quantile over single runs."""
    total: Any
    """Cons.Vio: the sum over the rules. With a confidence it is the quantile of the Cons.Vio of
    single runs, or the violation of a rule that asks for more."""


def required_violation(table: AtomTable, amounts: Any) -> Required:
    """How far runs [..., run, region] are from the rules as surely as these must hold.

    For one run it is the Cons.Vio of its amounts.
    """
    of_mean = rule_violation(table, amounts.mean(axis=-2))
    if not any(table.shares):
        return Required(of_mean, of_mean.sum(axis=-1))
    return required_from(table, of_mean, rule_violation(table, amounts))


def required_from(table: AtomTable, of_mean: Any, single: Any) -> Required:
    """The same from violations of each rule: by the mean [..., rule], by runs [..., run, rule]."""
    xp = of_mean.__array_namespace__()
    parts = [
        of_mean[..., rule] if share is None else share_quantile(single[..., rule], share)
        for rule, share in enumerate(table.shares)
    ]
    by_rule = xp.stack(parts, axis=-1) if parts else of_mean
    if table.confidence is None or not parts:
        return Required(by_rule, by_rule.sum(axis=-1))
    together = share_quantile(single.sum(axis=-1), table.confidence)
    return Required(by_rule, xp.maximum(together, by_rule.max(axis=-1)))


def rule_margins(table: AtomTable, density: Any, rules: int) -> np.ndarray:
    """How far inside each rule the densities lie, in units; negative if the rule is violated."""
    return margins_of(
        table, table.bounds - np.asarray(density, float) @ table.coefficients.T, rules
    )


def margins_of(table: AtomTable, slack: np.ndarray, rules: int) -> np.ndarray:
    """The margins of rules from those of the atoms.

    The margin of an atom is b - a . rho; of a clause the largest, of a rule the smallest. The last
    axis is the region, and in the result the rule.
    """
    listed = table.listed
    of_clause = np.full((*slack.shape[:-1], len(listed)), -np.inf)
    if slack.shape[-1]:
        of_clause = np.where(listed >= 0, slack[..., listed], -np.inf).max(axis=-1, initial=-np.inf)
    margins = np.full((*slack.shape[:-1], rules), np.inf)
    for rule, own in enumerate(_clauses_of_rules(table)):
        margins[..., rule] = of_clause[..., own].min(axis=-1, initial=np.inf)
    return margins


def _clauses_of_rules(table: AtomTable) -> list[np.ndarray]:
    """The indices of the clauses of each rule."""
    order = np.argsort(table.clause_rule, kind="stable")
    ends = np.searchsorted(table.clause_rule[order], np.arange(1, len(table.rules)))
    return np.split(order, ends) if table.rules else []


FAR = 0.5
"""A bound is far away if the densities leave this share of it unused."""


def is_kept_by_far(table: AtomTable, density: Any) -> bool:
    """Whether every clause has an atom with b - a . rho above half of max(|b|, |a| . |rho|)."""
    density = np.asarray(density, float)
    slack = -signed_violation(table.coefficients, table.bounds, density)
    size = np.maximum(np.abs(table.bounds), np.abs(table.coefficients) @ np.abs(density))
    return bool((table.members & (slack > FAR * size)).any(axis=1).all())
