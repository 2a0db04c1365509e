"""Settings are checked wherever they are built."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scrl.errors import ProblemError
from scrl.worlds.sweep.spec import SweepRoute
from scrl.worlds.sweep.vehicle import Units, Vehicle, Wind


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Vehicle(max_speed=0), "max_speed = 0 must be above 0 and at most 1000"),
        (lambda: Vehicle(rate=float("nan")), "rate = nan must be a finite number"),
        (lambda: Vehicle(rate=10**400), "must be a finite number"),
        (lambda: Vehicle(inertia=1.0), "inertia = 1.0 must be at least 0 and below 1"),
        (
            lambda: Vehicle(crawl="slow"),  # pyright: ignore[reportArgumentType]
            "crawl = 'slow' must be a finite number",
        ),
        (lambda: Vehicle(rate=True), "rate = True must be a finite number"),
        (lambda: Wind(strength=2), "strength = 2 must be at least 0 and at most 1"),
        (
            lambda: SweepRoute(swath=1.5),  # pyright: ignore[reportArgumentType]
            "swath = 1.5 must be a whole number",
        ),
        (
            lambda: SweepRoute(direction="row"),  # pyright: ignore[reportArgumentType]
            "is not one of rows, columns: did you mean 'rows'?",
        ),
        (lambda: Units(cell=-1.0), "cell = -1.0 must be above 0"),
        (
            lambda: Units(unit=5),  # pyright: ignore[reportArgumentType]
            "unit = 5 must be a text",
        ),
    ],
)
def test_values_that_make_no_sense_are_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ProblemError) as caught:
        build()
    assert message in str(caught.value)


def test_whole_numbers_are_taken_as_floats_where_floats_are_meant() -> None:
    assert isinstance(Vehicle(max_speed=2).max_speed, float)


def test_units_speak_the_users_language() -> None:
    units = Units(cell=10.0, step=2.0, unit="litres")
    # 3 cells a step are 30 m in 2 s; 835 steps are 1670 s.
    assert units.speed(3.0) == "15.00 m/s"
    assert units.duration(835) == "835 steps (27:50 min)"
    assert units.duration(5000) == "5,000 steps (2:46:40 h)"
    assert units.length(2500) == "25,000 m"
    assert Units().speed(3.0) == "3.00 cells/step"
    assert Units().length(2500) == "2,500 cells"
    with pytest.raises(ValueError, match="not both known"):
        Units(cell=10.0).metres_per_second(3.0)
