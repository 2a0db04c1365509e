"""Small networks that all learners share, and Adam to train them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray


class Linear(eqx.Module):
    """x W^T + b; for batches on a CPU this is faster than W x.

    By default newer GPUs round the factors to 10 bits: a policy could drive differently on a CPU.
    """

    weight: Float[Array, "output input"]
    bias: Float[Array, " output"] | None = None

    def __call__(self, inputs: Float[Array, " input"]) -> Float[Array, " output"]:
        mapped = jnp.matmul(inputs, self.weight.T, precision=jax.lax.Precision.HIGHEST)
        return mapped if self.bias is None else mapped + self.bias


class Mlp(eqx.Module):
    """A tanh network with orthogonal weights and a given scale of the last layer."""

    layers: tuple[Linear, ...]

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
    """A network plus a linear map, which quickly learns what is nearly linear in the inputs."""

    bent: Mlp
    straight: Linear

    def __init__(
        self,
        inputs: int,
        hidden: tuple[int, ...],
        outputs: int,
        *,
        key: PRNGKeyArray,
    ) -> None:
        self.bent = Mlp(inputs, hidden, outputs, last_scale=0.1, key=key)
        self.straight = Linear(jnp.zeros((outputs, inputs)))

    def __call__(self, inputs: Float[Array, " input"]) -> Float[Array, " output"]:
        return self.bent(inputs) + self.straight(inputs)


def outside(throttle: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """Squared distance to [0, 1]."""
    return jnp.maximum(throttle - 1.0, 0.0) ** 2 + jnp.maximum(-throttle, 0.0) ** 2


def flat(action: Float[Array, "sample ..."]) -> Float[Array, "sample number"]:
    """Actions of any shape, flattened to one row each."""
    return action.reshape(len(action), -1)


def _orthogonal_layer(inputs: int, outputs: int, *, scale: float, key: PRNGKeyArray) -> Linear:
    _, weight_key = jax.random.split(key)  # the second key is for a bias, which begins at 0 here
    return Linear(scale * orthogonal(inputs, outputs, key=weight_key), jnp.zeros(outputs))


NEWTON_STEPS = 40


def orthogonal(inputs: int, outputs: int, *, key: PRNGKeyArray) -> Float[Array, "output input"]:
    """A random matrix with orthonormal rows (or columns, if there are fewer).

    The polar factor of a Gaussian matrix by the Newton-Schulz iteration X <- 1.5 X - 0.5 X X^T X.
    A QR decomposition of several seeds in parallel can deadlock in JAX on two cores.
    """
    drawn = jax.random.normal(key, (outputs, inputs))
    tall = drawn if outputs >= inputs else drawn.T
    start = tall / jnp.linalg.norm(tall)

    def closer(_: int, found: Float[Array, "long short"]) -> Float[Array, "long short"]:
        return 1.5 * found - 0.5 * found @ (found.T @ found)

    found = jax.lax.fori_loop(0, NEWTON_STEPS, closer, start)
    return found if outputs >= inputs else found.T


def adam_memory(learned: Any) -> optax.OptState:
    """The initial state of Adam."""
    return optax.scale_by_adam().init(learned)


def adam_step(
    loss: Callable[[Any], Float[Array, ""]],
    learned: Any,
    memory: optax.OptState,
    rate: Any,
    *,
    max_grad_norm: float = math.inf,
) -> tuple[Any, optax.OptState, Float[Array, ""]]:
    """One Adam step on a loss, with gradients clipped by norm.

    `rate` is one number, or one for each part of the parameters.
    """
    value, gradient = eqx.filter_value_and_grad(loss)(learned)
    cut = jnp.minimum(1.0, max_grad_norm / (optax.tree.norm(gradient) + 1e-8))
    gradient = jax.tree.map(lambda leaf: cut * leaf, gradient)
    moves, memory = optax.scale_by_adam().update(gradient, memory)
    moves = jax.tree.map(
        lambda each, part: jax.tree.map(lambda leaf: -each * leaf, part), rate, moves
    )
    return eqx.apply_updates(learned, moves), memory, value
