"""From a distance along the path to a place in the grid.

A path cell k covers the distances from k to k + 1, and its centre lies at k + 1/2. Between two
centres of a leg the vehicle goes straight; before the first and after the last centre of a leg it
is at that centre. Where a new leg begins the place jumps: nothing is given out on the way there.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from scrl.worlds.path import SweepPath


def places_at(path: SweepPath, along: Float[np.ndarray, " place"]) -> Float[np.ndarray, "place 2"]:
    """Row and column at distances along the path; the first cell's centre is (0.5, 0.5)."""
    leg = leg_at(path, along)
    starts = np.array([*path.legs, len(path.cells)])
    middle = np.clip(along, starts[leg] + 0.5, starts[leg + 1] - 0.5) - 0.5
    before = np.floor(middle).astype(int)
    after = np.minimum(before + 1, len(path.cells) - 1)
    share = (middle - before)[:, None]
    return path.cells[before] * (1 - share) + path.cells[after] * share + 0.5


def leg_at(path: SweepPath, along: Float[np.ndarray, " place"]) -> Int[np.ndarray, " place"]:
    """The number of the leg that holds each distance; where a leg begins, that one."""
    return np.searchsorted(path.legs, along, side="right") - 1
