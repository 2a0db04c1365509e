"""The best drive in the true step-by-step world, to see what the fluid leaves out.

Drives are made by dynamic programming for vectors of multipliers near the fluid's and simulated
exactly; a small linear program mixes them so that the rules of the branch hold, and its multipliers
price the next drives (column generation). What comes out is achievable: it was driven. The lattice
values also give an estimate from above, min over lambda of V(lambda) + lambda . b: weak duality up
to the rounding of the lattice, so an estimate and no proof.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scrl.reference.columns import Elastic, elastic_mixture
from scrl.reference.lattice import SpeedLattice, drive
from scrl.worlds.sweep.spec import SweepSpec

LEVELS = 64
MOST_POSITIONS = 430_000
"""Lattice points of a path of 20,000 cells at the default top speed: 100 MB a plan."""
CLOSE = 2e-4
"""The search ends when new drives promise less than this share of the return."""
PLANS_PER_ROUND = 4
BOX = 1.1
LARGE_PENALTY = 1e4
"""Times effort / rate, per unit of violation: no mixture prefers that to a longer drive."""
SPREAD = 0.04
"""How far, as a share, the multipliers of a round are scattered around their middle."""


@dataclass(frozen=True)
class StepwiseOptimum:
    """A mixture of driven plans that keeps the rules of a branch in expectation."""

    return_: float
    """What the mixture returns; achieved by simulation."""
    density: Float[np.ndarray, " region"]
    weights: Float[np.ndarray, " plan"]
    prices: Float[np.ndarray, "plan region"]
    """Return per step in each region that each plan was made for."""
    speeds: tuple[Float[np.ndarray, " time"], ...]
    """What each plan drives, in cells per step."""
    steps: float
    violation: float
    """The largest excess over an atom's bound; 0 if a mixture of the drives keeps the rules."""
    estimate_above: float
    """What no policy should beat, up to the rounding of the lattice."""


def best_drive(
    spec: SweepSpec,
    coefficients: Float[np.ndarray, "atom region"],
    bounds: Float[np.ndarray, " atom"],
    multipliers: Float[np.ndarray, " atom"],
    *,
    slowest_speed: float,
    rounds: int,
) -> StepwiseOptimum | None:
    """The best mixture of drives for atoms that must all hold.

    None where the path is too long for the lattice, or the horizon too short for a true drive.

    `slowest_speed` is the fluid's; drives are tried down to half of it.
    """
    # Neither the fluid's slowest speed nor the first step from rest may be out of reach.
    first = (1.0 - spec.vehicle.inertia) * spec.vehicle.max_speed
    slowest = min(slowest_speed, first) * LEVELS / spec.vehicle.max_speed
    lattice = SpeedLattice(spec, LEVELS, _block(slowest))
    if lattice.positions > MOST_POSITIONS:
        return None
    search = _DriveSearch(lattice, coefficients, bounds)
    # A penalty just above the fluid's multipliers keeps the search near them (a trust region); it
    # grows for atoms that no mixture keeps at that price.
    cheapest = 0.01 * spec.vehicle.effort / spec.vehicle.rate
    penalties = np.maximum(BOX * multipliers, cheapest)
    search.add(_scattered(multipliers, 1))
    if len(search.returns) == 0:
        return None  # no drive ended within the horizon
    mixed = search.master(penalties)
    for round_ in range(2, rounds + 1):
        search.add(_scattered(mixed.of_atom, round_))
        gain = search.best_at(mixed.of_atom) - mixed.value
        if gain <= CLOSE * (1 + abs(mixed.value)) and not mixed.slack.any():
            break
        penalties = np.where(mixed.slack > 0, BOX * penalties, penalties)
        mixed = search.master(penalties)
    dear = LARGE_PENALTY * spec.vehicle.effort / spec.vehicle.rate
    final = search.master(np.full(len(bounds), dear))
    return search.result(final)


def _block(slowest_level: float) -> int:
    """The largest power of two up to half the slowest level, at most 16: few sizes to compile."""
    return 2 ** int(np.clip(np.floor(np.log2(max(slowest_level / 2, 1.0))), 0, 4))


def _scattered(middle: Float[np.ndarray, " atom"], round_: int) -> Float[np.ndarray, "plan atom"]:
    """The multipliers themselves and a few near them, always the same ones."""
    rng = np.random.default_rng(round_)
    factors = 1.0 + SPREAD * rng.uniform(-1.0, 1.0, (PLANS_PER_ROUND, len(middle)))
    factors[0] = 1.0
    return factors * middle


class _DriveSearch:
    """The drives so far, and the program that mixes them."""

    def __init__(self, lattice: SpeedLattice, coefficients: np.ndarray, bounds: np.ndarray) -> None:
        self.lattice = lattice
        self.coefficients, self.bounds = coefficients, bounds
        self.rate = lattice.spec.vehicle.rate
        regions = coefficients.shape[1]
        self.returns = np.zeros(0)
        self.density = np.zeros((0, regions))
        self.prices = np.zeros((0, regions))
        self.steps = np.zeros(0)
        self.speeds: list[Float[np.ndarray, " time"]] = []
        self.estimate_above = np.inf

    def add(self, multipliers: Float[np.ndarray, "plan atom"]) -> None:
        """Make and drive one plan per vector of multipliers."""
        prices = -self.rate * multipliers @ self.coefficients
        values = self.lattice.values(prices)
        driven = drive(self.lattice, prices, values, keep_speeds=True)
        above = values[:, 0, 0] + multipliers @ self.bounds
        self.estimate_above = min(self.estimate_above, float(above.min()))
        kept = driven.is_finished
        self.returns = np.concatenate([self.returns, driven.returns[kept]])
        self.density = np.concatenate([self.density, driven.density[kept]])
        self.prices = np.concatenate([self.prices, prices[kept]])
        self.steps = np.concatenate([self.steps, driven.steps[kept]])
        self.speeds += [driven.speeds[: driven.steps[plan], plan] for plan in np.flatnonzero(kept)]

    def best_at(self, multipliers: Float[np.ndarray, " atom"]) -> float:
        """The best Lagrangian value among the drives so far."""
        over = self.density @ self.coefficients.T - self.bounds
        return float((self.returns - over @ multipliers).max(initial=-np.inf))

    def master(self, penalties: Float[np.ndarray, " atom"]) -> Elastic:
        """The best mixture of the drives so far, where an atom may be exceeded at a penalty."""
        over = self.density @ self.coefficients.T - self.bounds
        return elastic_mixture(self.returns, over, penalties)

    def result(self, mixed: Elastic) -> StepwiseOptimum:
        """The mixture as it stands."""
        used = mixed.weights > 1e-9
        return StepwiseOptimum(
            return_=float(mixed.weights @ self.returns),
            density=mixed.weights @ self.density,
            weights=mixed.weights[used],
            prices=self.prices[used],
            speeds=tuple(self.speeds[plan] for plan in np.flatnonzero(used)),
            steps=float(mixed.weights @ self.steps),
            violation=float(mixed.slack.max(initial=0.0)),
            estimate_above=self.estimate_above,
        )
