"""Finite MDPs by column generation: `respond` is dynamic programming, so every bound is proven."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import monotonic

import numpy as np
from jaxtyping import Float, Int

from scrl.reference.branches import Relaxed, search
from scrl.reference.columns import ColumnGeneration, Mixture
from scrl.reference.core import BestPolicy, Core
from scrl.reference.disjunctive import BoundedAtoms, BranchChoice
from scrl.reference.finite import FiniteMDP
from scrl.reference.linear import NumericalTroubleError, Optimum
from scrl.reference.occupancy import Occupancy, occupancy_of
from scrl.worlds.contract import Column, Response

STOP = 2e-7
"""Mixture and bound have met when they are this close, relative to the return."""
REDUCED_COST = 1e-7
"""A policy that promises less than this is not worth a place in the mixture."""
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


def _column(core: Core, best: BestPolicy) -> Column[BestPolicy]:
    visits = core.visits(best.actions)
    rows = np.arange(len(visits)) * core.available.shape[1] + best.actions
    return Column(best, float(visits @ core.rewards[rows]), visits @ core.labels[rows])


@dataclass
class _DynamicProgram:
    """Answers prices with the best policy there is, and proves it."""

    core: Core
    rewards: Float[np.ndarray, " row"]
    last: BestPolicy | None = None

    def __call__(self, prices: Float[np.ndarray, "response region"]) -> list[Response[BestPolicy]]:
        found = []
        for each in prices:
            rewards = self.rewards + self.core.labels @ each
            self.last = self.core.best_policy(rewards, self.last)
            found.append(Response(_column(self.core, self.last), self.last.bound))
        return found


def solve_columns(
    mdp: FiniteMDP, atoms: BoundedAtoms, *, time_limit_s: float = float("inf")
) -> ColumnSolution:
    """The best branch; every node of the search is solved by columns from one shared pool."""
    nodes = _Nodes(mdp, monotonic() + time_limit_s)
    mixtures: dict[tuple[int, ...], MixedPolicy] = {}

    def solve(chosen: Int[np.ndarray, " chosen"]) -> Relaxed:
        relaxed, mixture = nodes.solve(atoms.coefficients[chosen], atoms.bounds[chosen])
        if mixture is not None:
            mixtures[tuple(chosen.tolist())] = mixture
        return relaxed

    choice = search(atoms, solve, size=nodes.reward, deadline=nodes.deadline)
    if choice.in_force is None:
        return ColumnSolution(choice)
    return ColumnSolution(choice, mixtures[tuple(choice.in_force.tolist())])


class _Nodes:
    """Sets of atoms in force, one after the other; they share their columns."""

    def __init__(self, mdp: FiniteMDP, deadline: float) -> None:
        self.occupancy, self.core, self.deadline = occupancy_of(mdp), mdp.core, deadline
        self.reward = float(np.abs(self.core.rewards).max(initial=0.0))
        self.pool = [_column(self.core, self.core.best_policy(self.core.rewards))]

    def solve(
        self, coefficients: Float[np.ndarray, "atom region"], bounds: Float[np.ndarray, " atom"]
    ) -> tuple[Relaxed, MixedPolicy | None]:
        """The best mixture with these atoms in force, each divided by its size, and its bound."""
        largest = np.abs(self.core.labels @ coefficients.T).max(axis=0, initial=0.0)
        size = np.maximum(largest, np.abs(bounds))
        size = np.where(size > 0, size, 1.0)
        first = ColumnGeneration(
            _DynamicProgram(self.core, np.zeros_like(self.core.rewards)),
            coefficients / size[:, None], bounds / size, np.ones(len(bounds)), self.pool,
            return_weight=0.0,
        )  # fmt: skip
        missed = self._missed(first)
        if missed is None:
            is_proven = first.bound < -FEASIBLE / 2
            return Relaxed(float("-inf" if is_proven else "inf"), is_timed_out=not is_proven), None
        second = replace(
            first, respond=_DynamicProgram(self.core, self.core.rewards),
            penalties=np.full(len(bounds), np.inf), inset=-missed, return_weight=1.0,
        )  # fmt: skip
        mixed = self._best(second)
        if second.dual is None or second.dual[1] is None:
            return Relaxed(float("inf"), is_timed_out=True), None
        used = [self.pool[column].policy.actions for column in mixed.used]
        mixture = MixedPolicy(mixed.weights[mixed.used], np.array(used))
        multipliers, values = second.dual[0] / size, second.dual[1].policy.values
        optimum = _optimum(self.occupancy, mixture, multipliers, values)
        return Relaxed(second.bound, optimum, self._gap(second, mixed) > STOP), mixture

    def _missed(self, first: ColumnGeneration[BestPolicy]) -> Float[np.ndarray, " atom"] | None:
        """Phase one: by how much (rounding) the atoms must give; None if they cannot hold.

        For multipliers in [0, 1] every policy misses by at least the least multipliers . over of
        all policies: above 0, that proves it. None also where time is up.
        """

        def missed(mixture: Mixture) -> Float[np.ndarray, " atom"]:
            return np.maximum(mixture.weights @ first.over(self.pool[: len(mixture.weights)]), 0.0)

        def is_over(mixture: Mixture, _: int = 0) -> bool:
            return first.bound < -FEASIBLE / 2 or missed(mixture).sum() <= FEASIBLE or self._is_late

        mixture = first.run(
            lambda mixture, _: [first.price(mixture.multipliers[None])],
            rounds=MOST_COLUMNS, tolerance=REDUCED_COST, is_enough=is_over,
        )  # fmt: skip
        if not is_over(mixture):
            raise NumericalTroubleError(
                f"{len(self.pool)} policies leave open whether the atoms can hold"
            )
        is_kept = first.bound >= -FEASIBLE / 2 and missed(mixture).sum() <= FEASIBLE
        return missed(mixture) if is_kept else None

    def _best(self, second: ColumnGeneration[BestPolicy]) -> Mixture:
        """Phase two: mix and price until the mixture meets the bound, or time is up.

        Pulled multipliers converge sooner, but may bring nothing; then the master's own decide.
        """

        def propose(mixture: Mixture, _: int) -> Iterator[list[Column[BestPolicy]]]:
            if second.dual is not None:
                pulled = PULL * second.dual[0] + (1 - PULL) * mixture.multipliers
                yield second.price(pulled[None])
            yield second.price(mixture.multipliers[None])

        def is_over(mixture: Mixture, _: int = 0) -> bool:
            return self._gap(second, mixture) <= STOP or self._is_late

        mixture = second.run(
            propose, rounds=MOST_COLUMNS, tolerance=REDUCED_COST, size=self.reward,
            is_enough=is_over,
        )  # fmt: skip
        if not is_over(mixture):
            raise NumericalTroubleError(
                f"{len(self.pool)} policies leave a gap of {self._gap(second, mixture):.1e} "
                "that no policy closes"
            )
        return mixture

    def _gap(self, second: ColumnGeneration[BestPolicy], mixture: Mixture) -> float:
        """Between bound and mixture, relative to the return and to one reward."""
        return (second.bound - mixture.value) / ((abs(mixture.value) + self.reward) or 1.0)

    @property
    def _is_late(self) -> bool:
        return monotonic() >= self.deadline


def _optimum(
    occupancy: Occupancy,
    mixture: MixedPolicy,
    of_atom: Float[np.ndarray, " atom"],
    values: Float[np.ndarray, " reached"],
) -> Optimum:
    """The mixture as a point of the linear model; the values are the flow's multipliers."""
    core, model = occupancy.mdp.core, occupancy.model
    table = np.zeros(core.available.size)
    for weight, actions in zip(mixture.weights, mixture.policies, strict=True):
        rows = np.arange(len(actions)) * core.available.shape[1] + actions
        table[rows] += weight * core.visits(actions)
    point = table[occupancy.rows]
    return Optimum(
        point=point,
        return_=float(model.reward @ point),
        density=model.density @ point,
        of_atom=of_atom,
        of_equal=values,
        of_below=np.zeros(0),
    )
