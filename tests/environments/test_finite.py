"""The finite benchmark: its reference is right where it can be worked by hand."""

from __future__ import annotations

import pytest
from benchmarks import finite


def test_the_best_walk_along_the_cliff() -> None:
    # 13 steps along the edge, 12 of them on it; 15 steps a row higher are on it twice. The rule
    # allows 4, so that at most a share p of walks may take the edge: 12 p + 2 (1 - p) = 4, p = 0.2,
    # and 0.2 * -13 + 0.8 * -15 = -14.6.
    given = finite.PROBLEMS["cliff"]
    assert finite.best_of(given, has_rules=False).return_ == pytest.approx(-13.0)
    assert finite.best_of(given).return_ == pytest.approx(-14.6)
