"""A short order of strips: fields one after another, and short ways from strip to strip.

It starts with the nearest strip next, from each of a few first ones. Then stretches of the order
are turned round or moved (2-opt and Or-opt) while that makes the ways shorter; for a given order
the corners at which strips are entered are the best ones, by dynamic programming. Distances are
straight.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

MOST_STRIPS = 200
"""With more strips the nearest one is always next: the search takes cubic time."""
MOST_MOVES = 2_000
MOST_STARTS = 10
"""Strips near the begin that are tried as the first one."""
STRIPS_OF_STARTS = 500
"""Fewer are tried where there are many strips: at most so many strips are put in order in all."""
LONGEST_MOVED = 12
"""Most strips that are moved to another place of the order at once."""
GAIN = 1e-6
"""Smaller gains are rounding."""


class Sweeps(NamedTuple):
    """The four ways to sweep each strip: from the left or the right of its first or last run."""

    entry: Float[np.ndarray, "strip way 2"]
    exit: Float[np.ndarray, "strip way 2"]
    backwards: Int[np.ndarray, "strip way"]
    """The way that leads back along the same cells."""
    field: Int[np.ndarray, " strip"]
    """Strips that touch are of one field."""


class Order(NamedTuple):
    """Strips in the order of travel, and the way in which each is swept."""

    strip: Int[np.ndarray, " strip"]
    way: Int[np.ndarray, " strip"]


def short_order(
    sweeps: Sweeps, begin: Float[np.ndarray, " 2"], home: Float[np.ndarray, " 2"] | None = None
) -> Order:
    """The order found from `begin`, back to `home` if there is one."""
    tour = _Tour(sweeps, begin, home)
    if len(sweeps.field) > MOST_STRIPS:
        return tour.nearest_next()
    starts = max(1, min(MOST_STARTS, STRIPS_OF_STARTS // len(sweeps.field)))
    firsts = np.argsort(tour.from_begin, kind="stable")[:starts].tolist()
    return min((_searched(tour, first) for first in firsts), key=tour.length)


def _searched(tour: _Tour, first: int) -> Order:
    """The order found from the nearest strip next after a first one."""
    order = tour.best_ways(tour.nearest_next(first))
    for _ in range(MOST_MOVES):
        moved = tour.improved(order)
        if moved is None:
            break
        better = tour.best_ways(moved)
        order = better if tour.length(better) < tour.length(moved) - GAIN else moved
    return order


class _Tour:
    """Lengths of ways; to leave a field and come back costs more than any way."""

    def __init__(
        self, sweeps: Sweeps, begin: Float[np.ndarray, " 2"], home: Float[np.ndarray, " 2"] | None
    ) -> None:
        self.sweeps, self.begin, self.home = sweeps, begin, home
        places = np.concatenate([sweeps.entry.reshape(-1, 2), [begin], [begin if home is None
                                                                        else home]])  # fmt: skip
        self.from_begin = np.hypot(*np.moveaxis(sweeps.entry - begin, -1, 0)).min(axis=1)
        self.far = (len(sweeps.field) + 2) * float(np.hypot(*np.ptp(places, axis=0)))

    def nearest_next(self, first: int | None = None) -> Order:
        """The nearest strip next, and those of the same field first; it may begin with any."""
        sweeps = self.sweeps
        is_left = np.ones(len(sweeps.field), bool)
        at, field, found = self.begin, -1, []
        for _ in sweeps.field:
            left = np.flatnonzero(is_left) if found or first is None else np.array([first])
            away = np.hypot(*np.moveaxis(sweeps.entry[left] - at, -1, 0))
            away += self.far * (sweeps.field[left] != field)[:, None]
            row, way = np.unravel_index(np.argmin(away), away.shape)
            strip = int(left[row])
            found.append((strip, int(way)))
            is_left[strip] = False
            at, field = sweeps.exit[strip, way], sweeps.field[strip]
        return Order(*np.array(found).T)

    def length(self, order: Order) -> float:
        """The length of all ways of an order."""
        forward, _, _ = self._ways(order)
        count = np.arange(len(order.strip) + 1)
        return float(forward[count, count + 1].sum())

    def best_ways(self, order: Order) -> Order:
        """The same order of strips, each swept in the way that makes the whole shortest."""
        sweeps, strips = self.sweeps, order.strip
        so_far = np.hypot(*(sweeps.entry[strips[0]] - self.begin).T)
        came_from = []
        for before, strip in pairwise(strips):
            steps = sweeps.entry[strip][None] - sweeps.exit[before][:, None]
            whole = so_far[:, None] + np.hypot(steps[..., 0], steps[..., 1])
            came_from.append(np.argmin(whole, axis=0))
            so_far = whole.min(axis=0)
        if self.home is not None:
            so_far = so_far + np.hypot(*(sweeps.exit[strips[-1]] - self.home).T)
        ways = [int(np.argmin(so_far))]
        for back in reversed(came_from):
            ways.append(int(back[ways[-1]]))
        return Order(strips, np.array(ways[::-1]))

    def improved(self, order: Order) -> Order | None:
        """The order after the move that saves most; None where none saves anything."""
        count = len(order.strip)
        forward, of_exits, of_entries = self._ways(order)
        step = forward[np.arange(count + 1), np.arange(1, count + 2)]  # from node i to i + 1
        gain, best = GAIN, None
        first, last = np.triu_indices(count)
        first, last = first + 1, last + 1
        turned = (step[first - 1] + step[last]
                  - of_exits[first - 1, last] - of_entries[first, last + 1])  # fmt: skip
        index = int(np.argmax(turned))
        if turned[index] > gain:
            gain, best = float(turned[index]), (int(first[index]), int(last[index]), None, True)
        for length in range(1, min(LONGEST_MOVED, count - 1) + 1):
            begin = np.arange(1, count - length + 2)
            end = begin + length - 1
            left_out = step[begin - 1] + step[end] - forward[begin - 1, end + 1]
            after = np.arange(count + 1)
            for is_turned in (False, True):
                into, out = (of_exits[:, end], of_entries[begin]) if is_turned else (
                    forward[:, begin], forward[end])  # fmt: skip
                more = into[after].T + out[:, after + 1] - step[after]
                saved = left_out[:, None] - more
                saved[(after >= begin[:, None] - 1) & (after <= end[:, None])] = -np.inf
                row, column = np.unravel_index(np.argmax(saved), saved.shape)
                if saved[row, column] > gain:
                    gain = float(saved[row, column])
                    best = (int(begin[row]), int(end[row]), int(column), is_turned)
        return None if best is None else self._moved(order, *best)

    def _moved(
        self, order: Order, first: int, last: int, after: int | None, is_turned: bool
    ) -> Order:
        """Places `first` to `last`, counted from 1, put after another one, and turned round."""
        part = np.arange(first - 1, last)
        rest = np.setdiff1d(np.arange(len(order.strip)), part)
        cut = first - 1 if after is None else int(np.searchsorted(rest, after))
        part = part[::-1] if is_turned else part
        places = np.concatenate([rest[:cut], part, rest[cut:]])
        strip, way = order.strip[places], order.way[places]
        if is_turned:
            inner = slice(cut, cut + len(part))
            way[inner] = self.sweeps.backwards[strip[inner], way[inner]]
        return Order(strip, way)

    def _ways(self, order: Order) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lengths from exits to entries, from exits to exits, and from entries to entries.

        The first node is where it begins and the last one is home.
        """
        sweeps, count = self.sweeps, len(order.strip)
        home = self.begin if self.home is None else self.home
        entry = np.vstack([self.begin, sweeps.entry[order.strip, order.way], home])
        leave = np.vstack([self.begin, sweeps.exit[order.strip, order.way], home])
        field = np.concatenate([[-1], sweeps.field[order.strip], [-2]])
        apart = self.far * (field[:, None] != field)

        def lengths(one: np.ndarray, other: np.ndarray) -> np.ndarray:
            found = apart + np.hypot(*np.moveaxis(other[None] - one[:, None], -1, 0))
            if self.home is None:
                found[:, count + 1] = 0.0
            return found

        return lengths(leave, entry), lengths(leave, leave), lengths(entry, entry)
