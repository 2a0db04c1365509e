"""The same optimum another way: branches by a mixed-integer program, curves by tangents.

Slower than the search over duals, and independent of it: each is the other's referee.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from scrl.reference.certificate import certify, require
from scrl.reference.disjunctive import Atoms, choose_branch
from scrl.reference.fluid import FluidSweep
from scrl.reference.linear import NumericalTroubleError, Status, best_point
from scrl.reference.sweep import BestTimes, FluidOptimum

CURVE_TOLERANCE = 1e-7
"""The tangents touch the curve to this share of the return."""
MOST_ROUNDS = 60


def best_fluid_by_tangents(
    fluid: FluidSweep, atoms: Atoms, *, time_limit_s: float = 60.0
) -> FluidOptimum:
    """Alternate: the best branch for the tangents so far, then exact tangents for that branch."""
    touch = fluid.first_touch
    deadline = time.monotonic() + time_limit_s
    found = FluidOptimum(Status.TIME_LIMIT)
    for _ in range(MOST_ROUNDS):
        left = deadline - time.monotonic()
        if left <= 0:
            break
        choice = choose_branch(fluid.model(touch), atoms, time_limit_s=left)
        if choice.optimum is None or choice.in_force is None or choice.branch is None:
            return replace(found, status=choice.status, bound=min(found.bound, choice.bound))
        touch, times = _touch_curve(fluid, touch, atoms, choice.in_force, choice.branch)
        best = times if found.best is None or times.return_ > found.best.return_ else found.best
        bound = min(found.bound, max(choice.bound, best.return_))
        found = FluidOptimum(choice.status, best, bound)
        if choice.status is not Status.OPTIMAL or bound - best.return_ <= _slack(best.return_):
            return found
    return replace(found, status=Status.TIME_LIMIT)


def _slack(return_: float) -> float:
    """A millionth of the return: far below what the fluid leaves out."""
    return 1e-6 * (1.0 + abs(return_))


def _touch_curve(
    fluid: FluidSweep,
    touch: Float[np.ndarray, "group tangent"],
    atoms: Atoms,
    in_force: Int[np.ndarray, " chosen"],
    branch: Int[np.ndarray, " clause"],
) -> tuple[Float[np.ndarray, "group tangent"], BestTimes]:
    """Add tangents where the optimum of the branch lies until they touch the curve there."""
    coefficients, bounds = atoms.coefficients[in_force], atoms.bounds[in_force]
    for _ in range(MOST_ROUNDS):
        model = fluid.model(touch)
        optimum = best_point(model, coefficients, bounds)
        if optimum is None:
            raise NumericalTroubleError("a branch stopped being feasible when tangents were added")
        times = fluid.times(optimum.point)
        if optimum.return_ - fluid.return_of(times) <= CURVE_TOLERANCE * (1 + abs(optimum.return_)):
            break
        touch = np.sort(np.column_stack([touch, times]), axis=1)
    else:
        raise NumericalTroubleError("the tangents do not close in on the curve")
    multipliers = np.zeros(len(atoms.bounds))
    multipliers[in_force] = optimum.of_atom
    best = BestTimes(
        return_=fluid.return_of(times),
        times=times,
        density=fluid.amount @ times,
        branch=branch,
        multipliers=multipliers,
        certificate=require(certify(model, coefficients, bounds, optimum)),
    )
    return touch, best
