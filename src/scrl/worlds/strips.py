"""Boustrophedon cellular decomposition: in which order to sweep the free columns of bands.

Each band falls into maximal runs of free columns. Runs of neighbouring bands that overlap one to
one form a strip; where the field splits or merges, new strips begin. A strip is swept from one of
its four corners, alternating the direction; the next strip is the one with the corner nearest to
where the last one ended.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int


class _Runs(NamedTuple):
    """Maximal free stretches of the bands, ordered by band, then by column; ends included."""

    band: Int[np.ndarray, " run"]
    left: Int[np.ndarray, " run"]
    right: Int[np.ndarray, " run"]


def cover(
    free: Bool[np.ndarray, "band column"], *, band_width: int
) -> tuple[Int[np.ndarray, " cell"], Int[np.ndarray, " cell"]]:
    """Band and column of every free column once, in the order of travel from the first corner."""
    runs = _find_runs(free)
    return _visit(runs, _strips(runs, free.shape[1]), band_width)


def _find_runs(free: Bool[np.ndarray, "band column"]) -> _Runs:
    edges = np.diff(np.pad(free, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    band, left = np.nonzero(edges == 1)
    return _Runs(band, left, np.nonzero(edges == -1)[1] - 1)


def _strips(runs: _Runs, columns: int) -> list[Int[np.ndarray, " _"]]:
    """Chains of runs in successive bands that overlap each other and nothing else."""
    first_below, below = _overlapping(runs, columns, 1)
    _, above = _overlapping(runs, columns, -1)
    only = np.flatnonzero(below == 1)
    only = only[above[first_below[only]] == 1]
    following = np.full(len(runs.band), -1)
    following[only] = first_below[only]
    heads = np.setdiff1d(np.arange(len(runs.band)), following)
    strips, next_run = [], following.tolist()
    for head in heads.tolist():
        chain = [head]
        while (run := next_run[chain[-1]]) >= 0:
            chain.append(run)
        strips.append(np.array(chain))
    return strips


def _overlapping(
    runs: _Runs, columns: int, step: int
) -> tuple[Int[np.ndarray, " run"], Int[np.ndarray, " run"]]:
    """For each run, the first run `step` bands on that shares a column with it, and how many do."""
    there = (runs.band + step) * columns
    first = np.searchsorted(runs.band * columns + runs.right, there + runs.left, side="left")
    end = np.searchsorted(runs.band * columns + runs.left, there + runs.right, side="right")
    return first, end - first


class _Corners:
    """The entry corners of the strips still to be swept, found by nearness."""

    def __init__(self, runs: _Runs, strips: list[Int[np.ndarray, " _"]], band_width: int) -> None:
        self.band_width = band_width
        self.by_band: list[list[tuple[int, int, bool, bool]]] = [
            [] for _ in range(int(runs.band[-1]) + 1)
        ]
        left, right, band = runs.left.tolist(), runs.right.tolist(), runs.band.tolist()
        self.of_strip = []
        for number, strip in enumerate(strips):
            ends = ((int(strip[0]), False), (int(strip[-1]), True))
            corners = {
                (band[run], (column, number, from_right, upwards))
                for run, upwards in ends
                for column, from_right in ((left[run], False), (right[run], True))
            }
            self.of_strip.append(corners)
            for where, corner in corners:
                self.by_band[where].append(corner)
        for corners in self.by_band:
            corners.sort()

    def take_nearest(self, band: int, column: int) -> tuple[int, bool, bool]:
        """(strip, from the right, upwards) of the nearest corner; its strip is taken out."""
        best_squared, best = None, None
        for step in range(len(self.by_band)):
            if best_squared is not None and (step * self.band_width) ** 2 > best_squared:
                break
            for other in {band - step, band + step}:
                for corner in self._beside(other, column):
                    squared = (step * self.band_width) ** 2 + (corner[0] - column) ** 2
                    if best_squared is None or (squared, corner) < (best_squared, best):
                        best_squared, best = squared, corner
        assert best is not None  # noqa: S101  there are as many calls as strips
        for where, corner in self.of_strip[best[1]]:
            del self.by_band[where][bisect_left(self.by_band[where], corner)]
        return best[1:]

    def _beside(self, band: int, column: int) -> list[tuple[int, int, bool, bool]]:
        if not 0 <= band < len(self.by_band):
            return []
        corners = self.by_band[band]
        place = bisect_left(corners, (column, 0, False, False))
        return corners[max(place - 1, 0) : place + 1]


def _visit(
    runs: _Runs, strips: list[Int[np.ndarray, " _"]], band_width: int
) -> tuple[Int[np.ndarray, " cell"], Int[np.ndarray, " cell"]]:
    """Band and column of every path cell, strip after strip."""
    corners = _Corners(runs, strips, band_width)
    ordered, leftward, band, column = [], [], 0, 0
    for _ in strips:
        number, from_right, upwards = corners.take_nearest(band, column)
        strip = strips[number][::-1] if upwards else strips[number]
        turns = (np.arange(len(strip)) + from_right) % 2 == 1
        ordered.append(strip)
        leftward.append(turns)
        last = strip[-1]
        band, column = int(runs.band[last]), int((runs.left if turns[-1] else runs.right)[last])
    run, to_left = np.concatenate(ordered), np.concatenate(leftward)
    lengths = (runs.right - runs.left + 1)[run]
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    begin = np.where(to_left, runs.right[run], runs.left[run])
    step = np.where(to_left, -1, 1)
    return np.repeat(runs.band[run], lengths), np.repeat(begin, lengths) + within * np.repeat(
        step, lengths
    )
