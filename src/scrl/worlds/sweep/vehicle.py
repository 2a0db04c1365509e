"""The vehicle, the wind, and the units in which they are described."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scrl.settings import check_settings, setting


@dataclass(frozen=True)
class Units:
    """How cells, steps and units of resource translate to metres, seconds and, say, litres."""

    cell: float | None = setting(
        None, "Length of a cell.", unit="metres", low=0.0, is_low_open=True, high=1e6
    )
    step: float | None = setting(
        None, "Length of a step.", unit="seconds", low=0.0, is_low_open=True, high=1e6
    )
    unit: str = setting("units", "Name of one unit of what is given out, such as litres.")

    def __post_init__(self) -> None:
        check_settings(self)

    def speed(self, cells_per_step: float) -> str:
        """A speed as text, in metres per second where both scales are known."""
        if self.cell is None or self.step is None:
            return f"{cells_per_step:.2f} cells/step"
        return f"{self.metres_per_second(cells_per_step):.2f} m/s"

    def metres_per_second(self, cells_per_step: float) -> float:
        """A speed in metres per second; needs both scales."""
        if self.cell is None or self.step is None:
            raise ValueError("metres per cell and seconds per step are not both known")
        return cells_per_step * self.cell / self.step

    def duration(self, steps: float, transit_steps: float = 0.0) -> str:
        """A time as text, in minutes and seconds where the length of a step is known.

        Steps in transit are added to the others and reported separately.
        """
        if transit_steps:
            whole, transit = self.duration(steps + transit_steps), self.duration(transit_steps)
            return f"{whole}, of which {transit} in transit"
        if self.step is None:
            return f"{steps:,.0f} steps"
        seconds = steps * self.step
        minutes, rest = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        clock = f"{hours}:{minutes:02}:{rest:02} h" if hours else f"{minutes}:{rest:02} min"
        return f"{steps:,.0f} steps ({clock})"

    def length(self, cells: float) -> str:
        """A length as text, in metres where the length of a cell is known."""
        return f"{cells:,.0f} cells" if self.cell is None else f"{cells * self.cell:,.0f} m"


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
        """sqrt(1 - persistence^2) strength: keeps the variance at strength^2."""
        return math.sqrt(1.0 - self.persistence**2) * self.strength

    @property
    def is_calm(self) -> bool:
        return self.strength == 0.0
