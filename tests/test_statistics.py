"""Means of seeds: by hand, and against what intervals promise."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binomtest, permutation_test

from scrl import statistics
from scrl.statistics import (
    Difference,
    holm,
    is_lower,
    least_runs,
    mean_of,
    paired_difference,
    share_interval,
    unpaired_difference,
)


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


def test_a_paired_difference_by_hand() -> None:
    """Differences 1, 2, 3: of the eight ways to sign them only +++ and --- reach a sum of 6."""
    found = paired_difference(np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0]))
    assert found.mean == 2.0
    assert found.p == pytest.approx(2 / 8)
    assert found.p_least == pytest.approx(2 / 8)
    assert 1.0 <= found.low < 2.0 < found.high <= 3.0


def test_an_unpaired_difference_by_hand() -> None:
    """1, 2 against 3, 4: of the six ways to choose two only {1, 2} and {3, 4} are 2 apart."""
    found = unpaired_difference(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    assert found.mean == -2.0
    assert found.p == pytest.approx(2 / 6)
    assert found.p_least == pytest.approx(2 / 6)


def test_no_difference_is_no_difference() -> None:
    same = np.array([1.0, 5.0, 2.0])
    for test in (paired_difference, unpaired_difference):
        assert test(same, same).p == 1.0
    assert paired_difference(same, same)[:3] == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("kind", ["samples", "independent"])
def test_p_is_what_scipy_says(kind: str) -> None:
    rng = np.random.default_rng(3)
    one, other = rng.normal(size=7), rng.normal(size=7) + 0.7
    ours = (paired_difference if kind == "samples" else unpaired_difference)(one, other)
    theirs = permutation_test(
        (one, other), lambda a, b, axis: a.mean(axis=axis) - b.mean(axis=axis),
        permutation_type=kind, n_resamples=10_000,  # more than there are: all of them
    )  # fmt: skip
    assert ours.p == pytest.approx(theirs.pvalue)


@pytest.mark.parametrize("test", [paired_difference, unpaired_difference])
def test_chance_alone_is_rarely_taken_for_a_difference(test: Callable[..., Difference]) -> None:
    """200 times nothing to find with seven seeds: p below 0.05 in about 5 % of them."""
    rng = np.random.default_rng(4)
    found = [test(rng.normal(size=7), rng.normal(size=7)).p < 0.05 for _ in range(200)]
    assert 0.01 <= np.mean(found) <= 0.1


@pytest.mark.parametrize("test", [paired_difference, unpaired_difference])
def test_many_seeds_are_drawn_from_and_agree_with_all_arrangements(
    test: Callable[..., Difference], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    one, other = rng.normal(size=8), rng.normal(size=8) + 0.8
    every = test(one, other)
    monkeypatch.setattr(statistics, "MOST_ARRANGEMENTS", 1)
    drawn = test(one, other)
    assert drawn.p == pytest.approx(every.p, abs=0.02)
    assert drawn.p_least == pytest.approx(1 / 10_001)


def test_holm_by_hand() -> None:
    """0.01 x 3, 0.02 x 2, and 0.03 x 1 raised to the one before it."""
    assert holm([0.03, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([0.2]) == [0.2]


@pytest.mark.parametrize(("kept", "runs"), [(0, 1), (1, 1), (0, 20), (19, 20), (20, 20), (37, 100)])
def test_the_interval_of_a_share_is_the_exact_one(kept: int, runs: int) -> None:
    expected = binomtest(kept, runs).proportion_ci(0.95, method="exact")
    assert tuple(map(float, share_interval(kept, runs))) == pytest.approx(tuple(expected))
    low, high = share_interval(np.array([kept, runs], float), runs)
    assert (low[0], high[0]) == pytest.approx(tuple(expected))
    assert high[1] == 1.0
    assert low[1] == pytest.approx(0.025 ** (1 / runs))


def test_the_interval_holds_the_share_as_often_as_it_says() -> None:
    drawn = np.random.default_rng(0).binomial(60, 0.95, 20_000).astype(float)
    low, high = share_interval(drawn, 60)
    assert ((low <= 0.95) & (high >= 0.95)).mean() >= 0.95


@pytest.mark.parametrize("share", [0.001, 0.5, 0.9, 0.95, 0.99, 0.9999, Fraction(2, 3)])
def test_the_fewest_runs_that_show_a_share(share: float | Fraction) -> None:
    least = least_runs(share)
    assert share_interval(least, least)[0] >= float(share)
    if least > 1:
        assert share_interval(least - 1, least - 1)[0] < float(share)


def test_a_share_next_to_1_takes_more_runs_than_a_float_can_tell_it_from_1() -> None:
    assert least_runs(1 - Fraction(1, 10**20)) == pytest.approx(3.69e20, rel=1e-2)
