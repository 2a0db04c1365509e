"""A problem as input of the solvers, and their result in terms of its rules and regions."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from scrl.errors import InternalError, ScrlError
from scrl.problems import Problem
from scrl.reference.certificate import Certificate
from scrl.reference.disjunctive import BoundedAtoms, choose_branch
from scrl.reference.fluid import FluidSweep
from scrl.reference.linear import Status
from scrl.rules import Atom
from scrl.rules.linear import exact
from scrl.rules.ruleset import NO_TOTALS, Totals


@dataclass(frozen=True)
class Question:
    """The fluid of a problem's world, under a problem's rules."""

    problem: Problem
    fluid: FluidSweep
    slack: float = 0.0
    """Units by which every bound is loosened."""

    @classmethod
    def of(cls, problem: Problem) -> Question:
        """The fluid with one group for all cells that the rules treat alike."""
        if problem.discount != 1.0:
            raise ScrlError(
                "the reference of a sweep needs discount = 1 (plain sums), and this problem "
                f"({problem.name or 'unnamed'}) has {problem.discount:g}; a discounted world can "
                "be solved as a scrl.reference.FiniteMDP"
            )
        named = (problem.atoms.coefficients != 0).any(axis=0)
        return cls(problem, FluidSweep.of(problem.world_spec, named))

    @cached_property
    def atoms(self) -> BoundedAtoms:
        """The rules with the exact range of each atom."""
        table = self.problem.atoms
        low, high = self.fluid.ranges(table.coefficients).T
        bounds = table.bounds + self.slack
        return BoundedAtoms(table.coefficients, bounds, table.members, low, high)

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
        # Undecided within the time limit counts as possible: infeasibility needs a proof.
        return choice.status is not Status.INFEASIBLE

    def named(self, density: np.ndarray) -> dict[str, float]:
        """Amounts by the names of the regions."""
        names = self.problem.world_spec.amounts
        return dict(zip(names, np.asarray(density, float).tolist(), strict=True))


@dataclass(frozen=True)
class Taken:
    """One clause: the disjunct that is taken, and its other disjuncts."""

    rule: str
    taken: str
    others: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"rule": self.rule, "taken": self.taken, "others": list(self.others)}


@dataclass(frozen=True)
class Dual:
    """The multiplier of an atom: the return gained by loosening its bound by one unit."""

    rule: str
    atom: str
    dual: float


@dataclass(frozen=True)
class Loosened:
    """One atom whose bound is loosened."""

    rule: str
    atom: str
    to: str
    by: float

    @classmethod
    def of(cls, atom: Atom, bound: float, totals: Totals = NO_TOTALS) -> Loosened:
        """The atom with its bound moved to `bound`; by how much is rounded up.

        What a rule asks of a dose is told as a dose.
        """
        moved = atom.loosened(exact(bound) - atom.bound).in_doses(totals)
        atom = atom.in_doses(totals)
        by = moved.bound - atom.bound
        # Hundredths of a unit, or three digits where the whole loosening is smaller than that.
        digits = 2 if by >= 0.01 else 2 - math.floor(math.log10(by))
        by = Fraction(math.ceil(by * 10**digits - Fraction(1, 10**6)), 10**digits)
        return cls(atom.origin.rule or "", atom.show(), atom.loosened(by).show(), float(by))

    def __str__(self) -> str:
        return f"'{self.rule}': {self.atom} becomes {self.to} (by {self.by:,.2f})"


@dataclass(frozen=True)
class BestDriven:
    """What was driven in the true world: one plan, or a mixture that draws one for each episode."""

    return_: float
    density: dict[str, float]
    steps: float
    throttles: tuple[Float[np.ndarray, "step ..."], ...] = field(compare=False, repr=False)
    """Of each plan."""
    weights: tuple[float, ...] = (1.0,)

    def to_json(self) -> dict[str, Any]:
        """Plain values, without the throttles."""
        return {
            "return": self.return_,
            "density": self.density,
            "steps": self.steps,
            "weights": list(self.weights),
        }


OPTIMALITY_TOLERANCE = 0.005
"""A plan is called optimal if it is this share of the bound or less below it."""


@dataclass(frozen=True)
class Reference:
    """What is known of a problem without learning, in raw units of resource and raw return."""

    problem: str
    fluid_status: Status
    """How the search over the fluid's branches ended."""
    fluid: float | None = None
    """Return of the fluid: without whole steps and inertia."""
    fluid_density: dict[str, float] = field(default_factory=dict)
    fluid_steps: float | None = None
    fluid_bound: float = float("inf")
    """No fluid that keeps the rules returns more than this: proven by multipliers."""
    certificate: Certificate | None = None
    """Of the fluid."""
    branch: tuple[Taken, ...] = ()
    duals: tuple[Dual, ...] = ()
    bound: float | None = None
    """No policy that keeps the rules returns more than this, step by step."""
    bound_reason: str | None = None
    """Why there is no bound."""
    is_impossible: bool = False
    """No policy keeps the rules, step by step: proven."""
    plan: BestDriven | None = None
    """The best single plan that was driven and keeps the rules."""
    mixture: BestDriven | None = None
    """The best mixture that keeps the rules, where it is better than the plan."""
    conflict: tuple[tuple[str, str], ...] = ()
    """A smallest set of rules that the fluid cannot keep together: name and text."""
    relax: tuple[Loosened, ...] = ()
    """The least loosening, in total units, that lets the fluid keep the rules."""
    alternatives: tuple[tuple[Loosened, ...], ...] = ()
    """For each rule of the conflict, its own loosening, where that alone is sufficient."""
    vehicle_hints: tuple[str, ...] = ()
    conflict_rests_on: str | None = None
    """Whether conflict and loosening are exact or an estimate, as text."""
    wall_s: float = 0.0

    @property
    def return_(self) -> float | None:
        """Return of the best single plan."""
        return None if self.plan is None else self.plan.return_

    @property
    def density(self) -> dict[str, float]:
        """What the best single plan gives."""
        return {} if self.plan is None else self.plan.density

    @property
    def status(self) -> str:
        """`optimal`, `feasible`, `infeasible` (proven), or `unknown`."""
        if self.is_impossible:
            return "infeasible"
        if self.plan is None:
            return "unknown"
        gap = gap_to(self.bound, self.plan.return_)
        return "optimal" if gap is not None and gap <= OPTIMALITY_TOLERANCE else "feasible"

    def without_conflict(self) -> Reference:
        """The same where a plan keeps the rules that the fluid cannot keep."""
        return replace(
            self,
            conflict=(),
            relax=(),
            alternatives=(),
            vehicle_hints=(),
            conflict_rests_on=None,
        )

    def to_json(self) -> dict[str, Any]:
        """The fields of the command contract."""
        certificate = self.certificate
        return {
            "problem": self.problem,
            "status": self.status,
            "return": self.return_,
            "density": self.density,
            "steps": None if self.plan is None else self.plan.steps,
            "mixture": None if self.mixture is None else self.mixture.to_json(),
            "bound": self.bound,
            "bound_reason": self.bound_reason,
            "gap": None if self.return_ is None else gap_to(self.bound, self.return_),
            "fluid": self.fluid,
            "fluid_density": self.fluid_density,
            "branch": [each.to_json() for each in self.branch],
            "duals": [
                {"rule": each.rule, "atom": each.atom, "dual": each.dual} for each in self.duals
            ],
            "certificate": None
            if certificate is None
            else {
                "primal": certificate.primal,
                "dual": certificate.dual,
                "gap": certificate.gap,
                "bound": certificate.bound,
            },
            "conflict": [{"rule": name, "text": text} for name, text in self.conflict],
            "relax": [_loosened(each) for each in self.relax],
            "alternatives": [[_loosened(each) for each in way] for way in self.alternatives],
            "vehicle_hints": list(self.vehicle_hints),
            "conflict_rests_on": self.conflict_rests_on,
            "wall_s": self.wall_s,
        }

    def __str__(self) -> str:
        if self.is_impossible:
            rules = ", ".join(f"'{name}'" for name, _ in self.conflict)
            ways = "; ".join(str(each) for each in self.relax)
            which = "in conflict" if len(self.conflict) > 1 else "cannot hold"
            return f"{self.problem}: impossible; {which}: {rules}; least loosening: {ways}"
        known = "no bound" if self.bound is None else f"return at most {self.bound:.3f}"
        if self.return_ is None:
            return f"{self.problem}: no plan found, none excluded; {known}"
        amounts = ", ".join(f"{name} {amount:.1f}" for name, amount in self.density.items())
        return (
            f"{self.problem}: plan returns {self.return_:.3f} ({self.status}; {known}); {amounts}"
        )


SMALLEST_GAP = -1e-6


def gap_to(best: float | None, return_: float, *, is_bound: bool = True) -> float | None:
    """(best - return) / |best|, never clamped; none where there is none.

    A return above a proven bound is an error of this program.
    """
    if best is None:
        return None
    gap = (best - return_) / max(abs(best), 1e-300)
    if is_bound and gap < SMALLEST_GAP:
        raise InternalError(f"a return of {return_!r} exceeds the proven bound {best!r}")
    return gap


def _loosened(each: Loosened) -> dict[str, Any]:
    return {"rule": each.rule, "atom": each.atom, "to": each.to, "by": each.by}
