"""One branch of the fluid sweep by its multipliers: a smooth concave program of a few numbers.

For multipliers lambda >= 0 each group's best time solves f'(tau) = -p with p = lambda . c / n its
price per cell, in closed form. So the dual
D(lambda) = sum_g n f(tau) + lambda . (C tau - b)  is cheap, concave and once differentiable, with
gradient C tau - b: what the atoms are exceeded by. Its maximum is the least cost (strong duality),
and every value of it on the way is a proven bound from below, whatever the rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scrl.reference.fluid import FluidSweep

MOST_STEPS = 200
CLOSE = 1e-10
"""Atoms are kept to this share of the numbers in them."""


def atom_size(
    rows: Float[np.ndarray, "atom group"], bounds: Float[np.ndarray, " atom"]
) -> Float[np.ndarray, " atom"]:
    """The size of the numbers in an atom: what one step more in every cell changes, and b."""
    return np.abs(rows).sum(axis=1) + np.abs(bounds)


@dataclass(frozen=True)
class DualPoint:
    """Multipliers, the times they call for, and the cost that they prove to be the least."""

    multipliers: Float[np.ndarray, " atom"]
    times: Float[np.ndarray, " group"]
    proven_cost: float
    excess: Float[np.ndarray, " atom"]
    """C tau - b: above 0 an atom is not kept yet."""


@dataclass(frozen=True)
class BranchDual:
    """The dual of one branch: atoms that must all hold, as rows over the groups' times."""

    fluid: FluidSweep
    rows: Float[np.ndarray, "atom group"]
    bounds: Float[np.ndarray, " atom"]

    def at(self, multipliers: Float[np.ndarray, " atom"]) -> DualPoint:
        """The dual and its gradient at these multipliers."""
        price = multipliers @ self.rows / self.fluid.weight
        times = self.fluid.best_times(price)
        excess = self.rows @ times - self.bounds
        cost = -self.fluid.return_of(times)
        return DualPoint(multipliers, times, cost + float(multipliers @ excess), excess)

    def maximise(
        self, start: Float[np.ndarray, " atom"], *, enough_cost: float = np.inf
    ) -> DualPoint:
        """Newton's method over multipliers of at least 0; ends once `enough_cost` is proven."""
        point = self.at(start)
        for _ in range(MOST_STEPS):
            is_free = (point.multipliers > 0) | (point.excess > 0)
            slope = np.where(is_free, point.excess, 0.0)
            if self.is_close(point) or point.proven_cost > enough_cost:
                return point
            better = self._line_search(point, self._newton_step(point, slope, is_free), slope)
            if better is None:
                better = self._line_search(point, slope / (1e-12 + slope @ slope), slope)
            if better is None:
                return point
            point = better
        return point

    def is_close(self, point: DualPoint) -> bool:
        """Whether the atoms are kept, and multipliers rest only on those that are tight."""
        size = atom_size(self.rows, self.bounds)
        is_tight = point.excess >= -CLOSE * size
        is_kept = point.excess <= CLOSE * size
        return bool((is_kept & ((point.multipliers == 0) | is_tight)).all())

    def _newton_step(
        self, point: DualPoint, slope: np.ndarray, is_free: np.ndarray
    ) -> Float[np.ndarray, " atom"]:
        """The step among free multipliers; a touch of ridge where the dual is straight."""
        response = self.fluid.response(point.times) / self.fluid.weight
        rows = self.rows[is_free]
        curvature = (rows * response) @ rows.T
        ridge = 1e-9 * max(float(np.trace(curvature)), 1e-9)
        step = np.zeros(len(slope))
        step[is_free] = np.linalg.solve(curvature + ridge * np.eye(len(rows)), slope[is_free])
        return step

    def _line_search(
        self, point: DualPoint, step: np.ndarray, slope: np.ndarray
    ) -> DualPoint | None:
        """The first of ever shorter steps that raises the dual enough, or the best longer one."""
        # Times respond only to prices between 0 and -effort: no step needs to be much longer.
        change = np.abs(step @ self.rows / self.fluid.weight).max(initial=0.0)
        length = min(1.0, 0.5 * self.fluid.effort / max(float(change), 1e-300))
        for _ in range(50):
            tried = self._moved(point, step, length)
            rise = float(slope @ (tried.multipliers - point.multipliers))
            if tried.proven_cost > point.proven_cost + 1e-4 * max(rise, 0.0):
                return self._stretched(point, step, length, tried) if length < 1.0 else tried
            if self.is_close(tried):
                return tried
            length *= 0.4
        return None

    def _moved(self, point: DualPoint, step: np.ndarray, length: float) -> DualPoint:
        return self.at(np.maximum(point.multipliers + length * step, 0.0))

    def _stretched(
        self, point: DualPoint, step: np.ndarray, length: float, reached: DualPoint
    ) -> DualPoint:
        """Longer steps while they raise the dual: where atoms exclude each other it has no end."""
        while reached.proven_cost < np.inf and length < 1e12:
            length *= 4.0
            tried = self._moved(point, step, length)
            if not tried.proven_cost > reached.proven_cost:
                return reached
            reached = tried
        return reached
