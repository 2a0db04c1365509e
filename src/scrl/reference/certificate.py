"""Certificates of optimality by multipliers, independent of the solver.

For  max r . x  over  E x = e, B x <= c, A D x <= b, l <= x <= u  the reduced reward is
d = r - E' y - B' mu - (A D)' lambda. A point is optimal exactly if it is feasible, mu and lambda
are at least 0 and vanish on slack rows, and d > 0 only where x = u, d < 0 only where x = l.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scrl.reference.linear import NumericalTroubleError, Optimum
from scrl.reference.model import LinearModel

DEFAULT_TOLERANCE = 1e-6
DUST = 1e-6
"""Reduced rewards on unbounded variables up to this count as rounding."""


@dataclass(frozen=True)
class Certificate:
    """The largest failure of each condition, relative to the size of the numbers in it."""

    primal: float
    """How far the point is outside a constraint or a bound, or from its stated densities."""
    dual: float
    """How far a multiplier is below 0, or a reduced reward above 0 on an unbounded variable."""
    gap: float
    """Distance between the point's return, or the stated one, and the proven bound."""
    bound: float
    """No point of the model that keeps these atoms has a return above this (up to `dual`)."""

    @property
    def worst(self) -> float:
        """The largest of the three; not a number if any of them is not."""
        return float(np.max([self.primal, self.dual, self.gap]))


def certify(
    model: LinearModel,
    coefficients: Float[np.ndarray, "atom region"],
    bounds: Float[np.ndarray, " atom"],
    optimum: Optimum,
) -> Certificate:
    """Measure the failure of each optimality condition, without trusting the solver's numbers."""
    point, density = optimum.point, model.density @ optimum.point
    of_atom, of_below = np.maximum(optimum.of_atom, 0.0), np.maximum(optimum.of_below, 0.0)
    reduced = model.reward - (of_atom @ coefficients) @ model.density
    primal = [_excess(coefficients @ density, bounds), _distance(optimum.density, density)]
    proven = float(of_atom @ bounds)
    if model.equal is not None and model.equal_to is not None:
        reduced = reduced - optimum.of_equal @ model.equal
        primal.append(_distance(model.equal @ point, model.equal_to))
        proven += float(optimum.of_equal @ model.equal_to)
    if model.below is not None and model.below_at is not None:
        reduced = reduced - of_below @ model.below
        primal.append(_excess(model.below @ point, model.below_at))
        proven += float(of_below @ model.below_at)
    primal += [_excess(point, model.upper), _excess(-point, -model.lower)]
    most, dust = _most_over_box(reduced, model)
    proven += most
    negative = [_below_zero(optimum.of_atom), _below_zero(optimum.of_below)]
    size = float(np.abs(model.reward) @ np.abs(point) + np.abs(model.reward).max(initial=0.0))
    apart = np.max([abs(proven - float(model.reward @ point)), abs(proven - optimum.return_)])
    gap = float(apart / size) if apart else 0.0
    return Certificate(float(np.max(primal)), float(np.max([dust, *negative])), gap, proven)


def _excess(value: np.ndarray, limit: np.ndarray) -> float:
    """The largest amount by which `value` is over `limit`, relative to the limit's size."""
    size = np.where(np.isfinite(limit), 1 + np.abs(limit), 1.0)
    return float((np.maximum(value - limit, 0.0) / size).max(initial=0.0))


def _distance(value: np.ndarray, target: np.ndarray) -> float:
    """The largest distance between the two, relative to the target's size."""
    return float((np.abs(value - target) / (1 + np.abs(target))).max(initial=0.0))


def _below_zero(multipliers: np.ndarray) -> float:
    """How far the lowest multiplier is below 0, relative to the largest."""
    lowest = -float(np.min(multipliers, initial=0.0))
    return lowest / (1 + float(np.abs(multipliers).max(initial=0.0))) if lowest else 0.0


def _most_over_box(reduced: np.ndarray, model: LinearModel) -> tuple[float, float]:
    """max of reduced . x over the box, and the rounding error that was left out of it.

    Where the sum of x is known to be at most `total`, max(reduced, 0) * total is a bound too, and
    nothing is left out. Without it, the error on an unbounded variable is reported separately.
    """
    limit = np.where(reduced > 0, model.upper, model.lower)
    is_open = ~np.isfinite(limit) & (reduced != 0)
    most = float(reduced[~is_open] @ np.where(np.isfinite(limit), limit, 0.0)[~is_open])
    dust = np.abs(reduced[is_open]) / (1 + np.abs(model.reward[is_open]))
    if np.isfinite(model.total) and not np.any(model.lower):
        of_total = float(np.max(reduced, initial=0.0)) * model.total
        return (of_total, 0.0) if is_open.any() else (float(np.minimum(of_total, most)), 0.0)
    worst = float(dust.max(initial=0.0))
    return (most if worst <= DUST else float("inf")), worst


def require(certificate: Certificate, tolerance: float = DEFAULT_TOLERANCE) -> Certificate:
    """The certificate itself; raises if it fails, so that no wrong optimum is returned."""
    if not certificate.worst <= tolerance:
        raise NumericalTroubleError(
            "the solver's answer does not prove itself: primal "
            f"{certificate.primal:.1e}, dual {certificate.dual:.1e}, gap {certificate.gap:.1e} "
            f"(allowed {tolerance:.0e}); rescale the rules or the rewards"
        )
    return certificate
