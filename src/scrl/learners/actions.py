"""Action spaces: a throttle, several numbers from [0, 1], or discrete choices."""

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

    @property
    def noise_shape(self) -> tuple[int, ...]:
        """Exploration draws a number for each entry."""
        return self.shape


@dataclass(frozen=True)
class Discrete:
    """For each entry one of 0, 1, ..., count - 1; without a shape, a single choice."""

    counts: tuple[int, ...]
    shape: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """The number of logits of an action."""
        return sum(self.counts)

    @property
    def noise_shape(self) -> tuple[int, ...]:
        """Exploration draws a number for each logit."""
        return (self.size,)


ActionKind: TypeAlias = Continuous | Discrete
