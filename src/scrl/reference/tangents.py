"""The fluid optimum by a mixed-integer program over branches, with tangents for the cost curve.

Slower than the search over duals and independent of it, so that each checks the other.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from scrl.reference.certificate import certify, require
from scrl.reference.disjunctive import BoundedAtoms, choose_branch
from scrl.reference.fluid import FluidSweep
from scrl.reference.fluid_search import BestTimes, FluidOptimum
from scrl.reference.linear import NumericalTroubleError, Status, best_point
from scrl.reference.model import LinearModel, stack_rows

FIRST_TANGENTS = 17
CURVE_TOLERANCE = 1e-7
"""Relative distance of the tangents from the curve at the optimum."""
MOST_ROUNDS = 60


def first_touch(fluid: FluidSweep) -> Float[np.ndarray, "group tangent"]:
    """Where the first tangents touch the curve."""
    return np.geomspace(fluid.fastest, fluid.slowest, FIRST_TANGENTS, axis=1)


def tangent_model(fluid: FluidSweep, touch: Float[np.ndarray, "group tangent"]) -> LinearModel:
    """The fluid with the maximum of these tangents as its cost, a lower bound of the curve.

    The cost is linear between the corners of neighbouring tangents, so a time is the fastest time
    plus a part of each piece; convexity orders the pieces. The first variable is always 1 and
    carries the cost and the amounts of full speed.
    """
    slope = fluid.slope(touch)
    corner = _corners(fluid, touch, slope)
    base = fluid.fastest
    pieces = touch.shape[1]

    def rows(of_variable: Float[np.ndarray, "row variable"]) -> sparse.csr_array:
        of_group, services = np.split(of_variable, [fluid.groups], axis=1)
        spread = np.repeat(of_group, pieces, axis=1)
        return sparse.csr_array(np.column_stack([of_group @ base, spread, services]))

    cost = fluid.effort * fluid.product * fluid.weight
    below, below_at = rows(fluid.time_row[None, :]), np.array([float(fluid.horizon_steps)])
    lower, upper = np.append(1.0, np.zeros(slope.size)), np.diff(corner, axis=1).ravel()
    reward = np.append(fluid.cost(base) @ -fluid.weight, -(fluid.weight[:, None] * slope).ravel())
    if fluid.flow is None:
        reward -= np.append(cost @ base, np.repeat(cost, pieces))
    else:
        each = sparse.kron(sparse.eye_array(fluid.groups), np.ones((1, pieces)))
        times = sparse.csr_array(sparse.hstack([sparse.csr_array(base[:, None]), each]))
        below, below_at = stack_rows(below, below_at, *fluid.flow.rows(times, 0.0))
        reward = np.append(reward, -cost)
        lower = np.append(lower, np.full(fluid.groups, fluid.flow.least_dose))
        upper = np.append(upper, fluid.flow.most(fluid.slowest))
    return LinearModel(
        reward=reward,
        density=rows(fluid.amount),
        lower=lower,
        upper=np.append(1.0, upper),
        below=below,
        below_at=below_at,
    )


def point_of(
    fluid: FluidSweep, point: Float[np.ndarray, " piece"], tangents: int
) -> Float[np.ndarray, " variable"]:
    """The times per cell, and the services, of a point of the model."""
    pieces, services = np.split(point[1:], [fluid.groups * tangents])
    return np.append(fluid.fastest + pieces.reshape(fluid.groups, -1).sum(axis=1), services)


def _corners(
    fluid: FluidSweep,
    touch: Float[np.ndarray, "group tangent"],
    slope: Float[np.ndarray, "group tangent"],
) -> Float[np.ndarray, "group corner"]:
    """From the fastest to the slowest time, where each tangent meets the next."""
    at_zero = fluid.cost(touch) - slope * touch
    steeper = np.diff(slope, axis=1)
    meet = -np.diff(at_zero, axis=1) / np.where(steeper > 0, steeper, 1.0)
    # Two tangents at one point meet there.
    meet = np.where(steeper > 0, np.clip(meet, touch[:, :-1], touch[:, 1:]), touch[:, 1:])
    return np.concatenate([fluid.fastest[:, None], meet, fluid.slowest[:, None]], axis=1)


def best_fluid_by_tangents(
    fluid: FluidSweep, atoms: BoundedAtoms, *, time_limit_s: float = 60.0
) -> FluidOptimum:
    """Alternate: the best branch for the tangents so far, then exact tangents for that branch."""
    touch = first_touch(fluid)
    deadline = time.monotonic() + time_limit_s
    found = FluidOptimum(Status.TIME_LIMIT)
    for _ in range(MOST_ROUNDS):
        left = deadline - time.monotonic()
        if left <= 0:
            break
        choice = choose_branch(tangent_model(fluid, touch), atoms, time_limit_s=left)
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
    """A millionth of the return, far below the error of the fluid."""
    return 1e-6 * (1.0 + abs(return_))


def _touch_curve(
    fluid: FluidSweep,
    touch: Float[np.ndarray, "group tangent"],
    atoms: BoundedAtoms,
    in_force: Int[np.ndarray, " chosen"],
    branch: Int[np.ndarray, " clause"],
) -> tuple[Float[np.ndarray, "group more_tangents"], BestTimes]:
    """Add tangents where the optimum of the branch lies until they touch the curve there."""
    coefficients, bounds = atoms.coefficients[in_force], atoms.bounds[in_force]
    for _ in range(MOST_ROUNDS):
        model = tangent_model(fluid, touch)
        optimum = best_point(model, coefficients, bounds)
        if optimum is None:
            raise NumericalTroubleError("a branch stopped being feasible when tangents were added")
        point = point_of(fluid, optimum.point, touch.shape[1])
        times, services = fluid.split(point)
        if optimum.return_ - fluid.return_of(point) <= CURVE_TOLERANCE * (1 + abs(optimum.return_)):
            break
        touch = np.sort(np.column_stack([touch, times]), axis=1)
    else:
        raise NumericalTroubleError("the tangents do not converge to the curve")
    multipliers = np.zeros(len(atoms.bounds))
    multipliers[in_force] = optimum.of_atom
    best = BestTimes(
        return_=fluid.return_of(point),
        times=times,
        services=services,
        density=fluid.amount @ point,
        branch=branch,
        multipliers=multipliers,
        certificate=require(certify(model, coefficients, bounds, optimum)),
    )
    return touch, best
