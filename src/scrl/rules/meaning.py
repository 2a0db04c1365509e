"""The direct evaluation of rules at densities and in runs, against which fast code is tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import assert_never

from scrl.errors import RuleError, did_you_mean
from scrl.rules.conventions import DEFAULT, Conventions
from scrl.rules.linear import LinearExpression, Number, fraction
from scrl.rules.syntax import (
    And,
    Compare,
    Formula,
    Implies,
    Not,
    Or,
    Statement,
    formula_of,
    share_of,
)


def holds(
    formula: Formula, density: Mapping[str, Number], conventions: Conventions = DEFAULT
) -> bool:
    """Whether the formula holds; exact, also on a boundary."""
    return _holds(formula, density, conventions, True)


def holds_in_runs(
    rule: Statement, runs: Sequence[Mapping[str, Number]], conventions: Conventions = DEFAULT
) -> bool:
    """Whether a rule holds in a sample of runs, each with its own amounts; exact.

    On average: the formula holds for the mean amounts. With a share p: the formula holds for the
    amounts of at least a share p of the runs, so different runs may keep an `or` by different
    disjuncts.
    """
    formula, share = formula_of(rule), share_of(rule)
    if share is not None:
        kept = sum(holds(formula, run, conventions) for run in runs)
        return Fraction(kept, len(runs)) >= share
    names = runs[0].keys()
    mean = {name: sum((fraction(run[name]) for run in runs), Fraction(0)) for name in names}
    return holds(formula, {name: total / len(runs) for name, total in mean.items()}, conventions)


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
