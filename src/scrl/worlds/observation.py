"""What a policy sees: progress, speed, gust, row, column, then the regions served here."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from scrl.worlds.spec import SweepSpec

OBSERVED_SCALARS = 5
"""Numbers before the regions: progress, speed, gust, row, column; all within [-1, 1]."""


def place_of_cells(spec: SweepSpec) -> Float[np.ndarray, "cell_and_end 2"]:
    """Row and column of each path cell, scaled to [0, 1]; past the end, those of the last cell."""
    rows, columns = spec.regions.field.shape
    scale = np.array([max(rows - 1, 1), max(columns - 1, 1)], np.float32)
    place = spec.path.cells.astype(np.float32) / scale
    return np.concatenate([place, place[-1:]])
