"""The answer of a planner: plans, their evaluation, and the gap to the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float

from scrl.evaluation import Evaluation
from scrl.planning.feedback import Aims, FeedbackPolicy
from scrl.policies import Schedule
from scrl.problems import Problem
from scrl.reference import Reference
from scrl.reference.answer import Taken, gap_to
from scrl.reference.priced import Disjunct
from scrl.violation import signed_violation

WHY = ("conflict", "relax", "alternatives", "vehicle_hints", "conflict_rests_on")
"""Fields of a reference that explain impossible rules."""


@dataclass(frozen=True)
class PriceSection:
    """A part of the path and its prices."""

    share: float
    """Share of the path's cells."""
    prices: dict[str, float]
    """Price of a step in each region, in units of return."""


@dataclass(frozen=True, repr=False)
class Plan:
    """The prices of one plan, and its share of the episodes."""

    weight: float
    """Share of the episodes."""
    stretches: tuple[PriceSection, ...]
    """Parts of constant prices, in the order of the path."""
    policy: FeedbackPolicy | Schedule
    aims: Aims | None = None
    """What a plan that reacts aims at; its prices are those that it begins with."""

    @classmethod
    def of(
        cls,
        weight: float,
        names: Sequence[str],
        prices: Float[np.ndarray, "part region"],
        policy: FeedbackPolicy | Schedule,
        aims: Aims | None = None,
    ) -> Plan:
        """A plan from prices on equal parts of the path."""
        changes = np.flatnonzero((np.diff(prices, axis=0) != 0.0).any(axis=1)) + 1
        edges = [0, *changes.tolist(), len(prices)]
        stretches = tuple(
            PriceSection(
                (end - start) / len(prices), dict(zip(names, prices[start].tolist(), strict=True))
            )
            for start, end in pairwise(edges)
        )
        return cls(weight, stretches, policy, aims)

    def __repr__(self) -> str:
        return f"<Plan for {self.weight:.1%} of the episodes, {len(self.stretches)} stretches>"

    @property
    def prices(self) -> dict[str, float]:
        """Price of a step in each region, averaged along the path, in units of return."""
        return {
            name: sum(each.share * each.prices[name] for each in self.stretches)
            for name in self.stretches[0].prices
        }

    def to_json(self) -> dict[str, Any]:
        """The prices and where they change, as plain values."""
        stretches = [{"share": each.share, "prices": each.prices} for each in self.stretches]
        return {"weight": self.weight, "prices": self.prices, "stretches": stretches}


@dataclass(frozen=True, repr=False)
class Answer:
    """The answer to one rule set."""

    problem: Problem
    evaluation: Evaluation
    reference: Reference
    plans: tuple[Plan, ...]
    """One plan, or a mixture that draws one plan by its weight for each episode."""
    branch: tuple[Taken, ...]
    """The disjunct taken in each clause."""
    disjuncts: tuple[Disjunct, ...]
    """The disjuncts of each rule that has several, and their reference returns."""
    warnings: tuple[str, ...]
    wall_s: float

    @property
    def is_satisfied(self) -> bool:
        return self.evaluation.is_satisfied

    @property
    def status(self) -> str:
        """`satisfied`, `impossible` (proven), `unknown` (no plan found, none excluded), or, where
        chance plays a part, `violated`."""
        if self.is_satisfied:
            return "satisfied"
        if self.reference.is_impossible:
            return "impossible"
        return "violated" if self.problem.is_random else "unknown"

    @property
    def gap(self) -> float | None:
        """(bound - return) / |bound|; none without a bound, for rules that are not kept, and for a
        return that is a sample mean."""
        if not self.is_satisfied or self.problem.is_random:
            return None
        return gap_to(self.reference.bound, self.evaluation.return_)

    @property
    def gap_to_best(self) -> float | None:
        """The same against the best single plan known, which is this one unless it is a mixture."""
        if not self.is_satisfied or self.problem.is_random:
            return None
        return 0.0 if len(self.plans) == 1 else None

    @property
    def gap_to_fluid(self) -> float | None:
        """The distance from the fluid estimate, which may be below 0."""
        return gap_to(self.reference.fluid, self.evaluation.return_, is_bound=False)

    def is_met(self, way: Disjunct) -> bool:
        """Whether the densities of the plan keep this disjunct."""
        table, density = self.problem.atoms, list(self.evaluation.density.values())
        over = signed_violation(table.coefficients, table.bounds, np.array(density))
        met = np.flatnonzero(np.asarray(over) <= self.problem.tolerance)
        return way.rests_on({(way.rule, table.atoms[index].show()) for index in met})

    def to_json(self) -> dict[str, Any]:
        """The fields of the command contract."""
        reference = self.reference.to_json()
        return {
            **self.evaluation.to_json(),
            "status": self.status,
            "branch": [each.to_json() for each in self.branch],
            "disjuncts": [
                {
                    "rule": each.rule,
                    "text": each.text,
                    "return": each.return_,
                    "decided": each.is_decided,
                    "taken": each.is_taken,
                    "met": self.is_met(each),
                }
                for each in self.disjuncts
            ],
            "prices": self.plans[0].prices,
            "plans": [plan.to_json() for plan in self.plans],
            "bound": self.reference.bound,
            "bound_reason": self.reference.bound_reason,
            "fluid": self.reference.fluid,
            "gap": self.gap,
            "gap_to_best": self.gap_to_best,
            **{name: reference[name] for name in WHY},
            "warnings": list(self.warnings),
            "wall_s": self.wall_s,
        }

    @property
    def summary(self) -> str:
        """The status and the gap, as text."""
        gap = "" if self.gap is None else f", {self.gap:.1%} below the proven bound"
        return f"{self.status}{gap} ({self.wall_s:.2f} s)"

    def __repr__(self) -> str:
        return f"<Answer {self.problem.name}: return {self.evaluation.return_:.2f}, {self.summary}>"

    def _repr_html_(self) -> str:
        """The evaluation of the plan as tables, for notebooks."""
        return self.evaluation._repr_html_() + escape(self.summary)

    def __str__(self) -> str:
        return f"{self.evaluation}\n  {self.summary}"
