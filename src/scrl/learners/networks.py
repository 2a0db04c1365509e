"""Small networks that all learners share, and Adam to train them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray


class Linear(eqx.Module):
    """x W^T + b. As W x, batches would lie on their side: a quarter slower on a CPU."""

    weight: Float[Array, "output input"]
    bias: Float[Array, " output"] | None = None

    def __call__(self, inputs: Float[Array, " input"]) -> Float[Array, " output"]:
        mapped = inputs @ self.weight.T
        return mapped if self.bias is None else mapped + self.bias


class Mlp(eqx.Module):
    """Layers of tanh with orthogonal weights, and a last layer whose scale is chosen."""

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


class Blocks(NamedTuple):
    """Inputs that come region by region: after some others, so many rows of one for each."""

    before: int
    rows: int


class OwnLinear(eqx.Module):
    """A linear map in which a region's output sees, of the regions' inputs, only its own.

    The first output (the return) sees all of them. A map of all on all would cost the square of
    the number of regions, and what one region still receives says little about another.
    """

    first: Linear
    others: Linear
    own: Float[Array, "block region"]
    before: int = eqx.field(static=True)

    @classmethod
    def of_zeros(cls, inputs: int, outputs: int, blocks: Blocks) -> OwnLinear:
        regions = outputs - 1
        others = inputs - blocks.rows * regions
        return cls(
            Linear(jnp.zeros((1, inputs))),
            Linear(jnp.zeros((regions, others))),
            jnp.zeros((blocks.rows, regions)),
            blocks.before,
        )

    def __call__(self, inputs: Float[Array, " input"]) -> Float[Array, " output"]:
        end = self.before + self.own.size
        others = jnp.concatenate([inputs[: self.before], inputs[end:]])
        # Row by row: of a sum over the rows XLA makes code that is forty times as slow on a CPU.
        blocks = jnp.split(inputs[self.before : end], len(self.own))
        own = sum(row * block for row, block in zip(self.own, blocks, strict=True))
        return jnp.concatenate([self.first(inputs), self.others(others) + own])


class ValueNet(eqx.Module):
    """A network beside a linear map: what is nearly linear in the inputs is learned at once."""

    bent: Mlp
    straight: Linear | OwnLinear

    def __init__(
        self,
        inputs: int,
        hidden: tuple[int, ...],
        outputs: int,
        *,
        blocks: Blocks | None = None,
        key: PRNGKeyArray,
    ) -> None:
        """With `blocks`, the outputs are the return and one for each region."""
        self.bent = Mlp(inputs, hidden, outputs, last_scale=0.1, key=key)
        self.straight = (
            Linear(jnp.zeros((outputs, inputs)))
            if blocks is None
            else OwnLinear.of_zeros(inputs, outputs, blocks)
        )

    def __call__(self, inputs: Float[Array, " input"]) -> Float[Array, " output"]:
        return self.bent(inputs) + self.straight(inputs)


def outside(throttle: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """Squared distance to [0, 1]."""
    return jnp.maximum(throttle - 1.0, 0.0) ** 2 + jnp.maximum(-throttle, 0.0) ** 2


def flat(action: Float[Array, "sample ..."]) -> Float[Array, "sample number"]:
    """Actions of any shape, each as a row of its numbers."""
    return action.reshape(len(action), -1)


def _orthogonal_layer(inputs: int, outputs: int, *, scale: float, key: PRNGKeyArray) -> Linear:
    _, weight_key = jax.random.split(key)  # the other is for a bias; ours begins at 0
    return Linear(scale * orthogonal(inputs, outputs, key=weight_key), jnp.zeros(outputs))


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


def adam_memory(learned: Any) -> optax.OptState:
    """What Adam remembers before its first step."""
    return optax.scale_by_adam().init(learned)


def adam_step(
    loss: Callable[[Any], Float[Array, ""]],
    learned: Any,
    memory: optax.OptState,
    rate: Any,
    *,
    largest_gradient: float = math.inf,
) -> tuple[Any, optax.OptState, Float[Array, ""]]:
    """One step down a loss; gradients above a norm are cut to it first.

    `rate` is one number, or one for each part of what is learned.
    """
    value, gradient = eqx.filter_value_and_grad(loss)(learned)
    cut = jnp.minimum(1.0, largest_gradient / (optax.tree.norm(gradient) + 1e-8))
    gradient = jax.tree.map(lambda leaf: cut * leaf, gradient)
    moves, memory = optax.scale_by_adam().update(gradient, memory)
    moves = jax.tree.map(
        lambda each, part: jax.tree.map(lambda leaf: -each * leaf, part), rate, moves
    )
    return eqx.apply_updates(learned, moves), memory, value
