"""The vehicle, the wind, and the units in which they are described."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from scrl.errors import ProblemError
from scrl.settings import check_settings, setting

Pump = Literal["free", "proportional"]
MINUTES = "minutes"
"""What driving times are told in."""
UNNAMED = "units"
"""What is given out is counted in these where nothing else is said."""


@dataclass(frozen=True)
class Units:
    """How cells, steps and units of resource translate to metres, seconds and, say, litres."""

    cell: float | None = setting(
        None, "Length of a cell.", unit="metres", low=0.0, is_low_open=True, high=1e6
    )
    step: float | None = setting(
        None, "Length of a step.", unit="seconds", low=0.0, is_low_open=True, high=1e6
    )
    unit: str = setting(UNNAMED, "Name of one unit of what is given out, such as litres.")
    hour_cost: float | None = setting(
        None, "What an hour of driving costs, to tell costs in money.",
        unit="money per hour", low=0.0, high=1e9,
    )  # fmt: skip
    unit_cost: float | None = setting(
        None, "What one unit of what is given out costs, to tell costs in money.",
        unit="money per unit", low=0.0, high=1e9,
    )  # fmt: skip
    currency: str = setting("money", "Name of the money, such as EUR.")

    def __post_init__(self) -> None:
        check_settings(self)
        if self.hour_cost is not None and self.step is None:
            raise ProblemError(
                f"hour_cost = {self.hour_cost:g} needs the length of a step: step = ... (seconds)"
            )
        if self.unit_cost is not None and self.unit == UNNAMED:
            raise ProblemError(
                f"unit_cost = {self.unit_cost:g} needs the unit that it is for: "
                'unit = "litres", say'
            )
        for key, name in (("unit", self.unit), ("currency", self.currency)):
            if name == MINUTES:
                raise ProblemError(f'{key} = "{MINUTES}": driving times are told in minutes')
        if self.currency == self.unit:
            raise ProblemError(f"currency and unit are both called '{self.unit}'")

    def cost(self, steps: float, given_out: float) -> dict[str, float]:
        """What a drive costs, by what it is counted in: minutes, the product's unit, money.

        Only what is known: minutes where a step has a length, product where its unit has a name,
        money where something has a price.
        """
        found: dict[str, float] = {}
        if self.step is not None:
            found[MINUTES] = steps * self.step / 60.0
        if self.unit != UNNAMED:
            found[self.unit] = given_out
        if (self.hour_cost, self.unit_cost) != (None, None):
            hours = steps * (self.step or 0.0) / 3600.0
            found[self.currency] = (
                hours * (self.hour_cost or 0.0) + given_out * (self.unit_cost or 0.0)
            )  # fmt: skip
        return found

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
    """A vehicle that gives something out while it moves along its path.

    It may go at any speed in its reach, and at each speed give out any flow that its pump allows.
    A fixed rate is a pump that allows one flow.
    """

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
    transfer_speed: float | None = setting(
        None,
        "Speed on the way from one pass to the next, which then counts (none: free, at top speed).",
        unit="cells per step", low=0.0, is_low_open=True, high=1000.0,
    )  # fmt: skip
    turn_time: float | None = setting(
        None, "Time that each turn into another pass takes beside its way (none: free).",
        unit="steps", low=0.0, high=1e6,
    )  # fmt: skip
    rate: float = setting(
        2.25,
        "What the vehicle gives out in one step; with a flow, the most that it can.",
        unit="units per step",
        low=0.0,
        is_low_open=True,
        high=1e9,
    )
    flow: tuple[float, float] | None = setting(
        None, "Least and most that the pump can give out, chosen in each step.",
        unit="units per step",
    )  # fmt: skip
    pump: Pump = setting(
        "free",
        "With a flow: it is chosen apart from the speed, or follows the speed, and the dose is "
        "chosen.",
        choices=("free", "proportional"),
    )
    dose: tuple[float, float] | None = setting(
        None, "With a flow: least and most that a cell of the path is given.",
        unit="units per cell",
    )  # fmt: skip
    product_cost: float = setting(
        0.0, "Cost of one unit that is given out.", unit="return per unit", low=0.0, high=1e9
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
    rate_noise: float = setting(
        0.0,
        "Standard deviation of what a step gives out, as a share of it: a nozzle that clogs, or "
        "people who do not come.",
        low=0.0,
        high=1.0,
    )
    rate_persistence: float = setting(
        0.0,
        "How much of a deviation of the rate is still there one step later.",
        low=0.0,
        high=1.0,
        is_high_open=True,
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if self.flow is None:
            for name, value in (("dose", self.dose), ("pump", self.pump)):
                if value not in (None, "free"):
                    raise ProblemError(
                        f"{name} = {value!r} needs a flow that can be chosen: "
                        "flow = [least, most], in units per step"
                    )
            return
        flow = _pair("flow", self.flow)
        if flow[1] == 0.0:
            raise ProblemError("flow: the most that the pump can give out must be above 0")
        if self.rate not in (flow[1], Vehicle.rate):
            raise ProblemError(
                f"rate = {self.rate:g} and flow = {list(flow)} contradict each other: a fixed "
                "rate is a flow that cannot be chosen; leave one of them out"
            )
        object.__setattr__(self, "flow", flow)
        object.__setattr__(self, "rate", flow[1])
        if self.dose is None and self.pump == "proportional":
            raise ProblemError(
                'pump = "proportional" needs the doses to choose from: dose = [least, most], in '
                "units per cell"
            )
        if self.dose is not None:
            object.__setattr__(self, "dose", _pair("dose", self.dose))
            self._check_dose()

    def _check_dose(self) -> None:
        """Raise where the pump cannot keep a dose at every speed from the crawl to the top."""
        low, high = self.dose_limits
        if low * self.max_speed > self.rate * (1.0 + 1e-9):
            raise ProblemError(
                f"dose: at the top speed, {self.max_speed:g} cells per step, the pump gives a cell "
                f"at most {self.rate / self.max_speed:g} units, and {low:g} are asked for; lower "
                f"max_speed to {self.rate / low:g}, {self.rate / low / self.max_speed:.1%} of it, "
                "or ask for less"
            )
        if high * self.max_speed < self.least_flow * self.rate:
            raise ProblemError(
                f"dose: even at the top speed, {self.max_speed:g} cells per step, the pump gives a "
                f"cell at least {self.least_flow * self.rate / self.max_speed:g} units, and at "
                f"most {high:g} are allowed; raise max_speed or the dose"
            )

    @property
    def counts_turns(self) -> bool:
        """Whether the ways between passes count: in the order of passes, in time and distance."""
        return self.transfer_speed is not None or self.turn_time is not None

    @property
    def supply(self) -> Noise:
        """How the rate varies."""
        return Noise(self.rate_noise, self.rate_persistence)

    @property
    def has_flow(self) -> bool:
        """Whether the flow is chosen in each step."""
        return self.flow is not None

    @property
    def least_flow(self) -> float:
        """The least flow, as a share of the most."""
        return 1.0 if self.flow is None else self.flow[0] / self.flow[1]

    @property
    def dose_limits(self) -> tuple[float, float]:
        """Least and most units for a cell of the path."""
        return (0.0, math.inf) if self.dose is None else self.dose

    @property
    def least_dose(self) -> float:
        """The least dose, in steps at full flow for a cell."""
        return self.dose_limits[0] / self.rate

    @property
    def most_dose(self) -> float:
        """The largest dose, in steps at full flow for a cell."""
        return self.dose_limits[1] / self.rate

    @property
    def product(self) -> float:
        """Cost of what a step at full flow gives out."""
        return self.product_cost * self.rate


def _pair(name: str, value: Any) -> tuple[float, float]:
    """Two numbers from 0 on, the smaller one first."""
    is_pair = isinstance(value, tuple | list) and len(value) == 2
    if not is_pair or not all(
        isinstance(each, int | float) and not isinstance(each, bool) and 0 <= each <= 1e9
        for each in value
    ):
        raise ProblemError(f"{name} = {value!r:.60} must be two numbers from 0 on: [least, most]")
    low, high = map(float, value)
    if low > high:
        raise ProblemError(f"{name} = [{low:g}, {high:g}]: the least is above the most")
    return low, high


@dataclass(frozen=True)
class Noise:
    """A disturbance x' = persistence x + sqrt(1 - persistence^2) strength noise."""

    strength: float
    persistence: float

    @property
    def freshness(self) -> float:
        """sqrt(1 - persistence^2) strength: keeps the variance at strength^2."""
        return math.sqrt(1.0 - self.persistence**2) * self.strength

    @property
    def is_calm(self) -> bool:
        return self.strength == 0.0


@dataclass(frozen=True)
class Wind(Noise):
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
