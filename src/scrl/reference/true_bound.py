"""A proven bound of the true world under rules: the largest dual value over all open branches.

A leaf of the search enforces some atoms a . amounts <= b and ignores every clause that is still
open. For any multipliers lambda >= 0 of its atoms and mu >= 0 of the horizon, weak duality bounds
what any policy that keeps the atoms and finishes in time returns, randomised and
history-dependent ones too:

    return <= lambda . b + mu horizon + bound(prices = -lambda . a, per_step = mu)

All leaves together cover all branches, so the largest of their values bounds the problem. The leaf
with the largest value is worked on: its multipliers are improved by cutting planes (the paths that
`bound` finds are columns of the master program), and if the mixture of those paths violates an open
clause, the leaf is split, one child for each atom of the clause. A leaf is impossible if its value
lies below what any drive within the horizon returns. The fluid proposes leaves to begin with, and
their multipliers. With poured service its values are bounds too (docs/bound.md). With landing
service nothing is called impossible or certain because the fluid says so.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float

from scrl.problems import Problem
from scrl.reference.answer import Question
from scrl.reference.columns import Mixture, best_mixture
from scrl.reference.fluid import BranchDual, DualPoint
from scrl.worlds.sweep.bound import SIDE_BY_SIDE, StepBound, step_bound
from scrl.worlds.sweep.spec import Service, SweepSpec

LEVELS: dict[Service, tuple[int, ...]] = {"landing": (24, 48), "poured": (24, 48, 96)}
"""Bins that a step at top speed passes: coarse ones to find multipliers, fine ones to finish. With
poured service the finest ones still bring some tenths of a per cent."""
MOST_STATES = 16_000_000
"""States of a graph that are not too many for one sweep: some seconds and 1 GB."""
CLOSE = 3e-4
"""A leaf's multipliers are good enough if others promise less than this share of its value."""
MOST_ROUNDS = 12
"""Rounds of cutting planes for one leaf at one number of levels."""
MOST_FLUID_NODES = 200
"""Leaves that the fluid proposes."""
TOLERANCE = 1e-9
"""A clause counts as kept if an atom's excess is within this share of the numbers in it."""
ROUNDING = 1e-13
"""Share by which sums over the atoms are rounded up."""
LARGEST_PRICE = 1e4
"""Prices of a step are at most this many times the effort."""


@dataclass(frozen=True)
class Leaf:
    """Atoms in force, and what was proven of them."""

    atoms: tuple[int, ...]
    """Their numbers in the problem's table."""
    value: float
    """No policy that keeps them returns more."""
    multipliers: Float[np.ndarray, " atom"]
    """Of the atoms and, last, of the horizon: return for one unit, and for one step."""
    is_impossible: bool = False
    """No policy keeps them."""
    level: int = -1
    """The number of the graph that it was last evaluated on; -1: not yet."""
    rounds: int = 0
    """Rounds of cutting planes on that graph."""
    is_done: bool = False
    """Nothing more is to be had from it."""


@dataclass(frozen=True)
class TrueBound:
    """What no policy exceeds that keeps the rules and finishes within the horizon."""

    value: float | None
    reason: str | None = None
    """Why there is no value."""
    is_impossible: bool = False
    """No policy keeps the rules: proven for every leaf."""
    is_final: bool = False
    """More time would not bring a better value, or none that matters."""
    leaves: tuple[Leaf, ...] = ()
    wall_s: float = 0.0


Watch = Callable[[TrueBound], None]


def prove(
    problem: Problem,
    *,
    time_limit_s: float = 60.0,
    enough: float | None = None,
    levels: tuple[int, ...] | None = None,
    watch: Watch | None = None,
) -> TrueBound:
    """The best bound within the time, which is looked at after each batch of evaluations.

    It ends early when the bound is within a hair of `enough`, the return of a plan that is known.
    `levels` are the graphs that it takes in turn; finer ones are slower and bring a little more.
    """
    started = time.monotonic()
    levels = levels or LEVELS[problem.world_spec.route.service]
    if reason := reason_against(problem) or _out_of_reach(problem.world_spec, levels[0]):
        return TrueBound(None, reason)
    search = _LeafSearch(problem, started + time_limit_s, enough, levels)
    return replace(search.run(watch), wall_s=time.monotonic() - started)


def is_near(bound: float, enough: float | None, share: float = CLOSE) -> bool:
    """Whether a bound is within a share of what is enough."""
    return enough is not None and bound - enough <= share * abs(enough)


def reason_against(problem: Problem) -> str | None:
    """Why a problem has no bound."""
    spec = problem.world_spec
    if not spec.wind.is_calm:
        return "the bound holds in calm air, and there is wind"
    if not spec.vehicle.supply.is_calm:
        return "the bound holds for a steady rate, and the rate varies"
    if spec.vehicle.start_noise > 0:
        return "the bound holds for a fixed start, and the start is random"
    if problem.discount != 1.0:
        return "the bound holds for plain sums, and there is a discount"
    return None


def _out_of_reach(spec: SweepSpec, levels: int) -> str | None:
    """Why a world has no such bound in any time."""
    if spec.vehicle.has_flow:
        return "the bound by steps holds for a fixed rate, and the vehicle has a flow"
    graph = step_bound(spec, levels=levels)
    if graph.states > MOST_STATES:
        return f"the map is too large: {graph.states:,} states, and {MOST_STATES:,} can be swept"
    return None


@dataclass
class _Cuts:
    """Paths of one graph: the columns of the master program, for all leaves."""

    returns: list[float] = field(default_factory=list)
    amounts: list[Float[np.ndarray, " region_and_step"]] = field(default_factory=list)


class _LeafSearch:
    """The open leaves, and how to improve the one with the largest value."""

    def __init__(
        self, problem: Problem, deadline: float, enough: float | None, levels: tuple[int, ...]
    ) -> None:
        spec, table = problem.world_spec, problem.atoms
        self.question = Question.of(problem)
        self.deadline, self.enough = deadline, enough
        graphs = [step_bound(spec, levels=each) for each in levels]
        self.graphs: list[StepBound] = [each for each in graphs if each.states <= MOST_STATES]
        self.cuts = [_Cuts() for _ in self.graphs]
        self.effort, self.horizon = spec.vehicle.effort, spec.route.horizon_steps
        self.least_return = -self.effort * self.horizon
        # The horizon is one more atom, the last, and the steps are one more amount.
        atoms, regions = table.coefficients.shape
        self.rows = np.zeros((atoms + 1, regions + 1))
        self.rows[:-1, :-1], self.rows[-1, -1] = table.coefficients, 1.0
        # A policy keeps the rules if it violates them by no more than the tolerance.
        self.bounds = np.append(table.bounds + problem.tolerance, float(self.horizon))
        self.members = table.members
        largest = np.abs(table.coefficients * spec.in_step).max(axis=1, initial=0.0)
        self.unit = np.append(np.where(largest > 0, spec.vehicle.rate * largest, 1.0), 1.0)
        """What one step may add to each atom."""
        self.heap: list[tuple[float, int, Leaf]] = []
        self.closed: list[Leaf] = []
        self.caps: dict[tuple[int, ...], Float[np.ndarray, " atom"]] = {}
        self._number = itertools.count()

    def run(self, watch: Watch | None) -> TrueBound:
        """Evaluate the fluid's leaves once, then improve the largest while there is time."""
        for leaf in _FluidLeaves(self.question).leaves():
            self._push(leaf)
        now = self._summary()
        while self.heap:
            self._advance()
            now = self._summary()
            if watch is not None:
                watch(now)
            if now.is_final or time.monotonic() > self.deadline:
                break
        return now

    def _advance(self) -> None:
        """Evaluate some leaves for the first time, or improve the one with the largest value."""
        batch = [heapq.heappop(self.heap)[2]]
        if batch[0].level >= 0:
            self._improve(batch[0])
            return
        while self.heap and self.heap[0][2].level < 0 and len(batch) < SIDE_BY_SIDE:
            batch.append(heapq.heappop(self.heap)[2])
        for leaf in self._evaluate(0, batch, [leaf.multipliers[None] for leaf in batch]):
            self._push(replace(leaf, level=0))

    def _summary(self) -> TrueBound:
        leaves = (*(leaf for _, _, leaf in sorted(self.heap)), *self.closed)
        if not self.heap:
            return TrueBound(None, "no policy keeps the rules", True, True, leaves)
        top = self.heap[0][2]
        if top.level < 0:
            return TrueBound(None, "time ended before every branch had a value", leaves=leaves)
        is_final = top.is_done or is_near(top.value, self.enough)
        return TrueBound(top.value, is_final=is_final, leaves=leaves)

    def _push(self, leaf: Leaf) -> None:
        if leaf.is_impossible or leaf.value < self.least_return:
            self.closed.append(replace(leaf, is_impossible=True))
        else:
            heapq.heappush(self.heap, (-leaf.value, next(self._number), leaf))

    def _in_force(self, leaf: Leaf) -> list[int]:
        """Rows of the leaf's atoms and, last, of the horizon."""
        return [*leaf.atoms, len(self.rows) - 1]

    def _evaluate(
        self, level: int, leaves: list[Leaf], points: list[Float[np.ndarray, "point atom"]]
    ) -> list[Leaf]:
        """The leaves with the best of some multipliers; what was found are cuts for all leaves."""
        by_leaf = list(zip(leaves, points, strict=True))
        prices = np.concatenate([-each @ self.rows[self._in_force(leaf)] for leaf, each in by_leaf])
        found = self.graphs[level].at(prices[:, :-1], -prices[:, -1])
        amounts = np.column_stack([found.amounts, found.steps])
        self.cuts[level].returns += found.returns.tolist()
        self.cuts[level].amounts += list(amounts)
        values = np.split(found.values, np.cumsum([len(each) for each in points])[:-1])
        return [
            self._better(leaf, each, value + self._worth_of_bounds(leaf, each))
            for (leaf, each), value in zip(by_leaf, values, strict=True)
        ]

    def _worth_of_bounds(
        self, leaf: Leaf, points: Float[np.ndarray, "point atom"]
    ) -> Float[np.ndarray, " point"]:
        """lambda . b + mu horizon, rounded up."""
        bounds = self.bounds[self._in_force(leaf)]
        return points @ bounds + ROUNDING * (points @ np.abs(bounds))

    @staticmethod
    def _better(
        leaf: Leaf, points: Float[np.ndarray, "point atom"], values: Float[np.ndarray, " point"]
    ) -> Leaf:
        """The leaf with the best of these multipliers, if that is better than its own."""
        best = int(values.argmin())
        if not values[best] < leaf.value:
            return leaf
        return replace(leaf, value=float(values[best]), multipliers=points[best])

    def _improve(self, leaf: Leaf) -> None:
        """One round of cutting planes; when they are over, a split, or a finer graph."""
        mixture = self._mixture(leaf)
        is_close = not mixture.excess.any() and leaf.value - mixture.value < CLOSE * abs(leaf.value)
        is_close = is_close and self._is_convex_at(leaf, mixture.multipliers)
        if not is_close and leaf.rounds < MOST_ROUNDS:
            (better,) = self._evaluate(leaf.level, [leaf], [self._points(leaf, mixture)])
            self._push(replace(better, rounds=leaf.rounds + 1))
        elif (clause := self._broken(leaf, mixture)) is not None:
            self._split(leaf, clause)
        elif leaf.level + 1 < len(self.graphs):
            (finer,) = self._evaluate(leaf.level + 1, [leaf], [self._near(leaf, mixture)])
            self._push(replace(finer, level=leaf.level + 1, rounds=0))
        else:
            self._push(replace(leaf, is_done=True))

    def _is_convex_at(self, leaf: Leaf, multipliers: Float[np.ndarray, " atom"]) -> bool:
        """Whether the paths show truly what other multipliers can bring.

        Where standing still pays, the bound may lie below what the program expects of a path.
        """
        prices = -multipliers[None] @ self.rows[self._in_force(leaf)]
        graph = self.graphs[leaf.level]
        return not graph.pays_for_standing(prices[:, :-1], -prices[:, -1]).any()

    def _mixture(self, leaf: Leaf) -> Mixture:
        """The best mixture of the paths so far; an atom is exceeded at the price of its cap."""
        chosen, cuts = self._in_force(leaf), self.cuts[leaf.level]
        unit = self.unit[chosen]
        caps = self.caps.setdefault(
            leaf.atoms, np.maximum(2.0 * leaf.multipliers, 0.1 * self.effort / unit)
        )
        over = np.array(cuts.amounts) @ self.rows[chosen].T - self.bounds[chosen]
        mixed = best_mixture(np.array(cuts.returns), over, caps)
        largest = LARGEST_PRICE * self.effort / unit
        self.caps[leaf.atoms] = np.where(mixed.excess > 0, np.minimum(2.0 * caps, largest), caps)
        return mixed

    def _points(self, leaf: Leaf, mixture: Mixture) -> Float[np.ndarray, "point atom"]:
        """Multipliers between the best so far and the master program's; beyond, if it is stuck."""
        if mixture.excess.any():
            shares = 2.0 ** np.arange(-3.0, SIDE_BY_SIDE - 3)
        else:
            shares = 1.0 / 1.7 ** np.arange(SIDE_BY_SIDE)
        step = mixture.multipliers - leaf.multipliers
        return np.maximum(leaf.multipliers + shares[:, None] * step, 0.0)

    def _near(self, leaf: Leaf, mixture: Mixture) -> Float[np.ndarray, "point atom"]:
        """The best multipliers and some around them, to begin on a finer graph."""
        rng = np.random.default_rng(0)
        factors = 1.0 + 0.03 * rng.uniform(-1.0, 1.0, (SIDE_BY_SIDE, len(leaf.multipliers)))
        factors[:2] = 1.0
        points = factors * leaf.multipliers
        points[1] = mixture.multipliers
        return points

    def _broken(self, leaf: Leaf, mixture: Mixture) -> int | None:
        """The clause without an atom in force that the mixture violates most, in steps."""
        amounts = mixture.weights @ np.array(self.cuts[leaf.level].amounts)
        sides = self.rows[:-1] @ amounts
        size = TOLERANCE * (np.abs(self.rows[:-1]) @ np.abs(amounts) + np.abs(self.bounds[:-1]))
        excess = np.maximum(sides - self.bounds[:-1] - size, 0.0) / self.unit[:-1]
        excess[list(leaf.atoms)] = 0.0
        least = np.where(self.members, excess, np.inf).min(axis=1, initial=np.inf)
        if not len(least) or least.max() <= 0:
            return None
        return int(least.argmax())

    def _split(self, leaf: Leaf, clause: int) -> None:
        """One child for each atom of a clause, each evaluated between its parent and the master."""
        children, points = [], []
        for atom in np.flatnonzero(self.members[clause]).tolist():
            multipliers = np.insert(leaf.multipliers, len(leaf.atoms), 0.0)
            child = replace(
                leaf, atoms=(*leaf.atoms, atom), multipliers=multipliers, rounds=0, level=0
            )
            children.append(child)
            points.append(self._points(child, self._mixture(child))[: SIDE_BY_SIDE // 2])
        if not children:  # a clause that nothing keeps
            self.closed.append(replace(leaf, is_impossible=True))
            return
        for child in self._evaluate(0, children, points):
            self._push(child)


@dataclass
class _FluidLeaves:
    """Leaves that cover all branches, by best-first search with the fluid's dual."""

    question: Question

    def __post_init__(self) -> None:
        table, fluid = self.question.problem.atoms, self.question.fluid
        self.effort = fluid.effort
        self.fluid = replace(fluid, effort=1.0)
        rows = table.coefficients @ fluid.amount
        self.unit = np.maximum(np.abs(rows).max(axis=1, initial=0.0), 1e-300)
        self.rows, self.bounds = rows / self.unit[:, None], table.bounds / self.unit
        self.members = table.members
        slowest = np.full(fluid.groups, fluid.slowest)
        self.ceiling = -1.001 * self.fluid.return_of(slowest)
        # What no drive exceeds: at least so many steps, each of which costs at least so much.
        spec = self.question.problem.world_spec
        top = spec.vehicle.max_speed
        self.full_speed = -(1.0 - 1e-12) * self.effort / (1.0 + top) * len(spec.path.cells) / top

    def leaves(self) -> list[Leaf]:
        """Split the leaf with the largest fluid value, until it violates no clause."""
        is_single = self.members.sum(axis=1) == 1
        root = tuple(np.flatnonzero(self.members[is_single].any(axis=0)).tolist())
        numbers = itertools.count()
        heap = [(0.0, next(numbers), root, self._point(root, None))]
        while len(heap) < MOST_FLUID_NODES:
            _, _, atoms, point = heap[0]
            clause = self._broken(atoms, point)
            if clause is None:
                break
            heapq.heappop(heap)
            for atom in np.flatnonzero(self.members[clause]).tolist():
                child = (*atoms, atom)
                found = self._point(child, point)
                heapq.heappush(heap, (found.proven_cost, next(numbers), child, found))
        return [self._leaf(atoms, point) for _, _, atoms, point in heap]

    def _point(self, atoms: tuple[int, ...], parent: DualPoint | None) -> DualPoint:
        """The fluid's multipliers of some atoms, the horizon's first."""
        chosen = list(atoms)
        start = np.zeros(1 + len(atoms))
        if parent is not None:
            start[: len(parent.multipliers)] = parent.multipliers
        dual = BranchDual(
            self.fluid,
            np.concatenate([self.fluid.time_row[None, :], self.rows[chosen]]),
            np.concatenate([[float(self.fluid.horizon_steps)], self.bounds[chosen]]),
        )
        return dual.maximise(start, enough_cost=self.ceiling)

    def _broken(self, atoms: tuple[int, ...], point: DualPoint) -> int | None:
        """The clause without an atom in force that the fluid's times violate most."""
        if point.proven_cost > self.ceiling:
            return None
        excess = self.rows @ point.point - self.bounds
        size = TOLERANCE * (np.abs(self.rows).sum(axis=1) + np.abs(self.bounds))
        need = np.maximum(excess - size, 0.0)
        need[list(atoms)] = 0.0
        least = np.where(self.members, need, np.inf).min(axis=1, initial=np.inf)
        finite = np.where(np.isfinite(least), least, 0.0)
        return int(finite.argmax()) if len(finite) and finite.max() > 0 else None

    def _leaf(self, atoms: tuple[int, ...], point: DualPoint) -> Leaf:
        horizon, *multipliers = self.effort * point.multipliers
        scaled = np.append(np.array(multipliers) / self.unit[list(atoms)], horizon)
        spec = self.question.problem.world_spec
        coefficients = self.question.problem.atoms.coefficients[list(atoms)]
        prices = (scaled[:-1] @ coefficients) * spec.in_step
        value, is_impossible = self.full_speed, False
        if spec.is_poured:  # a policy does nothing that the fluid could not do
            kept = self.question.problem.tolerance * float(scaled[:-1].sum())
            value = kept - self.effort * point.proven_cost
            is_impossible = value < -self.effort * self.ceiling
        largest = np.abs(prices).max(initial=0.0) * spec.vehicle.rate
        largest = max(float(largest), horizon)
        # Multipliers of atoms that the fluid cannot keep grow without bound.
        scaled *= min(1.0, LARGEST_PRICE * self.effort / max(largest, 1e-300))
        return Leaf(atoms, value, scaled, is_impossible)
