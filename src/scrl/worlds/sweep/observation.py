"""The observation: position, speed, regions served here and ahead, and what is left of each."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int

from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle

OBSERVED_SCALARS = 5
"""Numbers before the regions: progress, speed, gust, row, column; all within [-1, 1]."""

STEPS_AHEAD = (1 / 3, 2 / 3, 1.0, 4 / 3, 2.0, 8 / 3)
"""Look-ahead distances in steps at top speed; the vehicle needs some steps to brake."""

VIEWS = 1 + len(STEPS_AHEAD)
"""Number of places whose regions are observed: here and ahead."""

MOST_MILESTONES = 4096
"""Largest number of path cells at which the rest of each region is tabulated."""


class Seen(NamedTuple):
    """The parts of an observation."""

    scalars: Float[Array, " scalar"]
    views: Float[Array, "view region"]
    """The share of the swath in each region, here and at the places ahead."""
    left: Float[Array, " region"]
    """The share of each region's cells that still lies ahead."""


def read_observation(observation: Float[Array, " feature"]) -> Seen:
    """Split an observation, a NumPy or JAX array, into its parts."""
    regions = (len(observation) - OBSERVED_SCALARS) // (VIEWS + 1)
    first_left = OBSERVED_SCALARS + VIEWS * regions
    views = observation[OBSERVED_SCALARS:first_left].reshape(VIEWS, regions)
    return Seen(observation[:OBSERVED_SCALARS], views, observation[first_left:])


def observation_size(regions: int) -> int:
    """The length of an observation."""
    return OBSERVED_SCALARS + (VIEWS + 1) * regions


def cells_ahead(vehicle: Vehicle) -> Int[np.ndarray, " view"]:
    """How many cells ahead each view lies: 0, then `STEPS_AHEAD` times the top speed."""
    ahead = [max(near, math.ceil(steps * vehicle.max_speed - 1e-9))
             for near, steps in enumerate(STEPS_AHEAD, start=1)]  # fmt: skip
    return np.array([0, *ahead], np.int32)


def place_of_cells(spec: SweepSpec) -> Float[np.ndarray, "cell_and_end 2"]:
    """Row and column of each path cell, scaled to [0, 1]; past the end, those of the last cell."""
    rows, columns = spec.regions.field.shape
    scale = np.array([max(rows - 1, 1), max(columns - 1, 1)], np.float32)
    place = spec.path.cells.astype(np.float32) / scale
    return np.concatenate([place, place[-1:]])


class Milestones(NamedTuple):
    """What is left of each region at every `stride`-th cell of the path."""

    left: Float[np.ndarray, "milestone region"]
    stride: int


def milestones(spec: SweepSpec) -> Milestones:
    """The shares left: 1 at the start of the path, 0 at its end, 0 for regions never served."""
    from scipy import sparse

    kind_of_part, kinds = spec.service.on_path, spec.service.kinds
    cells = len(spec.path.cells)
    stride = -(-cells // MOST_MILESTONES)
    heads = np.arange(0, cells + 1, stride)
    places = np.arange(len(kind_of_part)) // (stride * spec.service.parts), kind_of_part
    shape = (len(heads), len(kinds))
    in_stretch = sparse.csr_array((np.ones(len(kind_of_part)), places), shape=shape)
    served = in_stretch @ np.asarray(kinds, float)
    left = np.cumsum(served[::-1], axis=0)[::-1]
    return Milestones((left / np.maximum(left[:1], 1e-12)).astype(np.float32), stride)
