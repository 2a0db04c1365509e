"""The best fluid sweep under rules: branches by a mixed-integer program, curves by tangents."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from scrl.reference.certificate import Certificate, certify, require
from scrl.reference.disjunctive import Atoms, choose_branch
from scrl.reference.fluid import FluidSweep
from scrl.reference.linear import NumericalTroubleError, Status, best_point
from scrl.reference.model import LinearModel

CURVE_TOLERANCE = 1e-7
"""The tangents touch the curve to this share of the return."""
MOST_ROUNDS = 60


@dataclass(frozen=True)
class BestTimes:
    """The best times per cell of one branch, what they give, and what proves it."""

    return_: float
    times: Float[np.ndarray, " group"]
    density: Float[np.ndarray, " region"]
    branch: Int[np.ndarray, " clause"]
    """The atom that each clause rests on."""
    multipliers: Float[np.ndarray, " atom"]
    certificate: Certificate


@dataclass(frozen=True)
class FluidOptimum:
    """How the search ended, the best times found, and what no other times can beat."""

    status: Status
    best: BestTimes | None = None
    bound: float = float("inf")
    """No times that keep the rules have a fluid return above this."""


def best_fluid(fluid: FluidSweep, atoms: Atoms, *, time_limit_s: float = 60.0) -> FluidOptimum:
    """Alternate: the best branch for the tangents so far, then exact tangents for that branch."""
    model = fluid.first_model
    deadline = time.monotonic() + time_limit_s
    found = FluidOptimum(Status.TIME_LIMIT)
    for _ in range(MOST_ROUNDS):
        left = deadline - time.monotonic()
        if left <= 0:
            break
        choice = choose_branch(model, atoms, time_limit_s=left)
        if choice.optimum is None or choice.in_force is None or choice.branch is None:
            return replace(found, status=choice.status, bound=min(found.bound, choice.bound))
        model, times = _touch_curve(fluid, model, atoms, choice.in_force, choice.branch)
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
    model: LinearModel,
    atoms: Atoms,
    in_force: Int[np.ndarray, " chosen"],
    branch: Int[np.ndarray, " clause"],
) -> tuple[LinearModel, BestTimes]:
    """Add tangents where the optimum of the branch lies until they touch the curve there."""
    coefficients, bounds = atoms.coefficients[in_force], atoms.bounds[in_force]
    for _ in range(MOST_ROUNDS):
        optimum = best_point(model, coefficients, bounds)
        if optimum is None:
            raise NumericalTroubleError("a branch stopped being feasible when tangents were added")
        times = optimum.point[: fluid.groups]
        if optimum.return_ - fluid.return_of(times) <= CURVE_TOLERANCE * (1 + abs(optimum.return_)):
            break
        model = fluid.with_tangents_at(model, optimum.point)
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
    return model, best
