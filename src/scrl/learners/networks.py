"""Small networks that all learners share."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray


class Mlp(eqx.Module):
    """Layers of tanh with orthogonal weights, and a last layer whose scale is chosen."""

    layers: tuple[eqx.nn.Linear, ...]

    def __init__(
        self,
        inputs: int,
        hidden: tuple[int, ...],
        outputs: int,
        *,
        last_scale: float,
        key: PRNGKeyArray,
    ) -> None:
        sizes = (inputs, *hidden, outputs)
        keys = jax.random.split(key, len(sizes) - 1)
        scales = [float(np.sqrt(2.0))] * len(hidden) + [last_scale]
        self.layers = tuple(
            _orthogonal_layer(before, after, scale=scale, key=each)
            for before, after, scale, each in zip(sizes[:-1], sizes[1:], scales, keys, strict=True)
        )

    def __call__(self, inputs: Float[Array, " input"]) -> Float[Array, " output"]:
        *hidden, last = self.layers
        for layer in hidden:
            inputs = jnp.tanh(layer(inputs))
        return last(inputs)


class ValueNet(eqx.Module):
    """A network beside a linear map: what is nearly linear in the inputs is learned at once."""

    bent: Mlp
    straight: eqx.nn.Linear

    def __init__(
        self, inputs: int, hidden: tuple[int, ...], outputs: int, *, key: PRNGKeyArray
    ) -> None:
        self.bent = Mlp(inputs, hidden, outputs, last_scale=0.1, key=key)
        straight = eqx.nn.Linear(inputs, outputs, use_bias=False, key=key)
        self.straight = eqx.tree_at(
            lambda each: each.weight, straight, jnp.zeros((outputs, inputs))
        )

    def __call__(self, inputs: Float[Array, " input"]) -> Float[Array, " output"]:
        return self.bent(inputs) + self.straight(inputs)


def outside(throttle: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """Squared distance to [0, 1]."""
    return jnp.maximum(throttle - 1.0, 0.0) ** 2 + jnp.maximum(-throttle, 0.0) ** 2


def flat(action: Float[Array, "sample ..."]) -> Float[Array, "sample number"]:
    """Actions of any shape, each as a row of its numbers."""
    return action.reshape(len(action), -1)


def _orthogonal_layer(
    inputs: int, outputs: int, *, scale: float, key: PRNGKeyArray
) -> eqx.nn.Linear:
    layer_key, weight_key = jax.random.split(key)
    layer = eqx.nn.Linear(inputs, outputs, key=layer_key)
    weight = scale * orthogonal(inputs, outputs, key=weight_key)
    return eqx.tree_at(lambda each: (each.weight, each.bias), layer, (weight, jnp.zeros(outputs)))


NEWTON_STEPS = 40


def orthogonal(inputs: int, outputs: int, *, key: PRNGKeyArray) -> Float[Array, "output input"]:
    """Rows (or columns, if there are fewer) that are orthonormal, evenly drawn.

    The polar factor of a Gaussian matrix by Newton and Schulz, X <- 1.5 X - 0.5 X X^T X. A QR
    decomposition would do as well, but those of several seeds at once run in threads that wait for
    each other: on two cores JAX then stands still for ever.
    """
    drawn = jax.random.normal(key, (outputs, inputs))
    tall = drawn if outputs >= inputs else drawn.T
    start = tall / jnp.linalg.norm(tall)

    def closer(_: int, found: Float[Array, "long short"]) -> Float[Array, "long short"]:
        return 1.5 * found - 0.5 * found @ (found.T @ found)

    found = jax.lax.fori_loop(0, NEWTON_STEPS, closer, start)
    return found if outputs >= inputs else found.T
