"""A problem made ready for the programs: its fluid, its atoms with their reach."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool

from scrl.errors import ScrlError
from scrl.problems import Problem
from scrl.reference.disjunctive import Atoms, choose_branch
from scrl.reference.fluid import FluidSweep
from scrl.reference.linear import Status


@dataclass(frozen=True)
class Question:
    """The fluid of a problem's world, under a problem's rules."""

    problem: Problem
    fluid: FluidSweep

    @classmethod
    def of(cls, problem: Problem) -> Question:
        """The fluid groups only cells that the rules do not tell apart."""
        if problem.discount != 1.0:
            raise ScrlError(
                "the reference of a sweep needs discount = 1 (plain sums), and this problem "
                f"({problem.name or 'unnamed'}) has {problem.discount:g}; a discounted world can "
                "be solved as a scrl.reference.FiniteMDP"
            )
        named = (problem.atoms.coefficients != 0).any(axis=0)
        return cls(problem, FluidSweep.of(problem.world_spec, named))

    @cached_property
    def atoms(self) -> Atoms:
        """The rules with the exact reach of each atom."""
        table = self.problem.atoms
        low, high = self.fluid.ranges(table.coefficients).T
        return Atoms(table.coefficients, table.bounds, table.members, low, high)

    def clauses_of(self, rules: Collection[int]) -> Bool[np.ndarray, " clause"]:
        """Which clauses come from these rules."""
        return np.isin(self.problem.atoms.clause_rule, list(rules))

    def is_possible(
        self, rules: Collection[int] | None = None, *, time_limit_s: float = 5.0
    ) -> bool:
        """Whether these rules (default: all) can hold together."""
        atoms = self.atoms
        if rules is not None:
            atoms = replace(atoms, members=atoms.members[self.clauses_of(rules)])
        choice = choose_branch(self.fluid.times_only, atoms, time_limit_s=time_limit_s)
        # Undecided in time counts as possible: nothing is called impossible without a proof.
        return choice.status is not Status.INFEASIBLE

    def named(self, density: np.ndarray) -> dict[str, float]:
        """Amounts by the names of the regions."""
        names = self.problem.world_spec.regions.names
        return dict(zip(names, np.asarray(density, float).tolist(), strict=True))
