"""`bound(prices)` of the sweep world with landing service: a number that no drive exceeds.

The world in calm air: x' = x + d', d' = inertia d + (1 - inertia) max_speed clip(a, crawl, 1); a
step earns g(d) = -effort / (1 + d), which is concave, and the price of the cell where it lands;
the step that passes the end lands nowhere. Every drive is mapped to a path of a finite graph that
is worth at least as much, and a dynamic program finds the best path.

**Bins.** Each cell is cut into n bins of width h = 1 / n, so no bin straddles two cells. X_t is the
bin of x_t, eps_t in [-h/2, h/2) the distance from its centre, D_t = (X_t - X_{t-1}) h, hence
d_t = D_t + eps_t - eps_{t-1} and |d_t - D_t| < h.

**Rewards.** For each landing bin and each D choose a slope s and a number G such that
g(d) <= G + s (d - D) for every speed d that the vehicle can have. Summed by parts over a drive,

    sum g(d_t) <= sum G_t - s_1 eps_0 + sum_{t<T} (s_t - s_{t+1}) eps_t + s_T eps_T
               <= sum G_t + (h/2) (s_1 + sum_{t<T} |s_t - s_{t+1}| + |s_T|),

since eps_0 = -h/2 (a drive begins at 0). So rounding does not add up over the steps: it costs
h/2 times the total variation of the slope. Any slopes are valid. Good ones are the loss per length
of the best drive (its costate), which is constant while the speed is:

- the tangent, G = g(D), s = g'(D);
- at the top, where d <= top < D + h: G = g(top) - s (top - D) for any s <= g'(top). What a length
  at top speed loses is s = (g(top) + price) / top, so neither rounding top up to a bin nor going
  back and forth between two bins gains anything;
- where a step pays more than the effort, and D < crawl + h: G = g(crawl) - s (crawl - D) for
  any s >= effort, with s = (g(crawl) + price) / crawl. It holds for d >= crawl. From rest the
  speed is d_t >= crawl (1 - inertia^t), which adds at most s crawl inertia / (1 - inertia) in all.

**Reach.** D' - inertia D differs from d' - inertia d by less than (1 + inertia) h, so D' lies in an
interval that depends on D. The first step has D_1 h <= (1 - inertia) max_speed.

**Values.** V(X, D) = max over D' in reach of G' + price' + (h/2) |s - s'| + V(X + D', D'), and past
the end V = (h/2) |s|. As |a| = max(a, -a), these are two window maxima. A step with D' = 0 stays at
X. Staying twice earns G + price <= 0 each time by the choice of s, so once is enough.

The sums are float64, and their rounding error is added. Speeds may be larger or smaller by
`ROUNDING`, so that drives in float32 are covered too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from scrl.worlds.sweep.spec import SweepSpec

LEVELS = 48
"""Bins that one step at top speed passes."""
ROUNDING = 1e-6
"""Share by which a speed may be rounded up or down in the world's own arithmetic."""
STEADIER = 0.999
"""Share of the slope at top speed that is taken, so that going back and forth does not tie."""
SIDE_BY_SIDE = 8
"""Vectors of prices of one sweep: one size to compile."""


@dataclass(frozen=True)
class PricedBound:
    """What no drive exceeds at some prices, and the paths of the graph that reach it."""

    values: Float[np.ndarray, " many"]
    """return + prices . amounts - per_step steps of any drive that finishes is at most this."""
    amounts: Float[np.ndarray, "many region"]
    """What the best path gives: the slope of the value, up to rounding."""
    steps: Float[np.ndarray, " many"]


@dataclass(frozen=True)
class LandingBound:
    """The graph of one world's bins; `landing_bound` makes it."""

    spec: SweepSpec
    bins: int
    """Per cell."""

    @property
    def states(self) -> int:
        """Bins of the path times steps between them, which the time of a sweep grows with."""
        return self.bins * len(self.spec.path.cells) * (self.top_level + 1)

    @property
    def _slack(self) -> float:
        return ROUNDING / (1.0 - self.spec.vehicle.inertia)

    @property
    def top(self) -> float:
        """Cells per step that no drive exceeds."""
        return self.spec.vehicle.max_speed * (1.0 + self._slack)

    @property
    def crawl(self) -> float:
        """Cells per step that a drive does not fall below, once its start is over."""
        vehicle = self.spec.vehicle
        return vehicle.max_speed * vehicle.crawl * max(0.0, 1.0 - self._slack)

    @property
    def top_level(self) -> int:
        """The largest D: the largest integer below top n + 1."""
        return math.ceil(self.top * self.bins)

    @cached_property
    def reach(self) -> tuple[Int[np.ndarray, " level"], Int[np.ndarray, " level"]]:
        """The smallest and the largest D' after each D."""
        inertia, levels = self.spec.vehicle.inertia, np.arange(self.top_level + 1)
        rounded = 1.0 + inertia + ROUNDING * self.top * self.bins
        slowest = inertia * levels + (1.0 - inertia) * self.crawl * self.bins - rounded
        fastest = inertia * levels + (1.0 - inertia) * self.top * self.bins + rounded
        low = np.clip(np.ceil(slowest), 0, self.top_level).astype(int)
        return low, np.clip(np.floor(fastest), 1, self.top_level).astype(int)

    @cached_property
    def first_levels(self) -> slice:
        """D of the first step, from rest at the first bin's left edge."""
        free = (1.0 - self.spec.vehicle.inertia) * self.bins
        rounded = ROUNDING * self.top * self.bins
        last = min(math.floor(free * self.top + rounded), self.top_level)
        return slice(max(math.floor(free * self.crawl - rounded), 0), last + 1)

    def at(
        self, prices: Float[np.ndarray, "many region"], per_step: Float[np.ndarray, " many"]
    ) -> PricedBound:
        """The bound for each vector of prices, per unit of amount, and price of a step."""
        many = len(prices)
        filled = SIDE_BY_SIDE * math.ceil(many / SIDE_BY_SIDE)
        pad = ((0, filled - many), (0, 0))
        prices, per_step = np.pad(prices, pad), np.pad(per_step, pad[0])
        parts = [
            self._at(prices[first : first + SIDE_BY_SIDE], per_step[first : first + SIDE_BY_SIDE])
            for first in range(0, filled, SIDE_BY_SIDE)
        ]
        joined = (np.concatenate([getattr(part, name) for part in parts])[:many]
                  for name in ("values", "amounts", "steps"))  # fmt: skip
        return PricedBound(*joined)

    def _at(
        self, prices: Float[np.ndarray, "many region"], per_step: Float[np.ndarray, " many"]
    ) -> PricedBound:
        spec, service = self.spec, self.spec.service
        given = spec.vehicle.rate * service.kinds.astype(float)
        gains = prices @ given.T - per_step[:, None]
        kinds = np.repeat(service.kind_of_cell[:-1], self.bins)
        first = np.zeros(self.top_level + 1, bool)
        first[self.first_levels] = True
        with jax.enable_x64(True):
            tables, steepest = self._tables(gains)
            swept = _sweep(tables, jnp.asarray(kinds), _Reach.of(*self.reach), jnp.asarray(first))
            best, largest, visits = (np.asarray(each) for each in swept)
        # Each of at most 2 |X| steps of a path is summed with at most 8 roundings.
        error = 16.0 * len(kinds) * np.finfo(float).eps * largest
        crawl = self.crawl * spec.vehicle.inertia / (1.0 - spec.vehicle.inertia)
        values = best + error + crawl * steepest
        # The step past the end is the last kind, and serves nothing.
        return PricedBound(values, visits @ given, visits.sum(axis=1).astype(float))

    def _tables(
        self, gains: Float[np.ndarray, "many kind"]
    ) -> tuple[_Tables, Float[np.ndarray, " many"]]:
        """Slopes and rewards of a step, and the largest slope that assumes d >= crawl."""
        effort, top, crawl = self.spec.vehicle.effort, self.top, self.crawl
        length = np.arange(self.top_level + 1) / self.bins
        shape = (*gains.shape, len(length))
        gain, is_paid = gains[..., None], gains[..., None] > effort
        slope = np.broadcast_to(effort / (1.0 + length) ** 2, shape)
        reward = np.broadcast_to(-effort / (1.0 + length), shape)
        loss = (gain - effort / (1.0 + top)) / top
        fast = np.minimum(effort / (1.0 + top) ** 2, STEADIER * loss)
        is_fast = length > top - 1.0 / self.bins
        slope = np.where(is_fast, fast, slope)
        reward = np.where(is_fast, -effort / (1.0 + top) - fast * (top - length), reward)
        slow = (gain - effort / (1.0 + crawl)) / max(crawl, 1e-300)
        slow = (1.0 + 1e-12) * np.maximum(effort, slow)
        is_slow = is_paid & (length < crawl + 1.0 / self.bins)
        slope = np.where(is_slow, slow, slope)
        reward = np.where(is_slow, -effort / (1.0 + crawl) - slow * (crawl - length), reward)
        steepest = np.where(is_paid, slow, 0.0).max(axis=(1, 2))
        half = slope / (2.0 * self.bins)
        earned = reward + gain
        low, _ = self.reach
        # Where D' = 0 is in reach of D > 0, it stays in the bin and goes on as from D = 0.
        stays = np.where(
            (low == 0) & (length > 0), earned[..., :1] + np.abs(half - half[..., :1]), -np.inf
        )
        by_kind = (jnp.asarray(np.moveaxis(each, 1, 0)) for each in (half, earned, stays))
        return _Tables(*by_kind), steepest


class _Tables(NamedTuple):
    """Numbers of a step with some D that lands in a cell of some kind."""

    half: Float[Array, "kind many level"]
    """(h/2) s."""
    earned: Float[Array, "kind many level"]
    """G + price."""
    stays: Float[Array, "kind many level"]
    """What staying once more adds to V(X, 0); -inf where it is out of reach."""


class _Reach(NamedTuple):
    """D' that may follow each D, and their windows from 1 on as two blocks of length 2^power."""

    least: Int[Array, " level"]
    """0 where one more step may stay in the bin."""
    low: Int[Array, " level"]
    high: Int[Array, " level"]
    power: Int[Array, " level"]

    @classmethod
    def of(cls, least: Int[np.ndarray, " level"], high: Int[np.ndarray, " level"]) -> _Reach:
        low = np.maximum(least, 1)
        least = np.where(np.arange(len(least)) == 0, low, least)
        power = np.floor(np.log2(high - low + 1)).astype(int)
        return cls(*(jnp.asarray(each) for each in (least, low, high, power)))

    def maxima(self, row: Float[Array, "many level"]) -> Float[Array, "many level"]:
        """The largest entry of each window from 1 on."""
        levels = row.shape[1]
        blocks = [row]
        for doubling in range(levels.bit_length() - 1):
            shift = 2**doubling
            ahead = jnp.pad(blocks[-1][:, shift:], ((0, 0), (0, shift)), constant_values=-jnp.inf)
            blocks.append(jnp.maximum(blocks[-1], ahead))
        table, row_of = jnp.concatenate(blocks, axis=1), self.power * levels
        second = row_of + self.high + 1 - 2**self.power
        return jnp.maximum(table[:, row_of + self.low], table[:, second])


@jax.jit
def _sweep(
    tables: _Tables,
    kinds: Int[Array, " bin"],
    reach: _Reach,
    first: Bool[Array, " level"],
) -> tuple[Float[Array, " many"], Float[Array, " many"], Int[Array, "many kind"]]:
    """Backwards over the bins: the best value, the largest number met, and visits of the best."""
    kind_count, many, levels = tables.half.shape
    rows = levels  # of the ring: the bins that one step reaches
    level = jnp.arange(levels)

    def signed(value: Array, kind: Array) -> Array:
        """Q - (h/2) s and Q + (h/2) s of the steps that land here, one above the other."""
        half, total = tables.half[kind], tables.earned[kind] + value
        return jnp.concatenate([total - half, total + half])

    def body(carry: tuple[Array, Array], at: tuple[Array, Array]) -> tuple:
        ring, largest = carry
        place, kind = at
        ahead = reach.maxima(ring[(place + level) % rows, :, level].T)
        half = tables.half[kind]
        value = jnp.maximum(ahead[:many] + half, ahead[many:] - half)
        value = jnp.maximum(value, value[:, :1] + tables.stays[kind])
        ring = ring.at[place % rows].set(signed(value, kind))
        return (ring, jnp.maximum(largest, jnp.abs(value).max(axis=1))), value.astype(jnp.float32)

    end = signed(jnp.abs(tables.half[-1]), jnp.asarray(kind_count - 1))
    ring = jnp.broadcast_to(end, (rows, *end.shape))
    (ring, largest), values = jax.lax.scan(
        body, (ring, jnp.zeros(many)), (jnp.arange(len(kinds)), kinds), reverse=True
    )
    begin = ring[level % rows, many:, level].T
    best = jnp.where(first, begin, -jnp.inf).max(axis=1)
    return best, largest, _visits(tables, kinds, reach, first, values)


def _visits(
    tables: _Tables,
    kinds: Int[Array, " bin"],
    reach: _Reach,
    first: Bool[Array, " level"],
    values: Float[Array, "bin many level"],
) -> Int[Array, "many kind"]:
    """How often the best path lands in each kind of cell; past the end is the last kind."""
    kind_count, many, levels = tables.half.shape
    each, level, bins = jnp.arange(many), jnp.arange(levels), len(kinds)

    def scores(place: Array) -> tuple[Array, Array, Array]:
        """The kind of cell at each D' ahead, G' + price' + V, and (h/2) s'."""
        ahead = place[:, None] + level
        is_inside, inner = ahead < bins, jnp.minimum(ahead, bins - 1)
        kind = jnp.where(is_inside, kinds[inner], kind_count - 1)
        half = tables.half[kind, each[:, None], level]
        value = jnp.where(is_inside, values[inner, each[:, None], level], jnp.abs(half))
        return kind, tables.earned[kind, each[:, None], level] + value, half

    def moved(place: Array, score: Array, kind: Array, visits: Array) -> tuple:
        choice = score.argmax(axis=1)
        is_running = place < bins
        visits = visits.at[each, kind[each, choice]].add(is_running)
        return jnp.where(is_running, place + choice, place), choice, visits

    def step(state: tuple[Array, Array, Array]) -> tuple:
        place, last, visits = state
        kind, score, half = scores(place)
        here = tables.half[kinds[jnp.minimum(place, bins - 1)], each, last]
        is_in_reach = (level >= reach.least[last][:, None]) & (level <= reach.high[last][:, None])
        score += jnp.abs(here[:, None] - half)
        return moved(place, jnp.where(is_in_reach, score, -jnp.inf), kind, visits)

    place = jnp.zeros(many, int)
    kind, score, half = scores(place)
    visits = jnp.zeros((many, kind_count), int)
    start = moved(place, jnp.where(first, score + half, -jnp.inf), kind, visits)
    return jax.lax.while_loop(lambda state: (state[0] < bins).any(), step, start)[2]


def landing_bound(spec: SweepSpec, *, levels: int = LEVELS) -> LandingBound:
    """The graph of a world, with about so many bins in one step at top speed."""
    return LandingBound(spec, max(1, math.ceil(levels / spec.vehicle.max_speed)))
