"""The best drive in the true step-by-step world, to see what the fluid leaves out.

Drives are made by dynamic programming for vectors of multipliers near the fluid's and simulated
exactly; a small linear program mixes them so that the rules of the branch hold, and its multipliers
price the next drives (column generation). What comes out is achievable: it was driven. The lattice
values also give an estimate from above, min over lambda of V(lambda) + lambda . b: weak duality up
to the rounding of the lattice, so an estimate and no proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float

from scrl.reference.columns import ColumnGeneration, Mixture
from scrl.reference.lattice import SpeedLattice, drive
from scrl.worlds.contract import Column, Response
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
class Drive:
    """One drive, and what it was made for."""

    prices: Float[np.ndarray, " region"]
    """Return per step in each region."""
    speeds: Float[np.ndarray, " time"]
    """In cells per step."""


@dataclass(frozen=True)
class StepwiseOptimum:
    """A mixture of driven plans that keeps the rules of a branch in expectation."""

    return_: float
    """What the mixture returns; achieved by simulation."""
    density: Float[np.ndarray, " region"]
    weights: Float[np.ndarray, " plan"]
    drives: tuple[Drive, ...]
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
    search = ColumnGeneration(
        # A penalty just above the fluid's multipliers keeps the search near them (a trust region);
        # it grows for atoms that no mixture keeps at that price.
        partial(_respond, lattice), coefficients, bounds,
        np.maximum(BOX * multipliers, 0.01 * spec.vehicle.effort / spec.vehicle.rate),
    )  # fmt: skip

    def propose(mixture: Mixture, round_: int) -> list[list[Column[Drive]]]:
        search.penalties = np.where(mixture.excess > 0, BOX * search.penalties, search.penalties)
        return [search.price(_scattered(mixture.multipliers, round_ + 2))]

    search.columns += search.price(_scattered(multipliers, 1))
    if not search.columns:
        return None  # no drive ended within the horizon
    search.run(propose, rounds=rounds - 1, tolerance=CLOSE)
    dear = LARGE_PENALTY * spec.vehicle.effort / spec.vehicle.rate
    search.penalties = np.full(len(bounds), dear)
    return _optimum(search)


def _block(slowest_level: float) -> int:
    """The largest power of two up to half the slowest level, at most 16: few sizes to compile."""
    return 2 ** int(np.clip(np.floor(np.log2(max(slowest_level / 2, 1.0))), 0, 4))


def _scattered(middle: Float[np.ndarray, " atom"], round_: int) -> Float[np.ndarray, "plan atom"]:
    """The multipliers themselves and a few near them, always the same ones."""
    rng = np.random.default_rng(round_)
    factors = 1.0 + SPREAD * rng.uniform(-1.0, 1.0, (PLANS_PER_ROUND, len(middle)))
    factors[0] = 1.0
    return factors * middle


def _respond(
    lattice: SpeedLattice, prices: Float[np.ndarray, "plan region"]
) -> list[Response[Drive]]:
    """The best drives of the lattice at these prices, driven in the true world."""
    per_step = lattice.spec.vehicle.rate * prices
    values = np.asarray(lattice.values(per_step[:, None]))
    driven = drive(lattice, per_step, values)
    return [
        Response(
            Column(
                Drive(per_step[plan], driven.speeds[: driven.steps[plan], plan]),
                float(driven.returns[plan]),
                driven.density[plan],
            )
            if driven.is_finished[plan]
            else None,
            float(values[plan, 0, 0]),
        )
        for plan in range(len(prices))
    ]


def _optimum(search: ColumnGeneration[Drive]) -> StepwiseOptimum:
    """The best mixture of the drives so far."""
    mixed = search.mix()
    return StepwiseOptimum(
        return_=mixed.return_,
        density=mixed.weights @ np.array([each.amounts for each in search.columns]),
        weights=mixed.weights[mixed.used],
        drives=tuple(search.columns[plan].policy for plan in mixed.used),
        steps=float(mixed.weights @ [len(each.policy.speeds) for each in search.columns]),
        violation=float(mixed.excess.max(initial=0.0)),
        estimate_above=search.bound,
    )
