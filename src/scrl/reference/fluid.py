"""The fluid relaxation of a sweep: a convex cost in the time per cell, with a smooth dual.

A cell takes tau steps and is served as by s steps at full flow. With a fixed rate s = tau. With a
flow, what is possible lies between two piecewise linear curves (docs/bound.md),

    L(tau) = max(least_flow tau, least_dose) <= s <= U(tau) = min(tau, most_dose + least_flow tau),

L convex and U concave. At given prices s is at an end of this interval, by the sign of what it
earns, w. The dual has a kink at w = 0, so it is smoothed there: in place of max(0, w) it has

    psi(w) = max over u in [0, 1] of w u + (softness / 2) u (1 - u),    s = L + u (U - L),

which is never below it. So a smoothed dual proves a little less than the dual, never too much.

What is chosen for all groups is one vector, a point: the times, and after them the services, where
these are not the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy
from jaxtyping import Float, Int

from scrl.errors import ScrlError
from scrl.reference.model import LinearModel, stack_rows
from scrl.worlds.sweep import dynamics
from scrl.worlds.sweep.dynamics import Scalars
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle


@dataclass(frozen=True)
class FluidSweep:
    """Groups of cells, or of parts of cells, that the rules treat alike, and their amounts."""

    weight: Float[np.ndarray, " group"]
    """Cells in each group (those that the start may skip count in part)."""
    amount: Float[np.ndarray, "region variable"]
    """What each region receives for one step in every cell of a group, or for one step of service
    where that is another variable, in units."""
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
    flow: FluidFlow | None = None
    """The flows to choose from; None for a fixed rate."""
    product: float = 0.0
    """Cost of a step of service, in efforts."""

    @classmethod
    def of(cls, spec: SweepSpec, named: np.ndarray | None = None) -> FluidSweep:
        """The fluid of a sweep world; regions that are not `named` need no group of their own."""
        service, kinds = spec.service, spec.service.kinds[:-1].astype(float)
        kind_of_part, parts = service.on_path, service.parts
        keys = kinds if named is None else kinds[:, named]
        _, group_of_kind = np.unique(keys, axis=0, return_inverse=True)
        group_of_kind = group_of_kind.ravel()
        group_of_part = group_of_kind[kind_of_part]
        vehicle, is_from_rest = spec.vehicle, spec.is_poured and not spec.is_random
        if is_from_rest:
            group_of_part = _with_start_apart(group_of_part, kind_of_part[: parts * START])
        seen = _chance_to_be_swept(len(kind_of_part), parts * vehicle.start_noise) / parts
        # A start apart is of one kind; here it counts as one kind more.
        is_apart = group_of_part > group_of_kind.max()
        kinds = np.concatenate([kinds, kinds[kind_of_part[:1]]])
        group_of_kind = np.append(group_of_kind, group_of_part[0])
        cells = np.bincount(np.where(is_apart, len(kinds) - 1, kind_of_part), seen, len(kinds))
        weight = np.bincount(group_of_kind, cells)
        amount = np.zeros((kinds.shape[1], len(weight)))
        np.add.at(amount.T, group_of_kind, vehicle.rate * cells[:, None] * kinds)
        start = int(group_of_part[0]) if is_from_rest else None
        fastest, slowest = _limits(vehicle, weight, start)
        flow = FluidFlow.of(vehicle) if vehicle.has_flow else None
        if flow is not None:
            of_time = np.zeros_like(amount)
            if (timed := spec.timed) is not None:
                of_time[timed], amount[timed] = amount[timed], 0.0
            amount = np.concatenate([of_time, amount], axis=1)
        fluid = cls(
            weight=weight,
            amount=amount,
            fastest=fastest,
            slowest=slowest,
            effort=vehicle.effort,
            horizon_steps=spec.route.horizon_steps,
            group_of_part=group_of_part,
            start=start,
            flow=flow,
            product=vehicle.product / vehicle.effort,
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

    @property
    def time_row(self) -> Float[np.ndarray, " variable"]:
        """The steps of all cells as a row over the variables."""
        return self.weight if self.flow is None else np.append(self.weight, 0.0 * self.weight)

    def split(
        self, point: Float[np.ndarray, "*row variable"]
    ) -> tuple[Float[np.ndarray, "*row group"], Float[np.ndarray, "*row group"]]:
        """Times and services of a point; the same where the rate is fixed."""
        return point[..., : self.groups], point[..., -self.groups :]

    def fully_open(self, times: Float[np.ndarray, " group"]) -> Float[np.ndarray, " variable"]:
        """The point of these times with the largest flow."""
        return times if self.flow is None else np.append(times, self.flow.most(times))

    def best_point(
        self, prices: Float[np.ndarray, " variable"]
    ) -> tuple[Float[np.ndarray, " variable"], float]:
        """The point of the least cost + prices . point, and by how much smoothing lowers that."""
        if self.flow is None:
            times = self.best_times(prices / self.weight + self.effort * self.product)
            return times, 0.0
        of_time, worth = self._prices(prices)
        opening, earned = self.flow.opening(worth)
        times = np.zeros(self.groups)
        # Convex, so the slope changes at the kinks of L and U only downwards.
        for low, high, until in self.flow.pieces:
            slope = of_time - self.effort * (earned * high + (worth - earned) * low)
            times = np.maximum(times, np.minimum(self.best_times(slope), until))
        times = np.clip(times, self.fastest, self.slowest)
        least, most = self.flow.least(times), self.flow.most(times)
        point = np.append(times, least + opening * (most - least))
        smoothing = (earned - worth * opening) * (most - least)
        return point, self.effort * float(self.weight @ smoothing)

    def _prices(
        self, prices: Float[np.ndarray, " variable"]
    ) -> tuple[Float[np.ndarray, " group"], Float[np.ndarray, " group"]]:
        """The price of a step in a cell, and what a step of service earns, in efforts."""
        of_time, of_service = self.split(prices)
        earned = -of_service / (self.effort * self.weight) - self.product
        return of_time / self.weight, earned

    def curvature(
        self,
        rows: Float[np.ndarray, "atom variable"],
        prices: Float[np.ndarray, " variable"],
        point: Float[np.ndarray, " variable"],
    ) -> Float[np.ndarray, "atom atom"]:
        """How rows . point changes with the multipliers of the rows in the prices."""
        if self.flow is None:
            return (rows * (self.response(point) / self.weight)) @ rows.T
        times, _ = self.split(point)
        opening, _ = self.flow.opening(self._prices(prices)[1])
        low, high = self.flow.slopes(times)
        response = np.where(self.flow.is_kink(times), 0.0, self.response(times)) / self.weight
        of_time, of_service = self.split(rows)
        along = of_time + (low + opening * (high - low)) * of_service
        is_soft = (opening > 0.0) & (opening < 1.0)
        span = (self.flow.most(times) - self.flow.least(times)) * is_soft
        across = span / (self.flow.softness * self.effort * self.weight)
        return (along * response) @ along.T + (of_service * across) @ of_service.T

    def response(self, times: Float[np.ndarray, " group"]) -> Float[np.ndarray, " group"]:
        """-d tau / d price = 1 / f''(tau) = (1 + tau)^3 / (2 effort); 0 where a limit is active."""
        is_inside = (times > self.fastest) & (times < self.slowest)
        return np.where(is_inside, (1.0 + times) ** 3 / (2.0 * self.effort), 0.0)

    @cached_property
    def times_only(self) -> LinearModel:
        """The feasible points without a cost, for questions of feasibility."""
        below, at = (
            scipy.sparse.csr_array(self.time_row[None, :]),
            np.array([float(self.horizon_steps)]),
        )
        lower, upper = self.fastest, self.slowest
        if self.flow is not None:
            one = scipy.sparse.csr_array(scipy.sparse.eye_array(self.groups))
            below, at = stack_rows(below, at, *self.flow.rows(one, 0.0))
            lower = np.append(lower, np.full(self.groups, self.flow.least_dose))
            upper = np.append(upper, self.flow.most(upper))
        return LinearModel(
            reward=np.zeros(len(lower)),
            density=scipy.sparse.csr_array(self.amount),
            lower=lower,
            upper=upper,
            below=below,
            below_at=at,
        )

    def return_of(self, point: Float[np.ndarray, " variable"]) -> float:
        """The true fluid return of this point."""
        times, services = self.split(point)
        product = self.effort * self.product * float(self.weight @ services)
        return -float(self.weight @ self.cost(times)) - product

    def ranges(self, coefficients: Float[np.ndarray, "atom region"]) -> np.ndarray:
        """The exact range of a . density over all points, by one continuous knapsack per atom."""
        worth = coefficients @ self.amount
        return np.array([(-self._most(-row), self._most(row)) for row in worth]).reshape(-1, 2)

    def _most(self, worth: Float[np.ndarray, " variable"]) -> float:
        """max worth . point over the box and the horizon: what is worth most comes first.

        With a flow, the worth of a group is concave in its time: a piece for each slope.
        """
        left = self.horizon_steps - self.weight @ self.fastest
        weight, total = self.weight, float(self.split(worth)[0] @ self.fastest)
        room = self.weight * (self.slowest - self.fastest)
        if self.flow is not None:
            of_time, of_service = self.split(worth)
            is_good = of_service > 0.0
            ends = np.where(is_good, self.flow.most(self.fastest), self.flow.least(self.fastest))
            total += float(of_service @ ends)
            begin, worths, rooms = self.fastest, [], []
            for low, high, until in self.flow.pieces:
                end = np.clip(until, begin, self.slowest)
                worths.append(of_time + of_service * np.where(is_good, high, low))
                rooms.append(self.weight * (end - begin))
                begin = end
            worth, room = np.concatenate(worths), np.concatenate(rooms)
            weight = np.tile(self.weight, len(worths))
        order = np.argsort(-worth / weight)
        room = room[order]
        spent = np.clip(left - np.concatenate([[0.0], np.cumsum(room)[:-1]]), 0.0, room)
        return total + float(np.maximum(worth[order] / weight[order], 0.0) @ spent)


SOFTNESS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
"""Of the duals that are maximised one after the other, in what a step of service costs, or in
efforts where that is more; the last one counts. Multipliers are about as large as this cost, so
nothing sharper can be told from their rounding."""


@dataclass(frozen=True)
class FluidFlow:
    """The curves L and U between which a cell is served, per step of time in it."""

    least_flow: float
    least_dose: float
    most_dose: float
    softness: float
    """Of the dual that counts, in efforts."""

    @classmethod
    def of(cls, vehicle: Vehicle) -> FluidFlow:
        softness = SOFTNESS[-1] * max(1.0, vehicle.product / vehicle.effort)
        return cls(vehicle.least_flow, vehicle.least_dose, vehicle.most_dose, softness)

    def least(self, times: Float[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
        """L."""
        return np.maximum(self.least_flow * times, self.least_dose)

    def most(self, times: Float[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
        """U."""
        return np.maximum(
            np.minimum(times, self.most_dose + self.least_flow * times), self.least(times)
        )

    @cached_property
    def _kinks(self) -> tuple[float, float]:
        """Where L and U have their kinks."""
        low = math.inf if self.least_flow == 0.0 else self.least_dose / self.least_flow
        low = 0.0 if self.least_dose == 0.0 else low
        return low, math.inf if self.least_flow == 1.0 else self.most_dose / (1.0 - self.least_flow)

    @cached_property
    def pieces(self) -> tuple[tuple[float, float, float], ...]:
        """The slopes of L and U and the time up to which they hold, in order."""
        of_least, of_most = self._kinks

        def piece(until: float) -> tuple[float, float, float]:
            low = 0.0 if until <= of_least else self.least_flow
            return low, 1.0 if until <= of_most else self.least_flow, until

        return tuple(piece(until) for until in sorted({of_least, of_most, math.inf}))

    def slopes(self, times: Float[np.ndarray, "*any"]) -> tuple[np.ndarray, np.ndarray]:
        """The slopes of L and U."""
        of_least, of_most = self._kinks
        low = np.where(times < of_least, 0.0, self.least_flow)
        return low, np.where(times < of_most, 1.0, self.least_flow)

    def is_kink(self, times: Float[np.ndarray, "*any"]) -> np.ndarray:
        return np.isin(times, self._kinks)

    def opening(self, worth: Float[np.ndarray, "*any"]) -> tuple[np.ndarray, np.ndarray]:
        """u and psi, from what a step of service earns, in efforts."""
        opening = np.clip(worth / self.softness + 0.5, 0.0, 1.0)
        return opening, worth * opening + 0.5 * self.softness * opening * (1.0 - opening)

    def rows(
        self, times: scipy.sparse.csr_array, base: float | Float[np.ndarray, " group"]
    ) -> tuple[scipy.sparse.csr_array, Float[np.ndarray, " row"]]:
        """L(tau) <= s <= U(tau) as inequalities over some variables and the services.

        The times are base + times . variables, and s >= least_dose is a bound of its own.
        """
        groups = len(times.indptr) - 1
        one, base = scipy.sparse.eye_array(groups), np.broadcast_to(base, groups)
        blocks = [[-times, one], [self.least_flow * times, -one]]
        at = [base, -self.least_flow * base]
        if math.isfinite(self.most_dose):
            blocks.append([-self.least_flow * times, one])
            at.append(self.most_dose + self.least_flow * base)
        return scipy.sparse.csr_array(scipy.sparse.block_array(blocks)), np.concatenate(at)


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
ROUNDING = 1e-14
"""Duals that differ by a smaller share cannot be told apart."""


def atom_size(
    rows: Float[np.ndarray, "atom variable"], bounds: Float[np.ndarray, " atom"]
) -> Float[np.ndarray, " atom"]:
    """The scale of an atom: the effect of one more step in every cell, and b."""
    return np.abs(rows).sum(axis=1) + np.abs(bounds)


@dataclass(frozen=True)
class DualPoint:
    """Multipliers, their best point, and the lower bound on the cost that they prove."""

    multipliers: Float[np.ndarray, " atom"]
    point: Float[np.ndarray, " variable"]
    proven_cost: float
    excess: Float[np.ndarray, " atom"]
    """C point - b, above 0 where an atom is violated."""


@dataclass(frozen=True)
class BranchDual:
    """The dual of one branch: atoms that must all hold, as rows over the fluid's variables."""

    fluid: FluidSweep
    rows: Float[np.ndarray, "atom variable"]
    bounds: Float[np.ndarray, " atom"]

    def at(self, multipliers: Float[np.ndarray, " atom"]) -> DualPoint:
        """The dual and its gradient at these multipliers."""
        point, smoothing = self.fluid.best_point(multipliers @ self.rows)
        excess = self.rows @ point - self.bounds
        cost = -self.fluid.return_of(point) - smoothing
        return DualPoint(multipliers, point, cost + float(multipliers @ excess), excess)

    def maximise(
        self, start: Float[np.ndarray, " atom"], *, enough_cost: float = np.inf
    ) -> DualPoint:
        """Newton's method over multipliers of at least 0; ends once `enough_cost` is proven."""
        flow = self.fluid.flow
        if flow is None:
            return self._maximise(start, enough_cost)
        # From smooth duals to the one that counts: each is near to the next.
        point = self.at(start)
        for share in SOFTNESS:
            softness = share / SOFTNESS[-1] * flow.softness
            fluid = replace(self.fluid, flow=replace(flow, softness=softness))
            point = replace(self, fluid=fluid)._maximise(point.multipliers, enough_cost)
            if point.proven_cost > enough_cost:
                break
        return point

    def _maximise(self, start: Float[np.ndarray, " atom"], enough_cost: float) -> DualPoint:
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

    def is_close(self, point: DualPoint, share: float = CLOSE) -> bool:
        """Whether the atoms are kept and complementary slackness holds."""
        return self._missed(point) <= share

    def _missed(self, point: DualPoint) -> float:
        """How far the atoms are from that, as a share of their sizes."""
        is_free = (point.multipliers > 0) | (point.excess > 0)
        size = np.maximum(atom_size(self.rows, self.bounds), 1e-300)
        return float((np.abs(point.excess) / size)[is_free].max(initial=0.0))

    def _is_nearer(self, tried: DualPoint, point: DualPoint) -> bool:
        """Whether a point with a flow has half of another's excess, and the same dual.

        Doses are soft, so a dual that is the best but for rounding may still leave atoms unkept.
        """
        apart = abs(tried.proven_cost - point.proven_cost)
        if self.fluid.flow is None or apart > ROUNDING * (1.0 + abs(point.proven_cost)):
            return False
        return self._missed(tried) < 0.5 * self._missed(point)

    def _newton_step(
        self, point: DualPoint, slope: np.ndarray, is_free: np.ndarray
    ) -> Float[np.ndarray, " atom"]:
        """The Newton step of the free multipliers, with a small ridge where the dual is linear."""
        rows = self.rows[is_free]
        curvature = self.fluid.curvature(rows, point.multipliers @ self.rows, point.point)
        ridge = 1e-9 * max(float(np.trace(curvature)), 1e-9)
        step = np.zeros(len(slope))
        step[is_free] = np.linalg.solve(curvature + ridge * np.eye(len(rows)), slope[is_free])
        return step

    def _line_search(
        self, point: DualPoint, step: np.ndarray, slope: np.ndarray
    ) -> DualPoint | None:
        """A step length by backtracking, or a longer one if that raises the dual further."""
        # Times respond only to prices between 0 and -effort, which bounds useful step lengths.
        prices = np.abs(self.fluid.split(step @ self.rows)) / self.fluid.weight
        change = prices.max(initial=0.0)
        length = min(1.0, 0.5 * self.fluid.effort / max(float(change), 1e-300))
        for _ in range(50):
            tried = self._moved(point, step, length)
            rise = float(slope @ (tried.multipliers - point.multipliers))
            if tried.proven_cost > point.proven_cost + 1e-4 * max(rise, 0.0):
                return self._stretched(point, step, length, tried) if length < 1.0 else tried
            if self.is_close(tried) or self._is_nearer(tried, point):
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
