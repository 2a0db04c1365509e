"""The throttle at given prices whose step earns most beyond the fluid, in calm air.

    score(a) = -1 / (1 + d) + (price earned) - (fluid gain of the way)

It drives where a path is too long for the values of a lattice (`lattice_policy`): it does not see
where it would have to brake, which costs little on paths of so many cells.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from scrl.planning.outlook import Outlook, at_best_flow, with_best_flow
from scrl.worlds.sweep.world import SweepState, SweepWorld, dynamics

TRIED = np.linspace(0.0, 1.0, 26) ** 2
"""The throttles that are tried, from the crawl to 1, denser at low speeds."""


class FluidPolicy(eqx.Module):
    """Takes the step that earns most beyond the fluid."""

    outlook: Outlook

    def begin(self) -> tuple[()]:
        return ()

    def at(
        self, world: SweepWorld, state: SweepState, service: Float[Array, " region"], memory: Any
    ) -> tuple[Float[Array, " *action"], Any]:
        """The action in this state, whatever was given so far."""
        del service
        numbers, view = world.numbers, self.outlook.view(state.cell)
        throttles = numbers.crawl + (1.0 - numbers.crawl) * TRIED
        distance = dynamics.next_speed(numbers, state.speed, throttles, jnp)
        earned = view.earned(state.offset, distance)
        way = view.gain_upto(state.offset + distance) - view.gain_upto(state.offset)
        worth = at_best_flow(world, earned, distance)
        best = jnp.argmax(worth - 1.0 / (1.0 + distance) - way)
        return with_best_flow(world, throttles[best], earned[best]), memory
