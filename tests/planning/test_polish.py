"""Single drives made better by linear programs on their places."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float

from scrl.evaluation import evaluate
from scrl.planning.polish import PAST_EDGE, Polish
from scrl.planning.timetable import places_of, with_times
from scrl.policies import Schedule
from scrl.problems import Problem
from scrl.route import Route, drive
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle

from ..worlds.sweep.outlined import outlined, tilted


def some_world(seed: int, inertia: float = 0.6) -> SweepSpec:
    rng = np.random.default_rng(seed)
    regions = outlined([tilted(rng, (6, 10)) for _ in range(2)], (6, 10))
    return SweepSpec(regions, Vehicle(inertia=inertia))


def to_the_end(spec: SweepSpec, throttles: list[float]) -> Float[np.ndarray, " step"]:
    """Repeated throttles, as many as lead to the end of the path."""
    repeated = np.tile(throttles, 500 // len(throttles))
    places = places_of(spec.vehicle, repeated)
    return repeated[: int(np.argmax(places >= len(spec.path.cells)))]


def driven(spec: SweepSpec, throttles: Float[np.ndarray, "step ..."]) -> Route:
    route = drive(Problem.create(spec), Schedule.of(throttles))
    assert route.is_whole
    return route


def cost(route: Route) -> float:
    return float((route.problem.world_spec.vehicle.effort / (1.0 + route.speed)).sum())


speeds = st.lists(st.floats(0.2, 1.0), min_size=1, max_size=12)


FLOW = Vehicle(flow=(0.2, 2.25), dose=(0.1, 1.0), product_cost=0.01)


@given(st.integers(0, 100), speeds, st.sampled_from([None, FLOW]))
@settings(max_examples=30)
def test_sides_are_those_of_the_world_and_slopes_their_derivative(
    seed: int, throttles: list[float], vehicle: Vehicle | None
) -> None:
    spec = some_world(seed)
    spec = spec if vehicle is None else replace(spec, vehicle=vehicle)
    coefficients = np.array([[1.0, 0.0], [-1.0, 2.0]])
    polish = Polish(spec, coefficients, np.zeros(2), penalty=1.0)
    found = to_the_end(spec, throttles)
    if vehicle is not None:
        found = np.column_stack([found, 0.1 + 0.8 * np.roll(found, 1)])
    start = polish._drive(found)
    totals = np.array(list(driven(spec, found).totals.values()))
    assert polish._sides(start).sides == pytest.approx(coefficients @ totals, abs=1e-3)
    # Away from the edges of parts, where the slope jumps.
    places, flows = start.places[:-1], start.flows[:-1]
    within = np.abs(4.0 * places[1:-1] - np.round(4.0 * places[1:-1])) > 1e-3
    for step in np.flatnonzero(within)[:10].tolist():
        moved = np.zeros(len(places))
        moved[step + 1] = 1e-5
        ahead, behind = (
            polish._sides(start._replace(places=places + sign * moved, flows=flows)).sides
            for sign in (1, -1)
        )
        slope = polish._sides(start._replace(places=places, flows=flows)).slopes[step]
        assert (ahead - behind) / 2e-5 == pytest.approx(slope, rel=1e-4, abs=1e-4)


def test_with_a_flow_a_polished_drive_is_better_and_keeps_the_pumps_limits() -> None:
    spec = replace(some_world(3), vehicle=FLOW)
    throttles = to_the_end(spec, [0.5])
    first = np.column_stack([throttles, np.full(len(throttles), 0.7)])
    given = np.array(list(driven(spec, first).totals.values()))
    polish = Polish(spec, -np.eye(2), -given, penalty=1.0)
    better = polish.better(first)
    assert ((better >= 0.0) & (better <= 1.0)).all()
    problem = Problem.create(spec)
    before, after = (evaluate(problem, Schedule.of(each)) for each in (first, better))
    assert after.return_ > before.return_ + 0.02 * abs(before.return_)
    assert polish._worth(polish._drive(better)) > polish._worth(polish._drive(first))
    assert (np.array(list(after.density.values())) >= 0.995 * given).all()


def striped(length: int) -> SweepSpec:
    """Eight regions' parts of so many cells, with as many cells between them."""
    labels = np.tile(np.repeat([1, 0], length), 8)[None]
    vehicle = Vehicle(flow=(0.0, 2.25), product_cost=0.02)
    return SweepSpec(from_labels(labels), vehicle, route=SweepRoute(service="poured"))


def test_places_move_up_to_the_next_edge_and_leave_one_on_either_side() -> None:
    polish = Polish(striped(5), np.array([[-1.0]]), np.zeros(1), penalty=1.0)
    lowest, highest = polish._within_edges(np.array([2.0, 4.9, 5.0, 5.1, 80.0]), 0.2)
    past = 0.2 * PAST_EDGE
    assert lowest == pytest.approx([1.8, 4.7, 4.8, 5.0 - past, 79.8])
    assert highest == pytest.approx([2.2, 5.0 + past, 5.2, 5.3, 80.2])


@pytest.mark.parametrize(("length", "most"), [(5, 3.0), (7, 4.3)])
def test_a_drive_ends_steps_where_the_pump_is_to_switch(length: int, most: float) -> None:
    """From an even drive; without a stop at edges the first one costs 3.15. It ends in the step
    that the program knows as the last one."""
    spec = striped(length)
    cells = 16 * length
    polish = Polish(spec, np.array([[-1.0]]), np.array([-8.8 * length]), penalty=0.3)
    even = with_times(spec.vehicle, np.full(cells, 0.4), 1, np.full(cells, 0.4))
    better = polish.better(even)
    assert -polish._worth(polish._drive(better)) < most
    route = driven(spec, better)
    assert len(route.speed) == len(better)


@given(st.integers(0, 100), speeds, st.floats(0.5, 3.0), st.sampled_from([0.0, 0.6, 0.85]))
@settings(max_examples=15)
def test_nothing_gets_worse(
    seed: int, throttles: list[float], factor: float, inertia: float
) -> None:
    """For rules that may hold already, may ask for more, or cannot be kept at all."""
    spec = some_world(seed, inertia)
    first = to_the_end(spec, throttles)
    before = driven(spec, first)
    bounds = -factor * np.array(list(before.totals.values()))
    found = Polish(spec, -np.eye(2), bounds, penalty=0.5).better(first)
    after = driven(spec, found)

    def worth(route: Route) -> float:
        missed = np.maximum(-np.array(list(route.totals.values())) - bounds, 0.0)
        return -cost(route) - 0.5 * float(missed.sum())

    assert worth(after) >= worth(before) - 1e-3


def test_a_small_region_receives_what_a_rule_asks_for_and_hardly_more() -> None:
    """A region of 1.4 cells, and a drive that brakes for ten cells around it."""
    regions = outlined([[shapely.box(20.3, 0, 21.7, 1)], [shapely.box(0, 0, 60, 1)]], (1, 60))
    spec = SweepSpec(regions)
    paces = np.full(60, 1.0 / 3.0)
    paces[16:26] = 0.9
    first = with_times(spec.vehicle, paces)
    before = driven(spec, first)
    assert before.totals["S1"] < 3.9
    polish = Polish(spec, np.array([[-1.0, 0.0]]), np.array([-4.0]), penalty=0.3)
    after = driven(spec, polish.better(first))
    assert 3.99 < after.totals["S1"] < 4.05
    assert cost(after) < cost(before)
    same = polish.better(first, deadline=time.monotonic() - 1.0)
    assert np.allclose(places_of(spec.vehicle, same), places_of(spec.vehicle, first))


def test_the_plan_keeps_the_limits_of_the_vehicle() -> None:
    spec = replace(some_world(3), vehicle=Vehicle(crawl=0.3, inertia=0.8))
    first = to_the_end(spec, [0.9])
    most = np.array(list(driven(spec, first).totals.values())) * 1.5
    found = Polish(spec, -np.eye(2), -most, penalty=0.5).better(first)
    assert ((found >= 0.0) & (found <= 1.0)).all()
    route = driven(spec, found)
    # Each step is at least what the crawl leaves of the step before.
    assert (route.speed[1:] >= 0.8 * route.speed[:-1] + 0.2 * 0.9 - 1e-5).all()
