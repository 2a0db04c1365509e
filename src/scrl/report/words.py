"""Rules and their outcome as text: which part applies, what is met and by how much."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, assert_never

from scrl.evaluation.record import percentage
from scrl.rules import (
    And,
    Atom,
    Compare,
    Conventions,
    Formula,
    Implies,
    LinearExpression,
    Not,
    Or,
    Positive,
    Relation,
    comparisons,
    negation_normal,
)
from scrl.rules.normal import AllOf
from scrl.rules.show import show, show_linear

if TYPE_CHECKING:
    from scrl.problems import BaseProblem


def amount(value: float) -> str:
    """A number with at most two decimals, or more if it would be shown as 0."""
    if value and abs(value) < 0.01:
        return f"{value:.1g}" if abs(value) >= 1e-6 else "0"
    text = f"{value:,.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def percent(share: float) -> str:
    """A share as text, such as 1.5 %, without a minus before 0; only 1 is 100.0 %."""
    text = percentage(share) if 0.5 < share < 1.0 else f"{100.0 * share:.1f}"
    return f"{text.removeprefix('-') if float(text) == 0.0 else text} %"


def p_text(p: float) -> str:
    """A p-value as text: p = 0.002, or p < 0.001."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}".rstrip("0").rstrip(".")


OPPOSITE: dict[Relation, Relation] = {"<=": ">", ">=": "<", "<": ">=", ">": "<="}

NEUTRAL = "units"
"""The default unit, which is not shown."""
LONGEST_TEXT = 120
"""Longer pieces of a rule are cut off in a sentence."""


@dataclass(frozen=True)
class Said:
    """One piece of a rule as text, with the pieces it consists of."""

    is_held: bool
    text: str
    kind: Literal["fact", "all", "any", "if"] = "fact"
    parts: tuple[Said, ...] = ()
    is_used: bool = True
    """Whether the piece decides the rule; a disjunct that is not taken does not."""


@dataclass(frozen=True)
class RuleDescriber:
    """Describes in words whether densities satisfy formulas."""

    density: Mapping[str, float]
    conventions: Conventions
    tolerance: float
    unit_of: Callable[[Iterable[str]], str] = lambda _: NEUTRAL
    """The unit of the amounts of some regions."""

    @classmethod
    def of(cls, problem: BaseProblem, density: Mapping[str, float]) -> RuleDescriber:
        """The describer of a problem's rules at these densities."""
        return cls(density, problem.rules.conventions, problem.tolerance, problem.unit_of)

    def say(self, formula: Formula, *, positive: bool = True) -> Said:
        """The formula (or, not positive, its negation) in words."""
        match formula:
            case Compare():
                return self._compare(formula, positive)
            case Not(part):
                return self.say(part, positive=not positive)
            case And(parts) | Or(parts):
                said = tuple(self.say(part, positive=positive) for part in parts)
                slacks = [self.slack(part, positive=positive) for part in parts]
                is_all = isinstance(formula, And) == positive
                if is_all:
                    return self._all(said)
                texts = [_short(show(part if positive else Not(part))) for part in parts]
                return self._any(said, slacks, texts)
            case Implies(premise, conclusion) if positive:
                return self._if(premise, conclusion)
            case Implies(premise, conclusion):
                both = (self.say(premise), self.say(conclusion, positive=False))
                return self._all(both)
            case _:
                assert_never(formula)

    def slack(self, formula: Formula, *, positive: bool = True) -> float:
        """How far inside the formula the densities lie, in units; negative: outside."""
        meant = formula if positive else Not(formula)
        return self._slack(negation_normal(meant, self.conventions))

    def _slack(self, node: Positive) -> float:
        if isinstance(node, Atom):
            return float(node.bound) - self._sum(node.coefficients)
        inner: Callable[[Iterable[float]], float] = min if isinstance(node, AllOf) else max
        return inner(self._slack(part) for part in node.parts)

    def _holds(self, formula: Formula, *, positive: bool = True) -> bool:
        return self.slack(formula, positive=positive) >= -self.tolerance

    def _all(self, said: tuple[Said, ...]) -> Said:
        kept = sum(each.is_held for each in said)
        text = f"All {len(said)} are met." if kept == len(said) else (
            f"{kept} of {len(said)} are met; all are needed."
        )  # fmt: skip
        return Said(kept == len(said), text, "all", said)

    def _any(self, said: tuple[Said, ...], slacks: list[float], texts: list[str]) -> Said:
        """A disjunction, decided by the part with the largest slack."""
        taken = max(range(len(said)), key=slacks.__getitem__)
        parts = tuple(replace(each, is_used=index == taken) for index, each in enumerate(said))
        kept = sum(each.is_held for each in said)
        if kept == 0:
            return Said(False, f"None of the {len(said)} ways is met; one is needed.", "any", parts)
        met = f"{texts[taken]} is met" if kept == 1 else f"{kept} of the {len(said)} are met"
        return Said(True, f"One way is enough: {met}.", "any", parts)

    def _if(self, premise: Formula, conclusion: Formula) -> Said:
        condition = self._condition(premise)
        then = self.say(conclusion)
        if self._holds(premise, positive=False):
            asked = Said(
                then.is_held, f"it would ask for {_short(show(conclusion))}", is_used=False
            )
            return Said(
                True,
                "The condition is not met, so nothing more is asked.",
                "if",
                (Said(True, condition), asked),
            )
        text = "The condition is met, and so is what it asks for." if then.is_held else (
            "The condition is met, but not what it asks for."
        )  # fmt: skip
        return Said(then.is_held, text, "if", (Said(True, condition), then))

    def _condition(self, formula: Formula) -> str:
        """The values in a condition: S2 received 298, not above 300."""
        facts = dict.fromkeys(self._condition_fact(each) for each in comparisons(formula))
        return "; ".join(facts)

    def _condition_fact(self, compare: Compare) -> str:
        measured, bound, relation = self._sides(compare)
        if compare.relation == "==":
            is_equal = not self._holds(compare, positive=False)
            return f"{measured}, {'' if is_equal else 'not '}equal to {bound}"
        words = {"<=": "at most", "<": "below", ">=": "at least", ">": "above"}[relation]
        is_true = not self._holds(compare, positive=False)
        return f"{measured}, {'' if is_true else 'not '}{words} {bound}"

    def _compare(self, compare: Compare, positive: bool) -> Said:
        is_held = self._holds(compare, positive=positive)
        if compare.relation == "==":
            return Said(is_held, self._equality(compare, positive))
        measured, bound, relation = self._sides(compare)
        if not positive:
            relation = OPPOSITE[relation]
        over = self.slack(compare, positive=positive)
        is_least = relation in (">=", ">")
        by = amount(abs(over))
        if by == "0":
            return Said(is_held, f"{measured}, exactly {'the least' if is_least else 'the most'} "
                                 "that is allowed")  # fmt: skip
        if is_least:
            rest = f"{by} more than needed" if over > 0 else f"{by} less than needed"
        else:
            rest = f"{by} below the limit" if over > 0 else f"{by} over the limit"
        is_number = compare.right.is_constant or compare.left.is_constant
        return Said(is_held, f"{measured}, {rest}" if is_number else f"{measured}, {bound}: {rest}")

    def _equality(self, compare: Compare, positive: bool) -> str:
        apart = abs(self._value(compare.left) - self._value(compare.right))
        band = self.conventions.equality_band if compare.band is None else compare.band
        measured, bound, _ = self._sides(compare)
        allowed = f"{amount(float(band))} {'allowed' if positive else 'needed at least'}"
        against = f"against {bound}" if compare.right.is_constant else f"and {bound}"
        return f"{measured} {against}: {amount(apart)} apart, {allowed}"

    def _sides(self, compare: Compare) -> tuple[str, str, Relation]:
        """The measured side as text, the other side, and the relation between them."""
        left, right, relation = compare.left, compare.right, compare.relation
        if left.is_constant:
            mirror: dict[Relation, Relation] = {"<=": ">=", ">=": "<=", "<": ">", ">": "<"}
            left, right, relation = right, left, mirror.get(relation, relation)
        return self._measured(left), self._bound(right), relation

    def _measured(self, side: LinearExpression) -> str:
        names = [name for name, _ in side.terms]
        unit = self.unit_of(names)
        value = amount(self._value(side)) + ("" if unit == NEUTRAL else f" {unit}")
        is_plain = side.constant == 0 and all(factor == 1 for _, factor in side.terms)
        if is_plain and len(names) == 1:
            return f"{names[0]} received {value}"
        if is_plain and len(names) <= 4:
            return f"{', '.join(names[:-1])} and {names[-1]} together received {value}"
        return f"{_short(show_linear(side))} comes to {value}"

    def _bound(self, side: LinearExpression) -> str:
        return amount(float(side.constant)) if side.is_constant else self._measured(side)

    def _value(self, side: LinearExpression) -> float:
        return self._sum(side.terms) + float(side.constant)

    def _sum(self, terms: Iterable[tuple[str, Fraction]]) -> float:
        return sum(float(factor) * self.density[name] for name, factor in terms)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
