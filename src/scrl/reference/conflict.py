"""Infeasible rules: a smallest conflicting set, the least loosening, and alternatives."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from scrl.reference.answer import Loosened, Question, Reference
from scrl.reference.disjunctive import BoundedAtoms, BranchChoice, choose_branch
from scrl.reference.linear import Status, stdout_closed_to_c
from scrl.reference.model import LinearModel

IsPossible = Callable[[Collection[int]], bool]
"""Whether the rules with these indices can all hold."""


def smallest_conflict(rules: int, is_possible: IsPossible) -> list[int] | None:
    """The indices of a smallest conflicting set of rules; None if all can hold."""
    if is_possible(range(rules)):
        return None
    corrections: list[set[int]] = []
    while True:
        candidate = _smallest_hitting_set(rules, corrections)
        if not is_possible(candidate):
            return sorted(candidate)
        corrections.append(set(range(rules)) - _grown(candidate, rules, is_possible))


def _smallest_hitting_set(rules: int, sets: list[set[int]]) -> set[int]:
    """A smallest set that shares a member with each of the sets."""
    if not sets:
        return set()
    rows = np.array([[float(rule in each) for rule in range(rules)] for each in sets])
    with stdout_closed_to_c():
        result = milp(
            np.ones(rules),
            integrality=np.ones(rules),
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(rows, 1, np.inf),
        )
    return set(np.flatnonzero(result.x > 0.5).tolist())


def _grown(start: Collection[int], rules: int, is_possible: IsPossible) -> set[int]:
    """Add rules one by one while they can still all hold."""
    kept = set(start)
    for rule in range(rules):
        if rule not in kept and is_possible({*kept, rule}):
            kept.add(rule)
    return kept


FARTHEST = 1e4
"""In units of the feasible range; bounds farther away are compared by their logarithms."""


@dataclass(frozen=True)
class Loosening:
    """How far each atom is loosened, in units."""

    by: Float[np.ndarray, " atom"]
    bounds: Float[np.ndarray, " atom"]
    """What the bounds become; not computed from `by`, which may be many times larger."""

    @property
    def total(self) -> float:
        return float(self.by.sum())


def least_loosening(
    model: LinearModel,
    atoms: BoundedAtoms,
    may_give: Bool[np.ndarray, " atom"] | None = None,
    *,
    time_limit_s: float = 20.0,
) -> Loosening | None:
    """The smallest total excess with which every clause holds; only `may_give` atoms change."""
    gives = np.ones(len(atoms.bounds), bool) if may_give is None else may_give
    nearest = np.where(gives, np.maximum(atoms.bounds, atoms.low), atoms.bounds)
    members = atoms.members
    if (members.sum(axis=1) > 1).any():
        nearer = nearest - _squeezed(nearest - atoms.bounds, atoms)
        choice, _ = _elastic(model, replace(atoms, bounds=nearer), gives, time_limit_s)
        if choice.branch is None:
            return None
        members = np.zeros_like(members)
        members[np.arange(len(members)), choice.branch] = True
    rest = replace(atoms, bounds=nearest, members=members)
    _, excess = _elastic(model, rest, gives, time_limit_s)
    if excess is None:
        return None
    bounds = np.where(members.any(axis=0), nearest + excess, atoms.bounds)
    return Loosening(bounds - atoms.bounds, bounds)


def _squeezed(by: Float[np.ndarray, " atom"], atoms: BoundedAtoms) -> Float[np.ndarray, " atom"]:
    """The values compressed to a range that a solver can handle, in the same order."""
    span = np.where(np.isfinite(atoms.low), atoms.high - atoms.low, 0.0)
    most = FARTHEST * max(float(span.max(initial=0.0)), 1e-300)
    return np.where(by <= most, by, most * (1.0 + np.log(np.maximum(by / most, 1.0))))


def _elastic(
    model: LinearModel, atoms: BoundedAtoms, gives: Bool[np.ndarray, " atom"], time_limit_s: float
) -> tuple[BranchChoice, Float[np.ndarray, " atom"] | None]:
    """The branch of the least total excess, and the excess of each atom; None if there is none."""
    count = len(atoms.bounds)
    most = np.where(gives, np.maximum(atoms.high - atoms.bounds, 0.0), 0.0)
    elastic = LinearModel(
        reward=np.concatenate([np.zeros(model.variables), -np.ones(count)]),
        density=sparse.csr_array(sparse.block_diag([model.density, sparse.eye_array(count)])),
        lower=np.concatenate([model.lower, np.zeros(count)]),
        upper=np.concatenate([model.upper, most]),
        equal=_padded(model.equal, count),
        equal_to=model.equal_to,
        below=_padded(model.below, count),
        below_at=model.below_at,
    )
    loose = replace(
        atoms, coefficients=np.hstack([atoms.coefficients, -np.eye(count)]), low=atoms.low - most
    )
    choice = choose_branch(elastic, loose, time_limit_s=time_limit_s)
    if choice.optimum is None:
        return choice, None
    return choice, choice.optimum.point[model.variables :]


def _padded(rows: sparse.csr_array | None, count: int) -> sparse.csr_array | None:
    if rows is None:
        return None
    nothing = sparse.csr_array((len(rows.indptr) - 1, count))
    return sparse.csr_array(sparse.hstack([rows, nothing]))


MOST_SECONDS = 20.0
"""Time limit of the search for a smallest conflict, in seconds."""


EXACT = "the fluid, which does whatever a policy can do where service is poured"
ESTIMATE = "the fluid, an estimate: with landing service a drive may do a little better or worse"


def explain(question: Question) -> Reference:
    """The smallest conflict, the least loosening, and alternatives."""
    rules = question.problem.rules.rules
    conflict = _conflict(question)
    return Reference(
        problem=question.problem.name,
        fluid_status=Status.INFEASIBLE,
        conflict=tuple((rules[rule].name, rules[rule].text) for rule in conflict),
        relax=_loosened(question),
        alternatives=tuple(
            way for rule in conflict if (way := _loosened(question, only_rule=rule))
        ),
        vehicle_hints=(*_speed_hint(question), *_horizon_hint(question)),
        conflict_rests_on=ESTIMATE if not question.problem.world_spec.is_poured else EXACT,
    )


def _conflict(question: Question) -> list[int]:
    """A smallest conflict; all rules if none smaller is found in time."""
    everything = list(range(len(question.problem.rules.rules)))
    deadline = time.monotonic() + MOST_SECONDS

    def is_possible(rules: Collection[int]) -> bool:
        if time.monotonic() > deadline:
            raise TimeoutError
        return question.is_possible(rules)

    try:
        return smallest_conflict(len(everything), is_possible) or everything
    except TimeoutError:
        return everything


def _loosened(question: Question, only_rule: int | None = None) -> tuple[Loosened, ...]:
    """The atoms of the least loosening; with `only_rule`, only that rule's atoms may change."""
    table = question.problem.atoms
    may_give = None
    if only_rule is not None:
        may_give = np.asarray(table.members[table.clause_rule == only_rule].any(axis=0))
    loosening = least_loosening(question.fluid.times_only, question.atoms, may_give)
    if loosening is None:
        return ()
    given = np.flatnonzero(loosening.by > 1e-9 * np.abs(question.atoms.high))
    totals = question.problem.world_spec.known_totals
    return tuple(
        Loosened.of(table.atoms[index], float(loosening.bounds[index]), totals) for index in given
    )


def _speed_hint(question: Question) -> list[str]:
    """The top speed that makes the rules feasible, as text; a faster vehicle can give less."""
    vehicle = question.problem.world_spec.vehicle
    if vehicle.has_flow:  # which can give less without going faster
        return []

    def is_enough(speed: float) -> bool:
        faster = question.fluid.with_limits_of(replace(vehicle, max_speed=speed))
        return replace(question, fluid=faster).is_possible()

    needed = _smallest(is_enough, vehicle.max_speed, 20.0 * vehicle.max_speed)
    if needed is None:
        return []
    enough = math.ceil(needed * 1000) / 1000
    return [f"raise max_speed from {vehicle.max_speed:g} to {enough:g} cells per step"]


def _horizon_hint(question: Question) -> list[str]:
    """The horizon that makes the rules feasible, as text; a longer episode can give more."""
    horizon = question.fluid.horizon_steps

    def is_enough(steps: float) -> bool:
        longer = replace(question.fluid, horizon_steps=math.ceil(steps))
        return replace(question, fluid=longer).is_possible()

    needed = _smallest(is_enough, horizon, 100.0 * horizon)
    return [] if needed is None else [f"raise horizon_steps from {horizon} to {math.ceil(needed)}"]


def _smallest(is_enough: Callable[[float], bool], low: float, high: float) -> float | None:
    """The smallest value that is enough, to a thousandth; None if even the largest is not."""
    if not is_enough(high):
        return None
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
