"""The sweep as a fluid: the time spent per cell is free, and cost is convex in it.

At speed v a cell takes tau = 1/v steps and costs f(tau) = effort tau / (1 + 1/tau), which is
convex; a region receives rate tau from each of its cells. Cells that serve the same regions get
the same tau (Jensen), so a map of any size has as many unknowns as it has kinds of cell.

What is left out: inertia (speed may change at once), whole steps (a cell may take part of a step),
and wind. The stepwise program measures what that is worth.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy import sparse

from scrl.errors import ScrlError
from scrl.reference.model import LinearModel
from scrl.worlds.spec import SweepSpec


@dataclass(frozen=True)
class FluidSweep:
    """Groups of cells that the rules do not tell apart, and what a step in each is worth."""

    weight: Float[np.ndarray, " group"]
    """Cells in each group (those that the start may skip count in part)."""
    amount: Float[np.ndarray, "region group"]
    """What each region receives if every cell of the group takes one step, in units."""
    fastest: float
    """The smallest time per cell, in steps."""
    slowest: float
    """The largest."""
    effort: float
    horizon_steps: int

    @classmethod
    def of(cls, spec: SweepSpec, named: np.ndarray | None = None) -> FluidSweep:
        """The fluid of a sweep world; regions that are not `named` need no group of their own."""
        service, kinds = spec.service, spec.service.kinds[:-1].astype(float)
        kind_of_cell = service.kind_of_cell[:-1]
        keys = kinds if named is None else kinds[:, named]
        _, group_of_kind = np.unique(keys, axis=0, return_inverse=True)
        group_of_kind = group_of_kind.ravel()
        seen = _chance_to_be_swept(len(kind_of_cell), spec.vehicle.start_noise)
        cells_of_kind = np.bincount(kind_of_cell, weights=seen, minlength=len(kinds))
        groups = int(group_of_kind.max()) + 1
        member = sparse.csr_array(
            (cells_of_kind, (group_of_kind, np.arange(len(kinds)))), shape=(groups, len(kinds))
        )
        vehicle = spec.vehicle
        fluid = cls(
            weight=np.asarray(member.sum(axis=1)).ravel(),
            amount=vehicle.rate * (member @ kinds).T,
            fastest=1.0 / vehicle.max_speed,
            slowest=1.0 / (vehicle.max_speed * vehicle.crawl),
            effort=vehicle.effort,
            horizon_steps=spec.route.horizon_steps,
        )
        if fluid.weight.sum() * fluid.fastest > fluid.horizon_steps:
            raise ScrlError(
                f"horizon_steps = {fluid.horizon_steps} is too short to finish the path even at "
                f"full speed ({fluid.weight.sum() * fluid.fastest:.0f} steps); raise it"
            )
        return fluid

    @property
    def groups(self) -> int:
        return len(self.weight)

    def cost(self, time: Float[np.ndarray, " group"]) -> Float[np.ndarray, " group"]:
        """f(tau) = effort tau^2 / (1 + tau) per cell."""
        return self.effort * time**2 / (1.0 + time)

    def slope(self, time: Float[np.ndarray, " group"]) -> Float[np.ndarray, " group"]:
        """f'(tau) = effort (tau^2 + 2 tau) / (1 + tau)^2."""
        return self.effort * (time**2 + 2.0 * time) / (1.0 + time) ** 2

    def best_times(self, price: Float[np.ndarray, " group"]) -> Float[np.ndarray, " group"]:
        """argmin f(tau) + price tau: where f'(tau) = effort (1 - (1 + tau)^-2) equals -price."""
        share = np.clip(-price / self.effort, 0.0, 1.0 - 1e-15)
        return np.clip(1.0 / np.sqrt(1.0 - share) - 1.0, self.fastest, self.slowest)

    def response(self, times: Float[np.ndarray, " group"]) -> Float[np.ndarray, " group"]:
        """-d tau / d price = 1 / f''(tau) = (1 + tau)^3 / (2 effort); 0 where a limit holds."""
        is_inside = (times > self.fastest) & (times < self.slowest)
        return np.where(is_inside, (1.0 + times) ** 3 / (2.0 * self.effort), 0.0)

    @cached_property
    def times_only(self) -> LinearModel:
        """The times alone, at no cost: for questions of what is possible."""
        return LinearModel(
            reward=np.zeros(self.groups),
            density=sparse.csr_array(self.amount),
            lower=np.full(self.groups, self.fastest),
            upper=np.full(self.groups, self.slowest),
            below=sparse.csr_array(self.weight[None, :]),
            below_at=np.array([float(self.horizon_steps)]),
        )

    def return_of(self, times: Float[np.ndarray, " group"]) -> float:
        """The true fluid return of these times."""
        return -float(self.weight @ self.cost(times))

    def ranges(self, coefficients: Float[np.ndarray, "atom region"]) -> np.ndarray:
        """Smallest and largest a . density over all times: exact, a knapsack for each atom."""
        worth = coefficients @ self.amount
        return np.array([(-self._most(-row), self._most(row)) for row in worth]).reshape(-1, 2)

    def _most(self, worth: Float[np.ndarray, " group"]) -> float:
        """max worth . tau over the box and the horizon: the dearest groups get time first."""
        left = self.horizon_steps - self.weight.sum() * self.fastest
        total = float(worth.sum() * self.fastest)
        order = np.argsort(-worth / self.weight)
        room = self.weight[order] * (self.slowest - self.fastest)
        spent = np.clip(left - np.concatenate([[0.0], np.cumsum(room)[:-1]]), 0.0, room)
        return total + float(np.maximum(worth[order] / self.weight[order], 0.0) @ spent)


def _chance_to_be_swept(cells: int, start_noise: float) -> Float[np.ndarray, " cell"]:
    """The share of each cell that lies ahead of an evenly drawn start, in expectation."""
    if start_noise == 0:
        return np.ones(cells)
    edges = np.minimum(np.arange(cells + 1), start_noise)
    behind = edges**2 / (2.0 * start_noise)
    beyond = np.maximum(np.arange(cells + 1) - start_noise, 0.0)
    return np.diff(behind + beyond)
