"""The direct evaluation of a formula at given densities, against which fast code is tested."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import assert_never

from scrl.errors import RuleError, did_you_mean
from scrl.rules.conventions import DEFAULT, Conventions
from scrl.rules.linear import LinearExpression, Number, fraction
from scrl.rules.syntax import And, Compare, Formula, Implies, Not, Or


def holds(
    formula: Formula, density: Mapping[str, Number], conventions: Conventions = DEFAULT
) -> bool:
    """Whether the formula holds; exact, also on a boundary."""
    return _holds(formula, density, conventions, True)


def _holds(
    formula: Formula, density: Mapping[str, Number], conventions: Conventions, positive: bool
) -> bool:
    """Whether the formula (positive) or its closed negation (not positive) holds."""

    def part_holds(part: Formula, part_positive: bool = positive) -> bool:
        return _holds(part, density, conventions, part_positive)

    match formula:
        case Compare():
            difference = _value(formula.left, density) - _value(formula.right, density)
            return _compare_holds(formula, difference, conventions, positive)
        case Not(part):
            return part_holds(part, not positive)
        case And(parts):
            return (all if positive else any)(part_holds(part) for part in parts)
        case Or(parts):
            return (any if positive else all)(part_holds(part) for part in parts)
        case Implies(premise, conclusion):
            both = (part_holds(premise, not positive), part_holds(conclusion))
            return (any if positive else all)(both)
        case _:
            assert_never(formula)


def _compare_holds(
    compare: Compare, difference: Fraction, conventions: Conventions, positive: bool
) -> bool:
    """x <= b holds iff x - b <= 0, negated iff x - b >= margin; x > b is not (x <= b)."""
    margin = conventions.margin
    match compare.relation:
        case "<=":
            return difference <= 0 if positive else difference >= margin
        case ">=":
            return difference >= 0 if positive else difference <= -margin
        case ">":
            return difference >= margin if positive else difference <= 0
        case "<":
            return difference <= -margin if positive else difference >= 0
        case "==":
            band = conventions.equality_band if compare.band is None else compare.band
            return abs(difference) <= band if positive else abs(difference) >= band + margin
        case _:
            assert_never(compare.relation)


def _value(linear: LinearExpression, density: Mapping[str, Number]) -> Fraction:
    terms = (coefficient * _density(name, density) for name, coefficient in linear.terms)
    return sum(terms, start=linear.constant)


def _density(name: str, density: Mapping[str, Number]) -> Fraction:
    if name not in density:
        raise RuleError(f"no density for region '{name}'{did_you_mean(name, density)}")
    return fraction(density[name])
