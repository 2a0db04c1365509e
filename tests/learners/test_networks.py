"""The networks before they have learned anything: orthogonal weights, shapes, where they start."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scrl.learners.networks import Mlp, ValueNet, orthogonal, outside


@pytest.mark.parametrize(
    ("inputs", "outputs"), [(16, 16), (5, 16), (16, 5), (16, 1), (1, 16), (1, 1), (64, 64)]
)
def test_the_shorter_side_is_orthonormal(inputs: int, outputs: int) -> None:
    weight = np.asarray(orthogonal(inputs, outputs, key=jax.random.key(0)), float)
    assert weight.shape == (outputs, inputs)
    gram = weight @ weight.T if outputs <= inputs else weight.T @ weight
    assert np.allclose(gram, np.eye(min(inputs, outputs)), atol=1e-5)


def test_another_key_draws_another_matrix() -> None:
    one, other = (orthogonal(8, 8, key=jax.random.key(seed)) for seed in (0, 1))
    assert float(jnp.abs(one - other).max()) > 0.1
    assert np.array_equal(one, orthogonal(8, 8, key=jax.random.key(0)))


def test_the_matrices_of_many_seeds_are_evenly_drawn() -> None:
    """500 at once: those of a QR decomposition would run in threads that wait for each other."""
    keys = jax.random.split(jax.random.key(0), 500)
    drawn = np.asarray(jax.jit(jax.vmap(lambda key: orthogonal(12, 12, key=key)))(keys), float)
    gram = drawn @ drawn.swapaxes(1, 2)
    assert np.allclose(gram, np.eye(12), atol=1e-4)
    # Rows of length 1 with 12 entries, all alike: each entry has mean 0 and variance 1/12. Over 500
    # seeds the mean has a deviation of sqrt(1/12/500) = 0.013, the variance, with that of a
    # square = 2 * 11 / (144 * 14) = 0.0109, one of sqrt(0.0109/500) = 0.0047; five of each.
    assert np.abs(drawn.mean(axis=0)).max() < 0.065
    assert np.abs((drawn**2).mean(axis=0) - 1 / 12).max() < 0.024
    # Turns and reflections are as likely: determinant +1 or -1, 250 of each give or take 5 * 11.
    assert 195 < (np.linalg.det(drawn) > 0).sum() < 305


def test_an_mlp_has_its_layers_and_its_last_scale() -> None:
    network = Mlp(5, (16, 8), 3, last_scale=0.01, key=jax.random.key(0))
    assert [layer.weight.shape for layer in network.layers] == [(16, 5), (8, 16), (3, 8)]
    assert all(np.all(np.asarray(layer.bias) == 0.0) for layer in network.layers)
    assert network(jnp.ones(5)).shape == (3,)
    # Orthonormal rows or columns times the scale: all singular values are the scale.
    sizes = [np.linalg.svd(np.asarray(layer.weight))[1] for layer in network.layers]
    assert np.allclose(sizes[0], np.sqrt(2.0), atol=1e-4)
    assert np.allclose(sizes[1], np.sqrt(2.0), atol=1e-4)
    assert np.allclose(sizes[2], 0.01, atol=1e-6)
    # Without biases, nothing in gives nothing out.
    assert np.array_equal(network(jnp.zeros(5)), np.zeros(3))


def test_an_mlp_without_hidden_layers_is_linear() -> None:
    network = Mlp(4, (), 2, last_scale=1.0, key=jax.random.key(0))
    seen = jnp.array([1.0, -2.0, 0.5, 3.0])
    assert np.allclose(network(3.0 * seen), 3.0 * network(seen), atol=1e-5)


def test_a_value_net_starts_bent_and_learns_its_straight_part() -> None:
    network = ValueNet(6, (16,), 3, key=jax.random.key(0))
    seen = jnp.arange(6.0)
    assert network(seen).shape == (3,)
    assert np.all(np.asarray(network.straight.weight) == 0.0)
    assert network.straight.weight.shape == (3, 6)
    assert np.array_equal(network(seen), network.bent(seen))
    # The gradient of the first output by the straight weights is the inputs: it will move.
    gradient = jax.grad(lambda net: net(seen)[0], allow_int=True)(network).straight.weight
    assert np.allclose(gradient, [np.arange(6.0), np.zeros(6), np.zeros(6)])


def test_how_far_a_throttle_lies_outside() -> None:
    # 1.5 is 0.5 too far, squared 0.25; -0.2 gives 0.04; inside and on the edges nothing.
    seen = outside(jnp.array([1.5, 1.0, 0.4, 0.0, -0.2]))
    assert np.allclose(seen, [0.25, 0.0, 0.0, 0.0, 0.04])
