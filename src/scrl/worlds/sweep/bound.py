"""`bound(prices)` of the sweep world: a number that no drive exceeds.

The world in calm air: x' = x + d', d' = inertia d + (1 - inertia) max_speed clip(a, crawl, 1); a
step earns g(d) = -effort / (1 + d), which is concave, and the price of the cell where it lands, or
with poured service the mean price along its way; past the end the price is 0. Every drive is mapped
to a path of a finite graph that is worth at least as much, and a dynamic program finds the best
path.

**Bins.** Each cell is cut into n bins of width h = 1 / n, so no bin straddles two cells. X_t is the
bin of x_t, eps_t in [-h/2, h/2) the distance from its centre, D_t = (X_t - X_{t-1}) h, hence
d_t = D_t + eps_t - eps_{t-1} and |d_t - D_t| < h.

**Rewards.** For the bins where a step begins and ends choose numbers G, alpha and beta such that it
earns at most G + alpha eps' + beta eps, wherever in them it does. Summed by parts over a drive,

    sum earned <= sum G_t + beta_1 eps_0 + sum_{t<T} (alpha_t + beta_{t+1}) eps_t + alpha_T eps_T
               <= sum G_t + (h/2) (-beta_1 + sum_{t<T} |alpha_t + beta_{t+1}| + |alpha_T|),

since eps_0 = -h/2 (a drive begins at 0). For the reward G + s (d - D) is chosen, so alpha = s and
beta = -s: rounding does not add up over the steps. It costs h/2 times the total variation of the
slope, nothing while the speed is constant. The slopes are:

- the tangent, G = g(D), s = g'(D);
- where a step pays more than the effort, and D < crawl + h: G = g(crawl) - s (crawl - D) for
  any s >= effort, with s = (g(crawl) + price) / crawl. It holds for d >= crawl. From rest the
  speed is d_t >= crawl (1 - inertia^t), which adds at most s crawl inertia / (1 - inertia) in all.

**Prices.** With landing service the price is that of the bin, which adds to G alone. With poured
service the mean price is m + ((p' - m) eps' - (p - m) eps) / d, from the prices p and p' of the two
bins and the mean m between their centres. Its tangent adds (p' - m) / D to alpha, -(p - m) / D to
beta, and to G m and the most that the curvature adds (`_most`; docs/bound.md has the proof).

**Reach.** D' - inertia D differs from d' - inertia d by less than (1 + inertia) h, so D' lies in an
open interval that depends on D. As d <= max_speed, D is at most max_speed rounded up to whole bins;
it matters that this is nearly max_speed, because a step that is longer by one bin lets a drive
shift its landings at no cost, so n is chosen for it. The first step has D_1 <= d_1, because the
start is the left edge of its bin.

**Values.** V(X, D) = max over D' in reach of G' + (h/2) |alpha + beta'| + V(X + D', D'), and past
the end V = (h/2) |alpha|. As |a| = max(a, -a), these are two window maxima. A step with D' = 0
stays at X. Staying twice earns G <= 0 each time by the choice of s, so once is enough.

**Arithmetic.** All this is about the world in exact arithmetic. Rounding moves the landings of the
world's own arithmetic by a tiny length, which is worth as little wherever a drive could have gone
ahead by that length. Full throttle from the start on could not: where it lands on edges of cells,
with landing service, rounding decides, and every D may be larger or smaller by one bin. The sums of
the dynamic program are float64, and their rounding error is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias, cast

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
"""Vectors of prices of one sweep, or a single one, which takes a fifth of the time: two sizes to
compile."""


@dataclass(frozen=True)
class PricedBound:
    """What no drive exceeds at some prices, and the paths of the graph that reach it."""

    values: Float[np.ndarray, " many"]
    """return + prices . amounts - per_step steps of any drive that finishes is at most this."""
    returns: Float[np.ndarray, " many"]
    """What the best path returns, with the price of rounding: at any prices at which standing still
    does not pay, the value is at least returns + prices . amounts - per_step steps."""
    amounts: Float[np.ndarray, "many region"]
    """What the best path gives: the slope of the value."""
    steps: Float[np.ndarray, " many"]


@dataclass(frozen=True)
class StepBound:
    """The graph of one world's bins; `step_bound` makes it."""

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
        return int(not self.spec.is_poured and _lands_on_edges(self.spec))

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
        size = SIDE_BY_SIDE if many > 1 else 1
        filled = size * math.ceil(many / size)
        pad = ((0, filled - many), (0, 0))
        prices, per_step = np.pad(prices, pad), np.pad(per_step, pad[0])
        parts = [
            self._at(prices[first : first + size], per_step[first : first + size])
            for first in range(0, filled, size)
        ]
        joined = (np.concatenate([getattr(part, name) for part in parts])[:many]
                  for name in ("values", "returns", "amounts", "steps"))  # fmt: skip
        return PricedBound(*joined)

    def pays_for_standing(
        self, prices: Float[np.ndarray, "many region"], per_step: Float[np.ndarray, " many"]
    ) -> Bool[np.ndarray, " many"]:
        """Whether a step pays more than the effort somewhere."""
        kinds = self.spec.service.kinds.astype(float)
        paid = self.spec.vehicle.rate * prices @ kinds.T - per_step[:, None]
        return np.asarray((paid > self.spec.vehicle.effort).any(axis=1))

    def _at(
        self, prices: Float[np.ndarray, "many region"], per_step: Float[np.ndarray, " many"]
    ) -> PricedBound:
        inertia, given = self.spec.vehicle.inertia, self._given
        first = np.zeros(self.top_level + 1, bool)
        first[self.first_levels] = True
        with jax.enable_x64(True):
            steps = self._steps(prices @ given.T, per_step)
            reach, begin = _Reach.of(*self.reach), on_device(first)
            swept = _sweep(steps, reach, begin, is_poured=self.spec.is_poured)
            best, largest, tracks = (np.asarray(each) for each in swept)
        tables = [np.asarray(each) for each in steps[:3]]
        # Each of at most 2 |X| steps of a path is summed with at most 8 roundings.
        largest = largest + per_step + 4.0 * sum(np.abs(each).max(axis=1) for each in tables)
        error = 16.0 * len(given) * np.finfo(float).eps * largest
        # From rest the vehicle may be slower than its crawl.
        slow_start = self.crawl * inertia / (1.0 - inertia) * tables[2].max(axis=1)
        paths = [
            self._path(track[track >= 0], each) for track, each in zip(tracks, prices, strict=True)
        ]
        returns, amounts, steps = map(np.array, zip(*paths, strict=True))
        return PricedBound(best + error + slow_start, returns, amounts, steps)

    @cached_property
    def _given(self) -> Float[np.ndarray, "bin_and_beyond region"]:
        """What a step in each bin gives; before the start and past the end it gives nothing."""
        service = self.spec.service
        kinds = np.repeat(service.on_path, self.bins // service.parts)
        kinds = np.pad(kinds, self.top_level + 1, constant_values=len(service.kinds) - 1)
        return self.spec.vehicle.rate * service.kinds.astype(float)[kinds]

    def _steps(
        self, price: Float[np.ndarray, "many bin_and_beyond"], per_step: Float[np.ndarray, " many"]
    ) -> _Earnings:
        """What steps earn at the price of a step in each bin."""
        effort, crawl = self.spec.vehicle.effort, self.crawl
        length = np.arange(self.top_level + 1) / self.bins
        paid = price - per_step[:, None]
        slow = (1.0 + 1e-12) * np.maximum(effort, (paid - effort / (1.0 + crawl)) / crawl)
        numbers = (
            price, _centred(price.T).T, np.where(paid > effort, slow, 0.0), per_step,
            -effort / (1.0 + length), effort / (1.0 + length) ** 2,
            length < crawl + 1.0 / self.bins, length - crawl, -effort / (1.0 + crawl),
            0.5 / self.bins,
        )  # fmt: skip
        return _Earnings(*(on_device(np.asarray(each)) for each in numbers))

    def _path(
        self, track: Int[np.ndarray, " place"], prices: Float[np.ndarray, " region"]
    ) -> tuple[float, Float[np.ndarray, " region"], float]:
        """What a path returns with the price of rounding, by tangents, what it gives, its steps.

        All that adds to its value at other prices is convex in them. So what it gives is a slope at
        these, and the path is worth at least what this says at others.
        """
        begin, end = (each + self.top_level + 1 for each in (track[:-1], track[1:]))
        given, level, steps = self._given, np.diff(track), len(track) - 1
        length = level / self.bins
        tangent = self.spec.vehicle.effort / (1.0 + length) ** 2
        mean, turns = given[end], np.zeros((steps + 1, given.shape[1]))
        if self.spec.is_poured:
            sums, many = _centred(given), np.maximum(level, 1)[:, None]
            mean = np.where(level[:, None] > 0, (sums[end] - sums[begin]) / many, mean)
            far = np.where(level[:, None] > 1, 1.0 / many, 0.0) * self.bins
            turns[1:] += far * (given[end] - mean)
            turns[:-1] -= far * (given[begin] - mean)
            mean = _most_given(given[begin], given[end], mean, level, prices)
        slopes = np.append(0.0, tangent) - np.append(tangent, 0.0)
        signs = np.sign(slopes + turns @ prices)
        signs[0] = -1.0  # a drive begins at the left edge of its bin
        half = 0.5 / self.bins
        returned = float((-self.spec.vehicle.effort / (1.0 + length)).sum() + half * signs @ slopes)
        return returned, mean.sum(axis=0) + half * signs @ turns, float(steps)


def _centred(price: Float[np.ndarray, "bin column"]) -> Float[np.ndarray, "bin column"]:
    """Sums of a table up to the centre of each bin, in bins."""
    return np.cumsum(price, axis=0) - 0.5 * price


def _most(begin: Array, end: Array, mean: Array, level: Array) -> Array:
    """What the mean price of a step is at most, beyond its tangent at the centres of its bins."""
    apart, most = jnp.abs(end - begin), jnp.maximum(end, begin) - mean
    is_flat = most > 0.25 * apart
    curved = jnp.where(
        is_flat, apart**2 / (16.0 * jnp.where(is_flat, most, 1.0)), 0.5 * apart - most
    )
    far = mean + (1.0 + 1e-12) * curved / jnp.maximum(level * (level - 1.0), 1.0)
    return jnp.where(level > 1, far, jnp.maximum(begin, end))


_Given: TypeAlias = Float[np.ndarray, "step region"]


def _most_given(
    begin: _Given,
    end: _Given,
    mean: _Given,
    level: Int[np.ndarray, " step"],
    prices: Float[np.ndarray, " region"],
) -> _Given:
    """The slope of `_most` in the prices: it is the largest of sums that are convex in them.

    With z in bins, |p' - p| (z - z^2) / 2 + z^2 (m - (p' + p) / 2) is largest at this z.
    """
    apart, nearer = (end - begin) @ prices, np.maximum(begin @ prices, end @ prices)
    size, most = np.abs(apart), nearer - mean @ prices
    z = np.where(most > 0.25 * size, 0.25 * size / np.maximum(most, 1e-300), 1.0)[:, None]
    growing = np.sign(apart)[:, None] * (end - begin) * (z - z**2) / 2.0
    curved = growing + z**2 * (mean - (end + begin) / 2.0)
    bins = level[:, None]
    far = mean + curved / np.maximum(bins * (bins - 1.0), 1.0)
    return np.where(bins > 1, far, np.where(apart[:, None] > 0.0, end, begin))


class _Earnings(NamedTuple):
    """What steps earn at some prices; tables of bins begin a longest step before the path."""

    price: Float[Array, "*many bin"]
    """Of a step in each bin."""
    sums: Float[Array, "*many bin"]
    """Of the prices up to the centre of each bin."""
    slow: Float[Array, "*many bin"]
    """The slope of slow steps to bins where a step pays more than the effort; 0 for the others."""
    per_step: Float[Array, "*many"]
    reward: Float[Array, " level"]
    """g(D)."""
    tangent: Float[Array, " level"]
    """g'(D)."""
    is_slow: Bool[Array, " level"]
    beyond_crawl: Float[Array, " level"]
    """D - crawl."""
    at_crawl: Float[Array, ""]
    """g(crawl)."""
    half: Float[Array, ""]
    """h / 2."""

    def begun(
        self, place: Int[Array, ""], *, is_poured: bool
    ) -> tuple[Float[Array, " level"], Float[Array, " level"]]:
        """G and (h/2) beta of the steps that begin in a bin."""
        price, sums, slow = (self._from(each, place) for each in self[:3])
        is_slow = self.is_slow & (slow > 0.0)
        slope = -jnp.where(is_slow, slow, self.tangent)
        earned = jnp.where(is_slow, self.at_crawl + slow * self.beyond_crawl, self.reward)
        if is_poured:
            along = sums - sums[0]
            slope -= self._turn(price[0], along)
            level = jnp.arange(len(along))
            price = _most(price[0], price, along / jnp.maximum(level, 1), level)
        return earned + price - self.per_step, self.half * slope

    def ended(self, place: Int[Array, ""], *, is_poured: bool) -> Float[Array, " level"]:
        """(h/2) alpha of the steps that end in a bin."""
        price, sums, slow = (self._from(each, place)[0] for each in self[:3])
        slope = jnp.where(self.is_slow & (slow > 0.0), slow, self.tangent)
        if is_poured:
            before = self._from(self.sums, place - len(slope) + 1)[::-1]
            slope += self._turn(price, sums - before)
        return self.half * slope

    def _from(self, table: Float[Array, " bin"], place: Int[Array, ""]) -> Float[Array, " level"]:
        levels = len(self.reward)
        return jax.lax.dynamic_slice_in_dim(table, place + levels, levels)

    def _turn(self, price: Float[Array, ""], along: Float[Array, " level"]) -> Array:
        """By how much the mean price of a step grows per cell towards a place of some price."""
        level = jnp.arange(len(along))
        many = jnp.maximum(level, 1)
        return jnp.where(level > 1, (price - along / many) / (2.0 * self.half * many), 0.0)


_MANY = cast(Any, _Earnings)(*[0] * 4, *[None] * 6)
"""The axes of vectors of prices."""


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


@partial(jax.jit, static_argnames="is_poured")
def _sweep(
    steps: _Earnings, reach: _Reach, first: Bool[Array, " level"], *, is_poured: bool
) -> tuple[Float[Array, " many"], Float[Array, " many"], Int[Array, "many place"]]:
    """Backwards over the bins: the best value, the largest number met, and the best path.

    The path is filled up with -1.
    """
    many, levels = len(steps.price), len(first)
    bins = steps.price.shape[1] - 2 * levels
    level = jnp.arange(levels)
    # Where D' = 0 is in reach of D > 0, it stays in the bin and goes on as from D = 0.
    may_stay = (reach.least == 0) & (level > 0)
    begun = jax.vmap(partial(_Earnings.begun, is_poured=is_poured), (_MANY, None))
    ended = jax.vmap(partial(_Earnings.ended, is_poured=is_poured), (_MANY, None))

    def body(carry: tuple[Array, Array], place: Array) -> tuple:
        ring, largest = carry
        (earned, beta), alpha = begun(steps, place), ended(steps, place)
        total = earned + ring[(place + level) % levels, :, level].T
        ahead = reach.maxima(jnp.concatenate([total - beta, total + beta]))
        value = jnp.maximum(ahead[:many] - alpha, ahead[many:] + alpha)
        stays = value[:, :1] + earned[:, :1] + jnp.abs(alpha + beta[:, :1])
        value = jnp.where(may_stay, jnp.maximum(value, stays), value)
        ring = ring.at[place % levels].set(value)
        return (ring, jnp.maximum(largest, jnp.abs(value).max(axis=1))), value

    past = jnp.abs(jax.vmap(lambda place: ended(steps, place))(bins + level))
    ring = jnp.roll(past, bins, axis=0)  # the row of a place is its number modulo `levels`
    (_, largest), values = jax.lax.scan(
        body, (ring, jnp.zeros(many)), jnp.arange(bins), reverse=True
    )
    values = jnp.concatenate([values, past])
    earned, beta = begun(steps, jnp.asarray(0))
    start = jnp.where(first, earned - beta + values[level, :, level].T, -jnp.inf)
    tracks = _best_path(steps, reach, start.argmax(axis=1), values, is_poured=is_poured)
    return start.max(axis=1), largest, tracks


def _best_path(
    steps: _Earnings,
    reach: _Reach,
    first: Int[Array, " many"],
    values: Float[Array, "bin many level"],
    *,
    is_poured: bool,
) -> Int[Array, "many place"]:
    """The bins of the best path, from the start on."""
    many, levels = len(steps.price), values.shape[2]
    bins = len(values) - levels
    each, level = jnp.arange(many), jnp.arange(levels)
    begun = jax.vmap(partial(_Earnings.begun, is_poured=is_poured), (_MANY, 0))
    ended = jax.vmap(partial(_Earnings.ended, is_poured=is_poured), (_MANY, 0))

    def step(state: tuple[Array, Array, Array, Array]) -> tuple:
        place, last, count, track = state
        here = jnp.minimum(place, bins - 1)
        (earned, beta), alpha = begun(steps, here), ended(steps, here)[each, last]
        ahead = values[here[:, None] + level, each[:, None], level]
        score = earned + ahead + jnp.abs(alpha[:, None] + beta)
        is_in_reach = (level >= reach.least[last][:, None]) & (level <= reach.high[last][:, None])
        choice = jnp.where(is_in_reach, score, -jnp.inf).argmax(axis=1)
        is_running = place < bins
        place = jnp.where(is_running, place + choice, place)
        return place, choice, count + 1, track.at[:, count].set(jnp.where(is_running, place, -1))

    # Every bin is passed with at most one step that stays in it.
    track = jnp.full((many, 2 * bins + 2), -1).at[:, 0].set(0).at[:, 1].set(first)
    start = (first, first, jnp.asarray(2), track)
    return jax.lax.while_loop(lambda now: (now[0] < bins).any(), step, start)[3]


def step_bound(spec: SweepSpec, *, levels: int = LEVELS) -> StepBound:
    """The graph of a world, with at least so many bins in one step at top speed.

    Up to twice as many, if that is needed for a top speed of nearly a whole number of bins.
    """
    top = spec.vehicle.max_speed
    parts = spec.service.parts
    fewest = parts * max(1, math.ceil(levels / top / parts - WHOLE))
    shares = {bins: _rounded_up(top, bins) for bins in range(fewest, 2 * fewest + 1, parts)}
    good = max(min(shares.values()), NEARLY_WHOLE)
    return StepBound(spec, next(bins for bins, share in shares.items() if share <= good))


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
