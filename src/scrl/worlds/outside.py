"""An external environment, as the training loop sees it."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class OutsideWorld(eqx.Module):
    """A world whose labels are amounts, so that a step of service gives out one unit."""

    regions: int = eqx.field(static=True)

    @property
    def rate(self) -> Float[Array, ""]:
        """Units that a step of service gives out."""
        return jnp.ones(())
