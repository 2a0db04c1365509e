"""`scrl.solve(problem)`: the reference optimum, or an explanation of infeasible rules."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Literal

import numpy as np

from scrl.problems import Problem
from scrl.reference.answer import Dual, Question, Reference, Stepwise, Taken
from scrl.reference.conflict import explain
from scrl.reference.linear import NumericalTroubleError, Status
from scrl.reference.sweep import FluidOptimum, best_fluid
from scrl.reference.tangents import best_fluid_by_tangents
from scrl.rules import AtomTable

DEFAULT_DRIVES = 3
"""Rounds of the step-by-step search; each takes some tenths of a second on built-in maps."""


Method = Literal["search", "milp"]
METHODS = {"search": best_fluid, "milp": best_fluid_by_tangents}
"""Two methods for the same optimum: a search over duals, and a mixed-integer program."""


def solve(
    problem: Problem,
    *,
    time_limit_s: float = 60.0,
    drives: int = DEFAULT_DRIVES,
    method: Method = "search",
) -> Reference:
    """The fluid optimum with its multipliers, or a conflict and the least loosening.

    `drives` is the number of rounds of the search in the step-by-step world; 0 skips it.
    """
    started = time.monotonic()
    question = Question.of(problem)
    answer, found = solve_question(question, time_limit_s=time_limit_s, method=method)
    # The search assumes calm air and the start of the path, so it is skipped for random worlds.
    if drives > 0 and found.best is not None and not problem.world_spec.is_random:
        answer = replace(answer, stepwise=_stepwise(question, found, drives))
    return replace(answer, wall_s=time.monotonic() - started)


def solve_question(
    question: Question, *, time_limit_s: float = 60.0, method: Method = "search"
) -> tuple[Reference, FluidOptimum]:
    """The fluid optimum, as a result for the user and as numbers."""
    try:
        found = METHODS[method](question.fluid, question.atoms, time_limit_s=time_limit_s)
    except NumericalTroubleError:
        # Nearly feasible rules leave the dual undecided; a linear program decides them.
        found = best_fluid_by_tangents(question.fluid, question.atoms, time_limit_s=time_limit_s)
    is_open = found.best is None and found.status is Status.TIME_LIMIT
    if found.status is Status.INFEASIBLE or (is_open and not question.is_possible()):
        return explain(question), replace(found, best=None)
    return _answer(question, found), found


def _answer(question: Question, found: FluidOptimum) -> Reference:
    """The result in terms of rules and regions."""
    name, best = question.problem.name, found.best
    if best is None:
        return Reference(name, found.status, bound=found.bound)
    table = question.problem.atoms
    return Reference(
        problem=name,
        status=found.status,
        return_=best.return_,
        bound=found.bound,
        density=question.named(best.density),
        branch=taken_disjuncts(table, best.branch),
        duals=tuple(
            Dual(atom.origin.rule or "", atom.show(), float(dual))
            for atom, dual in zip(table.atoms, best.multipliers, strict=True)
        ),
        steps=float(question.fluid.weight @ best.times),
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


def _stepwise(question: Question, found: FluidOptimum, rounds: int) -> Stepwise | None:
    """The best drive in the true world under the atoms of the branch."""
    from scrl.reference.stepwise import best_drive  # imports JAX, which the fluid does not need

    if found.best is None:
        return None
    table, used = question.problem.atoms, np.unique(found.best.branch)
    used = used[~question.atoms.is_certain[used]]
    # Atoms are scaled to equal size; the result does not depend on it.
    size = np.abs(table.coefficients[used]).max(axis=1, initial=0.0)
    driven = best_drive(
        question.problem.world_spec,
        table.coefficients[used] / size[:, None],
        table.bounds[used] / size,
        found.best.multipliers[used] * size,
        slowest_speed=1.0 / float(found.best.times.max()),
        rounds=rounds,
    )
    if driven is None:
        return None
    return Stepwise(
        return_=driven.return_,
        density=question.named(driven.density),
        plans=len(driven.weights),
        steps=driven.steps,
        violation=driven.violation,
        # An estimate below the best return found comes from too coarse a lattice and is dropped.
        estimate_above=driven.estimate_above if driven.estimate_above >= driven.return_ else None,
    )
