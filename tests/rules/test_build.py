"""Formulas by Python operators, and the mistakes that Python invites."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from scrl.errors import RuleError
from scrl.rules import (
    And,
    Compare,
    Conventions,
    LinearExpression,
    Not,
    Or,
    Requirement,
    Statement,
    average,
    d,
    implies,
    parse,
    show,
    total,
)


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        ((d["S2"] <= 300) | (d["S3"] >= 800), "S2 <= 300 or S3 >= 800"),
        ((d["S1"] + d["S4"] == d["S3"]).within(6), "S1 + S4 == S3 within 6"),
        (implies(~(d["S1"] >= 300), d["S2"] < 3), "if not (S1 >= 300) then S2 < 3"),
        ((d["S1"] > 1) & (d["S2"] > 2) & (d["S3"] > 3), "S1 > 1 and S2 > 2 and S3 > 3"),
        (2 * d["S1"] - d["S2"] / 4 + 0.1 <= 3 - d["S3"], "2*S1 - S2/4 + 0.1 <= 3 - S3"),
        (-d["S1"] * Fraction(1, 3) >= +d["S2"], "-S1/3 >= S2"),
        (total(d["S1"], d["S2"], 3) >= 5, "total(S1, S2, 3) >= 5"),
        (average(d["S1"], d["S2"], d["S3"]) <= 1, "average(S1, S2, S3) <= 1"),
        (d["north field"] <= np.float64(0.1), '"north field" <= 0.1'),
        (np.int64(2) * d["S1"] <= Decimal("0.3"), "2*S1 <= 0.3"),
        (d["S1"] - d["S1"] + d["S2"] + d["S1"] <= 0, "S1 - S1 + S2 + S1 <= 0"),
        (((d["S1"] <= 3) | (d["S2"] > 4)).in_share(0.95), "S1 <= 3 or S2 > 4 in 95 %"),
        (implies(d["S1"] <= 3, d["S2"] > 4).surely(), "if S1 <= 3 then S2 > 4 surely"),
        ((d["S1"] <= 3).in_share(np.float64(0.1)), "S1 <= 3 in 10 %"),
        ((d["S1"] <= 3).in_share(Fraction(1, 3)), "S1 <= 3 in 100/3 %"),
        ((d["S1"] <= 3).on_average(), "S1 <= 3 on average"),
    ],
)
def test_operators_build_what_the_text_means(formula: Statement, text: str) -> None:
    assert formula == parse(text)


def test_a_number_on_the_left_is_turned_round_by_python():
    assert show(100 <= d["S1"]) == "S1 >= 100"  # noqa: SIM300


def test_a_formula_is_not_a_truth_value():
    with pytest.raises(TypeError, match="instead of and, or, not"):
        _ = 100 <= d["S1"] <= 300
    with pytest.raises(TypeError, match="write the chain"):
        _ = (d["S1"] <= 1) and (d["S2"] <= 1)
    with pytest.raises(TypeError, match="neither true nor false"):
        _ = (d["S1"] <= 1).surely() or (d["S2"] <= 1)


def test_forgotten_parentheses_are_explained():
    with pytest.raises(TypeError, match="parentheses"):
        _ = d["S2"] <= 300 | d["S3"]
    with pytest.raises(TypeError, match="parentheses"):
        _ = d["S2"] & 3
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = (d["S2"] <= 3) & 3  # pyright: ignore[reportOperatorIssue]


NOT_FORMULAS = {
    "not linear: a product of two regions": lambda: d["S1"] * d["S2"],
    "not linear: a division by a region": lambda: 1 / d["S1"],
    "division by zero": lambda: d["S1"] / 0,
    "inf is not a finite number": lambda: d["S1"] <= float("inf"),
    "nan is not a finite number": lambda: d["S1"] * float("nan"),
    "True is not a number": lambda: d["S1"] <= True,
    "'3' is not a number": lambda: d["S1"] <= "3",  # pyright: ignore[reportOperatorIssue]
    "array.* is not a number": lambda: np.array([1.0, 2.0]) * d["S1"],
    "too large or too precise": lambda: d["S1"] * 2**512,
    "too large or too precise ": lambda: d["S1"] <= 1e-300,
    "only numbers are left": lambda: d["S1"] + 1 <= d["S1"],
    "belongs to an equality, not to <=": lambda: (d["S1"] <= 3).within(6),
    "the band after 'within' is negative": lambda: (d["S1"] == 3).within(-1),
    "there is no !=": lambda: d["S1"] != 3,
    "total.* of nothing": lambda: total(),
    "average.* of nothing": lambda: average(),
    "a region's name is text": lambda: d[3],  # pyright: ignore[reportArgumentType]
    "a region's name is empty": lambda: d[""],
    "a region's name is too long": lambda: d["S" * 201],
    "the control character U.000A": lambda: d["a\nb"],
    "'and' joins at least two": lambda: And((d["S1"] <= 3,)),
    "'or' joins at least two": lambda: Or(()),
    "3 is not a formula": lambda: Not(3),  # pyright: ignore[reportArgumentType]
    "unknown comparison '!='": lambda: Compare(
        LinearExpression((("S1", 1),)),
        "!=",  # pyright: ignore[reportArgumentType]
        LinearExpression(),
    ),
    "write surely.. for that": lambda: (d["S1"] <= 3).in_share(1),
    "the share 95 must lie between 0 and 1, as in in_share.0.95.": lambda: (d["S1"] <= 3).in_share(
        95
    ),
    "the share 0 must lie between 0 and 1": lambda: (d["S1"] <= 3).in_share(0),
    "nan is not a finite ": lambda: (d["S1"] <= 3).in_share(float("nan")),
    "'0.95' is not a number": lambda: (d["S1"] <= 3).in_share("0.95"),  # pyright: ignore[reportArgumentType]
    "too large or too precise  ": lambda: (d["S1"] <= 3).in_share(Fraction(2**511, 2**511 + 1)),
    "stands once, at the end of the whole rule: join formulas first": lambda: (
        (d["S1"] <= 3).in_share(0.95) & (d["S2"] <= 3)
    ),
    "stands once, at the end of the whole rule: join": lambda: (
        (d["S1"] <= 3) | (d["S2"] <= 3).surely()  # pyright: ignore[reportOperatorIssue]
    ),
    "stands once, at the end of the whole rule:": lambda: ~(d["S1"] <= 3).on_average(),
    "stands once, at the end of the whole": lambda: (d["S1"] <= 3).in_share(0.95).surely(),
    "stands once, at the end of the whole rule, not in a part": lambda: implies(
        (d["S1"] <= 3).in_share(0.95),  # pyright: ignore[reportArgumentType]
        d["S2"] <= 3,
    ),
    "stands once, at the end of the whole rule, not in": lambda: Requirement(
        (d["S1"] <= 3).surely(),  # pyright: ignore[reportArgumentType]
        None,
    ),
    "margin is -1: it must be 0 or more": lambda: Conventions(margin=-1),
    "nan is not a finite": lambda: Conventions(equality_band=float("nan")),
}


@pytest.mark.parametrize(("message", "build"), NOT_FORMULAS.items())
def test_clean_errors(message: str, build: Callable[[], object]) -> None:
    with pytest.raises(RuleError, match=message.strip()):
        build()


def test_depth_is_bounded_so_that_later_passes_may_recurse():
    formula = d["S1"] <= 3
    for _ in range(99):
        formula = ~formula
    assert formula.depth == 100
    assert parse(show(formula)) == formula
    with pytest.raises(RuleError, match="nested deeper than 100 levels"):
        operator.invert(formula)


def test_terms_merge_in_order_of_first_appearance():
    linear = LinearExpression((("b", 1), ("a", 2), ("b", 3), ("c", 1), ("c", -1)), 5)
    assert linear == LinearExpression((("b", 4), ("a", 2)), 5)
    assert linear.terms == (("b", Fraction(4)), ("a", Fraction(2)))
