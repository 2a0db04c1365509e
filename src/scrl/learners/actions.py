"""Action spaces: a throttle, several numbers from [0, 1], or a discrete choice."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Continuous:
    """Numbers from [0, 1]; without a shape, a single throttle."""

    shape: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """The number of entries of an action."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Discrete:
    """One of 0, 1, ..., count - 1."""

    count: int


ActionKind: TypeAlias = Continuous | Discrete
