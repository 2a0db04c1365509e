"""The best disjunct of each clause by a mixed-integer program with computed big-M bounds.

One binary z_j per atom of an open clause: z_j = 1 enforces atom j,
a_j . density <= b_j + (high_j - b_j) (1 - z_j), where high_j is the largest value that
a_j . density takes over the whole model. A clause asks for at least one of its z_j.

A solver accepts z = 0.999999 as 1, which loosens the atom slightly. Therefore the chosen branch is
solved again as a linear program; if that falls short of the proven bound, the branch is excluded
(sum of its z_j <= their number - 1) and the search continues.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import numpy as np
import scipy
from jaxtyping import Bool, Float, Int

from scrl.reference.linear import (
    NumericalTroubleError,
    Optimum,
    OutOfTimeError,
    Status,
    best_point,
    rows_of,
    stdout_closed_to_c,
)
from scrl.reference.model import LinearModel

RELATIVE_GAP = 1e-7
"""Relative gap at which HiGHS stops."""
CLOSE = 1e-6
"""A branch is the best if no other can be better by more than this share of the return."""


@dataclass(frozen=True)
class BoundedAtoms:
    """The atoms, the clauses, and the range of each atom over the model."""

    coefficients: Float[np.ndarray, "atom region"]
    bounds: Float[np.ndarray, " atom"]
    members: Bool[np.ndarray, "clause atom"]
    low: Float[np.ndarray, " atom"]
    """A proven lower bound of a . density over the model, best the smallest value; may be -inf."""
    high: Float[np.ndarray, " atom"]
    """A proven upper bound, best the largest value; the mixed-integer program needs it finite."""

    def slack(self) -> Float[np.ndarray, " atom"]:
        """Rounding allowance of each atom, relative to the numbers in it."""
        return 1e-9 * (1 + np.abs(self.bounds))

    @property
    def is_impossible(self) -> Bool[np.ndarray, " atom"]:
        """Atoms that no policy keeps."""
        return self.low > self.bounds + self.slack()

    @property
    def is_certain(self) -> Bool[np.ndarray, " atom"]:
        """Atoms that every policy keeps."""
        return self.high <= self.bounds


@dataclass(frozen=True)
class BranchChoice:
    """The best branch found, one atom per clause, with its optimum and a bound on all branches."""

    status: Status
    branch: Int[np.ndarray, " clause"] | None = None
    """The atom taken in each clause."""
    optimum: Optimum | None = None
    """The optimum of that branch; its multipliers stand in the order of `in_force`."""
    in_force: Int[np.ndarray, " chosen"] | None = None
    """The atoms of the branch, each once."""
    bound: float = float("inf")
    """No branch has a return above this; -inf if none is feasible."""


def choose_branch(
    model: LinearModel, atoms: BoundedAtoms, *, time_limit_s: float = 60.0
) -> BranchChoice:
    """The best branch of the rules by a mixed-integer program."""
    deadline = monotonic() + time_limit_s
    members = _open_members(atoms)
    if members is None:
        return NO_BRANCH
    best, cuts = NO_BRANCH, np.zeros((0, len(atoms.bounds)), bool)
    if (members.sum(axis=1) == 1).all():
        best = _solved(model, atoms, np.asarray(members.any(axis=0)), deadline, np.inf)
        is_proven = best.status is not Status.TIME_LIMIT
        return replace(best, bound=_return(best)) if is_proven else best
    while True:
        result = _search(model, atoms, members, cuts, max(deadline - monotonic(), 1e-3))
        if result.status == 2:
            return replace(best, bound=_return(best))
        bound = -np.inf if result.mip_dual_bound is None else float(result.mip_dual_bound)
        bound = max(-bound, _return(best))
        if result.x is None:
            return replace(best, status=Status.TIME_LIMIT, bound=bound)
        picked = result.x[model.variables :] > 0.5
        chosen = _one_each(members, picked, model.density @ result.x[: model.variables], atoms)
        found = _solved(model, atoms, chosen, deadline, bound)
        best = found if _return(found) > _return(best) else best
        if best.optimum is not None and bound - _return(best) <= allowed_gap(model, _return(best)):
            return replace(best, status=Status.OPTIMAL, bound=bound)
        if found.status is Status.TIME_LIMIT or monotonic() >= deadline:
            return replace(best, status=Status.TIME_LIMIT, bound=bound)
        cuts = np.vstack([cuts, chosen])


NO_BRANCH = BranchChoice(Status.INFEASIBLE, bound=float("-inf"))
"""The rules cannot be kept."""


def allowed_gap(model: LinearModel, return_: float) -> float:
    """How far the bound of an optimum may exceed its return."""
    return CLOSE * (abs(return_) + float(np.abs(model.reward).max(initial=0.0)))


def _return(choice: BranchChoice) -> float:
    return float("-inf") if choice.optimum is None else choice.optimum.return_


def _open_members(atoms: BoundedAtoms) -> Bool[np.ndarray, "clause atom"] | None:
    """The possible atoms of each undecided clause; None if a clause has none."""
    possible = atoms.members & ~atoms.is_impossible
    if not possible.any(axis=1).all():
        return None
    return possible[~(atoms.members & atoms.is_certain).any(axis=1)]


def _search(
    model: LinearModel,
    atoms: BoundedAtoms,
    members: np.ndarray,
    cuts: np.ndarray,
    time_limit_s: float,
) -> scipy.optimize.OptimizeResult:
    """Run HiGHS over the point and one binary per atom; without presolve if it stays undecided."""
    used = np.asarray(members.any(axis=0))
    if not np.isfinite(atoms.high[used]).all():
        raise NumericalTroubleError("the mixed-integer program needs the range of every atom")
    count = len(used)
    is_forced = members[members.sum(axis=1) == 1].any(axis=0)
    scale = float(np.abs(model.reward).max(initial=0.0)) or 1.0
    result = scipy.optimize.OptimizeResult(message="not started")
    for presolve in (True, False):
        with stdout_closed_to_c():
            result = scipy.optimize.milp(
                np.concatenate([-model.reward / scale, np.zeros(count)]),
                integrality=np.concatenate([np.zeros(model.variables), np.ones(count)]),
                bounds=_box(model, is_forced, used),
                constraints=_constraints(model, atoms, members, cuts),
                options={
                    "time_limit": time_limit_s,
                    "mip_rel_gap": RELATIVE_GAP,
                    "presolve": presolve,
                },
            )
        if result.status in (0, 1, 2):
            if result.mip_dual_bound is not None:
                result.mip_dual_bound *= scale
            return result
    raise NumericalTroubleError(f"the mixed-integer program failed: {result.message}")


def _constraints(
    model: LinearModel, atoms: BoundedAtoms, members: np.ndarray, cuts: np.ndarray
) -> list[scipy.optimize.LinearConstraint]:
    """The model's rows, each atom loosened while its binary is 0, the clauses, the cuts."""
    used = np.asarray(members.any(axis=0))
    below, below_at, scale = rows_of(model, atoms.coefficients[used], atoms.bounds[used])
    reach = np.maximum(atoms.high - atoms.bounds, 0.0)[used] / scale
    own = len(below_at) - len(scale)
    loosen = scipy.sparse.csr_array(
        (reach, (own + np.arange(len(reach)), np.flatnonzero(used))),
        shape=(len(below_at), len(used)),
    )
    at_most = below_at + np.concatenate([np.zeros(own), reach])
    ways = scipy.sparse.csr_array(np.vstack([members, cuts]) * 1.0)
    nothing = scipy.sparse.csr_array((len(members) + len(cuts), model.variables))
    fewest = np.concatenate([np.ones(len(members)), np.full(len(cuts), -np.inf)])
    most = np.concatenate([np.full(len(members), np.inf), cuts.sum(axis=1) - 1.0])
    rows = [_between(-np.inf, below, loosen, at_most), _between(fewest, nothing, ways, most)]
    if model.equal is not None and model.equal_to is not None:
        padding = scipy.sparse.csr_array((len(model.equal_to), len(used)))
        rows.append(_between(model.equal_to, model.equal, padding, model.equal_to))
    return rows


def _between(low: Any, left: Any, right: Any, high: Any) -> scipy.optimize.LinearConstraint:
    """low <= left x + right z <= high."""
    return scipy.optimize.LinearConstraint(
        scipy.sparse.csr_array(scipy.sparse.hstack([left, right])), low, high
    )


def _box(model: LinearModel, low: Any, high: Any) -> scipy.optimize.Bounds:
    """The bounds of point and binaries."""
    lower: Any = np.concatenate([model.lower, low * 1.0])
    upper: Any = np.concatenate([model.upper, high * 1.0])
    return scipy.optimize.Bounds(lower, upper)


def _one_each(
    members: np.ndarray, picked: np.ndarray, density: np.ndarray, atoms: BoundedAtoms
) -> Bool[np.ndarray, " atom"]:
    """One chosen atom per clause, the one with the largest slack."""
    room = atoms.bounds - atoms.coefficients @ density
    score = np.where(members & picked, room, -np.inf)
    chosen = np.zeros(len(room), bool)
    chosen[score.argmax(axis=1)] = True
    return chosen


def _solved(
    model: LinearModel,
    atoms: BoundedAtoms,
    is_chosen: Bool[np.ndarray, " atom"],
    deadline: float,
    bound: float,
) -> BranchChoice:
    """Solve the branch with its atoms enforced, and read off the atom that keeps each clause."""
    chosen = np.flatnonzero(is_chosen)
    left = max(deadline - monotonic(), 1e-3)
    try:
        optimum = best_point(
            model, atoms.coefficients[chosen], atoms.bounds[chosen], time_limit_s=left
        )
    except OutOfTimeError:
        return BranchChoice(Status.TIME_LIMIT, bound=bound)
    if optimum is None:
        return NO_BRANCH
    kept = atoms.members & (is_chosen | atoms.is_certain)
    return BranchChoice(Status.OPTIMAL, first_of(kept), optimum, chosen, bound)


def first_of(kept: Bool[np.ndarray, "clause atom"]) -> Int[np.ndarray, " clause"]:
    """The first atom that keeps each clause; there may be no clause at all."""
    return kept.argmax(axis=1) if len(kept) else np.zeros(0, np.int64)
