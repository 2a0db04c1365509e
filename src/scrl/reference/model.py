"""A linear model of a world: the polytope of what policies can do.

For a finite MDP its points are occupancy measures, for a sweep the time spent per cell. Return and
densities are linear in them, so rules become linear constraints.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from jaxtyping import Float

Vector = Float[np.ndarray, " variable"]


@dataclass(frozen=True)
class LinearModel:
    """Maximise reward . x over {equal x = equal_to, below x <= below_at, lower <= x <= upper}."""

    reward: Vector
    density: scipy.sparse.csr_array
    """[region variable]: what each region receives is `density @ x`, in units."""
    lower: Vector
    upper: Vector
    equal: scipy.sparse.csr_array | None = None
    equal_to: Float[np.ndarray, " equality"] | None = None
    below: scipy.sparse.csr_array | None = None
    below_at: Float[np.ndarray, " inequality"] | None = None
    total: float = float("inf")
    """A known upper bound on the sum of the entries of every point x >= 0."""

    @property
    def variables(self) -> int:
        return len(self.reward)


def stack_rows(
    upper: scipy.sparse.csr_array | None,
    upper_at: Float[np.ndarray, " upper"] | None,
    lower: scipy.sparse.csr_array,
    lower_at: Float[np.ndarray, " lower"],
) -> tuple[scipy.sparse.csr_array, Float[np.ndarray, " both"]]:
    """Two blocks of inequalities, one above the other; the first may be empty."""
    if upper is None or upper_at is None:
        return scipy.sparse.csr_array(lower), np.asarray(lower_at, float)
    rows = scipy.sparse.csr_array(scipy.sparse.vstack([upper, lower], format="csr"))
    return rows, np.concatenate([upper_at, lower_at])
