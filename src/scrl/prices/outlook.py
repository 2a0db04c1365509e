"""What lies ahead on the path at given prices: what it is worth by the fluid, and a summary of it.

All money is counted in efforts (the cost of a step at rest) and a price is earned per step, so what
follows knows neither the rate nor the effort of a vehicle. In the fluid (`reference.fluid`) a cell
takes tau steps and is worth price tau - tau^2 / (1 + tau); the best tau is known in closed form.
"""

from __future__ import annotations

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from scrl.worlds.sweep import SweepWorld, VehicleNumbers

EDGES = np.array([0, 1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1, 1.5, 2], np.float32)
"""Where the stretches begin and end that are summarised, in lengths of `reach`."""
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


class Outlook(eqx.Module):
    """A world at given prices: what each kind of cell is worth. Nothing past the path's end is."""

    price: Float[Array, " kind"]
    """What a step earns."""
    gain: Float[Array, " kind"]
    """What the fluid gains in a cell."""
    mood: Float[Array, "kind 2"]
    """How slowly the fluid goes; and, where it hurries, how much it dislikes the place."""
    window: int = eqx.field(static=True)

    @classmethod
    def of(cls, world: SweepWorld, price: Float[Array, " region"], window: int) -> Outlook:
        """The outlook at these prices per region, in efforts."""
        numbers, of_kind = world.numbers, world.kinds @ price
        time = best_time(of_kind, numbers)
        slowness = jnp.log(time * numbers.max_speed)
        dislike = jnp.tanh(jnp.minimum(of_kind - least_price(numbers), 0.0))
        end = world.kind_of_cell[-1]
        return cls(
            of_kind,
            (of_kind * time - time**2 / (1.0 + time)).at[end].set(0.0),
            jnp.stack([slowness, dislike], axis=-1).at[end].set(0.0),
            window,
        )

    def view(self, world: SweepWorld, cell: Int[Array, ""]) -> View:
        """The cells from this one on."""
        cells = jnp.minimum(cell + jnp.arange(self.window), world.length)
        kinds = world.kind_of_cell[cells]
        return View(self.price[kinds], self.gain[kinds], self.mood[kinds])


class View(eqx.Module):
    """Cells in a row; places on them are counted from the head of the first one."""

    price: Float[Array, " cell"]
    gain: Float[Array, " cell"]
    mood: Float[Array, "cell 2"]

    def price_at(self, place: Float[Array, "*any"]) -> Float[Array, "*any"]:
        """What a step earns that lands there."""
        return _entry(self.price, self._cell(place))

    def gain_upto(self, place: Float[Array, "*any"]) -> Float[Array, "*any"]:
        """What the fluid gains on the way there."""
        return self._upto(self.gain, place)

    def mood_upto(self, place: Float[Array, "*any"]) -> Float[Array, "*any 2"]:
        """Sums on the way there."""
        return jnp.stack([self._upto(column, place) for column in self.mood.T], axis=-1)

    def _upto(self, column: Float[Array, " cell"], place: Float[Array, "*any"]) -> Array:
        """The sum of whole cells before a place, and its share of the cell it lies in."""
        cell = self._cell(place)
        before = jnp.cumsum(column) - column
        return _entry(before, cell) + (place - cell) * _entry(column, cell)

    def _cell(self, place: Float[Array, "*any"]) -> Int[Array, "*any"]:
        return jnp.clip(jnp.floor(place).astype(int), 0, len(self.price) - 1)


def _entry(column: Float[Array, " cell"], cell: Int[Array, "*any"]) -> Float[Array, "*any"]:
    """Entries by indices that are known to lie inside."""
    return column.at[cell].get(mode="promise_in_bounds")


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
