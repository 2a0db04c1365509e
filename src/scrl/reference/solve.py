"""The fluid optimum of a problem and what is proven in the true world, or why rules conflict."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from scrl.problems import Problem
from scrl.reference.answer import OPTIMALITY_TOLERANCE, Dual, Question, Reference, Taken
from scrl.reference.conflict import explain
from scrl.reference.fluid_search import FluidOptimum, best_fluid
from scrl.reference.linear import NumericalTroubleError, Status
from scrl.reference.tangents import best_fluid_by_tangents
from scrl.reference.true_bound import is_near, prove, reason_against
from scrl.rules import AtomTable
from scrl.worlds.sweep.dynamics import Scalars, next_speed, step_reward

SINGLE = 2.0**-22
"""What a step may add to the rounding error of a drive in single precision, as a share."""
LEAST_TIME = 0.3
"""Seconds for a bound by the fluid, at least."""


def fluid_reference(problem: Problem, *, time_limit_s: float = 60.0) -> Reference:
    """What the fluid says of a problem: its optimum, or which rules it cannot keep together."""
    return solve_question(Question.of(problem), time_limit_s=time_limit_s)[0]


def solve_question(
    question: Question, *, time_limit_s: float = 60.0, is_explained: bool = True
) -> tuple[Reference, FluidOptimum]:
    """The fluid optimum, as a result for the user and as numbers.

    Unless `is_explained` is false, rules that the fluid cannot keep are explained, which takes
    longer than the optimum.
    """
    found = _optimum(question, time_limit_s)
    if found.status is Status.INFEASIBLE and is_explained:
        return explain(question), found
    return _answer(question, found), found


def _optimum(question: Question, time_limit_s: float) -> FluidOptimum:
    try:
        found = best_fluid(question.fluid, question.atoms, time_limit_s=time_limit_s)
    except NumericalTroubleError:
        # Nearly feasible rules leave the dual undecided; a linear program decides them.
        found = best_fluid_by_tangents(question.fluid, question.atoms, time_limit_s=time_limit_s)
    is_open = found.best is None and found.status is Status.TIME_LIMIT
    if found.status is Status.INFEASIBLE or (is_open and not question.is_possible()):
        return replace(found, status=Status.INFEASIBLE, best=None)
    return found


def bounded(
    question: Question, reference: Reference, *, time_limit_s: float, enough: float | None = None
) -> Reference:
    """The reference with what is proven of every policy, step by step.

    Where service is poured, a policy does nothing that the fluid could not do (docs/bound.md), so
    the fluid's bound is the policy's. It leaves inertia out. Where it is far from `enough`, the
    return of a plan that is known, and with landing service, a bound with inertia is searched for
    within the time, until it is near.
    """
    started = time.monotonic()
    problem = question.problem
    if (reason := reason_against(problem)) is not None:
        return replace(reference, bound_reason=reason)
    by_fluid = np.inf
    if problem.world_spec.is_poured:
        # A policy keeps the rules if it violates them by no more than the tolerance.
        found = _optimum(replace(question, slack=problem.tolerance), max(time_limit_s, LEAST_TIME))
        if found.status is Status.INFEASIBLE:
            return replace(reference, is_impossible=True, bound_reason="no policy keeps the rules")
        by_fluid = found.bound
    left = time_limit_s - (time.monotonic() - started)
    is_late = left <= 0.0 and bool(np.isfinite(by_fluid))
    if is_late or is_near(by_fluid, enough, OPTIMALITY_TOLERANCE):
        return replace(reference, bound=_raised(question, by_fluid))
    proven = prove(problem, time_limit_s=left, enough=enough)
    bound = min(by_fluid, np.inf if proven.value is None else proven.value)
    is_known = bool(np.isfinite(bound)) and not proven.is_impossible
    return replace(
        reference,
        bound=_raised(question, bound) if is_known else None,
        bound_reason=None if is_known else proven.reason,
        is_impossible=proven.is_impossible,
    )


def _raised(question: Question, bound: float) -> float:
    """The bound, raised by what a drive may gain by summing its steps in single precision.

    A drive of more steps than |bound| (1 + max_speed) / effort returns less than the bound, and
    none has more steps than the horizon.
    """
    spec = question.problem.world_spec
    vehicle = spec.vehicle
    steps = abs(bound) * (1.0 + vehicle.max_speed) / vehicle.effort
    steps = min(steps, float(spec.route.horizon_steps))
    best = min(bound, _at_full_throttle(question))
    return best + SINGLE * (steps + 10.0) * abs(best)


def _at_full_throttle(question: Question) -> float:
    """The most that any drive returns: at full throttle each step is the longest there can be."""
    spec = question.problem.world_spec
    vehicle, cells = spec.vehicle, len(spec.path.cells)
    place, speed, total = 0.0, 0.0, 0.0
    while place < cells:
        speed = next_speed(vehicle, speed, 1.0, Scalars)
        if speed > (1.0 - 1e-12) * vehicle.max_speed:  # the rest is at top speed
            steps = np.ceil((cells - place) / vehicle.max_speed)
            return total + float(steps) * step_reward(vehicle, vehicle.max_speed)
        place += speed
        total += step_reward(vehicle, speed)
    return total


def _answer(question: Question, found: FluidOptimum) -> Reference:
    """The result in terms of rules and regions."""
    name, best = question.problem.name, found.best
    if best is None:
        return Reference(name, found.status, fluid_bound=found.bound)
    table = question.problem.atoms
    return Reference(
        problem=name,
        fluid_status=found.status,
        fluid=best.return_,
        fluid_bound=found.bound,
        fluid_density=question.named(best.density),
        branch=taken_disjuncts(table, best.branch),
        duals=tuple(
            Dual(atom.origin.rule or "", atom.show(), float(dual))
            for atom, dual in zip(table.atoms, best.multipliers, strict=True)
        ),
        fluid_steps=float(question.fluid.weight @ best.times),
        certificate=best.certificate,
    )


def taken_disjuncts(table: AtomTable, branch: np.ndarray) -> tuple[Taken, ...]:
    """The disjunct of each clause, and its other disjuncts."""
    texts = [atom.show() for atom in table.atoms]
    return tuple(
        Taken(
            table.rules[rule],
            texts[atom],
            tuple(texts[other] for other in np.flatnonzero(members) if other != atom),
        )
        for rule, members, atom in zip(table.clause_rule, table.members, branch, strict=True)
    )
