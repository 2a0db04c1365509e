"""Several drives as one: it passes each place when they do on average."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float

from scrl.planning.timetable import averaged, with_times
from scrl.policies import Schedule
from scrl.problems import Problem
from scrl.route import Route, drive
from scrl.worlds.sweep import dynamics
from scrl.worlds.sweep.dynamics import Scalars
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle

LENGTH = 30


def to_the_end(vehicle: Vehicle, throttles: Sequence[float]) -> Float[np.ndarray, " step"]:
    """The throttles of a drive to the end of the path; they are repeated."""
    place, speed, found = 0.0, 0.0, []
    while place < LENGTH:
        found.append(throttles[len(found) % len(throttles)])
        speed = dynamics.next_speed(vehicle, speed, found[-1], Scalars)
        place += speed
    return np.array(found)


def passed_at(vehicle: Vehicle, throttles: Sequence[float]) -> Float[np.ndarray, " edge"]:
    """When a drive passes the edges of the cells, in steps."""
    speed, places = 0.0, [0.0]
    for throttle in throttles:
        speed = dynamics.next_speed(vehicle, speed, throttle, Scalars)
        places.append(places[-1] + speed)
    assert places[-1] >= LENGTH - 1e-9
    return np.interp(np.arange(LENGTH + 1), places, np.arange(len(places)))


def off_by(
    vehicle: Vehicle, plans: Sequence[Sequence[float]], shares: Sequence[float]
) -> Float[np.ndarray, " edge"]:
    """How many steps the averaged drive passes each edge after the mean of the drives."""
    weights = np.array(shares) / sum(shares)
    drives = [to_the_end(vehicle, each) for each in plans]
    found = averaged(vehicle, LENGTH, drives, weights)
    mean = weights @ np.array([passed_at(vehicle, each.tolist()) for each in drives])
    return passed_at(vehicle, found.tolist()) - mean


plan = st.lists(st.floats(0.05, 1.0), min_size=1, max_size=12)
share = st.floats(0.05, 1.0)


@given(st.lists(st.tuples(plan, share), min_size=2, max_size=4))
@settings(max_examples=100)
def test_without_inertia_every_edge_is_passed_within_a_step_of_the_mean(
    plans: list[tuple[list[float], float]],
) -> None:
    """After whole steps it is where the mean is; within a step it moves evenly."""
    vehicle = Vehicle(inertia=0.0, max_speed=3.0)
    off = off_by(vehicle, *zip(*plans, strict=True))
    assert np.abs(off).max() < 1.0


@given(st.lists(st.tuples(plan, share), min_size=2, max_size=4), st.floats(0.1, 0.8))
@settings(max_examples=100)
def test_with_inertia_every_edge_is_passed_within_two_steps_of_the_mean(
    plans: list[tuple[list[float], float]], inertia: float
) -> None:
    vehicle = Vehicle(inertia=inertia, max_speed=3.0)
    off = off_by(vehicle, *zip(*plans, strict=True))
    assert np.abs(off).max() < 2.0


def routes(inertia: float, speeds: Sequence[float]) -> tuple[Problem, list[Route]]:
    labels = np.array([[1] * 7 + [2] * 3 + [1] * 2 + [0] * 8 + [2] * 10])
    vehicle = Vehicle(inertia=inertia, max_speed=3.0, rate=2.25)
    problem = Problem.create(SweepSpec(from_labels(labels), vehicle))
    return problem, [drive(problem, Schedule.of(np.full(2, each / 3.0))) for each in speeds]


@pytest.mark.parametrize(("inertia", "close"), [(0.0, 1e-3), (0.6, 2 * 2.25), (0.9, 2 * 2.25)])
def test_the_mean_of_timetables_gives_the_mean_of_the_amounts(inertia: float, close: float) -> None:
    """Without inertia drives of one speed have a mean of one speed, so even edges are exact."""
    problem, driven = routes(inertia, (0.4, 1.1, 2.7))
    weights = np.array([0.2, 0.5, 0.3])
    vehicle = problem.world_spec.vehicle
    found = averaged(vehicle, LENGTH, [each.throttle for each in driven], weights)
    route = drive(problem, Schedule.of(found))
    assert route.is_whole
    amounts = np.array([list(each.totals.values()) for each in driven])
    assert list(route.totals.values()) == pytest.approx(weights @ amounts, abs=close)


def test_the_averaged_drive_costs_at_most_the_mean() -> None:
    problem, driven = routes(0.0, (0.4, 1.1, 2.7))
    vehicle, weights = problem.world_spec.vehicle, np.array([0.2, 0.5, 0.3])
    found = averaged(vehicle, LENGTH, [each.throttle for each in driven], weights)
    costs = [
        float(np.sum(vehicle.effort / (1.0 + each.speed)))
        for each in [drive(problem, Schedule.of(found)), *driven]
    ]
    assert costs[0] < weights @ costs[1:]


def test_a_drive_spends_the_asked_time_in_each_cell() -> None:
    """10 cells at 0.5 steps, 10 at 4, 10 at 0.5: the edges at 0, 5, 45 and 50 steps."""
    vehicle = Vehicle()
    throttles = with_times(vehicle, np.repeat([0.5, 4.0, 0.5], 10))
    passed = passed_at(vehicle, throttles.tolist())
    # From rest the first cells take longer, and braking and speeding up take a step or two.
    assert passed[[10, 20, 30]] == pytest.approx([5.0, 45.0, 50.0], abs=2.0)
