"""`scrl.solve(problem)`: a proven bound, and the best plan that was found by driving."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from scrl.evaluation import Evaluation
from scrl.planning.branch_search import SearchOptions, evaluate_plans, search_plans
from scrl.planning.drives import PriceDriver
from scrl.planning.planner import bound_of
from scrl.planning.search import Found, NoPlanError
from scrl.problems import Problem
from scrl.reference.answer import BestDriven, Question, Reference
from scrl.reference.priced import Priced, price_rules

GOOD_ENOUGH = 0.0005
"""A single plan this share of the return from the best mixture ends the search."""
LEVELS = 64
"""Speeds on the lattice, at least."""
SHARE_OF_PLANS = 0.5
"""Share of the time that is for plans; the rest tightens the bound, unless there is no plan yet."""


def solve(
    problem: Problem,
    *,
    time_limit_s: float = 60.0,
    watch: Callable[[str], None] | None = None,
) -> Reference:
    """A bound that no policy exceeds, the best plan found, and the fluid estimate.

    Where no policy keeps the rules, a smallest set of rules in conflict and the least loosening.
    """
    say, started = watch or (lambda _: None), time.monotonic()
    Question.of(problem)  # says what is wrong with a discount
    say("computing the fluid estimate")
    priced = price_rules(problem, time_limit_s=time_limit_s)
    reference = priced.reference
    if not reference.fluid_density:
        say("looking for a proof that no policy keeps the rules")
        reference = bound_of(problem, reference, 0.5 * time_limit_s)
    if not reference.is_impossible and priced.branch is not None and not problem.is_random:
        say("driving plans")
        driver = PriceDriver(problem.world_spec, problem.world)
        until = started + SHARE_OF_PLANS * time_limit_s
        options = SearchOptions(good_enough=GOOD_ENOUGH, levels=LEVELS, deadline=until, say=say)
        reference = _with_plans(problem, priced, driver, options)
        if reference.plan is None and time.monotonic() < started + time_limit_s:
            # Compiling may have taken most of that share.
            options = replace(options, deadline=started + time_limit_s)
            reference = _with_plans(problem, priced, driver, options)
        say("proving a bound")
        left = time_limit_s - (time.monotonic() - started)
        reference = bound_of(problem, reference, max(left, 0.0), reference.return_)
    elif not reference.is_impossible:
        reference = bound_of(problem, reference, 0.0)
    return replace(reference, wall_s=time.monotonic() - started)


def _with_plans(
    problem: Problem, priced: Priced, driver: PriceDriver, options: SearchOptions
) -> Reference:
    """The reference with the best plans that keep the rules."""
    try:
        searched = search_plans(problem, priced, driver, options)
    except NoPlanError:
        return priced.reference
    found, evaluation = searched.best.found, searched.best.evaluation
    if not evaluation.is_satisfied:
        return priced.reference
    plan, mixed = _driven(found, evaluation), None
    is_allowed = problem.rules.largest_share is None  # which a mixture keeps only on average
    if is_allowed and searched.mixture is not None and len(searched.mixture.weights) > 1:
        mixed = _driven(searched.mixture, evaluate_plans(problem, searched.mixture))
    is_better = mixed is not None and mixed.return_ > plan.return_
    taken = searched.priced.taken
    known = priced.reference.without_conflict()
    return replace(known, plan=plan, mixture=mixed if is_better else None, branch=taken)


def _driven(found: Found, evaluation: Evaluation) -> BestDriven:
    weights = tuple(np.asarray(found.weights, float).tolist())
    return BestDriven(
        evaluation.return_, evaluation.density, evaluation.steps, found.throttles, weights
    )
