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
h/2 times the total variation of the slope, nothing while the speed is constant. The slopes are:

- the tangent, G = g(D), s = g'(D);
- where a step pays more than the effort, and D < crawl + h: G = g(crawl) - s (crawl - D) for
  any s >= effort, with s = (g(crawl) + price) / crawl. It holds for d >= crawl. From rest the
  speed is d_t >= crawl (1 - inertia^t), which adds at most s crawl inertia / (1 - inertia) in all.

**Reach.** D' - inertia D differs from d' - inertia d by less than (1 + inertia) h, so D' lies in an
open interval that depends on D. As d <= max_speed, D is at most max_speed rounded up to whole bins;
it matters that this is nearly max_speed, because a step that is longer by one bin lets a drive
shift its landings at no cost, so n is chosen for it. The first step has D_1 <= d_1, because the
start is the left edge of its bin.

**Values.** V(X, D) = max over D' in reach of G' + price' + (h/2) |s - s'| + V(X + D', D'), and past
the end V = (h/2) |s|. As |a| = max(a, -a), these are two window maxima. A step with D' = 0 stays at
X. Staying twice earns G + price <= 0 each time by the choice of s, so once is enough.

**Arithmetic.** All this is about the world in exact arithmetic. Rounding moves the landings of the
world's own arithmetic by a tiny length, which is worth as little wherever a drive could have gone
ahead by that length. Full throttle from the start on could not: where it lands on edges of cells,
rounding decides, and every D may be larger or smaller by one bin. The sums of the dynamic program
are float64, and their rounding error is added.
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

from scrl.worlds.sweep.lookup import on_device
from scrl.worlds.sweep.spec import SweepSpec

LEVELS = 48
"""Bins that one step at top speed passes, at least."""
WHOLE = 1e-9
"""A number that is as near to a whole one is meant to be whole."""
NEAR_EDGE = 1e-4
"""Cells by which rounding in float32 may move a landing."""
NEARLY_WHOLE = 1e-3
"""A top speed that grows by this share, to become a whole number of bins, is not searched for."""
SIDE_BY_SIDE = 8
"""Vectors of prices of one sweep: one size to compile."""


@dataclass(frozen=True)
class PricedBound:
    """What no drive exceeds at some prices, and the paths of the graph that reach it."""

    values: Float[np.ndarray, " many"]
    """return + prices . amounts - per_step steps of any drive that finishes is at most this."""
    returns: Float[np.ndarray, " many"]
    """What the best path returns, with the price of rounding: at any prices at which no step pays
    more than the effort, the value is at least returns + prices . amounts - per_step steps."""
    amounts: Float[np.ndarray, "many region"]
    """What the best path gives: the slope of the value."""
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
    def crawl(self) -> float:
        """Cells per step that a drive does not fall below, once its start is over."""
        return self.spec.vehicle.max_speed * self.spec.vehicle.crawl

    @cached_property
    def top_level(self) -> int:
        """The largest D."""
        return math.ceil(self.spec.vehicle.max_speed * self.bins - WHOLE) + self._more

    @cached_property
    def _more(self) -> int:
        """Bins by which rounding in the world's arithmetic may change D."""
        return int(_lands_on_edges(self.spec))

    @cached_property
    def reach(self) -> tuple[Int[np.ndarray, " level"], Int[np.ndarray, " level"]]:
        """The smallest and the largest D' after each D, inside open intervals."""
        vehicle, levels = self.spec.vehicle, np.arange(self.top_level + 1)
        kept, new = vehicle.inertia * levels, (1.0 - vehicle.inertia) * self.bins
        rounded = 1.0 + vehicle.inertia
        low = np.floor(kept + new * self.crawl - rounded + WHOLE) + 1 - self._more
        high = np.ceil(kept + new * vehicle.max_speed + rounded - WHOLE) - 1 + self._more
        low, high = (np.clip(each, 0, self.top_level).astype(int) for each in (low, high))
        return low, high

    @cached_property
    def first_levels(self) -> slice:
        """D of the first step, from rest at the first bin's left edge."""
        new = (1.0 - self.spec.vehicle.inertia) * self.bins
        last = math.floor(new * self.spec.vehicle.max_speed + WHOLE)
        return slice(math.floor(new * self.crawl - WHOLE), min(last, self.top_level) + 1)

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
                  for name in ("values", "returns", "amounts", "steps"))  # fmt: skip
        return PricedBound(*joined)

    def _at(
        self, prices: Float[np.ndarray, "many region"], per_step: Float[np.ndarray, " many"]
    ) -> PricedBound:
        spec, service = self.spec, self.spec.service
        # Filled up to a power of two, so that most maps of one size run the same machine code. The
        # last kind is past the end.
        filled = max(8, 2 ** math.ceil(math.log2(len(service.kinds))))
        given = np.zeros((filled, prices.shape[1]))
        given[: len(service.kinds) - 1] = spec.vehicle.rate * service.kinds[:-1].astype(float)
        gains = prices @ given.T - per_step[:, None]
        kinds = np.repeat(service.on_path, self.bins)
        first = np.zeros(self.top_level + 1, bool)
        first[self.first_levels] = True
        with jax.enable_x64(True):
            tables, steepest = self._tables(gains)
            swept = _sweep(tables, on_device(kinds), _Reach.of(*self.reach), on_device(first))
            best, largest, visits, returns = (np.asarray(each) for each in swept)
        # Each of at most 2 |X| steps of a path is summed with at most 8 roundings.
        largest = largest + np.abs(np.asarray(tables.earned)).max(axis=(0, 2))
        error = 16.0 * len(kinds) * np.finfo(float).eps * largest
        crawl = self.crawl * spec.vehicle.inertia / (1.0 - spec.vehicle.inertia)
        values = best + error + crawl * steepest
        return PricedBound(values, returns, visits @ given, visits.sum(axis=1).astype(float))

    def _tables(
        self, gains: Float[np.ndarray, "many kind"]
    ) -> tuple[_Tables, Float[np.ndarray, " many"]]:
        """Slopes and rewards of a step, and the largest slope that assumes d >= crawl."""
        effort, crawl = self.spec.vehicle.effort, self.crawl
        length = np.arange(self.top_level + 1) / self.bins
        shape = (*gains.shape, len(length))
        gain, is_paid = gains[..., None], gains[..., None] > effort
        tangent, plain = effort / (1.0 + length) ** 2, -effort / (1.0 + length)
        slope, reward = np.broadcast_to(tangent, shape), np.broadcast_to(plain, shape)
        slow = (gain - effort / (1.0 + crawl)) / crawl
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
        by_kind = (on_device(np.moveaxis(each, 1, 0)) for each in (half, earned, stays))
        by_level = (on_device(each) for each in (plain, tangent / (2.0 * self.bins)))
        return _Tables(*by_kind, *by_level), steepest


class _Tables(NamedTuple):
    """Numbers of a step with some D that lands in a cell of some kind."""

    half: Float[Array, "kind many level"]
    """(h/2) s."""
    earned: Float[Array, "kind many level"]
    """G + price."""
    stays: Float[Array, "kind many level"]
    """What staying once more adds to V(X, 0); -inf where it is out of reach."""
    reward: Float[Array, " level"]
    """g(D)."""
    tangent: Float[Array, " level"]
    """(h/2) g'(D)."""


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
        return cls(*(on_device(each) for each in (least, low, high, power)))

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
) -> tuple[
    Float[Array, " many"], Float[Array, " many"], Int[Array, "many kind"], Float[Array, " many"]
]:
    """Backwards over the bins: the best value, the largest number met, and the best path."""
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
        return (ring, jnp.maximum(largest, jnp.abs(value).max(axis=1))), value

    end = signed(jnp.abs(tables.half[-1]), jnp.asarray(kind_count - 1))
    ring = jnp.broadcast_to(end, (rows, *end.shape))
    (ring, largest), values = jax.lax.scan(
        body, (ring, jnp.zeros(many)), (jnp.arange(len(kinds)), kinds), reverse=True
    )
    begin = ring[level % rows, many:, level].T
    best = jnp.where(first, begin, -jnp.inf).max(axis=1)
    return best, largest, *_best_path(tables, kinds, reach, first, values)


def _best_path(
    tables: _Tables,
    kinds: Int[Array, " bin"],
    reach: _Reach,
    first: Bool[Array, " level"],
    values: Float[Array, "bin many level"],
) -> tuple[Int[Array, "many kind"], Float[Array, " many"]]:
    """How often the best path lands in each kind of cell, the last of which is past the end, and
    what it earns by tangents alone, without prices."""
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
        return is_running, jnp.where(is_running, place + choice, place), choice, visits

    def step(state: tuple[Array, Array, Array, Array]) -> tuple:
        place, last, visits, earned = state
        kind, score, half = scores(place)
        here = tables.half[kinds[jnp.minimum(place, bins - 1)], each, last]
        is_in_reach = (level >= reach.least[last][:, None]) & (level <= reach.high[last][:, None])
        score = jnp.where(is_in_reach, score + jnp.abs(here[:, None] - half), -jnp.inf)
        is_running, place, choice, visits = moved(place, score, kind, visits)
        turn = jnp.abs(tables.tangent[last] - tables.tangent[choice])
        added = tables.reward[choice] + turn + (place >= bins) * tables.tangent[choice]
        return place, choice, visits, earned + jnp.where(is_running, added, 0.0)

    place = jnp.zeros(many, int)
    kind, score, half = scores(place)
    visits = jnp.zeros((many, kind_count), int)
    score = jnp.where(first, score + half, -jnp.inf)
    _, place, choice, visits = moved(place, score, kind, visits)
    earned = tables.reward[choice] + (1.0 + (place >= bins)) * tables.tangent[choice]
    start = (place, choice, visits, earned)
    _, _, visits, earned = jax.lax.while_loop(lambda now: (now[0] < bins).any(), step, start)
    return visits, earned


def landing_bound(spec: SweepSpec, *, levels: int = LEVELS) -> LandingBound:
    """The graph of a world, with at least so many bins in one step at top speed.

    Up to twice as many, if that is needed for a top speed of nearly a whole number of bins.
    """
    top = spec.vehicle.max_speed
    fewest = max(1, math.ceil(levels / top - WHOLE))
    shares = [_rounded_up(top, bins) for bins in range(fewest, 2 * fewest + 1)]
    good = max(min(shares), NEARLY_WHOLE)
    return LandingBound(spec, fewest + next(i for i, share in enumerate(shares) if share <= good))


def _lands_on_edges(spec: SweepSpec) -> bool:
    """Whether full throttle from the start on lands so near an edge that rounding decides."""
    vehicle, cells = spec.vehicle, len(spec.path.cells)
    # Until step t the start has cost inertia + ... + inertia^t steps at top speed.
    lost = vehicle.inertia / (1.0 - vehicle.inertia)
    steps = np.arange(1, math.ceil(cells / vehicle.max_speed + lost) + 1)
    place = vehicle.max_speed * (steps - lost * (1.0 - vehicle.inertia**steps))
    place = place[place < cells + 0.5]
    return bool((np.abs(place - np.round(place)) < NEAR_EDGE).any())


def _rounded_up(top: float, bins: int) -> float:
    """By which share the top speed grows if it is a whole number of bins."""
    return math.ceil(top * bins - WHOLE) / (top * bins) - 1.0
