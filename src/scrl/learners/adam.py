"""Adam, for anything made of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float


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
