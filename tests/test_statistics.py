"""Means of seeds: by hand, and against what intervals promise."""

from __future__ import annotations

import numpy as np
import pytest

from scrl.statistics import is_lower, mean_of


def test_mean_and_standard_deviation_by_hand() -> None:
    found = mean_of(np.array([1.0, 2.0, 6.0]))
    # Mean 3, squared distances 4 + 1 + 9 = 14, over 2: 7.
    assert (found.mean, found.std) == (3.0, pytest.approx(np.sqrt(7.0)))
    assert 1.0 <= found.low < 3.0 < found.high <= 6.0


@pytest.mark.parametrize("values", [[2.5], [2.5, 2.5, 2.5]])
def test_without_a_spread_there_is_no_interval(values: list[float]) -> None:
    assert mean_of(np.array(values)) == (2.5, 0.0, 2.5, 2.5)


def test_the_interval_covers_the_true_mean_about_as_often_as_it_says() -> None:
    """400 times 20 values around 0; the bootstrap is known to be a little short for so few."""
    rng = np.random.default_rng(0)
    found = [mean_of(rng.normal(size=20)) for _ in range(400)]
    covered = np.mean([each.low <= 0.0 <= each.high for each in found])
    assert 0.88 <= covered <= 0.98


def test_lower_means_lower_beyond_chance() -> None:
    rng = np.random.default_rng(1)
    small, same, large = (rng.normal(size=10) + shift for shift in (0.0, 0.0, 3.0))
    assert is_lower(small, large)
    assert not is_lower(large, small)
    assert not is_lower(small, same)
    assert not is_lower(small, small)
    assert not is_lower(np.zeros(10), np.zeros(10))
