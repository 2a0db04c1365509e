"""A world that steps outside of compiled code: all that the loop must know of it."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class OutsideWorld(eqx.Module):
    """Labels are amounts already, so a step of service gives out one unit."""

    regions: int = eqx.field(static=True)

    @property
    def rate(self) -> Float[Array, ""]:
        """Units that a step of service gives out."""
        return jnp.ones(())
