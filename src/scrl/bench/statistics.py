"""Means of a few seeds, how sure they are, and whether two of them differ."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

RESAMPLES = 10_000
CONFIDENCE = 0.95


class Mean(NamedTuple):
    """A mean over seeds with its standard deviation and a bootstrap interval."""

    mean: float
    std: float
    low: float
    high: float


def mean_of(values: Float[np.ndarray, " seed"]) -> Mean:
    """The interval holds the means of 95 % of resamples of the seeds; the same for the same."""
    low, high = np.quantile(_resampled_means(values, key=0), _tails())
    spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return Mean(float(values.mean()), spread, float(low), float(high))


def is_lower(one: Float[np.ndarray, " seed"], other: Float[np.ndarray, " seed"]) -> bool:
    """Whether the first mean lies below the second in 97.5 % of resamples: for sure, that is."""
    difference = _resampled_means(one, key=0) - _resampled_means(other, key=1)
    return bool(np.quantile(difference, _tails()[1]) < 0.0)


def _resampled_means(
    values: Float[np.ndarray, " seed"], *, key: int
) -> Float[np.ndarray, " resample"]:
    draws = np.random.default_rng(key).integers(len(values), size=(RESAMPLES, len(values)))
    return values[draws].mean(axis=1)


def _tails() -> tuple[float, float]:
    return (1.0 - CONFIDENCE) / 2.0, (1.0 + CONFIDENCE) / 2.0
