"""What a policy chooses: a throttle, several numbers from [0, 1], or one of some choices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Continuous:
    """Numbers from [0, 1]; without a shape it is one, a throttle."""

    shape: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Discrete:
    """One of 0, 1, ..., count - 1."""

    count: int


ActionKind: TypeAlias = Continuous | Discrete
THROTTLE = Continuous()
