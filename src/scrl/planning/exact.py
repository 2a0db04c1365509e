"""The reference's own drives as plans, for branches that the price policy cannot keep.

The lattice of the reference finds the best drive at any prices by dynamic programming, also where
some cells can only be served by all but standing still: there prices must rise above what a step
at rest costs, and for such prices no policy was trained. It may take a minute, so it comes last.
"""

from __future__ import annotations

import numpy as np

from scrl.planning.drives import PARTS
from scrl.planning.pool import INSET
from scrl.planning.search import Found
from scrl.problems import Problem
from scrl.reference.priced import PricedBranch
from scrl.reference.stepwise import best_drive
from scrl.violation import largest_step
from scrl.worlds.sweep.vehicle import Vehicle

ROUNDS = 12


def exact_drives(
    problem: Problem, branch: PricedBranch | None, *, must_keep: bool = True
) -> Found | None:
    """Drives that together keep the atoms, or, unless they must, come near; else none.

    The lattice knows calm air and plain sums only: elsewhere there are none either.
    """
    if branch is None or problem.world_spec.is_random or problem.discount != 1.0:
        return None
    vehicle = problem.world_spec.vehicle
    step = largest_step(branch.coefficients, vehicle.rate)
    found = best_drive(
        problem.world_spec, branch.coefficients, branch.bounds - INSET * step, branch.multipliers,
        slowest_speed=vehicle.crawl * vehicle.max_speed, rounds=ROUNDS,
    )  # fmt: skip
    if found is None or (must_keep and found.violation > 0.0):
        return None
    prices = np.array([np.tile(each.prices, (PARTS, 1)) for each in found.drives])
    throttles = tuple(_throttles(vehicle, each.speeds) for each in found.drives)
    return Found(prices, found.weights, throttles)


def _throttles(vehicle: Vehicle, speeds: np.ndarray) -> np.ndarray:
    """The throttles that lead from each speed to the next, from rest."""
    before = np.concatenate([[0.0], speeds[:-1]])
    wanted = (speeds - vehicle.inertia * before) / ((1.0 - vehicle.inertia) * vehicle.max_speed)
    return np.clip(wanted, 0.0, 1.0)
