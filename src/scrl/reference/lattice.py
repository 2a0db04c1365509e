"""The true step-by-step sweep on a lattice of positions and speeds, by dynamic programming.

Speeds are multiples of one small length, and so are positions, half a length off, so that no drive
hangs on landing exactly on the edge of a cell. From speed v the vehicle reaches speed w if
w lies between what the crawl and the full throttle give (rounded outwards), so with
G(p, w) = r(w) + earned(p, p + w) + V(p + w, w) the value is V(p, v) = max over those w of G(p, w):
a window maximum along the diagonal, swept once from the end of the path to its start. A step earns
the price where it lands, or the mean price along its way. Where the vehicle never goes slower than
m lengths a step, m positions do not depend on each other, and up to four are computed together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from scrl.worlds.sweep import dynamics
from scrl.worlds.sweep.lookup import on_device
from scrl.worlds.sweep.spec import SweepSpec

SPEED_LEVELS = 48
ROWS_BEYOND = 8
"""Rows of V past the longest step beyond the end of the path, so that whole blocks can be read."""
LARGEST_BLOCK = 4
"""Positions that are computed together, at most; they are filled up to a multiple of this, so that
lattices with the same levels have one shape."""


@dataclass(frozen=True)
class SpeedLattice:
    """Positions and speeds of one world in multiples of `unit` cells."""

    spec: SweepSpec
    levels: int = SPEED_LEVELS
    slowest: int = 1
    """The smallest speed that is tried, in multiples of the unit; a power of 2."""

    @property
    def unit(self) -> float:
        """The lattice's length: the top speed has index `levels`."""
        return self.spec.vehicle.max_speed / self.levels

    @property
    def positions(self) -> int:
        """Lattice points on the path, filled up to whole blocks."""
        return LARGEST_BLOCK * math.ceil(self.on_path / LARGEST_BLOCK)

    @property
    def on_path(self) -> int:
        """Lattice points on the path."""
        return math.ceil(len(self.spec.path.cells) / self.unit - 0.5 - 1e-9)

    @cached_property
    def speeds(self) -> Float[np.ndarray, " level"]:
        """0, unit, ..., top speed."""
        return np.arange(self.levels + 1) * self.unit

    @cached_property
    def kind_of_position(self) -> Int[np.ndarray, " position_and_beyond"]:
        """Kind of part at each position; as far past the end as one step reaches."""
        service, cells = self.spec.service, len(self.spec.path.cells)
        place = (np.arange(self.positions + self.levels + 1) + 0.5) * self.unit
        return service.kind_of_part[(service.parts * np.minimum(place, cells)).astype(int)]

    @cached_property
    def reach(self) -> tuple[Int[np.ndarray, " level"], Int[np.ndarray, " level"]]:
        """The slowest and the fastest speed that one step can lead to from each speed."""
        vehicle, unit = self.spec.vehicle, self.unit
        slowest = dynamics.next_speed(vehicle, self.speeds, 0.0, np) / unit
        fastest = dynamics.next_speed(vehicle, self.speeds, 1.0, np) / unit
        # At full throttle the top speed is reached in the limit, never in a rounded step.
        high = np.where(fastest > self.levels - 1, self.levels, np.round(fastest)).astype(int)
        low = np.clip(np.round(slowest).astype(int), self.slowest, self.levels)
        return low, np.maximum(high, low)

    def values(
        self, prices: Float[np.ndarray, "plan part region"], *, unit: float = 1.0
    ) -> Float[Array, "position level plan"]:
        """V for prices (return per step in a region) on equal parts of the path, side by side.

        V is in multiples of `unit`.
        """
        kinds, vehicle = self.spec.service.kinds.astype(float), self.spec.vehicle
        of_time = None
        if (timed := self.spec.timed) is not None:
            whole = prices[:, self._part(prices.shape[1]), timed] * kinds[:-1, timed].max() / unit
            of_time, kinds[:, timed] = on_device(whole, float), 0.0
        gains = (prices @ kinds.T / unit)[:, self._part(prices.shape[1]), self.kind_of_position]
        gains -= np.where(self.kind_of_position < len(kinds) - 1, vehicle.product / unit, 0.0)
        rewards = dynamics.step_reward(self.spec.vehicle, self.speeds) / unit
        low, high = self.reach
        return _sweep(
            self._sums(gains, of_time) if self.spec.is_poured else on_device(gains, float),
            on_device(rewards, float),
            on_device(low),
            on_device(high),
            on_device(self.on_path),
            block=min(self.slowest, LARGEST_BLOCK),
            doublings=int((high - low + 1).max()).bit_length(),
        )

    def _sums(
        self,
        gains: Float[np.ndarray, "plan position_and_beyond"],
        of_time: Float[Array, "plan position_and_beyond"] | None,
    ) -> _PriceSums:
        unit = max(float(np.abs(gains).max(initial=0.0)), 1e-300) * 2.0**-20
        whole = np.round(gains / unit).astype(np.int64)
        # A position lies in the middle of its length.
        sums = (np.cumsum(whole, axis=1) - whole // 2).astype(np.int32)
        flows = self._flows() if self.spec.vehicle.has_flow else None
        return _PriceSums(on_device(sums), on_device(unit, float), flows, of_time)

    def _flows(self) -> tuple[Float[Array, " level"], Float[Array, " level"]]:
        """The least and the largest flow at each speed, as shares of the full flow."""
        moving = np.maximum(self.speeds, self.unit)  # no step is tried at rest
        low, high = dynamics.flow_limits(self.spec.vehicle, moving, np)
        return on_device(low, float), on_device(high, float)

    def _part(self, parts: int) -> Int[np.ndarray, " position_and_beyond"]:
        """The part of the path that holds each position."""
        cells = len(self.spec.path.cells)
        cell = ((np.arange(len(self.kind_of_position)) + 0.5) * self.unit).astype(int)
        return np.minimum(cell * parts // cells, parts - 1)


class _PriceSums(NamedTuple):
    """Sums of prices up to each position, in multiples of a unit.

    They may wrap around; their differences are exact, which those of long sums of floats are not.
    """

    sums: Int[Array, "plan position_and_beyond"]
    unit: Float[Array, ""]
    flows: tuple[Float[Array, " level"], Float[Array, " level"]] | None
    """The least and the largest flow at each speed; None for a fixed rate."""
    of_time: Float[Array, "plan position_and_beyond"] | None
    """What a step from each position earns whatever the flow is, where there is such a price."""


@partial(jax.jit, static_argnames=("block", "doublings"))
def _sweep(
    gains: Float[Array, "plan position_and_beyond"] | _PriceSums,
    rewards: Float[Array, " level"],
    low: Int[Array, " level"],
    high: Int[Array, " level"],
    on_path: Int[Array, ""],
    *,
    block: int,
    doublings: int,
) -> Float[Array, "position level plan"]:
    """Backwards over the path, a block of positions at a time; V past its end is 0.

    V lies in one long row, position by position, so that G of one position is every so many-th
    entry of it. Plans come last: their numbers lie side by side in every look-up.
    """
    width = rewards.shape[0]
    prices = gains.sums if isinstance(gains, _PriceSums) else gains
    plans, beyond = prices.shape
    positions = beyond - width
    count = width - block
    target, starts = jnp.arange(block, width)[:, None], range(block)
    window = _Windows.of(low - block, high - block, count, doublings)

    def ahead(of: Shaped[Array, "plan position"], begin: Array, length: int) -> Array:
        return jax.lax.dynamic_slice_in_dim(of, begin, length, axis=1).T

    def earned(first: Array) -> list[Float[Array, "target plan"]]:
        """What the steps from each position of the block to each target earn."""
        landing = ahead(prices, first + block, count + block - 1)
        steps = [landing[start : start + count] for start in starts]
        if not isinstance(gains, _PriceSums):
            return steps
        here = ahead(prices, first, block)
        full = [(steps[start] - here[start]) * gains.unit / target for start in starts]
        if gains.flows is None:
            return full
        least, most = (limit[block:, None] for limit in gains.flows)
        best = [jnp.maximum(least * each, most * each) for each in full]
        if gains.of_time is None:
            return best
        timed = ahead(gains.of_time, first, block)
        left = [jnp.minimum((on_path - first - start) / target, 1.0) for start in starts]
        return [best[start] + timed[start] * left[start] for start in starts]

    def after(values: Float[Array, "point plan"], begin: Array) -> Float[Array, "target plan"]:
        """V after the steps from one position to each target."""
        span = (count - 1) * (width + 1) + 1
        points = jax.lax.dynamic_slice_in_dim(values, (begin + block) * width + block, span)
        return points[:: width + 1]

    def body(back: Array, values: Array) -> Array:
        first = positions - block * (back + 1)
        best = [
            after(values, first + start) + each + rewards[block:, None]
            for start, each in enumerate(earned(first))
        ]
        value = window.maxima(jnp.concatenate(best, axis=1)).reshape(width, block, plans)
        is_there = (first + jnp.arange(block) < on_path)[:, None, None]
        value = jnp.where(is_there, value.swapaxes(0, 1), 0.0).reshape(block * width, plans)
        return jax.lax.dynamic_update_slice_in_dim(values, value, first * width, axis=0)

    nothing = jnp.zeros(((beyond + ROWS_BEYOND) * width, plans), rewards.dtype)
    values = jax.lax.fori_loop(0, positions // block, body, nothing)
    return values.reshape(-1, width, plans)


class _Windows(NamedTuple):
    """Maxima over windows low..high of a column: two blocks of length 2^k cover each window."""

    first: Int[Array, " window"]
    second: Int[Array, " window"]
    doublings: int

    @classmethod
    def of(
        cls,
        low: Int[Array, " window"],
        high: Int[Array, " window"],
        levels: int,
        doublings: int,
    ) -> _Windows:
        power = jnp.floor(jnp.log2(high - low + 1.5)).astype(int)
        row = power * levels
        return cls(row + low, row + high + 1 - 2**power, doublings)

    def maxima(self, columns: Float[Array, "target plan"]) -> Float[Array, "window plan"]:
        blocks = [columns]
        for doubling in range(self.doublings - 1):
            shift = 2**doubling
            padded = jnp.pad(blocks[-1][shift:], ((0, shift), (0, 0)), constant_values=-jnp.inf)
            blocks.append(jnp.maximum(blocks[-1], padded))
        table = jnp.concatenate(blocks)
        ends = (table.at[each].get(mode="promise_in_bounds") for each in (self.first, self.second))
        return jnp.maximum(*ends)


@dataclass(frozen=True)
class Drives:
    """What following the values does in the true world, one drive per plan."""

    returns: Float[np.ndarray, " plan"]
    density: Float[np.ndarray, "plan region"]
    steps: Int[np.ndarray, " plan"]
    is_finished: Bool[np.ndarray, " plan"]
    speeds: Float[np.ndarray, "time plan"]
    """The speed of every step."""


def drive(
    lattice: SpeedLattice,
    prices: Float[np.ndarray, "plan region"],
    values: Float[np.ndarray, "position level plan"],
) -> Drives:
    """Follow the values greedily with exact positions and speeds: no lattice, no rounding."""
    ahead_of = np.asarray(values)
    spec, plans = lattice.spec, len(prices)
    if spec.vehicle.has_flow or spec.vehicle.product_cost:
        raise ValueError("these drives give out at a fixed rate that costs nothing")
    vehicle, cells = spec.vehicle, len(spec.path.cells)
    service, served = spec.service, spec.service.of_regions
    place, speed = np.zeros(plans), np.zeros(plans)
    returns, amount = np.zeros(plans), np.zeros((plans, served.kinds.shape[1]))
    steps, running = np.zeros(plans, int), np.ones(plans, bool)
    speeds: list[np.ndarray] = []
    while running.any() and steps.max() < spec.route.horizon_steps:
        reached = _speeds_to_try(lattice, place, speed)
        ahead = place[:, None] + reached
        shares = service.share_between(served, np.broadcast_to(place[:, None], ahead.shape), ahead)
        score = dynamics.step_reward(vehicle, reached) + np.einsum("pr,rpc->pc", prices, shares)
        score += _between(lattice, ahead_of, ahead, reached)
        choice = score.argmax(axis=1)[:, None]
        speed = np.where(running, np.take_along_axis(reached, choice, axis=1)[:, 0], speed)
        returns += running * dynamics.step_reward(vehicle, speed)
        amount += running[:, None] * service.share_between(served, place, place + speed).T
        place = np.where(running, place + speed, place)
        steps += running
        running &= place < cells
        speeds.append(speed)
    return Drives(returns, vehicle.rate * amount, steps, ~running, np.array(speeds))


def _speeds_to_try(
    lattice: SpeedLattice, place: Float[np.ndarray, " plan"], speed: Float[np.ndarray, " plan"]
) -> Float[np.ndarray, "plan choice"]:
    """The speeds that land on lattice points, where V is exact, and the two ends of the reach."""
    vehicle, unit = lattice.spec.vehicle, lattice.unit
    slowest = dynamics.next_speed(vehicle, speed, 0.0, np)[:, None]
    fastest = dynamics.next_speed(vehicle, speed, 1.0, np)[:, None]
    nearest = np.ceil((place[:, None] + slowest) / unit - 0.5)
    widest = math.ceil((1.0 - vehicle.inertia) * lattice.levels) + 1
    landing = (nearest + np.arange(widest) + 0.5) * unit - place[:, None]
    # A landing out of reach becomes an end of the reach: tried twice, harmless.
    return np.concatenate([np.clip(landing, slowest, fastest), slowest, fastest], axis=1)


def _between(
    lattice: SpeedLattice, values: np.ndarray, place: np.ndarray, speed: np.ndarray
) -> Float[np.ndarray, "plan throttle"]:
    """V between lattice points, linear in position and in speed."""
    row = np.clip(place / lattice.unit - 0.5, 0.0, len(values) - 1.001)
    level = np.minimum(speed / lattice.unit, lattice.levels - 0.001)
    low_row, low_level = row.astype(int), level.astype(int)
    share_row, share_level = row - low_row, level - low_level
    plan = np.arange(values.shape[2])[:, None]
    near, far = (
        (1 - share_level) * values[row, low_level, plan]
        + share_level * values[row, low_level + 1, plan]
        for row in (low_row, low_row + 1)
    )
    return (1 - share_row) * near + share_row * far
