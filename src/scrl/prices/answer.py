"""What a planner answers: plans, what they do to the rules, and how near they are to the best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scrl.evaluation import Evaluation
from scrl.policies import Schedule
from scrl.prices.policy import PricePolicy
from scrl.problems import Problem
from scrl.reference import Reference, Status
from scrl.reference.priced import Disjunct


@dataclass(frozen=True)
class Plan:
    """Prices to drive by, and how often."""

    weight: float
    prices: dict[str, float]
    """Return for a step in each region."""
    policy: PricePolicy | Schedule


def holds(evaluation: Evaluation, confidence: float | None) -> bool:
    """In expectation, and in as many single episodes as were asked for."""
    alone = 0.0 if confidence is None else confidence * evaluation.episodes
    return evaluation.is_satisfied and evaluation.episodes_satisfied >= alone


@dataclass(frozen=True)
class Answer:
    """What was found for one rule set."""

    problem: Problem
    evaluation: Evaluation
    reference: Reference
    plans: tuple[Plan, ...]
    """One, or several of which each episode draws one by its weight."""
    disjuncts: tuple[Disjunct, ...]
    """The ways to keep each rule that leaves a choice, and what they would return."""
    warnings: tuple[str, ...]
    wall_s: float
    confidence: float | None = None

    @property
    def is_satisfied(self) -> bool:
        return holds(self.evaluation, self.confidence)

    @property
    def status(self) -> str:
        """`satisfied`, `violated`, or `impossible` (proven by the reference)."""
        if self.is_satisfied:
            return "satisfied"
        return "impossible" if self.reference.status is Status.INFEASIBLE else "violated"

    @property
    def gap(self) -> float | None:
        """(reference return - return) / |reference return|; none where rules are impossible."""
        best = self.reference.return_
        return None if best is None else (best - self.evaluation.return_) / abs(best)

    def to_json(self) -> dict[str, Any]:
        """The fields of the command contract."""
        reference = self.reference.to_json()
        return {
            **self.evaluation.to_json(),
            "status": self.status,
            "branch": reference["branch"],
            "disjuncts": [
                {
                    "rule": each.rule,
                    "text": each.text,
                    "return": each.return_,
                    "taken": each.is_taken,
                }
                for each in self.disjuncts
            ],
            "prices": self.plans[0].prices,
            "plans": [{"weight": each.weight, "prices": each.prices} for each in self.plans],
            "reference": self.reference.return_,
            "gap": self.gap,
            "conflict": reference["conflict"],
            "relax": reference["relax"],
            "warnings": list(self.warnings),
            "wall_s": self.wall_s,
        }

    def __str__(self) -> str:
        gap = "" if self.gap is None else f", {self.gap:.1%} from the reference"
        return f"{self.evaluation}\n  {self.status}{gap} ({self.wall_s:.2f} s)"
