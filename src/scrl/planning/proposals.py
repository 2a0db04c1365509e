"""What to drive next: prices from multipliers, and plans made of parts of other plans."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse
from scipy.optimize import linprog

from scrl.planning.drives import PARTS
from scrl.planning.pool import INSET, Mixture, Pool
from scrl.reference.fluid import BranchDual

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
    columns = plans * parts
    one_each = sparse.hstack(
        [
            sparse.kron(np.ones((1, plans)), sparse.eye_array(parts)),
            sparse.csr_array((parts, atoms)),
        ]
    )
    sums = sparse.hstack([over.reshape(columns, atoms).T, -sparse.eye_array(atoms)])
    found = linprog(
        np.concatenate([-returns.ravel(), np.full(atoms, dear)]),
        A_ub=sums.tocsr(), b_ub=at_most, A_eq=one_each.tocsr(), b_eq=np.ones(parts), method="highs",
    )  # fmt: skip
    if found.status != 0:
        return None
    return found.x[:columns].reshape(plans, parts).argmax(axis=0)


FIRST_SHARES = (1.0, 0.97, 0.94, 0.9, 1.03, 0.8, 0.6, 0.0)
"""Multipliers that are driven first, as shares of the fluid's."""
SPLICES = 0.5
"""Share of each round's plans that are the mixture as one plan. A few are by multipliers; the
rest lie around the single plans that come nearest."""
NEARBY = 0.01
"""How far around them, as a share."""
MOST_STEPS_PER_CELL = 20.0
PATIENCE = 3.0
"""Plans that take so many times as long as the fluid are broken off, at first."""


class Proposals:
    """What to drive first and next for the branch of a pool."""

    def __init__(self, pool: Pool, *, seed: int) -> None:
        self.pool, self.branch, self.count = pool, pool.branch, pool.settings.plans
        self.rng = np.random.default_rng(seed)
        self.rate = pool.problem.world_spec.vehicle.rate
        self.fluid = replace(pool.branch.fluid, effort=1.0)
        self.rows = pool.branch.coefficients @ self.fluid.amount

    def patience(self) -> float:
        """Steps after which a plan is broken off, at first."""
        times = self._dual(self.branch.bounds).at(self.pool.multipliers).times
        return PATIENCE * float(self.fluid.weight @ times) + 100.0

    def first(self) -> Float[np.ndarray, "plan part region"]:
        """The fluid's own multipliers, and some on either side of them."""
        return self._prices(np.outer(FIRST_SHARES, self.pool.multipliers))

    def next(self, mixture: Mixture) -> Float[np.ndarray, "plan part region"]:
        """By the program's multipliers, by the fluid's once its bounds are moved, the mixture as
        one plan, and around single plans."""
        by_fluid = self._by_fluid(self._moved_bounds(mixture), mixture.multipliers)
        chosen = [*self._prices(np.array([mixture.multipliers, by_fluid]))]
        if mixture.is_broken.any():
            dearer = self._dearer(mixture)
            chosen += [dearer, *(self._one_sided(dearer) for _ in range(self.count // 4))]
            chosen += self._patched(mixture)
        else:
            chosen.append(self._between(mixture))
        chosen += self._spliced(mixture)
        near = self.pool.prices[self.pool.nearly_kept()]
        while len(chosen) < self.count:
            start = near[len(chosen) % len(near)]
            chosen.append(start * (1.0 + NEARBY * self.rng.standard_normal(start.shape[1])))
        return np.array(chosen)

    def _prices(
        self, multipliers: Float[np.ndarray, "plan atom"]
    ) -> Float[np.ndarray, "plan part region"]:
        """What multipliers come to in each region, the same on every part of the path."""
        of_region = -self.rate * multipliers @ self.branch.coefficients
        return np.repeat(of_region[:, None], PARTS, axis=1)

    def _between(self, mixture: Mixture) -> Float[np.ndarray, "part region"]:
        """The mean of the prices of the plans that are mixed."""
        used = mixture.used
        return np.tensordot(mixture.weights[used], self.pool.prices[used], axes=1)

    def _spliced(self, mixture: Mixture) -> list[Float[np.ndarray, "part region"]]:
        """The mixture as one plan, in some ways; nothing where it is one plan already."""
        used, weights = mixture.used, mixture.weights[mixture.used]
        if len(used) < 2:
            return []
        step = self.pool.step
        taken = splices(
            self.pool.given[used] / step, weights / weights.sum(), np.full(len(step), INSET),
            count=int(SPLICES * self.count), rng=self.rng,
        )  # fmt: skip
        return list(self.pool.prices[used][taken, np.arange(PARTS)])

    def _patched(self, mixture: Mixture) -> list[Float[np.ndarray, "part region"]]:
        """The best of the plans on each part of the path."""
        pool = self.pool
        extremes = [*pool.sides.argmin(axis=0), int(pool.returns.argmax())]
        plans = list(dict.fromkeys([*mixture.used, *pool.nearly_kept(), *extremes]))
        slack = pool.slack[plans].max(axis=0, initial=0.0) + INSET * pool.step
        taken = patchwork(
            pool.earned[plans], pool.given[plans], self.branch.bounds - slack, pool.dear
        )
        return [] if taken is None else [pool.prices[plans][taken, np.arange(PARTS)]]

    def _dearer(self, mixture: Mixture) -> Float[np.ndarray, "part region"]:
        """More for atoms that none has kept yet: the fluid may not know that they are at risk."""
        multipliers = self.pool.multipliers
        least = 0.3 / np.maximum(self.pool.step, 1e-300)
        grown = np.maximum(multipliers, least) * np.exp(self.rng.uniform(0.0, 1.5))
        return self._prices(np.where(mixture.is_broken, grown, multipliers)[None])[0]

    def _one_sided(
        self, prices: Float[np.ndarray, "part region"]
    ) -> Float[np.ndarray, "part region"]:
        """What earns alone, or nearly: what costs may keep the vehicle from braking in time."""
        slowest = np.exp(self.rng.uniform(0.0, np.log(MOST_STEPS_PER_CELL)))
        highest = 1.0 - (1.0 + slowest) ** -2
        earning = np.minimum(prices, highest)
        costing = self.rng.uniform() ** 3 * prices
        # On a few parts or on many: a rule may be kept best by standing still in one place.
        is_there = self.rng.uniform(size=(PARTS, 1)) < self.rng.uniform() ** 2
        return np.where(is_there, np.where(prices > 0.0, earning, costing), prices)

    def _moved_bounds(self, mixture: Mixture) -> Float[np.ndarray, " atom"]:
        """Bounds at which the fluid should do what the mixture is meant to do, or nearly so."""
        plans, weights = mixture.used, mixture.weights[mixture.used]
        real = weights @ (self.pool.sides[plans] + self.pool.slack[plans])
        by_fluid = self.rows @ self._dual(self.branch.bounds).at(mixture.multipliers).times
        step = self.pool.step
        some_steps = 2.0 * step * self.rng.standard_normal(len(step))
        return self.branch.bounds - INSET * step - (real - by_fluid) + some_steps

    def _by_fluid(
        self, bounds: Float[np.ndarray, " atom"], start: Float[np.ndarray, " atom"]
    ) -> Float[np.ndarray, " atom"]:
        """The fluid's multipliers for other bounds; the start where it has none."""
        found = self._dual(bounds).maximise(start).multipliers
        # No price above 1 is ever needed.
        highest = 2.0 / np.maximum(self.pool.step, 1e-300)
        return found if (found <= highest).all() else start

    def _dual(self, bounds: Float[np.ndarray, " atom"]) -> BranchDual:
        return BranchDual(self.fluid, self.rows, bounds)
