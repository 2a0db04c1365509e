"""Densities by hand: counts, discounts, kernels and standard errors."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from scrl.density import (
    count_density,
    from_episodes,
    kernel_density,
    scott_bandwidth,
    standard_error,
)


def test_counts_by_hand() -> None:
    labels = jnp.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    is_active = jnp.array([True, True, True, False])
    # plain: S1 in steps 0, 1; S2 in steps 1, 2; rate 2.
    assert np.array_equal(count_density(labels, is_active, rate=2.0), [4.0, 4.0])
    # gamma 0.5: S1 2 (1 + 0.5) = 3, S2 2 (0.5 + 0.25) = 1.5.
    assert np.allclose(count_density(labels, is_active, rate=2.0, discount=0.5), [3.0, 1.5])


def test_standard_error_by_hand() -> None:
    density = from_episodes(np.array([[1.0], [3.0]]))
    # std with n - 1 is sqrt(2); over sqrt(2) episodes that is 1.
    assert density.mean[0] == 2.0
    assert density.standard_error[0] == pytest.approx(1.0)
    assert from_episodes(np.array([[1.0]])).standard_error[0] == 0.0
    with pytest.raises(ValueError, match="at least one episode"):
        from_episodes(np.zeros((0, 2)))


def test_standard_errors_along_any_axis_stay_numpy_or_jax() -> None:
    values = np.array([[[1.0], [3.0]], [[5.0], [5.0]]])  # two plans, two episodes, one atom
    for module in (np, jnp):
        found = standard_error(module.asarray(values), axis=1)
        assert type(found) is type(module.zeros(1))
        assert np.allclose(found, [[1.0], [0.0]])
        assert np.array_equal(standard_error(module.asarray(values[:, :1]), axis=1), [[0.0], [0.0]])


def test_the_standard_error_covers_the_truth() -> None:
    """In about 95 % of repetitions the mean lies within two standard errors."""
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(500):
        density = from_episodes(rng.normal(10.0, 3.0, (30, 1)))
        inside += abs(density.mean[0] - 10.0) < 2 * density.standard_error[0]
    assert 0.91 < inside / 500 < 0.99


SITES = jnp.arange(0.05, 10.0, 0.1)[:, None]
LEFT_AND_RIGHT = jnp.concatenate([SITES < 5.0, SITES >= 5.0], axis=1).astype(float)


def test_a_narrow_kernel_counts() -> None:
    points = jnp.array([[1.0], [4.0], [8.0]])
    density = kernel_density(
        points, jnp.ones(3, bool), SITES, LEFT_AND_RIGHT, rate=2.0, bandwidth=1e-3
    )
    assert np.allclose(density, [4.0, 2.0], atol=1e-4)


def test_a_wide_kernel_shares_but_loses_nothing() -> None:
    points = jnp.array([[5.0], [5.0]])
    density = kernel_density(
        points, jnp.array([True, True]), SITES, LEFT_AND_RIGHT, rate=1.0, bandwidth=1.0
    )
    assert np.allclose(density, [1.0, 1.0], atol=1e-3)
    edge = kernel_density(
        jnp.array([[0.0]]), jnp.ones(1, bool), SITES, LEFT_AND_RIGHT, rate=1.0, bandwidth=3.0
    )
    assert float(edge.sum()) == pytest.approx(1.0, abs=1e-5)
    # Of a half-normal of width 3 cut at 10, the share below 5 is erf(5/3/sqrt2) / erf(10/3/sqrt2).
    assert float(edge[0]) == pytest.approx(0.9044 / 0.99914, abs=5e-3)


def test_the_kernel_respects_discount_and_end() -> None:
    points = jnp.array([[1.0], [1.0], [1.0]])
    density = kernel_density(
        points,
        jnp.array([True, True, False]),
        SITES,
        LEFT_AND_RIGHT,
        rate=1.0,
        bandwidth=0.01,
        discount=0.5,
    )
    assert np.allclose(density, [1.5, 0.0], atol=1e-5)


def test_scotts_rule_by_hand() -> None:
    # 32 points of spread 2 on a line: 2 * 32^(-1/5) = 1.
    points = np.tile([[-2.0], [2.0]], (16, 1))
    assert scott_bandwidth(points) == pytest.approx(1.0)
