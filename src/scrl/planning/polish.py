"""A single drive made better in small steps: sequential linear programming on its places.

A drive is at x_t after step t, and d_t = x_t - x_{t-1}. In calm air the limits of the vehicle are
linear, (1 - inertia) max_speed crawl <= d_t - inertia d_{t-1} <= (1 - inertia) max_speed, and the
cost, sum effort / (1 + d_t), is convex. With poured service the side of an atom is
S(x) = rate sum (C(x_t) - C(x_{t-1})) / d_t, where C sums up along the path what counts for it.
Each program has tangents in place of the cost and of S, and stays near the last places. Its answer
is kept where the true return, less a penalty for atoms that are exceeded, is better.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import sparse
from scipy.optimize import OptimizeResult, linprog

from scrl.planning.timetable import places_of
from scrl.worlds.sweep.spec import SweepSpec

MOST_PROGRAMS = 16
TANGENTS = (0.7, 0.85, 1.0, 1.18, 1.4)
"""Where tangents touch the cost of a step, relative to its length."""
NEAR, NEAREST, STEADY = 0.2, 0.003, 0.3
"""Cells by which places may move at first and at least, and the share by which steps may."""
AT_END = 0.01
"""Cells from the end of the path that do not count, and the share of the last step past it."""
HARDLY = 2e-5
"""A gain of a smaller share is not worth another program."""


class _Sides(NamedTuple):
    """The sides of atoms, and how they change with the place after each step."""

    sides: Float[np.ndarray, " atom"]
    slopes: Float[np.ndarray, "step atom"]


@dataclass(frozen=True)
class Polish:
    """Improves drives in a calm world with poured service, for atoms that must hold."""

    spec: SweepSpec
    coefficients: Float[np.ndarray, "atom region"]
    bounds: Float[np.ndarray, " atom"]
    penalty: float
    """Return for one unit by which an atom is exceeded."""

    def better(
        self, throttles: Float[np.ndarray, " step"], deadline: float = float("inf")
    ) -> Float[np.ndarray, " better"]:
        """The throttles of a drive that is better than this one, or of this one."""
        places = places_of(self.spec.vehicle, throttles)
        worth, near, steady, may_grow = self._worth(places), NEAR, STEADY, True
        for _ in range(MOST_PROGRAMS):
            if time.monotonic() > deadline or near < NEAREST:
                break
            start = self._with_fitting_end(places, may_grow=may_grow)
            found = self._program(start, near, steady)
            hoped = -found.fun if found.status == 0 else -np.inf
            tried = self._driven(found.x[: len(start) - 1]) if found.status == 0 else places
            gain = self._worth(tried) - worth
            if gain <= 0.0 and len(start) > len(places):
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
            places, worth = tried, worth + gain
        return self._throttles(places)

    def _with_fitting_end(
        self, places: Float[np.ndarray, " place"], *, may_grow: bool
    ) -> Float[np.ndarray, " fitting"]:
        """With a step more where the last one hardly reaches the end, with one less where it is
        not needed."""
        end, length = len(self.spec.path.cells), places[-1] - places[-2]
        if places[-2] > end - AT_END:
            return places[:-1]
        if may_grow and places[-1] < end + AT_END * length:
            return np.append(places, places[-1] + length)
        return places

    @cached_property
    def _served(self) -> tuple[Float[np.ndarray, "part atom"], Float[np.ndarray, "part atom"]]:
        """Sums of the sides up to each part of the path, and sides of a step within it."""
        service = self.spec.service
        rows = self.spec.vehicle.rate * service.kinds.astype(float) @ self.coefficients.T
        sums = np.cumsum(rows[service.on_path] / service.parts, axis=0)
        nothing = np.zeros((1, rows.shape[1]))
        return np.concatenate([nothing, sums]), np.concatenate([rows[service.on_path], nothing])

    def _sides(self, places: Float[np.ndarray, " place"]) -> _Sides:
        sums, rows = self._served
        parts = self.spec.service.parts
        part = np.minimum((parts * places).astype(int), len(rows) - 1)
        upto = sums[part] + (places - part / parts)[:, None] * rows[part]
        lengths, here = np.diff(places)[:, None], rows[part[1:]]
        means = np.diff(upto, axis=0) / lengths
        slopes = (here - means) / lengths
        slopes[:-1] -= (here[:-1] - means[1:]) / lengths[1:]
        return _Sides(means.sum(axis=0), slopes)

    def _worth(self, places: Float[np.ndarray, " place"]) -> float:
        """The return less the penalties."""
        over = np.maximum(self._sides(places).sides - self.bounds, 0.0)
        costs = self.spec.vehicle.effort / (1.0 + np.diff(places))
        return -float(costs.sum()) - self.penalty * float(over.sum())

    def _driven(self, places: Float[np.ndarray, " step"]) -> Float[np.ndarray, " place"]:
        """The places of the vehicle itself, which a program knows up to rounding."""
        return places_of(self.spec.vehicle, self._throttles(np.append(0.0, places)))

    def _throttles(self, places: Float[np.ndarray, " place"]) -> Float[np.ndarray, " step"]:
        vehicle, lengths = self.spec.vehicle, np.diff(places)
        kept = vehicle.inertia * np.append(0.0, lengths[:-1])
        return np.clip((lengths - kept) / ((1.0 - vehicle.inertia) * vehicle.max_speed), 0.0, 1.0)

    def _program(
        self, places: Float[np.ndarray, " place"], near: float, steady: float
    ) -> OptimizeResult:
        """The best places near these, then lengths and costs of steps, and excesses of atoms."""
        vehicle, end = self.spec.vehicle, float(len(self.spec.path.cells))
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
        now = self._sides(places)
        flat = sparse.csr_array((atoms, steps))
        rows.append([sparse.csr_array(now.slopes.T), flat, flat, -sparse.eye_array(atoms)])
        limits.append(self.bounds - now.sides + old @ now.slopes)
        lowest, highest = old - near, np.maximum(np.minimum(old + near, end - 1e-6), old)
        lowest[-1], highest[-1] = max(lowest[-1], end), max(old[-1] + near, end + 1.0)
        zeros, ones = np.zeros(steps + atoms), np.full(steps + atoms, np.inf)
        return linprog(
            np.concatenate([np.zeros(2 * steps), np.ones(steps), np.full(atoms, self.penalty)]),
            A_ub=sparse.csr_array(sparse.block_array(rows)),
            b_ub=np.concatenate(limits),
            A_eq=sparse.csr_array(sparse.hstack([less_before(1.0), -one, none, no_atom])),
            b_eq=np.zeros(steps),
            bounds=np.stack([
                np.concatenate([lowest, lengths / (1.0 + steady), zeros]),
                np.concatenate([highest, lengths * (1.0 + steady), ones]),
            ], axis=1),
            method="highs-ds",
        )  # fmt: skip
