"""The best fluid sweep under rules: a best-first search over branches, one smooth dual each.

A node enforces some atoms and ignores every clause that is still open; its dual is a proven bound
for all of its descendants. If its times violate no clause they are a candidate; otherwise a
violated clause gets one child for each of its atoms. Most clauses hold without branching,
so hundreds of clauses need hundreds of nodes, not 4^200.
"""

from __future__ import annotations

import heapq
import itertools
import time
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from scrl.reference.certificate import Certificate, require
from scrl.reference.disjunctive import BoundedAtoms
from scrl.reference.fluid import BranchDual, DualPoint, FluidSweep, atom_size
from scrl.reference.linear import NumericalTroubleError, Status

TOLERANCE = 1e-9
"""A clause counts as kept if an atom's excess is within this share of the numbers in it."""
CLOSE = 1e-6
"""The search ends when no open node can be better by more than this share of the cost."""
CLAUSES_TRIED = 2
"""Violated clauses whose children are compared before branching (strong branching)."""


@dataclass(frozen=True)
class BestTimes:
    """The best times per cell of one branch, their densities, and their certificate."""

    return_: float
    times: Float[np.ndarray, " group"]
    services: Float[np.ndarray, " group"]
    """Steps at full flow that serve as much; the times where the rate is fixed."""
    density: Float[np.ndarray, " region"]
    branch: Int[np.ndarray, " clause"]
    """The atom that each clause rests on."""
    multipliers: Float[np.ndarray, " atom"]
    certificate: Certificate


@dataclass(frozen=True)
class FluidOptimum:
    """How the search ended, the best times found, and a bound on all others."""

    status: Status
    best: BestTimes | None = None
    bound: float = float("inf")
    """No times that keep the rules have a fluid return above this."""


def best_fluid(
    fluid: FluidSweep, atoms: BoundedAtoms, *, time_limit_s: float = 60.0
) -> FluidOptimum:
    """The best times under the rules with a certificate, or a proof of infeasibility.

    It is solved for an effort of 1 and scaled back, so that tolerances do not depend on it.
    """
    found = _best_for_unit_effort(replace(fluid, effort=1.0), atoms, time_limit_s)
    best, effort = found.best, fluid.effort
    if best is None:
        return replace(found, bound=effort * found.bound)
    proof = best.certificate
    scaled = replace(
        best,
        return_=effort * best.return_,
        multipliers=effort * best.multipliers,
        certificate=replace(proof, dual=effort * proof.dual, bound=effort * proof.bound),
    )
    return replace(found, best=scaled, bound=effort * found.bound)


def _best_for_unit_effort(
    fluid: FluidSweep, atoms: BoundedAtoms, time_limit_s: float
) -> FluidOptimum:
    search = _BranchSearch(fluid, atoms)
    is_done = search.run(time.monotonic() + time_limit_s)
    best = None if search.best is None else search.answer(search.best)
    if best is None:
        status = Status.INFEASIBLE if is_done else Status.TIME_LIMIT
        return FluidOptimum(status, bound=-search.least_open_cost)
    status = Status.OPTIMAL if is_done else Status.TIME_LIMIT
    # The times keep the atoms up to rounding, so their return may slightly exceed the dual.
    bound = max(-search.least_open_cost, best.certificate.bound, best.return_)
    return FluidOptimum(status, best, bound)


@dataclass(frozen=True)
class _Node:
    """Atoms in force, in order, and the maximum of their dual (the horizon's multiplier first)."""

    in_force: tuple[int, ...]
    point: DualPoint


@dataclass
class _BranchSearch:
    """The open nodes, cheapest bound first, and the best candidate so far."""

    fluid: FluidSweep
    atoms: BoundedAtoms
    best: _Node | None = None
    open_nodes: list[tuple[float, int, _Node]] = field(default_factory=list)

    def __post_init__(self) -> None:
        rows = self.atoms.coefficients @ self.fluid.amount
        # Atoms are scaled to steps, so that coefficients of any size are comparable.
        self.unit = np.maximum(np.abs(rows).max(axis=1, initial=0.0), 1e-300)
        self.rows = rows / self.unit[:, None]
        self.bounds = self.atoms.bounds / self.unit
        self.possible: Bool[np.ndarray, "clause atom"] = (
            self.atoms.members & ~self.atoms.is_impossible
        )
        self.ways = np.nonzero(self.possible)
        """Clause and atom of each possible member, stored as a sparse list."""
        self.allowance = TOLERANCE * atom_size(self.rows, self.bounds)
        # A dual above the largest possible cost proves that the atoms cannot hold together.
        self.ceiling = -1.001 * self.fluid.return_of(self.fluid.fully_open(self.fluid.slowest))
        self._number = itertools.count()
        self._seen: set[tuple[int, ...]] = set()

    @property
    def best_cost(self) -> float:
        """The cost of the best candidate, which a node must beat."""
        return self.ceiling if self.best is None else -self.fluid.return_of(self.best.point.point)

    @property
    def least_open_cost(self) -> float:
        """Lower bound on the cost of all open nodes."""
        return self.open_nodes[0][0] if self.open_nodes else float("inf")

    def run(self, deadline: float) -> bool:
        """Search until no open node can be better; False if time ran out before."""
        if not self.possible.any(axis=1).all():
            return True
        root = self._node((), None)
        self._keep(root)
        self._dive(root, deadline)
        while self.open_nodes:
            if self.least_open_cost >= self.best_cost - CLOSE * (1.0 + self.best_cost):
                return True
            if time.monotonic() > deadline:
                return False
            _, _, node = heapq.heappop(self.open_nodes)
            for child in self._children(node):
                self._keep(child)
        return True

    def _dive(self, node: _Node, deadline: float) -> None:
        """Find a first candidate by following the cheapest child."""
        while self.best is None and time.monotonic() < deadline:
            children = self._children(node)
            for child in children:
                self._keep(child)
            if not children:
                return
            node = min(children, key=lambda child: child.point.proven_cost)

    def _keep(self, node: _Node) -> None:
        """Record a node that violates no clause as a candidate, and any other as open."""
        if self._broken(node).size == 0:
            if -self.fluid.return_of(node.point.point) < self.best_cost:
                self.best = node
        elif node.in_force not in self._seen:
            self._seen.add(node.in_force)
            entry = (node.point.proven_cost, next(self._number), node)
            heapq.heappush(self.open_nodes, entry)

    def _node(self, in_force: tuple[int, ...], parent: _Node | None) -> _Node:
        """Solve the dual of a branch, starting from its parent's multipliers."""
        start = np.zeros(1 + len(in_force))
        if parent is not None:
            start[: len(parent.point.multipliers)] = parent.point.multipliers
        found = self._dual(in_force).maximise(start, enough_cost=self.best_cost)
        return _Node(in_force, found)

    def _dual(self, in_force: tuple[int, ...]) -> BranchDual:
        """The dual of a branch; its first row keeps the horizon."""
        chosen, horizon = list(in_force), self.fluid.time_row[None, :]
        return BranchDual(
            self.fluid,
            np.concatenate([horizon, self.rows[chosen]]),
            np.concatenate([[float(self.fluid.horizon_steps)], self.bounds[chosen]]),
        )

    def _children(self, node: _Node) -> list[_Node]:
        """One child per atom of a broken clause: of the clauses tried, that of the best bound."""
        broken = self._broken(node)
        families = [self._family(node, clause) for clause in broken[:CLAUSES_TRIED]]
        return max(families, key=_cheapest) if families else []

    def _family(self, node: _Node, clause: int) -> list[_Node]:
        atoms = np.flatnonzero(self.possible[clause]).tolist()
        if set(atoms) & set(node.in_force):
            raise NumericalTroubleError(
                "an atom in force is not kept, and no dual proves it impossible: rescale the rules"
            )
        children = [self._node((*node.in_force, atom), node) for atom in atoms]
        return [child for child in children if child.point.proven_cost < self.best_cost]

    def _broken(self, node: _Node) -> Int[np.ndarray, " clause"]:
        """The clauses that the node's times violate, those that need most time first."""
        excess = self.rows @ node.point.point - self.bounds
        over = np.where(excess > self.allowance, excess, 0.0)
        need = over / np.maximum(np.abs(self.rows).sum(axis=1), 1e-300)
        clauses, atoms = self.ways
        least = np.full(len(self.possible), np.inf)
        np.minimum.at(least, clauses, need[atoms])
        order = np.argsort(-least, kind="stable")
        return order[least[order] > 0]

    def answer(self, node: _Node) -> BestTimes:
        """A candidate with its multipliers, its branch and its certificate."""
        point, chosen = node.point.point, list(node.in_force)
        times, services = self.fluid.split(point)
        multipliers = np.zeros(len(self.atoms.bounds))
        multipliers[chosen] = node.point.multipliers[1:] / self.unit[chosen]
        return_ = self.fluid.return_of(point)
        return BestTimes(
            return_=return_,
            times=times,
            services=services,
            density=self.fluid.amount @ point,
            branch=self._branch(node),
            multipliers=multipliers,
            certificate=require(self._certificate(node, return_)),
        )

    def _branch(self, node: _Node) -> Int[np.ndarray, " clause"]:
        """The atom that keeps each clause, preferably one that is needed anyway.

        Needed are enforced atoms and the only ones that keep a clause; else the slack decides.
        """
        room = self.allowance - (self.rows @ node.point.point - self.bounds)
        kept = self.atoms.members & (room >= 0)
        needed = kept[kept.sum(axis=1) == 1].any(axis=0)
        score = room / (1.0 + np.abs(room).max(initial=0.0)) + 2.0 * needed
        score[list(node.in_force)] += 4.0
        clauses, atoms = np.nonzero(kept)
        best_first = np.lexsort([atoms, -score[atoms], clauses])
        found, first = np.unique(clauses[best_first], return_index=True)
        branch = np.zeros(len(kept), int)
        branch[found] = atoms[best_first][first]
        return branch

    def _certificate(self, node: _Node, return_: float) -> Certificate:
        """Excess over the atoms, multipliers below 0, and the distance from the proven bound."""
        point = node.point
        dual = self._dual(node.in_force)
        primal = np.maximum(point.excess, 0.0) / atom_size(dual.rows, dual.bounds)
        gap = abs(point.proven_cost + return_) / (1.0 + abs(return_))
        below_zero = -float(point.multipliers.min(initial=0.0))
        return Certificate(float(primal.max()), below_zero, gap, -point.proven_cost)


def _cheapest(children: list[_Node]) -> float:
    return min((child.point.proven_cost for child in children), default=float("inf"))
