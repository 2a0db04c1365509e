"""The least loosening that makes rules possible: each atom may be exceeded, at a price.

An atom a . density <= b becomes a . density - s <= b with s >= 0, and the sum of the s is made as
small as can be. The s ride along as further 'regions', so that the same programs apply.

An atom in force gives way at least by low - b, where low is the smallest value of a . density. That
part is known, and it may be any number of times larger than what can be given out. So it only helps
to choose the branch; the program that then measures the loosening begins from max(b, low), and its
precision does not depend on how far off a bound was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float
from scipy import sparse

from scrl.reference.disjunctive import Atoms, Choice, choose_branch
from scrl.reference.model import LinearModel

FARTHEST = 1e4
"""In spans of what is possible: bounds farther off are compared by their logarithms."""


@dataclass(frozen=True)
class Loosening:
    """How far each atom gives way, in units."""

    by: Float[np.ndarray, " atom"]
    bounds: Float[np.ndarray, " atom"]
    """What the bounds become; not computed from `by`, which may be many times larger."""

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
    gives = np.ones(len(atoms.bounds), bool) if may_give is None else may_give
    nearest = np.where(gives, np.maximum(atoms.bounds, atoms.low), atoms.bounds)
    members = atoms.members
    if (members.sum(axis=1) > 1).any():
        nearer = nearest - _squeezed(nearest - atoms.bounds, atoms)
        choice, _ = _elastic(model, replace(atoms, bounds=nearer), gives, time_limit_s)
        if choice.branch is None:
            return None
        members = np.zeros_like(members)
        members[np.arange(len(members)), choice.branch] = True
    rest = replace(atoms, bounds=nearest, members=members)
    _, excess = _elastic(model, rest, gives, time_limit_s)
    if excess is None:
        return None
    bounds = np.where(members.any(axis=0), nearest + excess, atoms.bounds)
    return Loosening(bounds - atoms.bounds, bounds)


def _squeezed(by: Float[np.ndarray, " atom"], atoms: Atoms) -> Float[np.ndarray, " atom"]:
    """The same order in numbers that a solver can tell apart."""
    span = np.where(np.isfinite(atoms.low), atoms.high - atoms.low, 0.0)
    most = FARTHEST * max(float(span.max(initial=0.0)), 1e-300)
    return np.where(by <= most, by, most * (1.0 + np.log(np.maximum(by / most, 1.0))))


def _elastic(
    model: LinearModel, atoms: Atoms, gives: Bool[np.ndarray, " atom"], time_limit_s: float
) -> tuple[Choice, Float[np.ndarray, " atom"] | None]:
    """The branch of the least total excess, and the excess of each atom; None if there is none."""
    count = len(atoms.bounds)
    most = np.where(gives, np.maximum(atoms.high - atoms.bounds, 0.0), 0.0)
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
        return choice, None
    return choice, choice.optimum.point[model.variables :]


def _padded(rows: sparse.csr_array | None, count: int) -> sparse.csr_array | None:
    if rows is None:
        return None
    nothing = sparse.csr_array((len(rows.indptr) - 1, count))
    return sparse.csr_array(sparse.hstack([rows, nothing]))
