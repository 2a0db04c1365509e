"""Numbers and distances as commands write them."""

from __future__ import annotations

import pytest

from scrl.cli.output import distance_from_best, signed


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
    ("margin", "text"), [(1234.567, "+1,234.57"), (-0.001, "+0.00"), (0.0, "+0.00"), (-1, "-1.00")]
)
def test_nothing_has_no_minus(margin: float, text: str) -> None:
    assert signed(margin) == text
