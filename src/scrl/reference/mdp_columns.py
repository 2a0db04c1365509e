"""Finite MDPs by column generation: `respond` is dynamic programming, so every bound is proven."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class _Deterministic:
    """A deterministic policy, the best for some rewards."""

    best: BestPolicy
    visits: Float[np.ndarray, " reached"]


class _DynamicProgram:
    """Answers prices with the best policy there is, and its proof."""

    def __init__(self, core: Core, rewards: Float[np.ndarray, " row"]) -> None:
        self.core, self.rewards = core, rewards
        self.last: BestPolicy | None = None

    def __call__(
        self, prices: Float[np.ndarray, "response region"]
    ) -> list[Response[_Deterministic]]:
        return [self._respond(each) for each in prices]

    def _respond(self, prices: Float[np.ndarray, " region"]) -> Response[_Deterministic]:
        core = self.core
        self.last = best = core.best_policy(self.rewards + core.labels @ prices, self.last)
        visits = core.visits(best.actions)
        rows = np.arange(len(visits)) * core.available.shape[1] + best.actions
        return Response(
            Column(
                _Deterministic(best, visits),
                float(visits @ core.rewards[rows]),
                visits @ core.labels[rows],
            ),
            best.bound,
        )


def solve_columns(
    mdp: FiniteMDP, atoms: BoundedAtoms, *, time_limit_s: float = float("inf")
) -> ColumnSolution:
    """The best branch; every node of the search is solved by columns from one shared pool."""
    deadline = monotonic() + time_limit_s
    nodes = _Nodes(occupancy_of(mdp), deadline)
    mixtures: dict[tuple[int, ...], MixedPolicy] = {}

    def solve(chosen: Int[np.ndarray, " chosen"]) -> Relaxed:
        relaxed, mixture = nodes.solve(atoms.coefficients[chosen], atoms.bounds[chosen])
        if mixture is not None:
            mixtures[tuple(chosen.tolist())] = mixture
        return relaxed

    choice = search(atoms, solve, size=nodes.largest_reward, deadline=deadline)
    if choice.in_force is None:
        return ColumnSolution(choice)
    return ColumnSolution(choice, mixtures[tuple(choice.in_force.tolist())])


def _optimum(
    occupancy: Occupancy,
    mixture: MixedPolicy,
    visits: Sequence[Float[np.ndarray, " reached"]],
    of_atom: Float[np.ndarray, " atom"],
    values: Float[np.ndarray, " reached"],
) -> Optimum:
    """The mixture as a point of the linear model; the values are the flow's multipliers."""
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
        of_equal=values,
        of_below=np.zeros(0),
    )


class _Nodes:
    """Sets of atoms in force, one after the other; they share their columns."""

    def __init__(self, occupancy: Occupancy, deadline: float) -> None:
        self.occupancy, self.core, self.deadline = occupancy, occupancy.mdp.core, deadline
        self.largest_reward = float(np.abs(self.core.rewards).max(initial=0.0))
        free = _DynamicProgram(self.core, self.core.rewards)(
            np.zeros((1, self.core.labels.shape[1]))
        )
        self.pool = [each.column for each in free if each.column is not None]

    def solve(
        self, coefficients: Float[np.ndarray, "atom region"], bounds: Float[np.ndarray, " atom"]
    ) -> tuple[Relaxed, MixedPolicy | None]:
        """The best mixture and its bound, each atom divided by its size."""
        largest = np.abs(self.core.labels @ coefficients.T).max(axis=0, initial=0.0)
        size = np.maximum(largest, np.abs(bounds))
        size = np.where(size > 0, size, 1.0)
        missed = self._missed(coefficients / size[:, None], bounds / size)
        if isinstance(missed, Relaxed):
            return missed, None
        second = ColumnGeneration(
            _DynamicProgram(self.core, self.core.rewards), coefficients / size[:, None],
            bounds / size, np.full(len(bounds), np.inf), self.pool, inset=-missed,
        )  # fmt: skip
        mixed = self._converged(second)
        if second.dual is None or second.dual[1] is None:
            return Relaxed(float("inf"), is_timed_out=True), None
        used = [self.pool[column] for column in mixed.used]
        mixture = MixedPolicy(
            mixed.weights[mixed.used], np.array([each.policy.best.actions for each in used])
        )
        visits = [each.policy.visits for each in used]
        values = second.dual[1].policy.best.values
        optimum = _optimum(self.occupancy, mixture, visits, second.dual[0] / size, values)
        return Relaxed(second.bound, optimum, self._gap(second, mixed) > STOP), mixture

    def _missed(
        self, coefficients: Float[np.ndarray, "atom region"], bounds: Float[np.ndarray, " atom"]
    ) -> Float[np.ndarray, " atom"] | Relaxed:
        """Phase one: by how much (rounding) the atoms must give, or a proof that they cannot hold.

        For multipliers in [0, 1] every policy misses by at least the least multipliers . over of
        all policies: above 0, that is the proof.
        """
        first = ColumnGeneration(
            _DynamicProgram(self.core, np.zeros_like(self.core.rewards)), coefficients, bounds,
            np.ones(len(bounds)), self.pool, return_weight=0.0,
        )  # fmt: skip

        def missed(mixture: Mixture) -> Float[np.ndarray, " atom"]:
            over = first.over(self.pool[: len(mixture.weights)])
            return np.maximum(mixture.weights @ over, 0.0)

        def is_impossible() -> bool:
            return -first.bound > FEASIBLE / 2

        mixture = first.run(
            lambda mixture, _: [first.price(mixture.multipliers[None])],
            rounds=MOST_COLUMNS,
            tolerance=REDUCED_COST,
            is_enough=lambda mixture, _: (
                is_impossible() or missed(mixture).sum() <= FEASIBLE or self._is_late()
            ),
        )
        if is_impossible():
            return Relaxed(float("-inf"))
        if missed(mixture).sum() <= FEASIBLE:
            return missed(mixture)
        if self._is_late():
            return Relaxed(float("inf"), is_timed_out=True)
        raise NumericalTroubleError(
            f"{len(self.pool)} policies leave open whether the atoms can hold"
        )

    def _converged(self, second: ColumnGeneration[_Deterministic]) -> Mixture:
        """Phase two: mix and price until the mixture meets the bound, or time is up.

        Pulled multipliers converge sooner, but may bring nothing; then the master's own decide.
        """

        def propose(mixture: Mixture, _: int) -> Iterator[list[Column[_Deterministic]]]:
            if second.dual is not None:
                pulled = PULL * second.dual[0] + (1 - PULL) * mixture.multipliers
                yield second.price(pulled[None])
            yield second.price(mixture.multipliers[None])

        mixture = second.run(
            propose,
            rounds=MOST_COLUMNS,
            tolerance=REDUCED_COST,
            size=self.largest_reward,
            is_enough=lambda mixture, _: self._gap(second, mixture) <= STOP or self._is_late(),
        )
        if self._gap(second, mixture) > STOP and not self._is_late():
            raise NumericalTroubleError(
                f"{len(self.pool)} policies leave a gap of {self._gap(second, mixture):.1e} "
                "that no policy closes"
            )
        return mixture

    def _gap(self, second: ColumnGeneration[_Deterministic], mixture: Mixture) -> float:
        """Between bound and mixture, relative to the return and to one reward."""
        size = abs(mixture.value) + self.largest_reward
        return (second.bound - mixture.value) / (size or 1.0)

    def _is_late(self) -> bool:
        return monotonic() >= self.deadline
