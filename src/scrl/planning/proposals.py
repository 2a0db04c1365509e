"""What to drive next: prices from multipliers, and plans made of parts of other plans."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import hadamard

from scrl.planning.drives import PARTS
from scrl.planning.lattice_policy import HIGHEST_PRICE
from scrl.planning.pool import INSET, Pool
from scrl.planning.timetable import averaged, with_times
from scrl.reference.columns import Mixture, best_mixture
from scrl.reference.fluid import BranchDual
from scrl.reference.linear import NumericalTroubleError

TRIED = 48
STEADINESS = (0.0, 4.0)
"""How many steps nearer to the mixture another plan must bring it, to be changed to."""
WASTED, CHANGED = 0.3, 0.1
"""What a step given in vain, and a change of plans, count for against a step that is missing."""
START_ERROR = 1.0
"""Spread of the error that a walk begins with, in steps: each ends elsewhere."""


def splices(
    given: Float[np.ndarray, "plan part atom"],
    weights: Float[np.ndarray, " plan"],
    slack: Float[np.ndarray, " atom"],
    *,
    count: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, "splice part"]:
    """Which plan drives each part, in `count` ways that should keep within the mixture and slack.

    `given` and `slack` are counted in steps of service, so that all atoms weigh the same.
    """
    wanted = np.tensordot(weights, given, axes=1)
    atoms = given.shape[2]
    start = START_ERROR * rng.standard_normal((TRIED, atoms))
    steadiness = rng.uniform(*STEADINESS, TRIED)
    error, taken = start, np.zeros((TRIED, given.shape[1]), int)
    current = rng.choice(len(weights), p=weights / weights.sum(), size=TRIED)
    for part, (of_plan, target) in enumerate(zip(given.swapaxes(0, 1), wanted, strict=True)):
        after = error[:, None] + of_plan - target
        distance = np.linalg.norm(after, axis=2)
        distance[np.arange(TRIED), current] -= steadiness
        current = distance.argmin(axis=1)
        error, taken[:, part] = after[np.arange(TRIED), current], current
    off = error - start
    missed = (np.maximum(off - slack, 0.0) + WASTED * np.maximum(-off, 0.0)).sum(axis=1)
    changes = (np.diff(taken, axis=1) != 0).sum(axis=1)
    _, first = np.unique(taken, axis=0, return_index=True)
    best = first[np.argsort(missed[first] + CHANGED * changes[first], kind="stable")]
    return taken[best[:count]]


FIRST_SHARES = (1.0, 0.97, 0.94, 0.9, 1.03, 0.8, 0.6, 0.0)
"""Multipliers that are driven first, as shares of the fluid's."""
FIRST_SPREAD = 0.4
"""By what power of e all but the first of them are larger or smaller in relation to one of them,
each in another way: the program needs plans on all sides of the best multipliers."""


def around(multipliers: Float[np.ndarray, " atom"]) -> Float[np.ndarray, "plan atom"]:
    """These multipliers and some on all sides of them; those that are 0 stay so."""
    signs = hadamard(len(FIRST_SHARES))
    signs[0], signs[:, 0] = 0, 0
    column = np.maximum(np.cumsum(multipliers > 0.0) - 1, 0) % len(signs)
    factors = np.exp(FIRST_SPREAD * signs[:, column])
    return np.array(FIRST_SHARES)[:, None] * factors * multipliers


def patchwork(
    returns: Float[np.ndarray, "plan part"],
    over: Float[np.ndarray, "plan part atom"],
    at_most: Float[np.ndarray, " atom"],
    dear: float,
) -> Int[np.ndarray, " part"] | None:
    """The plan for each part with the best return such that `over` sums to at most so much.

    An atom that cannot be kept is broken at the price `dear`. Few parts are left undecided by the
    program, one for each atom at most; they get the plan that has most of them.
    """
    plans, parts, atoms = over.shape
    shared = (over - at_most / parts).reshape(plans * parts, atoms)
    of_part = np.tile(np.arange(parts), plans)
    try:
        found = best_mixture(returns.ravel(), shared, np.full(atoms, dear), of_part)
    except NumericalTroubleError:
        return None
    return found.weights.reshape(plans, parts).argmax(axis=0)


SPLICES = 0.5
"""Share of each round's plans that are the mixture as one plan. A few are by multipliers; the
rest lie around the single plans that come nearest."""
OUTWARD, INWARD = 2, 2.0
"""From the best multipliers so far others are tried towards the program's, each this many times as
near; where an atom is exceeded, so many beyond them."""
GROWTH = 1.5
"""The penalties of atoms that no mixture keeps grow by this factor in each round."""
NEARBY = 0.01
"""How far around them, as a share."""
MOST_STEPS_PER_CELL = 20.0
PATIENCE = 3.0
"""Plans that take so many times as long as the fluid are broken off, at first."""


Timetable = tuple[Float[np.ndarray, "part region"], Float[np.ndarray, "step ..."]]
"""The prices that a plan comes from, and its actions."""


class Proposals:
    """What to drive first and next for the branch of a pool; prices are in return for one unit."""

    def __init__(self, pool: Pool, *, seed: int) -> None:
        self.pool, self.branch, self.count = pool, pool.branch, pool.settings.plans
        self.rng = np.random.default_rng(seed)
        # For an effort of 1, so that tolerances mean the same everywhere.
        self.fluid = replace(pool.branch.fluid, effort=1.0)
        self.rows = pool.branch.coefficients @ self.fluid.amount
        self.tried = pool.branch.multipliers[None]
        """Multipliers that plans were driven by, as far as they are known."""

    def patience(self) -> float:
        """Steps after which a plan is broken off, at first."""
        return PATIENCE * float(self.fluid.time_row @ self._point(self.branch.multipliers)) + 100.0

    def first(self) -> Float[np.ndarray, "plan part region"]:
        """The fluid's own multipliers, and some on all sides of them."""
        self.tried = around(self.branch.multipliers)
        return self._prices(self.tried)

    def next(self, mixture: Mixture) -> Float[np.ndarray, "plan part region"]:
        """By the program's multipliers, by the fluid's once its bounds are moved, the mixture as
        one plan, and around single plans."""
        if self.pool.lattice is not None:
            return self._near(mixture)
        by_fluid = self._by_fluid(self._moved_bounds(mixture), mixture.multipliers)
        chosen = [*self._prices(np.array([mixture.multipliers, by_fluid]))]
        if self.pool.is_broken(mixture).any():
            dearer = self._dearer(mixture)
            chosen += [dearer, *(self._one_sided(dearer) for _ in range(self.count // 4))]
            chosen += self._patched(mixture)
        else:
            chosen.append(self._between(mixture))
        chosen += self._spliced(mixture)
        near = self.pool.prices(self.pool.nearly_kept())
        while len(chosen) < self.count:
            start = near[len(chosen) % len(near)]
            chosen.append(start * (1.0 + NEARBY * self.rng.standard_normal(start.shape[1])))
        return np.array(chosen)

    def _near(self, mixture: Mixture) -> Float[np.ndarray, "plan part region"]:
        """By multipliers on the way to the program's, and the mixture as one plan."""
        is_broken = self.pool.is_broken(mixture)
        grown = np.where(is_broken, GROWTH, 1.0)
        self.pool.generation.penalties = grown * self.pool.generation.penalties
        others = self._prices(self._towards(mixture.multipliers, is_hard=bool(is_broken.any())))
        if is_broken.any():
            # A stop in a small region needs a price above the effort, at which the vehicle would
            # stand still in a large one.
            capped = np.minimum(others, self.pool.price_of(HIGHEST_PRICE))
            capped = capped[(capped < others).any(axis=(1, 2))]
            half = self.count // 2
            return np.concatenate([others[:half], capped[:half], others[half:]])[: self.count]
        singles = [self._between(mixture)]
        if not self.pool.problem.world_spec.is_poured:
            near = self.pool.prices(self.pool.nearly_kept())
            noise = NEARBY * self.rng.standard_normal((len(near), 1, len(near[0, 0])))
            singles += [*self._spliced(mixture), *(near * (1.0 + noise))]
        return np.array([others[0], *singles, *others[1:]][: self.count])

    def _towards(
        self, multipliers: Float[np.ndarray, " atom"], *, is_hard: bool
    ) -> Float[np.ndarray, "plan atom"]:
        """These multipliers of the program, and some between them and the best ones so far.

        The program knows only the plans so far, so its multipliers swing to and fro. The best ones
        have the least dual value, as the plans show it, and lie near the optimum.
        """
        generation = self.pool.generation
        over = generation.over(generation.columns)
        values = (generation.returns - self.tried @ over.T).max(axis=1)
        best = self.tried[values.argmin()]
        powers = -np.arange(self.count, dtype=float)
        powers = np.roll(powers + OUTWARD, -OUTWARD) if is_hard else powers
        found = np.maximum(best + INWARD ** powers[:, None] * (multipliers - best), 0.0)
        self.tried = np.concatenate([self.tried, found])
        return found

    def averaged(self, mixture: Mixture) -> Timetable | None:
        """The mixture as one plan with the mean of its timetables, where it is of several.

        It gives the same where service is poured, and about the same elsewhere.
        """
        spec = self.pool.problem.world_spec
        if len(mixture.used) < 2:
            return None
        weights = mixture.weights[mixture.used] / mixture.weights[mixture.used].sum()
        drives = [self.pool.plans[plan].throttles for plan in mixture.used]
        throttles = averaged(spec.vehicle, len(spec.path.cells), drives, weights)
        return self._between(mixture), throttles

    def by_fluid_times(self, room: Float[np.ndarray, " atom"]) -> Timetable | None:
        """A plan with the fluid's time in each cell, so much inside each bound.

        None where the fluid has no such times within the horizon.
        """
        branch, horizon = self.branch, float(self.fluid.horizon_steps)
        rows = np.concatenate([self.fluid.time_row[None], self.rows])
        dual = BranchDual(self.fluid, rows, np.append(horizon, branch.bounds - room))
        found = dual.maximise(np.append(0.0, branch.multipliers / self.pool.effort))
        if not dual.is_close(found):
            return None
        groups = self.fluid.group_of_part
        times, services = (each[groups] for each in self.fluid.split(found.point))
        prices = self._prices(self.pool.effort * found.multipliers[None, 1:])[0]
        spec = self.pool.problem.world_spec
        return prices, with_times(spec.vehicle, times, spec.service.parts, services)

    def _prices(
        self, multipliers: Float[np.ndarray, "plan atom"]
    ) -> Float[np.ndarray, "plan part region"]:
        """What multipliers come to in each region, the same on every part of the path."""
        return np.repeat((-multipliers @ self.branch.coefficients)[:, None], PARTS, axis=1)

    def _between(self, mixture: Mixture) -> Float[np.ndarray, "part region"]:
        """The mean of the prices of the plans that are mixed."""
        return np.tensordot(mixture.weights[mixture.used], self.pool.prices(mixture.used), axes=1)

    def _spliced(self, mixture: Mixture) -> list[Float[np.ndarray, "part region"]]:
        """The mixture as one plan, in some ways; nothing where it is one plan already."""
        used, weights = mixture.used, mixture.weights[mixture.used]
        if len(used) < 2:
            return []
        step, plans = self.pool.step, self.pool.plans
        given = np.array([plans[plan].given for plan in used])
        taken = splices(
            given / step, weights / weights.sum(), np.full(len(step), INSET),
            count=int(SPLICES * self.count), rng=self.rng,
        )  # fmt: skip
        return list(self.pool.prices(used)[taken, np.arange(PARTS)])

    def _patched(self, mixture: Mixture) -> list[Float[np.ndarray, "part region"]]:
        """The best of the plans on each part of the path."""
        generation = self.pool.generation
        over = generation.over(generation.columns)
        extremes = [*over.argmin(axis=0), int(generation.returns.argmax())]
        numbers = list(dict.fromkeys([*mixture.used, *self.pool.nearly_kept(), *extremes]))
        plans = [self.pool.plans[number] for number in numbers]
        taken = patchwork(
            np.array([plan.earned for plan in plans]), np.array([plan.given for plan in plans]),
            self.branch.bounds - INSET * self.pool.step, self.pool.dear,
        )  # fmt: skip
        return [] if taken is None else [self.pool.prices(numbers)[taken, np.arange(PARTS)]]

    def _dearer(self, mixture: Mixture) -> Float[np.ndarray, "part region"]:
        """More for atoms that none has kept yet: the fluid may not know that they are at risk."""
        multipliers = self.branch.multipliers
        least = self._in_efforts_per_step(0.3)
        grown = np.maximum(multipliers, least) * np.exp(self.rng.uniform(0.0, 1.5))
        return self._prices(np.where(self.pool.is_broken(mixture), grown, multipliers)[None])[0]

    def _in_efforts_per_step(self, price: float) -> Float[np.ndarray, " atom"]:
        """Multipliers that make a step of service worth so many efforts."""
        return price * self.pool.effort / np.maximum(self.pool.step, 1e-300)

    def _one_sided(
        self, prices: Float[np.ndarray, "part region"]
    ) -> Float[np.ndarray, "part region"]:
        """What earns alone, or nearly: what costs may keep the vehicle from braking in time."""
        slowest = np.exp(self.rng.uniform(0.0, np.log(MOST_STEPS_PER_CELL)))
        highest = self.pool.price_of(1.0 - (1.0 + slowest) ** -2)
        earning = np.minimum(prices, highest)
        costing = self.rng.uniform() ** 3 * prices
        # On a few parts or on many: a rule may be kept best by standing still in one place.
        is_there = self.rng.uniform(size=(PARTS, 1)) < self.rng.uniform() ** 2
        return np.where(is_there, np.where(prices > 0.0, earning, costing), prices)

    def _moved_bounds(self, mixture: Mixture) -> Float[np.ndarray, " atom"]:
        """Bounds at which the fluid should do what the mixture is meant to do, or nearly so."""
        columns = [self.pool.generation.columns[plan] for plan in mixture.used]
        over = mixture.weights[mixture.used] @ self.pool.generation.over(columns)
        some_steps = 2.0 * self.pool.step * self.rng.standard_normal(len(over))
        return self.rows @ self._point(mixture.multipliers) - over + some_steps

    def _point(self, multipliers: Float[np.ndarray, " atom"]) -> Float[np.ndarray, " variable"]:
        """What the fluid does at these multipliers."""
        dual = BranchDual(self.fluid, self.rows, self.branch.bounds)
        return dual.at(multipliers / self.pool.effort).point

    def _by_fluid(
        self, bounds: Float[np.ndarray, " atom"], start: Float[np.ndarray, " atom"]
    ) -> Float[np.ndarray, " atom"]:
        """The fluid's multipliers for other bounds; the start where it has none."""
        effort, dual = self.pool.effort, BranchDual(self.fluid, self.rows, bounds)
        found = effort * dual.maximise(start / effort).multipliers
        # No price above 1 is ever needed.
        return found if (found <= self._in_efforts_per_step(2.0)).all() else start
