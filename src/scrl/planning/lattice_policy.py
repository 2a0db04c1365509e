"""The best throttle at given prices in calm air: one step ahead of the lattice's values.

The value of what lies ahead is computed by the dynamic program of `reference.lattice`, for one path
and one vector of prices. Places and speeds are exact: V is
interpolated between the points of the lattice.
"""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from scrl.planning.outlook import Outlook, at_best_flow, with_best_flow
from scrl.reference.lattice import SpeedLattice
from scrl.worlds.sweep.lookup import on_device, rows_from
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.world import SweepState, SweepWorld, dynamics

LEVELS = (32, 48, 64, 128, 256, 512)
"""Numbers of speeds to choose from: few, so that few sizes are compiled."""
SLOWEST_LEVEL = 3.0
"""The slowest speed that is of use should be this many lengths of the lattice."""
SLOWEST_POLISHED = 4.0
"""What is taken for it at least where drives are polished: the slowest speed on the lattice is half
of it, which makes it many times as quick."""
MOST_POINTS = 60_000_000
"""Of all plans that are driven at once: 240 MB."""
HIGHEST_PRICE = 0.998
"""For a step of service, in efforts: at 1 it would be best to stand still for ever."""


class PlacesOnLattice(eqx.Module):
    """Where the cells of a path begin on its lattice; the same for all prices."""

    row: Int[Array, " cell_and_end"]
    past: Float[Array, " cell_and_end"]
    """What is left of the cell's place beyond that row, in lengths of the lattice."""
    unit: Float[Array, ""]
    reach: int = eqx.field(static=True)
    """How many points of the lattice one step may land on."""

    @classmethod
    def of(cls, lattice: SpeedLattice) -> PlacesOnLattice:
        place = np.arange(len(lattice.spec.path.cells) + 1) / lattice.unit
        row = np.floor(place)
        return cls(
            on_device(row, int),
            on_device(place - row, float),
            on_device(lattice.unit, float),
            math.ceil((1.0 - lattice.spec.vehicle.inertia) * lattice.levels) + 1,
        )


def lattice_for(
    spec: SweepSpec,
    prices: Float[np.ndarray, " region"],
    *,
    plans: int,
    least_levels: int = LEVELS[0],
    is_polished: bool = False,
) -> SpeedLattice | None:
    """The coarsest lattice that is fine enough for these prices, in efforts for a step.

    It has at least so many levels, if there is memory for them. Drives that are polished need no
    finer one, and none that stops. None where the path is too long for any, with so many plans side
    by side.
    """
    highest = min(float((spec.service.kinds.astype(float) @ prices).max()), 1.0 - 1e-9)
    free = 1.0 / max(1.0 / math.sqrt(1.0 - max(highest, 0.0)) - 1.0, 1e-9)
    slowest_speed = max(free, spec.vehicle.crawl * spec.vehicle.max_speed)
    found = None
    for levels in LEVELS:
        points = plans * levels * len(spec.path.cells) * levels / spec.vehicle.max_speed
        if points > MOST_POINTS:
            break
        level = slowest_speed / spec.vehicle.max_speed * levels
        least = SLOWEST_POLISHED if is_polished else 2.0
        found = SpeedLattice(
            spec, levels, 2 ** int(np.clip(math.log2(max(level, least)) - 1, 0, 4))
        )
        if (is_polished or level >= SLOWEST_LEVEL) and levels >= least_levels:
            break
    return found


class ValuesOnLattice(eqx.Module):
    """What lies ahead at some prices, for plans side by side."""

    places: PlacesOnLattice
    values: Float[Array, "position level plan"]
    """In efforts."""


class LatticePolicy(eqx.Module):
    """Follows the values of a lattice greedily."""

    lattice: ValuesOnLattice
    outlook: Outlook
    plan: Int[Array, ""]
    """The number of its prices among those of the values."""

    def begin(self) -> tuple[()]:
        return ()

    def at(
        self, world: SweepWorld, state: SweepState, service: Float[Array, " region"], memory: Any
    ) -> tuple[Float[Array, " *action"], Any]:
        """The action in this state, whatever was given so far."""
        del service
        numbers, places = world.numbers, self.lattice.places
        unit = places.unit
        slowest, fastest = (
            dynamics.next_speed(numbers, state.speed, jnp.asarray(throttle), jnp)
            for throttle in (0.0, 1.0)
        )
        row, past = (rows_from(each, state.cell, 1)[0] for each in (places.row, places.past))
        here = past + state.offset / unit
        # Speeds that land on points of the lattice, where V is exact, and the ends of the reach.
        nearest = jnp.ceil(here + slowest / unit - 0.5)
        landing = (nearest + jnp.arange(places.reach) + 0.5 - here) * unit
        speeds = jnp.concatenate(
            [jnp.clip(landing, slowest, fastest), jnp.stack([slowest, fastest])]
        )
        first = nearest.astype(int) - 1
        seen = rows_from(self.lattice.values, row + first, places.reach + 3, self.plan)
        ahead = _between(
            jax.lax.optimization_barrier(seen), here + speeds / unit - 0.5 - first, speeds / unit
        )
        earned = self.outlook.view(state.cell).earned(state.offset, speeds)
        worth = at_best_flow(world, earned, speeds)
        best = jnp.argmax(ahead + worth - 1.0 / (1.0 + speeds))
        wanted = speeds[best] - numbers.inertia * state.speed
        throttle = wanted / ((1.0 - numbers.inertia) * numbers.max_speed)
        return with_best_flow(world, jnp.clip(throttle, 0.0, 1.0), earned[best]), memory


def _between(
    values: Float[Array, "row level"], row: Float[Array, " choice"], level: Float[Array, " choice"]
) -> Float[Array, " choice"]:
    """V between the points of a lattice, linear in place and in speed."""
    rows, levels = values.shape
    row, level = jnp.clip(row, 0.0, rows - 1.001), jnp.clip(level, 0.0, levels - 1.001)
    low_row, low_level = jnp.floor(row), jnp.floor(level)
    flat, first = values.reshape(-1), (low_row * levels + low_level).astype(int)
    corners = first, first + 1, first + levels, first + levels + 1
    corner = [flat.at[each].get(mode="promise_in_bounds") for each in corners]
    near, far = (
        one + (level - low_level) * (other - one) for one, other in (corner[:2], corner[2:])
    )
    return near + (row - low_row) * (far - near)
