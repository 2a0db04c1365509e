"""Routes cut into straight lines: nothing is lost, nothing is bent."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
import shapely

from scrl.evaluation import evaluate
from scrl.export import ExportError, segments
from scrl.policies import Constant, Schedule
from scrl.problems import Problem
from scrl.route import Route, drive
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import Service, SweepSpec
from scrl.worlds.sweep.spec import SweepRoute as RouteSettings
from scrl.worlds.sweep.vehicle import Vehicle

from ..worlds.sweep.outlined import outlined, tilted
from .conftest import served


def drive_over(
    labels: list[list[int]],
    *throttles: float,
    horizon_steps: int = 5000,
    service: Service = "poured",
) -> Route:
    vehicle = Vehicle(inertia=0.0, max_speed=2.0, rate=3.0)
    route = RouteSettings(horizon_steps=horizon_steps, service=service)
    spec = SweepSpec(from_labels(np.array(labels)), vehicle, route=route)
    return drive(Problem.create(spec), Schedule(jnp.array(throttles)))


@pytest.mark.parametrize(
    ("service", "amounts", "received"),
    [
        # Landings: 2 (S1), 4 (S2), 6 (over): the second step gives all to the row where it ends.
        ("landing", [3, 0, 3], [[3, 0], [0, 0], [0, 3]]),
        # 1.5 units a cell; the line across the rows is half in S1 and half in S2.
        ("poured", [3.75, 1.5, 3.75], [[3.75, 0], [0.75, 0.75], [0, 3.75]]),
    ],
)
def test_one_speed_is_one_line_up_to_the_turn(
    service: Service, amounts: list[float], received: list[list[float]]
) -> None:
    """A step of two cells over two rows of three: the turn cuts the second and the third step."""
    found = segments(drive_over([[1, 1, 1], [2, 2, 2]], 1.0, service=service))
    assert [each.ends.tolist() for each in found] == [
        [[0.5, 0.0], [0.5, 2.5]],
        [[0.5, 2.5], [1.5, 2.5]],
        [[1.5, 2.5], [1.5, 0.0]],
    ]
    assert [each.amount for each in found] == amounts
    assert np.array([each.received for each in found]) == pytest.approx(np.array(received))
    assert [each.length for each in found] == [2.5, 1.0, 2.5]
    assert [each.steps for each in found] == [1.25, 0.5, 1.25]
    assert [each.speed for each in found] == [2.0, 2.0, 2.0]


def test_speeds_within_the_tolerance_are_merged_and_their_time_is_kept() -> None:
    """Speeds of 1 and 1.04 cells a step differ by 2 % of the top speed of 2.

    The vehicle is at the end after 1 + 5 / 1.04 steps, and the last step goes on without it.
    """
    drive_both = drive_over([[1] * 6], 0.5, 0.52)
    assert len(segments(drive_both, 0.01)) == 2
    (merged,) = segments(drive_both, 0.03)
    assert merged.steps == pytest.approx(6)
    assert merged.speed == pytest.approx(6 / (1 + 5 / 1.04))


def test_slow_steps_are_merged_while_the_time_is_kept_along_the_way() -> None:
    """0.02 and 0.05 cells a step differ by 1.5 % of the top speed of 2.

    Ten steps of the one and eight of the other may be off by 0.6/4 (1/0.02 - 1/0.05) = 4.5 steps,
    where 5 times the tolerance is allowed.
    """
    slow = drive_over([[1]], *[0.01] * 10, *[0.025] * 8, *[1.0])
    assert [each.steps for each in segments(slow, 0.02)] == pytest.approx([10, 8, 1])
    assert [each.steps for each in segments(slow, 1.0)] == pytest.approx([18, 1])
    # At 1.96 and 2 cells a step, 36 cells are off by 36/4 (1/1.96 - 1/2) = 0.09 steps at most.
    fast = drive_over([[1] * 36], *[0.98] * 10, *[1.0] * 25)
    assert len(segments(fast, 0.02)) == 1


def test_slow_drift_does_not_creep_past_the_tolerance() -> None:
    """Each step is 1 % faster than the last: a segment must not follow that for ever."""
    found = segments(drive_over([[1] * 40], *np.arange(0.2, 0.8, 0.01)), 0.05)
    assert len(found) > 5


def test_the_way_between_legs_is_a_transit_that_gives_nothing(route: Route) -> None:
    """From (2.5, 4) to (2.5, 6), at the top speed of 3 cells a step."""
    found = segments(route)
    (transit,) = [each for each in found if each.is_transit]
    assert (transit.amount, transit.speed, transit.length) == (0, 3, pytest.approx(2))
    assert transit.steps == pytest.approx(2 / 3)
    assert transit.received.tolist() == [0, 0, 0]
    for before, after in itertools.pairwise(found):
        assert before.ends[1].tolist() == pytest.approx(after.ends[0].tolist())
    for each in found:
        if not each.is_transit:
            moved = np.abs(np.diff(each.ends, axis=0)[0])
            # Along a row or a column, and as long as the path says.
            assert min(moved) == pytest.approx(0.0)
            assert max(moved) == pytest.approx(each.length)


@pytest.mark.parametrize("service", ["poured", "landing"])
@pytest.mark.parametrize("tolerance", [0.0, 0.02, 1.0])
def test_nothing_is_lost_at_any_tolerance(
    problem: Problem, service: Service, tolerance: float
) -> None:
    route = served(problem, service)
    found = segments(route, tolerance)
    assert sum(each.amount for each in found) == pytest.approx(route.amount.sum())
    assert np.allclose(sum(each.received for each in found), list(route.totals.values()))
    working = [each for each in found if not each.is_transit]
    cells = len(route.problem.world_spec.path.cells)
    assert sum(each.length for each in working) == pytest.approx(cells)
    assert sum(each.steps for each in working) == pytest.approx(route.steps)
    assert sum(each.steps for each in found) == pytest.approx(route.steps + route.transit_steps)


def test_poured_a_segment_gives_each_region_its_time_there_times_the_rate(
    farm_route: Route,
) -> None:
    """By the cells under its line, whatever the world says; speeds are those of each segment."""
    spec = farm_route.problem.world_spec
    masks, rate = spec.regions.masks, spec.vehicle.rate
    found = segments(farm_route, 0.0)
    worked = [each for each in found if not each.is_transit]
    assert len(worked) > 50
    for each in worked:
        assert each.amount == pytest.approx(rate * each.length / each.speed, rel=1e-5, abs=1e-6)
        parts = 2000
        row, column = (each.ends[0] + np.outer(
            (np.arange(parts) + 0.5) / parts, each.ends[1] - each.ends[0]
        )).astype(int).T  # fmt: skip
        shares = masks[:, row, column].mean(axis=1)
        assert each.received == pytest.approx(rate * shares * each.length / each.speed, abs=5e-3)
    totals = np.sum([each.received for each in found], axis=0)
    assert totals == pytest.approx(list(farm_route.totals.values()))


def test_on_polygons_a_slow_route_deposits_what_it_says() -> None:
    """Time on each line x rate, in polygons that ignore the grid; merged at the usual tolerance.

    The vehicle brakes to a tenth of its speed and less, and may be anywhere in a cell then. The
    last step goes on past the end of the path.
    """
    rng = np.random.default_rng(11)
    shapes = [tilted(rng, (12, 12)) for _ in range(4)]
    spec = SweepSpec(outlined(shapes, (12, 12)), Vehicle(rate=3.0))
    throttles = np.repeat(rng.uniform(0.0, 1.0, 60) ** 3, 9)
    route = drive(Problem.create(spec), Schedule(jnp.array(throttles)))
    assert route.is_whole
    where = spec.regions.georeference
    assert where is not None
    found = segments(route)
    assert len(found) < 0.7 * len(segments(route, 0.0))
    lines = shapely.linestrings([where.places(each.ends) for each in found])
    steps = np.array([each.steps for each in found])
    for shape, received in zip(shapes, route.totals.values(), strict=True):
        inside = shapely.length(shapely.intersection(lines, shapely.union_all(shape)))
        poured = 3.0 * float(steps @ (inside / shapely.length(lines)))
        assert poured == pytest.approx(received, rel=0.003, abs=0.6 * 3.0)


def test_a_route_that_the_horizon_cuts_off_ends_there() -> None:
    found = segments(drive_over([[1, 1, 1], [2, 2, 2]], 1.0, horizon_steps=2))
    assert found[-1].ends.tolist() == [[1.5, 2.5], [1.5, 2.0]]


@pytest.mark.parametrize(
    ("service", "received"),
    [("landing", [[0, 0], [0, 0], [0, 3]]), ("poured", [[3, 0], [0, 0], [0, 0]])],
)
def test_a_route_that_is_cut_off_at_a_transit(
    service: Service, received: list[list[float]]
) -> None:
    """Two cells, one that is outside the field, two cells: a step of two cells ends in the third.

    Where service is counted at the landing, it gives behind the way between them, which takes half
    a step; poured, it gives to the two cells before it.
    """
    regions = from_labels(np.array([[1, 1, 0, 2, 2]]))
    regions.field[0, 2] = False
    vehicle = Vehicle(inertia=0.0, max_speed=2.0, rate=3.0)
    spec = SweepSpec(regions, vehicle, route=RouteSettings(horizon_steps=1, service=service))
    found = segments(drive(Problem.create(spec), Schedule(jnp.array([1.0]))))
    assert [each.ends[:, 1].tolist() for each in found] == [[0, 2], [2, 3], [3, 3]]
    assert [each.is_transit for each in found] == [False, True, False]
    assert np.array([each.received for each in found]) == pytest.approx(np.array(received))
    assert [each.steps for each in found] == [1, 0.5, 0]


def test_a_wide_swath_crosses_to_its_next_band_in_a_transit() -> None:
    """Bands of three rows: the vehicle sweeps to the edge of the field, then moves three cells."""
    vehicle = Vehicle(inertia=0.0, max_speed=2.0, rate=3.0)
    regions = from_labels(np.ones((6, 4), int))
    spec = SweepSpec(regions, vehicle, route=RouteSettings(swath=3))
    found = segments(drive(Problem.create(spec), Schedule(jnp.array([1.0]))))
    assert [each.ends.tolist() for each in found] == [
        [[1.5, 0.0], [1.5, 4.0]],
        [[1.5, 4.0], [4.5, 4.0]],
        [[4.5, 4.0], [4.5, 0.0]],
    ]
    assert [each.is_transit for each in found] == [False, True, False]
    assert [each.steps for each in found] == [2, 1.5, 2]


def test_a_transit_goes_around_forbidden_cells() -> None:
    """The shortest way, along their edges; where they reach across the map, there is none."""
    regions = from_labels(np.ones((9, 12), int))
    for rows, columns in ((slice(2, 6), slice(3, 6)), (slice(4, 8), slice(8, 10)), (slice(3), 10)):
        regions.forbidden[rows, columns] = True
    first, second = SweepSpec(regions).transits
    # From the right end of row 2 around the three upper cells of column 10 to column 11.
    assert first.places.tolist() == [[2.5, 10.0], [3.0, 10.0], [3.0, 11.5]]
    assert first.length == 0.5 + 1.5
    assert second.length > np.hypot(4.5, 3.5)
    assert first.forbidden_length == second.forbidden_length == 0
    regions = from_labels(np.ones((2, 5), int))
    regions.forbidden[:, 2] = True
    (through,) = SweepSpec(regions).transits
    assert len(through.places) == 2
    # The edges of forbidden cells do not count: a twentieth on either side.
    assert through.forbidden_length == pytest.approx(0.9)


@pytest.mark.parametrize("service", ["poured", "landing"])
def test_a_vehicle_too_slow_for_its_numbers_still_gives_out(service: Service) -> None:
    """A step of 2e-8 cells is lost in single precision from half a cell on."""
    vehicle = Vehicle(inertia=0.0, max_speed=1e-6, crawl=0.02, rate=3.0, start_noise=0.9)
    settings = RouteSettings(horizon_steps=9, service=service)
    problem = Problem.create(SweepSpec(from_labels(np.array([[1, 1]])), vehicle, route=settings))
    route = drive(problem, Constant(jnp.zeros(())), seed=2)
    assert route.along[0] == route.along[-1] > 0.5
    assert sum(each.amount for each in segments(route)) == 27.0
    assert sum(each.received[0] for each in segments(route)) == pytest.approx(27.0)
    assert route.totals["S1"] == pytest.approx(27.0)
    assert evaluate(problem, "constant:2e-8", episodes=1, seed=2).density["S1"] == 27.0


def test_a_tolerance_is_a_share(route: Route) -> None:
    with pytest.raises(ExportError, match=r"tolerance = 1\.5 must lie between 0 and 1"):
        segments(route, 1.5)
