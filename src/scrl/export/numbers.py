"""Numbers as they stand in exported files."""

from __future__ import annotations

import numpy as np

DECIMALS, DIGITS, SMALL = 6, 4, 1e-3


def neat(value: float) -> float:
    """Without the noise of the arithmetic: 6 decimals, and of a small number 4 digits."""
    return round(value, DECIMALS) if abs(value) >= SMALL else float(f"{value:.{DIGITS}g}")


def single(value: float) -> float:
    """The shortest number that is the same in single precision, in which the world is driven."""
    return float(str(np.float32(value)))
