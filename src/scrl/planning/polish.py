"""A single drive made better in small steps: sequential linear programming on its places.

A drive is at x_t after step t, and d_t = x_t - x_{t-1}. In calm air the limits of the vehicle are
linear, (1 - inertia) max_speed crawl <= d_t - inertia d_{t-1} <= (1 - inertia) max_speed, and the
cost, sum effort / (1 + d_t), is convex. With poured service the side of an atom is
S(x) = rate sum (C(x_t) - C(x_{t-1})) / d_t, where C sums up along the path what counts for it.
Each program has tangents in place of the cost and of S, and stays near the last places. Its answer
is kept where the true return, less a penalty for atoms that are exceeded, is better.

C bends at the edges of regions, where a program knows one side only: a place moves at most a little
past the next edge on either side.

With a flow each term of S has the factor q_t, the flow of the step as a share of the full one. The
program moves it as well, near the last one and between the limits of the pump.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float
from scipy import sparse
from scipy.optimize import OptimizeResult, linprog

from scrl.planning.timetable import flows_of, openings_of, places_of
from scrl.worlds.sweep.spec import SweepSpec

MOST_PROGRAMS = 16
TANGENTS = (0.8, 1.0, 1.25)
"""Where tangents touch the cost of a step, relative to its length."""
NEAR, NEAREST, STEADY = 0.2, 0.003, 0.3
"""Cells by which places may move at first and at least, and the share by which steps may."""
EDGE, PAST_EDGE = 0.25, 0.01
"""Where what counts changes by this share of the most that counts is an edge, and the share of how
far places may move by which they may pass one."""
ON_EDGE = 1e-6
"""A place this near to an edge may leave it on either side."""
PAST_END = 1e-3
"""Cells past the end of the path at which a drive ends at least: the vehicle's places are rounded,
and a drive that just falls short of the end takes a step more."""
AT_END = 0.01
"""Cells from the end of the path that do not count, and the share of the last step past it."""
HARDLY = 5e-4
"""A gain of a smaller share is not worth another program."""


class _Sides(NamedTuple):
    """The sides of atoms, and how they change with the place after each step and with its flow."""

    sides: Float[np.ndarray, " atom"]
    slopes: Float[np.ndarray, "step atom"]
    means: Float[np.ndarray, "step atom"]


class _Drive(NamedTuple):
    """Where a drive is before its first step and after each one, and the flows of its steps."""

    places: Float[np.ndarray, " place"]
    flows: Float[np.ndarray, " step"]


_SumsAndRows: TypeAlias = tuple[Float[np.ndarray, "part atom"], Float[np.ndarray, "part atom"]]


@dataclass(frozen=True)
class Polish:
    """Improves drives in a calm world with poured service, for atoms that must hold."""

    spec: SweepSpec
    coefficients: Float[np.ndarray, "atom region"]
    bounds: Float[np.ndarray, " atom"]
    penalty: float
    """Return for one unit by which an atom is exceeded."""

    def better(
        self, actions: Float[np.ndarray, "step ..."], deadline: float = float("inf")
    ) -> Float[np.ndarray, "better ..."]:
        """The actions of a drive that is better than this one, or of this one."""
        drive = self._drive(actions)
        worth, near, steady, may_grow = self._worth(drive), NEAR, STEADY, True
        for _ in range(MOST_PROGRAMS):
            if time.monotonic() > deadline or near < NEAREST:
                break
            start = self._with_fitting_end(drive, may_grow=may_grow)
            found = self._program(start, near, steady)
            hoped = -found.fun if found.status == 0 else -np.inf
            tried = self._driven(found.x, len(start.flows)) if found.status == 0 else drive
            gain = self._worth(tried) - worth
            if gain <= 0.0 and len(start.places) > len(drive.places):
                may_grow = False
                continue
            if found.status == 0 and hoped - worth < HARDLY * abs(worth):
                break
            if gain <= 0.0:
                near, steady = near / 2.5, steady / 1.5
                continue
            factor = 1.5 if gain > 0.7 * (hoped - worth) else 1.0
            if gain < 0.25 * (hoped - worth):
                factor = 1.0 / 1.5
            near, steady = factor * near, min(factor * steady, 1.0)
            drive, worth = tried, worth + gain
        return self._actions(*drive)

    def _drive(self, actions: Float[np.ndarray, "step ..."]) -> _Drive:
        vehicle = self.spec.vehicle
        places = places_of(vehicle, actions)
        has_flow = vehicle.has_flow
        return _Drive(
            places, flows_of(vehicle, places, actions) if has_flow else np.ones(len(actions))
        )

    def _with_fitting_end(self, drive: _Drive, *, may_grow: bool) -> _Drive:
        """With a step more where the last one hardly reaches the end, with one less where it is
        not needed."""
        places, flows = drive
        end, length = len(self.spec.path.cells), places[-1] - places[-2]
        if places[-2] > end - AT_END:
            return _Drive(places[:-1], flows[:-1])
        if may_grow and places[-1] < end + AT_END * length:
            return _Drive(np.append(places, places[-1] + length), np.append(flows, flows[-1]))
        return drive

    @cached_property
    def _served(self) -> _SumsAndRows:
        return self._served_to([each != self.spec.timed for each in range(len(self.spec.amounts))])

    @cached_property
    def _timed(self) -> _SumsAndRows:
        return self._served_to([each == self.spec.timed for each in range(len(self.spec.amounts))])

    def _served_to(self, is_counted: list[bool]) -> _SumsAndRows:
        """Sums of the sides up to each part of the path, and sides of a step within it."""
        service, coefficients = self.spec.service, np.where(is_counted, self.coefficients, 0.0)
        rows = self.spec.vehicle.rate * service.kinds.astype(float) @ coefficients.T
        sums = np.cumsum(rows[service.on_path] / service.parts, axis=0)
        nothing = np.zeros((1, rows.shape[1]))
        return np.concatenate([nothing, sums]), np.concatenate([rows[service.on_path], nothing])

    @cached_property
    def _edges(self) -> Float[np.ndarray, " edge"]:
        """The edges of regions on the path, between two that no place reaches."""
        rows, parts = self._served[1][:-1], self.spec.service.parts
        changes = np.abs(np.diff(rows, axis=0)) / np.maximum(np.abs(rows).max(axis=0), 1e-300)
        edges = 1.0 + np.flatnonzero((changes > EDGE).any(axis=1))
        return np.concatenate([[-np.inf], edges / parts, [np.inf]])

    def _within_edges(
        self, places: Float[np.ndarray, " place"], near: float
    ) -> tuple[Float[np.ndarray, " place"], Float[np.ndarray, " place"]]:
        """The lowest and the highest places to which places may move."""
        edges, past = self._edges, PAST_EDGE * near
        before = edges[np.searchsorted(edges, places - ON_EDGE) - 1]
        after = edges[np.searchsorted(edges, places + ON_EDGE)]
        return np.maximum(places - near, before - past), np.minimum(places + near, after + past)

    def _sides(self, drive: _Drive) -> _Sides:
        given = self._sides_of(self._served, drive)
        if self.spec.timed is None:
            return given
        spent = self._sides_of(self._timed, drive._replace(flows=np.ones(len(drive.flows))))
        return _Sides(given.sides + spent.sides, given.slopes + spent.slopes, given.means)

    def _sides_of(self, served: _SumsAndRows, drive: _Drive) -> _Sides:
        (sums, rows), (places, flows) = served, drive
        parts = self.spec.service.parts
        part = np.minimum((parts * places).astype(int), len(rows) - 1)
        upto = sums[part] + (places - part / parts)[:, None] * rows[part]
        lengths, here = np.diff(places)[:, None], rows[part[1:]]
        means = np.diff(upto, axis=0) / lengths
        flow = flows[:, None]
        slopes = flow * (here - means) / lengths
        slopes[:-1] -= flow[1:] * (here[:-1] - means[1:]) / lengths[1:]
        return _Sides((flow * means).sum(axis=0), slopes, means)

    def _worth(self, drive: _Drive) -> float:
        """The return less the penalties."""
        over = np.maximum(self._sides(drive).sides - self.bounds, 0.0)
        costs = self.spec.vehicle.effort / (1.0 + np.diff(drive.places))
        product = float(self._product(drive.places) @ drive.flows)
        return -float(costs.sum()) - self.penalty * float(over.sum()) - product

    def _product(self, places: Float[np.ndarray, " place"]) -> Float[np.ndarray, " step"]:
        """What each step costs at full flow: the last one up to the end of the path."""
        on_path = np.diff(np.minimum(places, len(self.spec.path.cells))) / np.diff(places)
        return self.spec.vehicle.product * on_path

    def _driven(self, found: Float[np.ndarray, " variable"], steps: int) -> _Drive:
        """The drive of the vehicle itself, which a program knows up to rounding."""
        has_flow = self.spec.vehicle.has_flow
        flows = found[-steps:] if has_flow else np.ones(steps)
        return self._drive(self._actions(np.append(0.0, found[:steps]), flows))

    def _actions(
        self, places: Float[np.ndarray, " place"], flows: Float[np.ndarray, " step"]
    ) -> Float[np.ndarray, "step ..."]:
        vehicle, lengths = self.spec.vehicle, np.diff(places)
        kept = vehicle.inertia * np.append(0.0, lengths[:-1])
        full = (1.0 - vehicle.inertia) * vehicle.max_speed
        throttles = np.clip((lengths - kept) / full, 0.0, 1.0)
        if not vehicle.has_flow:
            return throttles
        moved = np.diff(places_of(vehicle, throttles))
        return np.column_stack([throttles, openings_of(vehicle, moved, flows)])

    def _program(self, drive: _Drive, near: float, steady: float) -> OptimizeResult:
        """The best places near these, then lengths and costs of steps, excesses of atoms, and with
        a flow the flows."""
        vehicle, end = self.spec.vehicle, float(len(self.spec.path.cells))
        places = drive.places
        lengths, old = np.diff(places), places[1:]
        steps, atoms = len(lengths), len(self.bounds)
        one, none = sparse.eye_array(steps), sparse.csr_array((steps, steps))
        no_atom = sparse.csr_array((steps, atoms))

        def less_before(share: float) -> sparse.csr_array:
            """Each step's number less a share of that of the step before it."""
            return sparse.csr_array(one - share * sparse.eye_array(steps, k=-1))

        pulled, full = less_before(vehicle.inertia), (1.0 - vehicle.inertia) * vehicle.max_speed
        rows = [[none, pulled, none, no_atom], [none, -pulled, none, no_atom]]
        limits = [np.full(steps, full), np.full(steps, -full * vehicle.crawl)]
        for factor in TANGENTS:
            at = np.minimum(factor * lengths, vehicle.max_speed)
            slope = -vehicle.effort / (1.0 + at) ** 2
            rows.append([none, sparse.diags_array(slope), -one, no_atom])
            limits.append(slope * at - vehicle.effort / (1.0 + at))
        now = self._sides(drive)
        flat = sparse.csr_array((atoms, steps))
        rows.append([sparse.csr_array(now.slopes.T), flat, flat, -sparse.eye_array(atoms)])
        limits.append(self.bounds - now.sides + old @ now.slopes)
        lowest, highest = self._within_edges(old, near)
        highest = np.maximum(np.minimum(highest, end - 1e-6), old)
        lowest[-1], highest[-1] = max(lowest[-1], end + PAST_END), max(old[-1] + near, end + 1.0)
        zeros, ones = np.zeros(steps + atoms), np.full(steps + atoms, np.inf)
        costs = [np.zeros(2 * steps), np.ones(steps), np.full(atoms, self.penalty)]
        low = [lowest, lengths / (1.0 + steady), zeros]
        high = [highest, lengths * (1.0 + steady), ones]
        even = [less_before(1.0), -one, none, no_atom]
        if vehicle.has_flow:
            *steady_rows, of_atoms = rows
            rows = [*([*row, none] for row in steady_rows), [*of_atoms, now.means.T]]
            limits[-1] = limits[-1] + drive.flows @ now.means
            rows.append([none, vehicle.least_dose * one, none, no_atom, -one])
            limits.append(np.zeros(steps))
            if np.isfinite(vehicle.most_dose):
                rows.append([none, -vehicle.most_dose * one, none, no_atom, one])
                limits.append(np.full(steps, vehicle.least_flow))
            costs.append(self._product(places))
            low.append(np.maximum(drive.flows - steady, vehicle.least_flow))
            high.append(np.minimum(drive.flows + steady, 1.0))
            even.append(none)
        return linprog(
            np.concatenate(costs),
            A_ub=sparse.csr_array(sparse.block_array(rows)),
            b_ub=np.concatenate(limits),
            A_eq=sparse.csr_array(sparse.hstack(even)),
            b_eq=np.zeros(steps),
            bounds=np.stack([np.concatenate(low), np.concatenate(high)], axis=1),
            method="highs-ds",
        )
