"""The fluid relaxation of a sweep: a convex cost in the time per cell, with a smooth dual."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from scrl.errors import ScrlError
from scrl.reference.model import LinearModel
from scrl.worlds.sweep import dynamics
from scrl.worlds.sweep.dynamics import Scalars
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle


@dataclass(frozen=True)
class FluidSweep:
    """Groups of cells, or of parts of cells, that the rules treat alike, and their amounts."""

    weight: Float[np.ndarray, " group"]
    """Cells in each group (those that the start may skip count in part)."""
    amount: Float[np.ndarray, "region group"]
    """What each region receives if every cell of the group takes one step, in units."""
    fastest: Float[np.ndarray, " group"]
    """The smallest time per cell, in steps."""
    slowest: Float[np.ndarray, " group"]
    """The largest time per cell, in steps."""
    effort: float
    horizon_steps: int
    group_of_part: Int[np.ndarray, " part"]
    """The group of each part of the path."""
    start: int | None = None
    """The group of the first cells, where the vehicle starts from rest and that is known."""

    @classmethod
    def of(cls, spec: SweepSpec, named: np.ndarray | None = None) -> FluidSweep:
        """The fluid of a sweep world; regions that are not `named` need no group of their own."""
        service, kinds = spec.service, spec.service.kinds[:-1].astype(float)
        kind_of_part, parts = service.on_path, service.parts
        keys = kinds if named is None else kinds[:, named]
        _, group_of_kind = np.unique(keys, axis=0, return_inverse=True)
        group_of_part = group_of_kind.ravel()[kind_of_part]
        vehicle, is_from_rest = spec.vehicle, spec.is_poured and not spec.is_random
        if is_from_rest:
            group_of_part = _with_start_apart(group_of_part, kind_of_part[: parts * START])
        seen = _chance_to_be_swept(len(kind_of_part), parts * vehicle.start_noise) / parts
        shape = int(group_of_part.max()) + 1, len(kinds)
        member = sparse.csr_array((seen, (group_of_part, kind_of_part)), shape=shape)
        weight = np.asarray(member.sum(axis=1)).ravel()
        start = int(group_of_part[0]) if is_from_rest else None
        fastest, slowest = _limits(vehicle, weight, start)
        fluid = cls(
            weight=weight,
            amount=vehicle.rate * (member @ kinds).T,
            fastest=fastest,
            slowest=slowest,
            effort=vehicle.effort,
            horizon_steps=spec.route.horizon_steps,
            group_of_part=group_of_part,
            start=start,
        )
        if fluid.weight @ fluid.fastest > fluid.horizon_steps:
            raise ScrlError(
                f"horizon_steps = {fluid.horizon_steps} is too short to finish the path even at "
                f"full speed ({fluid.weight @ fluid.fastest:.0f} steps); raise it"
            )
        return fluid

    def with_limits_of(self, vehicle: Vehicle) -> FluidSweep:
        """The same for a vehicle with other limits of its speed."""
        fastest, slowest = _limits(vehicle, self.weight, self.start)
        return replace(self, fastest=fastest, slowest=slowest)

    @property
    def groups(self) -> int:
        return len(self.weight)

    def cost(self, time: Float[np.ndarray, "group ..."]) -> Float[np.ndarray, "group ..."]:
        """f(tau) = effort tau^2 / (1 + tau) per cell."""
        return self.effort * time**2 / (1.0 + time)

    def slope(self, time: Float[np.ndarray, "group ..."]) -> Float[np.ndarray, "group ..."]:
        """f'(tau) = effort (tau^2 + 2 tau) / (1 + tau)^2."""
        return self.effort * (time**2 + 2.0 * time) / (1.0 + time) ** 2

    def best_times(self, price: Float[np.ndarray, " group"]) -> Float[np.ndarray, " group"]:
        """argmin f(tau) + price tau: where f'(tau) = effort (1 - (1 + tau)^-2) equals -price."""
        share = np.clip(-price / self.effort, 0.0, 1.0 - 1e-15)
        return np.clip(1.0 / np.sqrt(1.0 - share) - 1.0, self.fastest, self.slowest)

    def response(self, times: Float[np.ndarray, " group"]) -> Float[np.ndarray, " group"]:
        """-d tau / d price = 1 / f''(tau) = (1 + tau)^3 / (2 effort); 0 where a limit is active."""
        is_inside = (times > self.fastest) & (times < self.slowest)
        return np.where(is_inside, (1.0 + times) ** 3 / (2.0 * self.effort), 0.0)

    @cached_property
    def times_only(self) -> LinearModel:
        """The feasible times without a cost, for questions of feasibility."""
        return LinearModel(
            reward=np.zeros(self.groups),
            density=sparse.csr_array(self.amount),
            lower=self.fastest,
            upper=self.slowest,
            below=sparse.csr_array(self.weight[None, :]),
            below_at=np.array([float(self.horizon_steps)]),
        )

    def return_of(self, times: Float[np.ndarray, " group"]) -> float:
        """The true fluid return of these times."""
        return -float(self.weight @ self.cost(times))

    def ranges(self, coefficients: Float[np.ndarray, "atom region"]) -> np.ndarray:
        """The exact range of a . density over all times, by one continuous knapsack per atom."""
        worth = coefficients @ self.amount
        return np.array([(-self._most(-row), self._most(row)) for row in worth]).reshape(-1, 2)

    def _most(self, worth: Float[np.ndarray, " group"]) -> float:
        """max worth . tau over the box and the horizon: groups with the most worth come first."""
        left = self.horizon_steps - self.weight @ self.fastest
        total = float(worth @ self.fastest)
        order = np.argsort(-worth / self.weight)
        room = (self.weight * (self.slowest - self.fastest))[order]
        spent = np.clip(left - np.concatenate([[0.0], np.cumsum(room)[:-1]]), 0.0, room)
        return total + float(np.maximum(worth[order] / self.weight[order], 0.0) @ spent)


START = 16
"""Cells in which a vehicle has nearly reached its top speed."""


def _with_start_apart(
    group_of_part: Int[np.ndarray, " part"], first_kinds: Int[np.ndarray, " first"]
) -> Int[np.ndarray, " part"]:
    """The first parts, as far as they are of one kind, as a group of their own."""
    is_other = first_kinds != first_kinds[0]
    start = int(is_other.argmax()) if is_other.any() else len(is_other)
    if not (group_of_part[start:] == group_of_part[0]).any():
        return group_of_part
    return np.append(np.full(start, group_of_part.max() + 1), group_of_part[start:])


def _limits(
    vehicle: Vehicle, weight: Float[np.ndarray, " group"], start: int | None
) -> tuple[Float[np.ndarray, " group"], Float[np.ndarray, " group"]]:
    """The smallest and the largest time per cell in each group (docs/bound.md)."""
    crawl, inertia = vehicle.max_speed * vehicle.crawl, vehicle.inertia
    # A vehicle at rest is slower than the crawl for a while: t steps on it has reached the share
    # 1 - inertia^t of it, so all cells of a group together may take as much longer.
    more = np.full(len(weight), inertia / (1.0 - inertia))
    fastest = np.full(len(weight), 1.0 / vehicle.max_speed)
    if start is not None:
        cells = float(weight[start])
        is_later = np.arange(len(weight)) != start
        more[is_later] = inertia ** (math.floor(cells / crawl) + 1) / (1.0 - inertia)
        # It also needs a while to reach its top speed.
        fastest[start] = _steps_from_rest(vehicle, cells) / cells
    slowest = 1.0 / crawl + more / weight
    return fastest, np.maximum(slowest, fastest)


def _steps_from_rest(vehicle: Vehicle, cells: float) -> float:
    """How many steps the first cells take at full throttle: no drive is there earlier."""
    place, speed, steps = 0.0, 0.0, 0.0
    while place < cells:
        speed = dynamics.next_speed(vehicle, speed, 1.0, Scalars)
        place, steps = place + speed, steps + 1.0
    return steps - (place - cells) / speed


def _chance_to_be_swept(parts: int, start_noise: float) -> Float[np.ndarray, " part"]:
    """The expected share of each part that lies ahead of a uniformly drawn start."""
    if start_noise == 0:
        return np.ones(parts)
    edges = np.minimum(np.arange(parts + 1), start_noise)
    behind = edges**2 / (2.0 * start_noise)
    beyond = np.maximum(np.arange(parts + 1) - start_noise, 0.0)
    return np.diff(behind + beyond)


MOST_STEPS = 200
CLOSE = 1e-10
"""Relative tolerance to which atoms are kept."""


def atom_size(
    rows: Float[np.ndarray, "atom group"], bounds: Float[np.ndarray, " atom"]
) -> Float[np.ndarray, " atom"]:
    """The scale of an atom: the effect of one more step in every cell, and b."""
    return np.abs(rows).sum(axis=1) + np.abs(bounds)


@dataclass(frozen=True)
class DualPoint:
    """Multipliers, their optimal times, and the lower bound on the cost that they prove."""

    multipliers: Float[np.ndarray, " atom"]
    times: Float[np.ndarray, " group"]
    proven_cost: float
    excess: Float[np.ndarray, " atom"]
    """C tau - b, above 0 where an atom is violated."""


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
        """Whether the atoms are kept and complementary slackness holds."""
        size = atom_size(self.rows, self.bounds)
        is_tight = point.excess >= -CLOSE * size
        is_kept = point.excess <= CLOSE * size
        return bool((is_kept & ((point.multipliers == 0) | is_tight)).all())

    def _newton_step(
        self, point: DualPoint, slope: np.ndarray, is_free: np.ndarray
    ) -> Float[np.ndarray, " atom"]:
        """The Newton step of the free multipliers, with a small ridge where the dual is linear."""
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
        """A step length by backtracking, or a longer one if that raises the dual further."""
        # Times respond only to prices between 0 and -effort, which bounds useful step lengths.
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
        """Longer steps while they raise the dual, which is unbounded for infeasible atoms."""
        while reached.proven_cost < np.inf and length < 1e12:
            length *= 4.0
            tried = self._moved(point, step, length)
            if not tried.proven_cost > reached.proven_cost:
                return reached
            reached = tried
        return reached
