"""The vehicle and the wind: what moves, how fast, and what it gives out."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scrl.worlds.settings import check_settings, setting


@dataclass(frozen=True)
class Vehicle:
    """A vehicle that gives something out at a constant rate while it moves along its path."""

    max_speed: float = setting(
        3.0, "Top speed.", unit="cells per step", low=0.0, is_low_open=True, high=1000.0
    )
    inertia: float = setting(
        0.6,
        "Share of the old speed that stays from one step to the next.",
        low=0.0,
        high=1.0,
        is_high_open=True,
    )
    crawl: float = setting(
        0.01,
        "Smallest throttle, as a share of the top speed: the vehicle never stands still.",
        low=1e-6,
        high=1.0,
    )
    rate: float = setting(
        2.25,
        "What the vehicle gives out in one step.",
        unit="units per step",
        low=0.0,
        is_low_open=True,
        high=1e9,
    )
    effort: float = setting(
        0.1,
        "Cost of one step at speed v is effort / (1 + v).",
        unit="return per step",
        low=0.0,
        is_low_open=True,
        high=1e9,
    )
    start_noise: float = setting(
        0.0,
        "The start is drawn evenly from this many cells at the head of the path.",
        unit="cells",
        low=0.0,
        high=1e6,
    )

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class Wind:
    """Gusts: g' = persistence g + sqrt(1 - persistence^2) strength noise; speed times (1 + g)."""

    strength: float = setting(
        0.0,
        "Standard deviation of the gusts, as a share of the speed (0: no wind).",
        low=0.0,
        high=1.0,
    )
    persistence: float = setting(
        0.9,
        "How much of a gust is still there one step later.",
        low=0.0,
        high=1.0,
        is_high_open=True,
    )

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def freshness(self) -> float:
        """sqrt(1 - persistence^2) strength: keeps the variance at strength^2 for ever."""
        return math.sqrt(1.0 - self.persistence**2) * self.strength

    @property
    def is_calm(self) -> bool:
        return self.strength == 0.0
