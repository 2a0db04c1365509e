"""The master programs of column generation: mix a few policies, by small linear programs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse
from scipy.optimize import OptimizeResult, linprog

from scrl.reference.branches import Relaxed, search
from scrl.reference.core import BestPolicy, Core
from scrl.reference.disjunctive import BoundedAtoms, BranchChoice
from scrl.reference.finite import FiniteMDP
from scrl.reference.linear import NumericalTroubleError, Optimum
from scrl.reference.occupancy import Occupancy, occupancy_of

LARGEST = 1e12
"""HiGHS refuses numbers from 1e15 on: atoms with larger ones are divided until they fit."""


@dataclass(frozen=True)
class Mixed:
    """Weights of the columns, what they give, and the multiplier of each atom."""

    weights: Float[np.ndarray, " column"]
    value: float
    of_atom: Float[np.ndarray, " atom"]


def best_mixture(
    returns: Float[np.ndarray, " column"],
    over: Float[np.ndarray, "column atom"],
    slack: Float[np.ndarray, " atom"],
) -> Mixed:
    """max returns . w over distributions w with over' w <= slack."""
    scale = float(np.abs(returns).max()) or 1.0
    result = _solve(-returns / scale, over.T, slack, np.ones(len(returns)))
    prices = -np.asarray(result.ineqlin.marginals) * scale
    return Mixed(result.x, float(returns @ result.x), np.maximum(prices, 0.0))


def least_violation(over: Float[np.ndarray, "column atom"]) -> Mixed:
    """min sum_j t_j over distributions w and t >= 0 with over' w <= t: how badly the atoms miss."""
    columns, atoms = over.shape
    result = _solve(
        np.concatenate([np.zeros(columns), np.ones(atoms)]),
        _loosened(over),
        np.zeros(atoms),
        np.concatenate([np.ones(columns), np.zeros(atoms)]),
    )
    weights = result.x[:columns]
    missed = np.maximum(over.T @ weights, 0.0).sum()
    # a price above 1 would be no bound: t_j costs 1
    prices = np.clip(-np.asarray(result.ineqlin.marginals), 0.0, 1.0)
    return Mixed(weights, float(missed), prices)


@dataclass(frozen=True)
class Elastic(Mixed):
    """A mixture that may exceed atoms, at a price; `value` is net of it."""

    slack: Float[np.ndarray, " atom"]
    """By how much each atom is exceeded."""


def elastic_mixture(
    returns: Float[np.ndarray, " column"],
    over: Float[np.ndarray, "column atom"],
    penalties: Float[np.ndarray, " atom"],
) -> Elastic:
    """max returns . w - penalties . slack  over distributions w with over' w <= slack."""
    columns, atoms = over.shape
    scale = np.maximum(np.abs(over).max(axis=0, initial=0.0) / LARGEST, 1.0)
    result = _solve(
        np.concatenate([-returns, penalties * scale]),
        _loosened(over / scale),
        np.zeros(atoms),
        np.concatenate([np.ones(columns), np.zeros(atoms)]),
        method="highs",
    )
    of_atom = -np.asarray(result.ineqlin.marginals) if atoms else np.zeros(0)
    slack = result.x[columns:] * scale
    return Elastic(result.x[:columns], -float(result.fun), of_atom / scale, slack)


def _loosened(over: Float[np.ndarray, "column atom"]) -> sparse.csr_array:
    """A row for each atom, with a slack of its own: all but the columns is nearly empty."""
    return sparse.csr_array(sparse.hstack([over.T, -sparse.eye_array(over.shape[1])]))


def _solve(
    cost: np.ndarray,
    rows: np.ndarray | sparse.csr_array,
    at_most: np.ndarray,
    is_weight: np.ndarray,
    *,
    method: str = "highs-ds",
) -> OptimizeResult:
    """min cost . x over x >= 0, rows x <= at_most, weights that sum to 1."""
    result = linprog(
        cost,
        A_ub=rows if len(at_most) else None,
        b_ub=at_most if len(at_most) else None,
        A_eq=is_weight[None, :],
        b_eq=[1.0],
        method=method,
    )
    if result.status != 0:
        raise NumericalTroubleError(f"a mixture of policies was not found: {result.message}")
    result.x = np.maximum(result.x, 0.0)
    result.x[is_weight > 0] /= result.x[is_weight > 0].sum()
    return result


STOP = 2e-7
"""Mixture and bound have met when they are this close, relative to the return."""
FEASIBLE = 1e-8
"""Atoms that miss by less than this share of their size hold."""
MOST_COLUMNS = 2_000
"""For one set of atoms in force."""
PULL = 0.5
"""How far the multipliers to price are pulled towards those with the best bound."""


@dataclass(frozen=True)
class MixedPolicy:
    """Play policy k with probability weights[k], drawn once at the start of an episode."""

    weights: Float[np.ndarray, " column"]
    policies: Int[np.ndarray, "column reached"]
    """The action of each deterministic policy in each state of the MDP's core."""


@dataclass(frozen=True)
class ColumnSolution:
    """The best branch and what proves it, as from the linear program, and the mixture behind it."""

    choice: BranchChoice
    mixture: MixedPolicy | None = None


@dataclass(frozen=True)
class _Column:
    """A deterministic policy and what it gives."""

    actions: Int[np.ndarray, " reached"]
    visits: Float[np.ndarray, " reached"]
    return_: float
    density: Float[np.ndarray, " region"]


def _column(core: Core, actions: Int[np.ndarray, " reached"]) -> _Column:
    visits = core.visits(actions)
    rows = np.arange(len(actions)) * core.available.shape[1] + actions
    return _Column(actions, visits, float(visits @ core.rewards[rows]), visits @ core.labels[rows])


@dataclass(frozen=True)
class _Found:
    """The best mixture of the pool under some atoms, and the least bound with what proves it."""

    mixed: Mixed | None = None
    bound: float = float("inf")
    """No policy that keeps the atoms has a return above this; -inf: no policy keeps them."""
    of_atom: Float[np.ndarray, " atom"] | None = None
    plan: BestPolicy | None = None
    is_timed_out: bool = False


def solve_columns(
    mdp: FiniteMDP, atoms: BoundedAtoms, *, time_limit_s: float = float("inf")
) -> ColumnSolution:
    """The best branch; every node of the search is solved by columns from one shared pool."""
    deadline = monotonic() + time_limit_s
    occupancy = occupancy_of(mdp)
    pool = [_column(mdp.core, mdp.core.best_policy(mdp.core.rewards).actions)]
    mixtures: dict[tuple[int, ...], MixedPolicy] = {}

    def solve(chosen: Int[np.ndarray, " chosen"]) -> Relaxed:
        branch = _Branch(mdp.core, pool, atoms.coefficients[chosen], atoms.bounds[chosen])
        found = branch.solve(deadline)
        if found.mixed is None or found.of_atom is None or found.plan is None:
            return Relaxed(found.bound, is_timed_out=found.is_timed_out)
        weights = found.mixed.weights
        used = [column for column, weight in zip(pool, weights, strict=False) if weight > 0]
        mixture = MixedPolicy(weights[weights > 0], np.array([each.actions for each in used]))
        mixtures[tuple(chosen.tolist())] = mixture
        visits = [each.visits for each in used]
        optimum = _optimum(occupancy, mixture, visits, found.of_atom / branch.size, found.plan)
        return Relaxed(found.bound, optimum, found.is_timed_out)

    size = float(np.abs(mdp.core.rewards).max(initial=0.0))
    choice = search(atoms, solve, size=size, deadline=deadline)
    if choice.in_force is None:
        return ColumnSolution(choice)
    return ColumnSolution(choice, mixtures[tuple(choice.in_force.tolist())])


def _optimum(
    occupancy: Occupancy,
    mixture: MixedPolicy,
    visits: list[np.ndarray],
    of_atom: Float[np.ndarray, " atom"],
    plan: BestPolicy,
) -> Optimum:
    """The mixture as a point of the linear model; the plan's values are the flow's multipliers."""
    width = occupancy.mdp.actions
    table = np.zeros(occupancy.mdp.core.available.size)
    for weight, each, actions in zip(mixture.weights, visits, mixture.policies, strict=True):
        table[np.arange(len(actions)) * width + actions] += weight * each
    model, point = occupancy.model, table[occupancy.rows]
    return Optimum(
        point=point,
        return_=float(model.reward @ point),
        density=model.density @ point,
        of_atom=of_atom,
        of_equal=plan.values,
        of_below=np.zeros(0),
    )


class _Branch:
    """One set of atoms in force, each divided by its size: over = (a . density - b) / size."""

    def __init__(
        self, core: Core, pool: list[_Column], coefficients: np.ndarray, bounds: np.ndarray
    ) -> None:
        amounts = core.labels @ coefficients.T
        size = np.maximum(np.abs(amounts).max(axis=0, initial=0.0), np.abs(bounds))
        self.size = np.where(size > 0, size, 1.0)
        self.core, self.pool = core, pool
        self.amounts = amounts / self.size
        self.coefficients = coefficients / self.size[:, None]
        self.bounds = bounds / self.size

    def solve(self, deadline: float) -> _Found:
        """Alternate between master and pricing until the mixture meets the bound."""
        slack = self._slack(deadline)
        if isinstance(slack, _Found):
            return slack
        best = _Found()
        for _ in range(MOST_COLUMNS):
            returns = np.array([each.return_ for each in self.pool])
            best = replace(best, mixed=best_mixture(returns, self._over(), slack))
            best, is_new = self._price(best)
            if self._gap(best) <= STOP:
                return best
            if monotonic() >= deadline:
                return replace(best, is_timed_out=True)
            if not is_new:
                break
        raise NumericalTroubleError(
            f"{len(self.pool)} policies leave a gap of {self._gap(best):.1e} that no policy closes"
        )

    def _price(self, best: _Found) -> tuple[_Found, bool]:
        """Look for a policy that the mixture lacks; False if there is none.

        Pulled prices converge sooner, but may find nothing; then the master's own prices decide.
        """
        mixed = best.mixed
        if mixed is None:
            return best, False
        pulled = [] if best.of_atom is None else [PULL * best.of_atom + (1 - PULL) * mixed.of_atom]
        for prices in (*pulled, mixed.of_atom):
            plan = self.core.best_policy(self.core.rewards - self.amounts @ prices, best.plan)
            bound = float(prices @ self.bounds) + plan.bound
            if bound < best.bound:
                best = replace(best, bound=bound, of_atom=prices, plan=plan)
            column = _column(self.core, plan.actions)
            over = self.coefficients @ column.density - self.bounds
            if column.return_ - float(mixed.of_atom @ over) > mixed.value:
                self.pool.append(column)
                return best, True
        return best, False

    def _slack(self, deadline: float) -> Float[np.ndarray, " atom"] | _Found:
        """Phase one: by how much (rounding) the atoms must give, or a proof that they cannot hold.

        For prices in [0, 1] every policy misses by at least
        min over policies of prices . (a . density - b) / size: above 0, that is the proof.
        """
        plan: BestPolicy | None = None
        for _ in range(MOST_COLUMNS):
            over = self._over()
            mixed = least_violation(over)
            if mixed.value <= FEASIBLE:
                return np.maximum(mixed.weights @ over, 0.0)
            if monotonic() >= deadline:
                return _Found(is_timed_out=True)
            plan = self.core.best_policy(-self.amounts @ mixed.of_atom, plan)
            if -plan.bound - float(mixed.of_atom @ self.bounds) > FEASIBLE / 2:
                return _Found(bound=float("-inf"))
            self.pool.append(_column(self.core, plan.actions))
        raise NumericalTroubleError(
            f"{MOST_COLUMNS} policies leave open whether the atoms can hold"
        )

    def _over(self) -> Float[np.ndarray, "column atom"]:
        densities = np.array([each.density for each in self.pool])
        return densities @ self.coefficients.T - self.bounds

    def _gap(self, best: _Found) -> float:
        """Between bound and mixture, relative to the return and to one reward."""
        if best.mixed is None:
            return float("inf")
        size = abs(best.mixed.value) + float(np.abs(self.core.rewards).max(initial=0.0))
        return (best.bound - best.mixed.value) / (size or 1.0)
