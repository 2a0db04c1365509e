"""How far densities are from the rules: violations of atoms, clauses and the whole rule set.

Written for numpy and for JAX alike: the arrays bring their namespace with them. What a learner is
made to pay for violations is the business of `punish`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scrl.rules import AtomTable


def signed_violation(coefficients: Any, bounds: Any, density: Any) -> Any:
    """Vio(phi) = a . rho - b for every atom; at most 0 means satisfied (Sec. 4.2)."""
    return density @ coefficients.T - bounds


def largest_step(coefficients: Any, rate: Any) -> Any:
    """What one step of service can do to a . rho of every atom."""
    xp = coefficients.__array_namespace__()
    return rate * xp.max(xp.abs(coefficients), axis=1, initial=0.0)


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
    """How far inside each rule the densities lie, in units; negative: by how much it is broken.

    The margin of an atom is b - a . rho; of a clause the largest, of a rule the smallest.
    """
    slack = table.bounds - np.asarray(density, float) @ table.coefficients.T
    listed = table.listed
    of_clause = np.full(len(listed), -np.inf)
    if len(slack):
        of_clause = np.where(listed >= 0, slack[listed], -np.inf).max(axis=-1, initial=-np.inf)
    margins = np.full(rules, np.inf)
    np.minimum.at(margins, table.clause_rule, of_clause)
    return margins
