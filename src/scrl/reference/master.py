"""The master programs of column generation: mix a few policies, by small linear programs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import sparse
from scipy.optimize import OptimizeResult, linprog

from scrl.reference.linear import NumericalTroubleError

LARGEST = 1e12
"""HiGHS refuses numbers from 1e15 on: atoms with larger ones are divided until they fit."""


@dataclass(frozen=True)
class Mixed:
    """Weights of the columns, what they give, and the multiplier of each atom."""

    weights: Float[np.ndarray, " column"]
    value: float
    of_atom: Float[np.ndarray, " atom"]


def best_mixture(
    returns: Float[np.ndarray, " column"],
    over: Float[np.ndarray, "column atom"],
    slack: Float[np.ndarray, " atom"],
) -> Mixed:
    """max returns . w over distributions w with over' w <= slack."""
    scale = float(np.abs(returns).max()) or 1.0
    result = _solve(-returns / scale, over.T, slack, np.ones(len(returns)))
    prices = -np.asarray(result.ineqlin.marginals) * scale
    return Mixed(result.x, float(returns @ result.x), np.maximum(prices, 0.0))


def least_violation(over: Float[np.ndarray, "column atom"]) -> Mixed:
    """min sum_j t_j over distributions w and t >= 0 with over' w <= t: how badly the atoms miss."""
    columns, atoms = over.shape
    result = _solve(
        np.concatenate([np.zeros(columns), np.ones(atoms)]),
        _loosened(over),
        np.zeros(atoms),
        np.concatenate([np.ones(columns), np.zeros(atoms)]),
    )
    weights = result.x[:columns]
    missed = np.maximum(over.T @ weights, 0.0).sum()
    # a price above 1 would be no bound: t_j costs 1
    prices = np.clip(-np.asarray(result.ineqlin.marginals), 0.0, 1.0)
    return Mixed(weights, float(missed), prices)


@dataclass(frozen=True)
class Elastic(Mixed):
    """A mixture that may exceed atoms, at a price; `value` is net of it."""

    slack: Float[np.ndarray, " atom"]
    """By how much each atom is exceeded."""


def elastic_mixture(
    returns: Float[np.ndarray, " column"],
    over: Float[np.ndarray, "column atom"],
    penalties: Float[np.ndarray, " atom"],
) -> Elastic:
    """max returns . w - penalties . slack  over distributions w with over' w <= slack."""
    columns, atoms = over.shape
    scale = np.maximum(np.abs(over).max(axis=0, initial=0.0) / LARGEST, 1.0)
    result = _solve(
        np.concatenate([-returns, penalties * scale]),
        _loosened(over / scale),
        np.zeros(atoms),
        np.concatenate([np.ones(columns), np.zeros(atoms)]),
        method="highs",
    )
    of_atom = -np.asarray(result.ineqlin.marginals) if atoms else np.zeros(0)
    slack = result.x[columns:] * scale
    return Elastic(result.x[:columns], -float(result.fun), of_atom / scale, slack)


def _loosened(over: Float[np.ndarray, "column atom"]) -> sparse.csr_array:
    """A row for each atom, with a slack of its own: all but the columns is nearly empty."""
    return sparse.csr_array(sparse.hstack([over.T, -sparse.eye_array(over.shape[1])]))


def _solve(
    cost: np.ndarray,
    rows: np.ndarray | sparse.csr_array,
    at_most: np.ndarray,
    is_weight: np.ndarray,
    *,
    method: str = "highs-ds",
) -> OptimizeResult:
    """min cost . x over x >= 0, rows x <= at_most, weights that sum to 1."""
    result = linprog(
        cost,
        A_ub=rows if len(at_most) else None,
        b_ub=at_most if len(at_most) else None,
        A_eq=is_weight[None, :],
        b_eq=[1.0],
        method=method,
    )
    if result.status != 0:
        raise NumericalTroubleError(f"a mixture of policies was not found: {result.message}")
    result.x = np.maximum(result.x, 0.0)
    result.x[is_weight > 0] /= result.x[is_weight > 0].sum()
    return result
