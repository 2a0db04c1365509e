"""Converts a distance along the path to a place in the grid.

A path cell k covers the distances from k to k + 1, and its centre lies at k + 1/2. Between two
centres of a stretch the vehicle goes straight; it enters the first and leaves the last cell of a
stretch at an edge, so that every cell is half a cell long on either side of its centre. Where a
new stretch begins the place jumps: nothing is given out on the way there (`transits`).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from scrl.worlds.sweep.path import SweepPath


def places_at(path: SweepPath, along: Float[np.ndarray, " place"]) -> Float[np.ndarray, "place 2"]:
    """Row and column at distances along the path; the first cell's centre is (0.5, 0.5).

    Where a stretch ends and the next one begins, the place is the beginning.
    """
    return _places(path, along, stretch_at(path, along))


def ends_of_stretches(path: SweepPath) -> Float[np.ndarray, "stretch 2"]:
    """Row and column where each stretch ends."""
    ends = np.array([*path.stretches[1:], len(path.cells)])
    return _places(path, ends.astype(float), np.arange(len(ends)))


def stretch_at(path: SweepPath, along: Float[np.ndarray, " place"]) -> Int[np.ndarray, " place"]:
    """The number of the stretch that holds each distance; where one begins, that one."""
    return np.searchsorted(path.stretches, along, side="right") - 1


def turns_of(path: SweepPath) -> Float[np.ndarray, " turn"]:
    """Distances along the path where the way changes its direction, or a new stretch begins."""
    arriving, leaving = moves_of(path)
    centres = np.flatnonzero(np.any(arriving != leaving, axis=1)) + 0.5
    return np.union1d(centres, np.array(path.stretches[1:], float))


def _places(
    path: SweepPath, along: Float[np.ndarray, " place"], stretch: Int[np.ndarray, " place"]
) -> Float[np.ndarray, "place 2"]:
    starts = np.array([*path.stretches, len(path.cells)])
    first, last = starts[stretch], starts[stretch + 1] - 1
    arriving, leaving = moves_of(path)
    middle = along - 0.5  # counted from the first centre
    inner = np.clip(middle, first, last)
    before = np.floor(inner).astype(int)
    after = np.minimum(before + 1, last)
    share = (inner - before)[:, None]
    at = path.cells[before] * (1 - share) + path.cells[after] * share + 0.5
    beyond = (middle - inner)[:, None]
    return at + beyond * np.where(beyond < 0, arriving[first], leaving[last])


def moves_of(path: SweepPath) -> tuple[Int[np.ndarray, "cell 2"], Int[np.ndarray, "cell 2"]]:
    """The moves into and out of each cell; at the ends of a stretch both are equal."""
    moves = np.diff(path.cells, axis=0, append=path.cells[-1:])
    first = np.array(path.stretches)
    last = np.append(first[1:], len(path.cells)) - 1
    is_lone = first == last
    alone = np.array([1, 0]) if path.along == 0 else np.array([0, 1])
    leaving = moves.copy()
    leaving[last] = np.where(is_lone[:, None], alone, moves[last - 1])
    arriving = np.roll(moves, 1, axis=0)
    arriving[first] = np.where(is_lone[:, None], alone, moves[first])
    return arriving, leaving
