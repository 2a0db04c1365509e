"""Numbers and distances as commands write them."""

from __future__ import annotations

import pytest

from scrl.cli.output import distance_from_best
from scrl.evaluation import RuleResult


@pytest.mark.parametrize(
    ("gap", "digits", "text"),
    [
        (0.0149, 1, "1.5% from the best possible"),
        (0.0, 2, "0.00% from the best possible"),
        (-0.00004, 2, "0.00% from the best possible"),
        (-0.0054, 2, "0.54% better than the fluid reference"),
    ],
)
def test_a_drive_may_be_better_than_the_fluid(gap: float, digits: int, text: str) -> None:
    assert distance_from_best(gap, digits) == text


@pytest.mark.parametrize(
    ("margin", "is_satisfied", "text"),
    [
        (1234.567, True, "+1,234.57"),
        (-1e-7, True, "+0.00"),
        (-0.0, True, "+0.00"),
        (-1, False, "-1.00"),
        (-0.001, False, "-0.001"),
    ],
)
def test_a_margin_has_a_minus_only_where_a_rule_is_broken(
    margin: float, is_satisfied: bool, text: str
) -> None:
    assert RuleResult("a", "S1 >= 3", is_satisfied, margin).margin_text("+,.2f") == text
