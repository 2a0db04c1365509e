"""Physical units, carried along so that tables and plots speak the user's language."""

from __future__ import annotations

from dataclasses import dataclass

from scrl.worlds.settings import check_settings, setting


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
        """A speed in the user's words: metres per second where both scales are known."""
        if self.cell is None or self.step is None:
            return f"{cells_per_step:.2f} cells/step"
        return f"{self.metres_per_second(cells_per_step):.2f} m/s"

    def metres_per_second(self, cells_per_step: float) -> float:
        """A speed in metres per second; needs both scales."""
        if self.cell is None or self.step is None:
            raise ValueError("metres per cell and seconds per step are not both known")
        return cells_per_step * self.cell / self.step

    def duration(self, steps: float, transit_steps: float = 0.0) -> str:
        """A time in the user's words: minutes and seconds where the step's length is known.

        Steps in transit come on top of the others, and are said.
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
        """A length in the user's words: metres where the cell's length is known."""
        return f"{cells:,.0f} cells" if self.cell is None else f"{cells * self.cell:,.0f} m"
