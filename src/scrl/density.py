"""Densities from trajectories: what each region receives, in units, with its standard error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

Numbers = TypeVar("Numbers", np.ndarray, Array)


@dataclass(frozen=True)
class Density:
    """rho(i) = E[sum_t gamma^t rate 1{i in L(s_t)}], estimated from whole episodes."""

    mean: Float[np.ndarray, " region"]
    standard_error: Float[np.ndarray, " region"]
    episodes: int


def from_episodes(amounts: Float[np.ndarray, "episode region"]) -> Density:
    """The mean over episodes and its standard error (0 for a single episode)."""
    episodes = len(amounts)
    if episodes == 0:
        raise ValueError("a density needs at least one episode")
    return Density(amounts.mean(axis=0), standard_error(amounts), episodes)


def standard_error(values: Numbers, *, axis: int = 0) -> Numbers:
    """The standard error of the mean over the episodes of an axis; 0 for a single episode.

    It accepts NumPy and JAX arrays.
    """
    episodes = values.shape[axis]
    spread: Any = values.std(axis=axis, ddof=min(episodes - 1, 1))
    return spread / math.sqrt(episodes)


def discounts(steps: int, discount: float) -> Float[Array, " time"]:
    """gamma^t for t = 0, 1, ..."""
    return jnp.asarray(discount, float) ** jnp.arange(steps)


def count_density(
    labels: Float[Array, "time region"],
    is_active: Bool[Array, " time"],
    *,
    rate: float | Float[Array, ""],
    discount: float = 1.0,
) -> Float[Array, " region"]:
    """sum_t gamma^t rate L(s_t): the estimate from counts, for one trajectory."""
    weight = discounts(len(labels), discount) * is_active
    return rate * weight @ labels


def kernel_density(
    points: Float[Array, "time dimension"],
    is_active: Bool[Array, " time"],
    sites: Float[Array, "site dimension"],
    membership: Float[Array, "site region"],
    *,
    rate: float | Float[Array, ""],
    bandwidth: float | Float[Array, ""],
    discount: float = 1.0,
) -> Float[Array, " region"]:
    """The kernel estimate for continuous states, for one trajectory.

    Each visited point is spread over the sites around it by a Gaussian of width `bandwidth`,
    normalised over the sites; a region receives what its sites receive:
    rho(i) = sum_t gamma^t rate sum_x membership(x, i) K(x - s_t) / sum_y K(y - s_t).
    As the bandwidth goes to zero and the sites get dense this is the count estimate.
    """
    squared = jnp.sum((points[:, None, :] - sites[None, :, :]) ** 2, axis=-1)
    exponent = -0.5 * squared / bandwidth**2
    kernel = jnp.exp(exponent - exponent.max(axis=1, keepdims=True))
    share = kernel / kernel.sum(axis=1, keepdims=True)
    weight = discounts(len(points), discount) * is_active
    return rate * (weight @ share) @ membership


def scott_bandwidth(
    points: Float[np.ndarray, "time dimension"],
) -> float:
    """Scott's rule, n^(-1 / (d + 4)) times the mean spread, as a default bandwidth."""
    count, dimension = points.shape
    spread = float(points.std(axis=0).mean())
    return max(spread, 1e-12) * count ** (-1.0 / (dimension + 4))
