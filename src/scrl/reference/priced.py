"""The best branch as numbers: which atoms are to be kept, and what a unit of each is worth.

For those who go on from the reference with prices. Where rules are impossible, the atoms are those
of the least loosening: a plan for them violates least.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from scrl.problems import Problem
from scrl.reference.answer import Question, Reference, Taken
from scrl.reference.conflict import least_loosening
from scrl.reference.disjunctive import BoundedAtoms
from scrl.reference.fluid import FluidSweep
from scrl.reference.fluid_search import BestTimes, best_fluid
from scrl.reference.linear import NumericalTroubleError, Status
from scrl.reference.solve import solve_question, taken_disjuncts
from scrl.rules.readings import disjunct_clauses, disjuncts, with_disjunct

MOST_DISJUNCTS = 24
"""As many are priced one by one."""


@dataclass(frozen=True)
class PricedBranch:
    """Atoms that must all hold, and the fluid's multipliers for them."""

    atoms: Int[np.ndarray, " atom"]
    """Their numbers in the problem's table."""
    coefficients: Float[np.ndarray, "atom region"]
    bounds: Float[np.ndarray, " atom"]
    multipliers: Float[np.ndarray, " atom"]
    """Return for one unit."""
    return_: float
    """Of the fluid."""
    fluid: FluidSweep
    loosened: Float[np.ndarray, " atom"] | None = None
    """Bounds that the fluid can keep, where it cannot keep the others."""


@dataclass(frozen=True)
class Disjunct:
    """One way to keep a rule, and the best return with it, all other rules kept."""

    rule: str
    text: str
    return_: float | None
    """None where it is impossible, or was not decided in time."""
    is_decided: bool
    clauses: tuple[tuple[str, ...], ...]
    """Its atoms in words; of each clause one must hold."""
    is_taken: bool = False

    def rests_on(self, kept: Collection[tuple[str, str]]) -> bool:
        """Whether these (rule, atom) make it true."""
        return all(any((self.rule, atom) in kept for atom in atoms) for atoms in self.clauses)


@dataclass(frozen=True)
class Priced:
    """The verdict of the reference, and the best branch with its prices."""

    reference: Reference
    branch: PricedBranch | None
    """None where nothing was found in time."""
    taken: tuple[Taken, ...] = ()
    """The disjunct that each clause rests on in this branch."""
    disjuncts: tuple[Disjunct, ...] = ()
    """The ways to keep each rule that leaves a choice, and which of them the branch takes."""


def price_rules(problem: Problem, *, time_limit_s: float = 60.0) -> Priced:
    """The best branch of a problem's rules, its multipliers, and what others would cost."""
    if problem.discount != 1.0:
        return _price_discounted(problem, time_limit_s)
    question = Question.of(problem)
    reference, found = solve_question(question, time_limit_s=time_limit_s)
    if found.best is not None:
        return _priced(question, reference, found.best, _disjuncts(question))
    loosened = _loosened_bounds(question)
    if loosened is None:
        return Priced(reference, None)
    atoms = replace(question.atoms, bounds=loosened)
    best = best_fluid(question.fluid, atoms, time_limit_s=time_limit_s).best
    return Priced(reference, None if best is None else _branch(question, best, loosened))


def _price_discounted(problem: Problem, time_limit_s: float) -> Priced:
    """A branch and multipliers to begin with; nothing is proven, so there is no reference."""
    question = _as_discounted(problem)
    unknown = Reference(
        problem.name, Status.TIME_LIMIT, bound_reason="there is no bound with a discount"
    )
    best = best_fluid(question.fluid, question.atoms, time_limit_s=time_limit_s).best
    if best is None and (loosened := _loosened_bounds(question)) is not None:
        atoms = replace(question.atoms, bounds=loosened)
        best = best_fluid(question.fluid, atoms, time_limit_s=time_limit_s).best
    return Priced(unknown, None) if best is None else _priced(question, unknown, best, ())


def _as_discounted(problem: Problem) -> Question:
    """The fluid with its amounts scaled to what full speed gives when it is discounted."""
    import jax  # which the fluid does not need
    import jax.numpy as jnp

    from scrl.policies import Constant
    from scrl.rollout import run_episodes

    keys, policy = jax.random.split(jax.random.key(0), 1), Constant(jnp.ones(()))
    plain, less = (
        np.asarray(run_episodes(problem.world, policy, keys=keys, discount=each).service[0], float)
        for each in (1.0, problem.discount)
    )
    share = np.divide(less, plain, out=np.ones_like(plain), where=plain > 0)
    named = (problem.atoms.coefficients != 0).any(axis=0)
    fluid = FluidSweep.of(problem.world_spec, named)
    return Question(problem, replace(fluid, amount=share[:, None] * fluid.amount))


def price_without(problem: Problem, priced: Priced, atoms: Collection[int]) -> Priced | None:
    """The best branch that rests on none of these atoms; none where there is no such branch."""
    question = Question.of(problem) if problem.discount == 1.0 else _as_discounted(problem)
    members = question.atoms.members.copy()
    members[:, list(atoms)] = False
    if not members.any(axis=1).all():
        return None
    best = best_fluid(question.fluid, replace(question.atoms, members=members)).best
    if best is None:
        return None
    return _priced(question, priced.reference, best, priced.disjuncts)


def price_nearly(problem: Problem, priced: Priced, slack: float) -> Priced | None:
    """The best branch that the fluid would keep if every bound were this much looser.

    Where whole steps are counted, drives may keep what the fluid misses by less than a step.
    """
    if problem.discount != 1.0:
        return None
    question = Question.of(problem)
    best = best_fluid(question.fluid, replace(question, slack=slack).atoms).best
    return None if best is None else _priced(question, priced.reference, best, priced.disjuncts)


def _priced(
    question: Question, reference: Reference, best: BestTimes, ways: tuple[Disjunct, ...]
) -> Priced:
    taken = taken_disjuncts(question.problem.atoms, best.branch)
    kept = {(each.rule, each.taken) for each in taken}
    branch = _branch(question, best, question.atoms.bounds)
    marked = (replace(way, is_taken=way.rests_on(kept)) for way in ways)
    return Priced(reference, branch, taken, tuple(marked))


def _branch(
    question: Question, best: BestTimes, bounds: Float[np.ndarray, " atom"]
) -> PricedBranch:
    # Also atoms that the fluid always keeps: the true world may miss them by a step or two.
    used = np.unique(best.branch)
    coefficients = question.atoms.coefficients[used]
    asked = question.atoms.bounds[used]
    loosened = None if np.array_equal(asked, bounds[used]) else bounds[used]
    return PricedBranch(
        used, coefficients, asked, best.multipliers[used], best.return_, question.fluid, loosened
    )


def _loosened_bounds(question: Question) -> Float[np.ndarray, " atom"] | None:
    """The bounds after the least loosening, with a hair of room; none where none was found."""
    loosening = least_loosening(question.fluid.times_only, question.atoms)
    if loosening is None:
        return None
    # Room for what the loosened bound asks: the original one may be any number of times larger.
    room = 1e-3 * np.maximum(np.abs(loosening.bounds), 1.0)
    return np.where(loosening.by > 0, loosening.bounds + room, question.atoms.bounds)


def _disjuncts(question: Question) -> tuple[Disjunct, ...]:
    """What each disjunct of each rule would return at best."""
    rule_set = question.problem.rules
    found: list[Disjunct] = []
    for index, (rule, node) in enumerate(zip(rule_set.rules, rule_set.positive, strict=True)):
        ways = disjuncts(node)
        if len(ways) == 1 or len(found) + len(ways) > MOST_DISJUNCTS:
            continue
        for number, way in enumerate(ways):
            clauses = disjunct_clauses(way)
            text = " and ".join(" or ".join(atoms) for atoms in clauses)
            best, is_decided = _return_with(question, index, number)
            found.append(Disjunct(rule.name, text, best, is_decided, clauses))
    return tuple(found)


def _return_with(question: Question, rule: int, number: int) -> tuple[float | None, bool]:
    """The best return with one disjunct, and whether it is known: nothing is called impossible
    without a proof."""
    table = with_disjunct(question.problem.rules, rule, number)
    low, high = question.fluid.ranges(table.coefficients).T
    atoms = BoundedAtoms(table.coefficients, table.bounds, table.members, low, high)
    try:
        found = best_fluid(question.fluid, atoms, time_limit_s=1.0)
    except NumericalTroubleError:
        return None, False
    if found.best is None:
        return None, found.status is Status.INFEASIBLE
    return found.best.return_, True
