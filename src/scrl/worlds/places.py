"""From a distance along the path to a place in the grid.

A path cell k covers the distances from k to k + 1, and its centre lies at k + 1/2. Between two
centres of a leg the vehicle goes straight; it enters the first and leaves the last cell of a leg
at an edge, so that every cell is half a cell long on either side of its centre. Where a new leg
begins the place jumps: nothing is given out on the way there.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from scrl.worlds.path import SweepPath


def places_at(path: SweepPath, along: Float[np.ndarray, " place"]) -> Float[np.ndarray, "place 2"]:
    """Row and column at distances along the path; the first cell's centre is (0.5, 0.5).

    Where a leg ends and the next one begins, the place is the beginning.
    """
    return _places(path, along, leg_at(path, along))


def ends_of_legs(path: SweepPath) -> Float[np.ndarray, "leg 2"]:
    """Row and column where each leg ends."""
    ends = np.array([*path.legs[1:], len(path.cells)])
    return _places(path, ends.astype(float), np.arange(len(ends)))


def leg_at(path: SweepPath, along: Float[np.ndarray, " place"]) -> Int[np.ndarray, " place"]:
    """The number of the leg that holds each distance; where a leg begins, that one."""
    return np.searchsorted(path.legs, along, side="right") - 1


def turns_of(path: SweepPath) -> Float[np.ndarray, " turn"]:
    """Distances along the path where the way changes its direction, or a new leg begins."""
    arriving, leaving = _moves(path)
    centres = np.flatnonzero(np.any(arriving != leaving, axis=1)) + 0.5
    return np.union1d(centres, np.array(path.legs[1:], float))


def _places(
    path: SweepPath, along: Float[np.ndarray, " place"], leg: Int[np.ndarray, " place"]
) -> Float[np.ndarray, "place 2"]:
    starts = np.array([*path.legs, len(path.cells)])
    first, last = starts[leg], starts[leg + 1] - 1
    arriving, leaving = _moves(path)
    middle = along - 0.5  # counted from the first centre
    kept = np.clip(middle, first, last)
    before = np.floor(kept).astype(int)
    after = np.minimum(before + 1, last)
    share = (kept - before)[:, None]
    at = path.cells[before] * (1 - share) + path.cells[after] * share + 0.5
    beyond = (middle - kept)[:, None]
    return at + beyond * np.where(beyond < 0, arriving[first], leaving[last])


def _moves(path: SweepPath) -> tuple[Int[np.ndarray, "cell 2"], Int[np.ndarray, "cell 2"]]:
    """How the vehicle comes to each cell and how it goes on; at the ends of a leg, straight."""
    moves = np.diff(path.cells, axis=0, append=path.cells[-1:])
    first = np.array(path.legs)
    last = np.append(first[1:], len(path.cells)) - 1
    is_lone = first == last
    into = _one_cell(np.where(is_lone[:, None], 0, moves[first]))
    out = _one_cell(np.where(is_lone[:, None], 0, moves[last - 1]))
    leaving = moves.copy()
    leaving[last] = out
    arriving = np.roll(moves, 1, axis=0)
    arriving[first] = into
    return arriving, leaving


def _one_cell(move: Int[np.ndarray, "leg 2"]) -> Int[np.ndarray, "leg 2"]:
    """One cell along rows or columns, whichever the move does more; of no move, to the right.

    A leg may begin with a move to the next band, which can be many cells away.
    """
    across = np.abs(move[:, 0]) > np.abs(move[:, 1])
    right = np.where(move[:, 1] < 0, -1, 1)
    return np.stack([np.where(across, np.sign(move[:, 0]), 0), np.where(across, 0, right)], axis=1)
