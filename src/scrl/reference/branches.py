"""The best disjunct of each clause by branch and bound, a check of the mixed-integer program.

A node enforces some atoms and ignores the clauses that are still open. If its optimum keeps every
clause, it is the best of the node. Otherwise the first broken clause is split: one
child for each of its atoms. Nodes are taken in order of their bounds, and none twice.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic

import numpy as np
from jaxtyping import Bool, Int

from scrl.errors import ScrlError
from scrl.reference.disjunctive import CLOSE, NO_BRANCH, BoundedAtoms, BranchChoice, first_of
from scrl.reference.linear import Optimum, OutOfTimeError, Status, best_point
from scrl.reference.model import LinearModel

MOST_NODES = 20_000


class TooManyBranchesError(ScrlError):
    """Branch and bound would take too long; the mixed-integer program may be faster."""


@dataclass(frozen=True)
class Relaxed:
    """The relaxation of a node: some atoms enforced, open clauses ignored."""

    bound: float
    """No point with these atoms in force has a return above this; -inf: they cannot all hold."""
    optimum: Optimum | None = None
    """The best such point found."""
    is_timed_out: bool = False


Solver = Callable[[Int[np.ndarray, " chosen"]], Relaxed]
"""From the atoms in force to their optimum."""


def best_branch_by_enumeration(
    model: LinearModel,
    atoms: BoundedAtoms,
    *,
    most_nodes: int = MOST_NODES,
    time_limit_s: float = float("inf"),
) -> BranchChoice:
    """The best branch of the rules, one linear program per node."""
    deadline = monotonic() + time_limit_s

    def solve(chosen: Int[np.ndarray, " chosen"]) -> Relaxed:
        left = max(deadline - monotonic(), 1e-3)
        try:
            optimum = best_point(
                model, atoms.coefficients[chosen], atoms.bounds[chosen], time_limit_s=left
            )
        except OutOfTimeError:
            return Relaxed(float("inf"), is_timed_out=True)
        return Relaxed(float("-inf")) if optimum is None else Relaxed(optimum.return_, optimum)

    size = float(np.abs(model.reward).max(initial=0.0))
    return search(atoms, solve, size=size, deadline=deadline, most_nodes=most_nodes)


def search(
    atoms: BoundedAtoms,
    solve: Solver,
    *,
    size: float,
    deadline: float,
    most_nodes: int = MOST_NODES,
) -> BranchChoice:
    """Best-first search over sets of atoms in force; `size` is that of one reward."""
    root = tuple(np.flatnonzero(atoms.members[atoms.members.sum(axis=1) == 1].any(axis=0)).tolist())
    waiting: list[tuple[float, tuple[int, ...]]] = [(float("-inf"), root)]
    seen, best, proven = {root}, NO_BRANCH, float("-inf")
    for solved in range(most_nodes + 1):
        if not waiting or -waiting[0][0] <= _worth(best, size):
            ahead = -waiting[0][0] if waiting else float("-inf")
            return replace(best, bound=max(proven, ahead))
        negative, chosen = heapq.heappop(waiting)
        if monotonic() >= deadline:
            return replace(best, status=Status.TIME_LIMIT, bound=max(proven, -negative))
        if solved == most_nodes:
            break
        node = solve(np.array(chosen, dtype=np.int64))
        bound = min(-negative, node.bound)
        children = _children(atoms, chosen, node)
        if not children and node.optimum is not None:
            best, proven = _better(atoms, best, node.optimum, chosen), max(proven, bound)
        if node.is_timed_out:
            return replace(best, status=Status.TIME_LIMIT, bound=max(proven, -negative))
        for child in set(children) - seen:
            heapq.heappush(waiting, (-bound, child))
        seen.update(children)
    raise TooManyBranchesError(
        f"{most_nodes} sets of atoms were tried and branches are still open: "
        "use method 'milp', or write rules with fewer alternatives"
    )


def _children(atoms: BoundedAtoms, chosen: tuple[int, ...], node: Relaxed) -> list[tuple[int, ...]]:
    """The atoms in force with one more, for each atom of the first clause that is broken."""
    if node.optimum is None:
        return []
    broken = ~(atoms.members & _kept(atoms, node.optimum, chosen)).any(axis=1)
    if not broken.any():
        return []
    clause = atoms.members[np.argmax(broken)]
    return [tuple(sorted({*chosen, atom})) for atom in np.flatnonzero(clause).tolist()]


def _kept(
    atoms: BoundedAtoms, optimum: Optimum, chosen: tuple[int, ...]
) -> Bool[np.ndarray, " atom"]:
    """The atoms that are in force, or hold at the optimum as they are."""
    kept = atoms.coefficients @ optimum.density <= atoms.bounds
    kept[list(chosen)] = True
    return kept


def _worth(best: BranchChoice, size: float) -> float:
    """The bound that a node must exceed to be explored."""
    if best.optimum is None:
        return float("-inf")
    return best.optimum.return_ + CLOSE * (abs(best.optimum.return_) + size)


def _better(
    atoms: BoundedAtoms, best: BranchChoice, found: Optimum, chosen: tuple[int, ...]
) -> BranchChoice:
    """The better of the best branch so far and a new one, which keeps every clause."""
    if best.optimum is not None and best.optimum.return_ >= found.return_:
        return best
    branch = first_of(atoms.members & _kept(atoms, found, chosen))
    in_force = np.array(chosen, dtype=np.int64)
    return BranchChoice(Status.OPTIMAL, branch, found, in_force)
