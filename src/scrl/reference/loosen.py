"""The least loosening that makes rules possible: each atom may be exceeded, at a price.

An atom a . density <= b becomes a . density - s <= b with s >= 0, and the sum of the s is made as
small as can be. The s ride along as further 'regions', so that the same programs apply.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float
from scipy import sparse

from scrl.reference.disjunctive import Atoms, choose_branch
from scrl.reference.model import LinearModel


@dataclass(frozen=True)
class Loosening:
    """How far each atom gives way, in units."""

    by: Float[np.ndarray, " atom"]

    @property
    def total(self) -> float:
        return float(self.by.sum())


def least_loosening(
    model: LinearModel,
    atoms: Atoms,
    may_give: Bool[np.ndarray, " atom"] | None = None,
    *,
    time_limit_s: float = 20.0,
) -> Loosening | None:
    """The smallest total excess with which every clause holds; only `may_give` atoms give way."""
    count = len(atoms.bounds)
    most = np.maximum(atoms.high - atoms.bounds, 0.0)
    if may_give is not None:
        most = np.where(may_give, most, 0.0)
    elastic = LinearModel(
        reward=np.concatenate([np.zeros(model.variables), -np.ones(count)]),
        density=sparse.csr_array(sparse.block_diag([model.density, sparse.eye_array(count)])),
        lower=np.concatenate([model.lower, np.zeros(count)]),
        upper=np.concatenate([model.upper, most]),
        equal=_padded(model.equal, count),
        equal_to=model.equal_to,
        below=_padded(model.below, count),
        below_at=model.below_at,
    )
    loose = replace(
        atoms, coefficients=np.hstack([atoms.coefficients, -np.eye(count)]), low=atoms.low - most
    )
    choice = choose_branch(elastic, loose, time_limit_s=time_limit_s)
    if choice.optimum is None:
        return None
    return Loosening(choice.optimum.point[model.variables :])


def _padded(rows: sparse.csr_array | None, count: int) -> sparse.csr_array | None:
    if rows is None:
        return None
    nothing = sparse.csr_array((len(rows.indptr) - 1, count))
    return sparse.csr_array(sparse.hstack([rows, nothing]))
