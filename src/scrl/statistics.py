"""Means over a few seeds with bootstrap intervals, tests of their differences, and shares."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

RESAMPLES = 10_000
CONFIDENCE = 0.95
MOST_ARRANGEMENTS = 20_000
"""A permutation test enumerates up to this many arrangements; beyond, it draws `RESAMPLES`."""


class Mean(NamedTuple):
    """A mean over seeds with its standard deviation and a bootstrap interval."""

    mean: float
    std: float
    low: float
    high: float


def mean_of(values: Float[np.ndarray, " seed"]) -> Mean:
    """The mean with a 95 % bootstrap interval over the seeds; deterministic."""
    low, high = np.quantile(_resampled_means(values, key=0), _tails())
    spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return Mean(float(values.mean()), spread, float(low), float(high))


def is_lower(one: Float[np.ndarray, " seed"], other: Float[np.ndarray, " other_seed"]) -> bool:
    """Whether the first mean lies below the second in 97.5 % of bootstrap resamples."""
    difference = _resampled_means(one, key=0) - _resampled_means(other, key=1)
    return bool(np.quantile(difference, _tails()[1]) < 0.0)


def share_interval(
    kept: float | Float[np.ndarray, "*batch"], runs: int
) -> tuple[Float[np.ndarray, "*batch"], Float[np.ndarray, "*batch"]]:
    """The exact (Clopper-Pearson) 95 % interval of a share that `kept` of `runs` runs show."""
    from scipy.special import betaincinv  # takes a while to import

    kept = np.clip(np.asarray(kept, float), 0.0, runs)
    tail = _tails()[0]
    with np.errstate(invalid="ignore"):
        low = np.where(kept > 0, betaincinv(kept, runs - kept + 1.0, tail), 0.0)
        high = np.where(kept < runs, betaincinv(kept + 1.0, runs - kept, 1.0 - tail), 1.0)
    return low, high


def least_runs(share: float | Fraction) -> int:
    """The fewest runs that can show a share: if all keep the rules, the interval begins there.

    The interval of n out of n begins at tail^(1/n).
    """
    return math.ceil(math.log(_tails()[0]) / math.log1p(float(share - 1)))


class Difference(NamedTuple):
    """By how much one mean exceeds another, with an interval and a p-value."""

    mean: float
    low: float
    high: float
    p: float
    """Two-sided p-value of the permutation test."""
    p_least: float
    """The smallest p-value that this number of seeds allows; above 0.05 no test can succeed."""


def paired_difference(
    one: Float[np.ndarray, " seed"], other: Float[np.ndarray, " seed"]
) -> Difference:
    """Paired seeds: a bootstrap of the differences and a sign-flip permutation test."""
    apart = one - other
    count = len(apart)
    if 2**count <= MOST_ARRANGEMENTS:
        signs = np.array(list(itertools.product([1.0, -1.0], repeat=count)))
        p = _share_beyond(signs @ apart, float(apart.sum()))
        least = 2.0 / 2**count
    else:
        rng = np.random.default_rng(2)
        sums = np.array([rng.choice([1.0, -1.0], size=count) @ apart for _ in range(RESAMPLES)])
        p, least = _sampled_p(sums, float(apart.sum()))
    low, high = np.quantile(_resampled_means(apart, key=0), _tails())
    return Difference(float(apart.mean()), float(low), float(high), p, min(least, 1.0))


def unpaired_difference(
    one: Float[np.ndarray, " seed"], other: Float[np.ndarray, " other_seed"]
) -> Difference:
    """Independent seeds: a bootstrap of both samples and a permutation test between them."""
    pool, count = np.concatenate([one, other]), len(one)
    arrangements = math.comb(len(pool), count)
    if arrangements <= MOST_ARRANGEMENTS:
        chosen = np.array(list(itertools.combinations(range(len(pool)), count)))
        p = _share_beyond(_split_differences(pool, chosen), float(one.mean() - other.mean()))
        least = (2.0 if len(one) == len(other) else 1.0) / arrangements
    else:
        rng = np.random.default_rng(2)
        chosen = np.array([rng.permutation(len(pool))[:count] for _ in range(RESAMPLES)])
        p, least = _sampled_p(_split_differences(pool, chosen), float(one.mean() - other.mean()))
    apart = _resampled_means(one, key=0) - _resampled_means(other, key=1)
    low, high = np.quantile(apart, _tails())
    return Difference(float(one.mean() - other.mean()), float(low), float(high), p, least)


def holm(ps: Sequence[float]) -> list[float]:
    """p-values adjusted for several tests by Holm's method."""
    found, largest = [0.0] * len(ps), 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[index]))
        found[index] = largest
    return found


def _split_differences(
    pool: Float[np.ndarray, " seed"], chosen: np.ndarray
) -> Float[np.ndarray, " arrangement"]:
    """The mean of the chosen minus the mean of the rest, for every choice."""
    inside = pool[chosen].sum(axis=1)
    count = chosen.shape[1]
    return inside / count - (pool.sum() - inside) / (len(pool) - count)


def _share_beyond(found: Float[np.ndarray, " arrangement"], seen: float) -> float:
    """The share of arrangements at least as far from 0 as the observed difference."""
    rounding = 1e-9 * float(np.abs(found).max())
    return float((np.abs(found) >= abs(seen) - rounding).mean())


def _sampled_p(found: Float[np.ndarray, " arrangement"], seen: float) -> tuple[float, float]:
    """The p-value from drawn arrangements, which include the observed one."""
    count = len(found)
    return (_share_beyond(found, seen) * count + 1.0) / (count + 1.0), 1.0 / (count + 1.0)


def _resampled_means(
    values: Float[np.ndarray, " seed"], *, key: int
) -> Float[np.ndarray, " resample"]:
    draws = np.random.default_rng(key).integers(len(values), size=(RESAMPLES, len(values)))
    return values[draws].mean(axis=1)


def _tails() -> tuple[float, float]:
    return (1.0 - CONFIDENCE) / 2.0, (1.0 + CONFIDENCE) / 2.0
