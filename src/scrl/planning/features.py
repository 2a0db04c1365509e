"""What lies ahead on the path at given prices: what it is worth by the fluid, and a summary of it.

All money is counted in efforts (the cost of a step at rest) and a price is earned per step, so what
follows knows neither the rate nor the effort of a vehicle. In the fluid (`reference.fluid`) a cell
takes tau steps and is worth price tau - tau^2 / (1 + tau); the best tau is known in closed form.
"""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from scrl.worlds.sweep.lookup import rows_from
from scrl.worlds.sweep.world import SweepWorld, VehicleNumbers

EDGES = np.array([0, 1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1, 1.5, 2], np.float32)
"""Where the stretches begin and end that are summarised, in lengths of `reach`."""
LONG_PATH, LONG_BLOCK = 1_000_000, 8
"""On a path of so many cells blocks are so many times as long: the sums take half the memory."""
FULL_PRICE = 1.0 - 1e-6
"""At a price of 1 the fluid stands still for ever."""


def reach(numbers: VehicleNumbers) -> Float[Array, ""]:
    """How far, in cells, a vehicle rolls: top speed / (1 - inertia)."""
    return numbers.max_speed / (1.0 - numbers.inertia)


def window_for(max_speed: float, inertia: float) -> int:
    """Cells that are looked at: those that one step, and what is summarised after it, can touch.

    A gust may carry twice as far as calm air.
    """
    furthest = 2.0 * max_speed + float(EDGES[-1]) * max_speed / (1.0 - inertia)
    return math.ceil(furthest) + 2


def best_time(price: Float[Array, "*any"], numbers: VehicleNumbers) -> Float[Array, "*any"]:
    """Steps per cell that are worth most: where the slope 1 - (1 + tau)^-2 equals the price."""
    free = 1.0 / jnp.sqrt(1.0 - jnp.clip(price, 0.0, FULL_PRICE)) - 1.0
    fastest = 1.0 / numbers.max_speed
    return jnp.clip(free, fastest, fastest / numbers.crawl)


def least_price(numbers: VehicleNumbers) -> Float[Array, ""]:
    """Below this price the fluid goes at full speed."""
    return 1.0 - (1.0 + 1.0 / numbers.max_speed) ** -2


def part_of(cell: Int[Array, "*any"], world: SweepWorld, parts: int) -> Int[Array, "*any"]:
    """Which of so many equal parts of the path a cell lies in."""
    return jnp.clip(cell * parts // world.length, 0, parts - 1)


GAIN, SLOWNESS, DISLIKE = 0, 1, 2
"""What is summed along the path: what the fluid gains in a cell; how slowly it goes there; and,
where it hurries, how much it dislikes the place."""


class Outlook(eqx.Module):
    """A world at given prices: what its cells are worth. Nothing past the path's end is.

    Sums along the path are kept in blocks that overlap by what a view reaches. So a view reads
    every sum from one block, and long paths lose no precision.
    """

    price: Float[Array, " cell"]
    """What a step earns that lands there, with a block of entries for what lies past the end."""
    sums: Float[Array, "entry 3"]
    """Sums of the cells before each cell, counted from the block's first one."""
    block: int = eqx.field(static=True)
    """Cells from one block to the next."""
    reach: int = eqx.field(static=True)
    """Cells that a view reaches, at most."""

    @classmethod
    def of(cls, world: SweepWorld, price: Float[Array, "part region"], window: int) -> Outlook:
        """The outlook at these prices per part and region, in efforts; views reach `window` cells.

        The path is cut into as many equal parts as there are prices.
        """
        numbers = world.numbers
        part = part_of(jnp.arange(world.length + 1), world, len(price))
        of_cell = (price @ world.kinds.T)[part, world.kind_of_cell]
        time = best_time(of_cell, numbers)
        gain = of_cell * time - time**2 / (1.0 + time)
        slowness = jnp.log(time * numbers.max_speed)
        dislike = jnp.tanh(jnp.minimum(of_cell - least_price(numbers), 0.0))
        worth = jnp.stack([gain, slowness, dislike], axis=-1).at[-1].set(0.0)
        block = window if world.length < LONG_PATH else LONG_BLOCK * window
        blocks = math.ceil(len(worth) / block)
        cells = block * jnp.arange(blocks)[:, None] + jnp.arange(block + window)
        within = jnp.cumsum(worth[jnp.minimum(cells, world.length)], axis=1)
        sums = jnp.pad(within, ((0, 0), (1, 0), (0, 0)))
        return cls(jnp.pad(of_cell, (0, window), mode="edge"), sums.reshape(-1, 3), block, window)

    @property
    def cells(self) -> int:
        """Of the path."""
        return self.price.shape[-1] - 1 - self.reach

    def view(self, cell: Int[Array, ""]) -> View:
        """The cells from this one on."""
        block, past = jnp.divmod(cell, self.block)
        entry = block * (self.block + self.reach + 1) + past
        # The tables are as long as the path. Only these two look-ups touch them in a step: XLA
        # shares out what may read a large table among threads, which costs more than the reading.
        found = rows_from(self.price, cell, self.reach), rows_from(self.sums, entry, self.reach + 1)
        return View(*jax.lax.optimization_barrier(found))


class View(eqx.Module):
    """A path from some cell on; places on it are counted from the head of that cell."""

    price: Float[Array, " cell"]
    """What a step earns that lands in each of the cells."""
    sums: Float[Array, "cell_and_end 3"]
    """Sums of the cells before each of them, counted from the first cell of a block."""

    def price_at(self, place: Float[Array, "*any"]) -> Float[Array, "*any"]:
        """What a step earns that lands there."""
        return _entry(self.price, self._ahead(place))

    def gain_upto(self, place: Float[Array, "*any"]) -> Float[Array, "*any"]:
        """What the fluid gains on the way there."""
        return self._upto(GAIN, place)

    def mood_upto(self, place: Float[Array, "*any"]) -> Float[Array, "*any 2"]:
        """Sums of slowness and dislike on the way there."""
        return jnp.stack([self._upto(SLOWNESS, place), self._upto(DISLIKE, place)], axis=-1)

    def _upto(self, column: int, place: Float[Array, "*any"]) -> Float[Array, "*any"]:
        """The sum up to a place, counted from the block's first cell: straight within a cell."""
        ahead = self._ahead(place)
        before, after = (_entry(self.sums[:, column], ahead + past) for past in (0, 1))
        return before + (place - ahead) * (after - before)

    def _ahead(self, place: Float[Array, "*any"]) -> Int[Array, "*any"]:
        """Whole cells before a place."""
        return jnp.clip(jnp.floor(place).astype(int), 0, len(self.price) - 1)


def _entry(column: Float[Array, " entry"], index: Int[Array, "*any"]) -> Float[Array, "*any"]:
    """Entries by indices that are known to lie inside."""
    return column.at[index].get(mode="promise_in_bounds")


SCALARS = 9
SIGHTS = SCALARS + 2 * (len(EDGES) - 1)
"""Numbers that describe a moment."""


def sight(
    world: SweepWorld,
    view: View,
    place: Float[Array, ""],
    speed: Float[Array, ""],
    gust: Float[Array, ""],
) -> Float[Array, " sight"]:
    """A moment in numbers of about 1: speed, gust, vehicle, wind, and the stretches ahead."""
    numbers = world.numbers
    far = reach(numbers)
    edges = view.mood_upto(place + EDGES * far)
    stretches = (edges[1:] - edges[:-1]) / (jnp.diff(EDGES) * far)[:, None]
    share = speed / numbers.max_speed
    strength = numbers.freshness / jnp.sqrt(1.0 - numbers.persistence**2)
    scalars = jnp.stack(
        [
            share,
            0.3 * jnp.log(share + 0.02),
            3.0 * gust,
            5.0 * strength,
            numbers.persistence,
            jnp.log(numbers.max_speed) - 1.0,
            2.0 * numbers.inertia - 1.0,
            jnp.exp(-far),
            0.3 * jnp.log(numbers.crawl) + 1.0,
        ]
    )
    return jnp.concatenate([scalars, stretches.ravel()])
