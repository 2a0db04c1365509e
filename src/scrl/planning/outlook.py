"""The path ahead at given prices, valued by the fluid.

Values are counted in efforts (the cost of a step at rest) and prices are per step. In the fluid
(`reference.fluid`) a cell takes tau steps and has the value price tau - tau^2 / (1 + tau); the best
tau has a closed form.
"""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from scrl.worlds.sweep import dynamics
from scrl.worlds.sweep.lookup import rows_from
from scrl.worlds.sweep.world import SweepWorld, VehicleNumbers

LONG_PATH, LONG_BLOCK = 1_000_000, 8
"""From this path length on, blocks are this many times as long to halve the memory."""
FULL_PRICE = 1.0 - 1e-6
"""Largest price; at a price of 1 the fluid never moves."""


def window_for(max_speed: float) -> int:
    """Number of cells that one step in calm air can touch."""
    return math.ceil(max_speed) + 2


def best_time(price: Float[Array, "*any"], numbers: VehicleNumbers) -> Float[Array, "*any"]:
    """The optimal steps per cell, where the slope 1 - (1 + tau)^-2 equals the price."""
    free = 1.0 / jnp.sqrt(1.0 - jnp.clip(price, 0.0, FULL_PRICE)) - 1.0
    fastest = 1.0 / numbers.max_speed
    return jnp.clip(free, fastest, fastest / numbers.crawl)


def part_of(cell: Int[Array, "*any"], world: SweepWorld, parts: int) -> Int[Array, "*any"]:
    """The index of the part that holds a cell, if the path is cut into equal parts."""
    return jnp.clip(cell * parts // world.length, 0, parts - 1)


GAIN, PRICE = 0, 1
"""Columns of the sums along the path: the gain of the fluid in a cell, and the price."""


class Outlook(eqx.Module):
    """The values of a world's cells at given prices; past the end of the path they are 0.

    Sums along the path are stored in blocks that overlap by the length of a view. So a view reads
    all sums from one block, and long paths lose no precision.
    """

    price: Float[Array, " cell"]
    """Price of a step within each cell, padded by a block past the end."""
    sums: Float[Array, "entry 2"]
    """Sums of the cells before each cell, counted from the block's first one."""
    is_poured: bool = eqx.field(static=True)
    """Whether a step earns the price along its way, or that of the cell where it ends."""
    block: int = eqx.field(static=True)
    """Cells from one block to the next."""
    reach: int = eqx.field(static=True)
    """Largest number of cells in a view."""

    @classmethod
    def of(cls, world: SweepWorld, price: Float[Array, "part region"], window: int) -> Outlook:
        """The outlook at these prices per part and region, in efforts; views reach `window` cells.

        The path is cut into as many equal parts as there are prices.
        """
        numbers = world.numbers
        part = part_of(jnp.arange(world.length + 1), world, len(price))
        kinds = world.kind_of_part.reshape(-1, world.parts)
        served = world.kinds
        if world.timed is not None:
            served = served.at[:, world.timed].set(0.0)
        of_cell = (price @ served.T)[part[:, None], kinds].mean(axis=1)
        if world.has_cost:
            of_cell -= numbers.product / numbers.effort
        # What a step earns with the best flow; limits of the dose are left out.
        best = jnp.maximum(of_cell, numbers.least_flow * of_cell) if world.has_flow else of_cell
        if world.timed is not None:
            # The same for all actions, so only what lies ahead depends on it.
            best += price[part, world.timed] * world.kinds[:, world.timed].max()
        time = best_time(best, numbers)
        gain = best * time - time**2 / (1.0 + time)
        worth = jnp.stack([gain, of_cell], axis=-1).at[-1].set(0.0)
        block = window if world.length < LONG_PATH else LONG_BLOCK * window
        blocks = math.ceil(len(worth) / block)
        cells = block * jnp.arange(blocks)[:, None] + jnp.arange(block + window)
        within = jnp.cumsum(worth[jnp.minimum(cells, world.length)], axis=1)
        sums = jnp.pad(within, ((0, 0), (1, 0), (0, 0)))
        price = jnp.pad(of_cell, (0, window), mode="edge")
        return cls(price, sums.reshape(-1, 2), world.is_poured, block, window)

    def view(self, cell: Int[Array, ""]) -> View:
        """The view of the cells from this one on."""
        block, past = jnp.divmod(cell, self.block)
        entry = block * (self.block + self.reach + 1) + past
        # The tables are as long as the path, and XLA splits operations on large tables over
        # threads, which costs more than the look-up. So a step makes only these two look-ups.
        found = rows_from(self.price, cell, self.reach), rows_from(self.sums, entry, self.reach + 1)
        price, sums = jax.lax.optimization_barrier(found)
        return View(price, sums, self.is_poured)


class View(eqx.Module):
    """The path from some cell on; places are distances from the start of that cell."""

    price: Float[Array, " cell"]
    """Price of a step within each cell."""
    sums: Float[Array, "cell_and_end 2"]
    """Sums of the cells before each of them, counted from the first cell of a block."""
    is_poured: bool = eqx.field(static=True)

    def earned(
        self, place: Float[Array, ""], distance: Float[Array, "*any"]
    ) -> Float[Array, "*any"]:
        """What steps from a place earn: the price along their way, or where they end."""
        if not self.is_poured:
            return _entry(self.price, self._ahead(place + distance))
        return (self._upto(PRICE, place + distance) - self._upto(PRICE, place)) / distance

    def gain_upto(self, place: Float[Array, "*any"]) -> Float[Array, "*any"]:
        """What the fluid gains up to a place."""
        return self._upto(GAIN, place)

    def _upto(self, column: int, place: Float[Array, "*any"]) -> Float[Array, "*any"]:
        """The sum up to a place from the block's first cell on, linear within a cell."""
        ahead = self._ahead(place)
        before, after = (_entry(self.sums[:, column], ahead + past) for past in (0, 1))
        return before + (place - ahead) * (after - before)

    def _ahead(self, place: Float[Array, "*any"]) -> Int[Array, "*any"]:
        """Whole cells before a place."""
        return jnp.clip(jnp.floor(place).astype(int), 0, len(self.price) - 1)


def _entry(column: Float[Array, " entry"], index: Int[Array, "*any"]) -> Float[Array, "*any"]:
    """Entries by indices that are in bounds."""
    return column.at[index].get(mode="promise_in_bounds")


def at_best_flow(
    world: SweepWorld, earned: Float[Array, "*any"], distance: Float[Array, "*any"]
) -> Float[Array, "*any"]:
    """What steps earn with the best flow, from what they earn at full flow.

    It is linear in the flow, so an end of what the pump allows is best.
    """
    if not world.has_flow:
        return earned
    low, high = dynamics.flow_limits(world.numbers, distance, jnp)
    return jnp.maximum(low * earned, high * earned)


def with_best_flow(
    world: SweepWorld, throttle: Float[Array, ""], earned: Float[Array, ""]
) -> Float[Array, " *action"]:
    """The action: a throttle, and with a flow the opening that earns most."""
    if not world.has_flow:
        return throttle
    return jnp.stack([throttle, (earned > 0.0).astype(throttle.dtype)])
