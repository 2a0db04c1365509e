"""The trade-off between the bound of a rule and the best return."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from scrl.errors import RuleError, did_you_mean
from scrl.problems import Problem
from scrl.reference.answer import Question
from scrl.reference.fluid_search import best_fluid

WIDEST_SHARE = 0.5


@dataclass(frozen=True)
class Trade:
    """The best return as a function of how far all bounds of a rule are loosened, in units."""

    problem: str
    rule: str
    text: str
    unit: str
    shift: Float[np.ndarray, " point"]
    return_: Float[np.ndarray, " point"]
    """NaN where the rules cannot be kept."""
    bound: float | None
    """The bound itself, if the rule is a single comparison of one region."""
    is_least: bool

    @property
    def bounds(self) -> Float[np.ndarray, " point"] | None:
        """The bound at each point, where there is just one: S3 >= 800 loosened by 10 is 790."""
        if self.bound is None:
            return None
        return self.bound - self.shift if self.is_least else self.bound + self.shift

    def to_json(self) -> dict[str, Any]:
        """Plain values; null where the rules cannot be kept."""
        bounds = self.bounds
        return {
            "problem": self.problem,
            "rule": self.rule,
            "text": self.text,
            "shift": self.shift.tolist(),
            "bound": None if bounds is None else bounds.tolist(),
            "return": [None if np.isnan(value) else float(value) for value in self.return_],
        }


def trade_off(problem: Problem, rule: str, *, points: int = 21, span: float | None = None) -> Trade:
    """Solve the problem with every bound of `rule` moved by -span to span units."""
    names = [each.name for each in problem.rules.rules]
    if rule not in names:
        raise RuleError(f"{problem.name} has no rule '{rule}'{did_you_mean(rule, names)}")
    question, table = Question.of(problem), problem.atoms
    index = names.index(rule)
    moved = table.members[table.clause_rule == index].any(axis=0)
    if points < 2 or (span is not None and not 0 < span < np.inf):
        raise RuleError("a sweep needs at least 2 points and a finite span above 0")
    asked = float(np.abs(table.bounds[moved]).max())
    # A rule such as S1 >= S2 has the bound 0; the scale is then the amount at full speed.
    given = question.fluid.amount @ question.fluid.fully_open(question.fluid.fastest)
    natural = asked or float((np.abs(table.coefficients[moved]) @ given).max())
    width = WIDEST_SHARE * natural if span is None else span
    shift = np.linspace(-width, width, points)
    returns = [_return(question, table.bounds + moved * each) for each in shift]
    bound, is_least = _single_bound(table.coefficients[moved], table.bounds[moved])
    return Trade(
        problem=problem.name,
        rule=rule,
        text=problem.rules.rules[index].text,
        unit=problem.world_spec.units.unit,
        shift=shift,
        return_=np.array(returns),
        bound=bound,
        is_least=is_least,
    )


def _return(question: Question, bounds: Float[np.ndarray, " atom"]) -> float:
    found = best_fluid(question.fluid, replace(question.atoms, bounds=bounds))
    return float("nan") if found.best is None else found.best.return_


def _single_bound(coefficients: np.ndarray, bounds: np.ndarray) -> tuple[float | None, bool]:
    """The bound of a rule such as S3 >= 800, and whether it asks for at least that."""
    if len(bounds) != 1 or np.abs(coefficients).sum() != 1.0:
        return None, False
    coefficient = float(coefficients[coefficients != 0][0])
    return float(bounds[0]) / coefficient, coefficient < 0
