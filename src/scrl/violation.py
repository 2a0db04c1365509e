"""How far densities are from the rules: violations of atoms, clauses and the whole rule set.

The functions accept NumPy and JAX arrays. `scrl.penalty` turns violations into charges.
"""

from __future__ import annotations

from typing import Any

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


def rule_margins(table: AtomTable, density: Any, rules: int) -> np.ndarray:
    """How far inside each rule the densities lie, in units; negative if the rule is violated."""
    return margins_of(
        table, table.bounds - np.asarray(density, float) @ table.coefficients.T, rules
    )


def margins_of(table: AtomTable, slack: np.ndarray, rules: int) -> np.ndarray:
    """The margins of rules from those of the atoms.

    The margin of an atom is b - a . rho; of a clause the largest, of a rule the smallest.
    """
    listed = table.listed
    of_clause = np.full(len(listed), -np.inf)
    if len(slack):
        of_clause = np.where(listed >= 0, slack[listed], -np.inf).max(axis=-1, initial=-np.inf)
    margins = np.full(rules, np.inf)
    np.minimum.at(margins, table.clause_rule, of_clause)
    return margins


FAR = 0.5
"""A bound is far away if the densities leave this share of it unused."""


def is_kept_by_far(table: AtomTable, density: Any) -> bool:
    """Whether every clause has an atom with b - a . rho above half of max(|b|, |a| . |rho|)."""
    density = np.asarray(density, float)
    slack = -signed_violation(table.coefficients, table.bounds, density)
    size = np.maximum(np.abs(table.bounds), np.abs(table.coefficients) @ np.abs(density))
    return bool((table.members & (slack > FAR * size)).any(axis=1).all())
