"""Routes cut into straight lines: nothing is lost, nothing is bent."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from scrl.export import ExportError, segments
from scrl.policies import Constant, Schedule
from scrl.problems import Problem
from scrl.route import Route, drive
from scrl.worlds.regions import from_labels
from scrl.worlds.spec import Route as RouteSettings
from scrl.worlds.spec import SweepSpec
from scrl.worlds.vehicle import Vehicle


def drive_over(labels: list[list[int]], *throttles: float, **settings: int) -> Route:
    vehicle = Vehicle(inertia=0.0, max_speed=2.0, rate=3.0)
    spec = SweepSpec(from_labels(np.array(labels)), vehicle, route=RouteSettings(**settings))
    return drive(Problem.create(spec), Schedule(jnp.array(throttles)))


def test_one_speed_is_one_line_up_to_the_turn() -> None:
    """A step of two cells over two rows of three: the turn cuts the second and the third step."""
    found = segments(drive_over([[1, 1, 1], [2, 2, 2]], 1.0))
    assert [each.ends.tolist() for each in found] == [
        [[0.5, 0.0], [0.5, 2.5]],
        [[0.5, 2.5], [1.5, 2.5]],
        [[1.5, 2.5], [1.5, 0.0]],
    ]
    # Landings: 2 (S1), 4 (S2), 6 (over). The second step, from 2 to 4, is cut at 2.5 and 3.5.
    assert [each.amount for each in found] == pytest.approx([3 + 0.75, 1.5, 0.75])
    assert [each.received.tolist() for each in found] == [[3, 0.75], [0, 1.5], [0, 0.75]]
    assert [each.length for each in found] == [2.5, 1.0, 2.5]
    assert [each.steps for each in found] == [1.25, 0.5, 1.25]
    assert [each.speed for each in found] == [2.0, 2.0, 2.0]


def test_speeds_within_the_tolerance_are_merged_and_their_time_is_kept() -> None:
    """Speeds of 1 and 1.04 cells a step differ by 2 % of the top speed of 2."""
    drive_both = drive_over([[1] * 6], 0.5, 0.52)
    assert len(segments(drive_both, 0.01)) == 2
    (merged,) = segments(drive_both, 0.03)
    assert merged.steps == pytest.approx(1 + 5 / 1.04)
    assert merged.speed == pytest.approx(6 / merged.steps)


def test_slow_drift_does_not_creep_past_the_tolerance() -> None:
    """Each step is 1 % faster than the last: a segment must not follow that for ever."""
    found = segments(drive_over([[1] * 40], *np.arange(0.2, 0.8, 0.01)), 0.05)
    assert len(found) > 5


def test_the_way_between_legs_is_a_transit_that_gives_nothing(route: Route) -> None:
    found = segments(route)
    transits = [each for each in found if each.is_transit]
    assert len(transits) == len(route.problem.world_spec.path.legs) - 1 == 1
    assert transits[0].amount == transits[0].steps == 0
    assert transits[0].received.tolist() == [0, 0, 0]
    for before, after in itertools.pairwise(found):
        assert before.ends[1].tolist() == pytest.approx(after.ends[0].tolist())
    for each in found:
        if not each.is_transit:
            moved = np.abs(np.diff(each.ends, axis=0)[0])
            # Along a row or a column, and as long as the path says.
            assert min(moved) == pytest.approx(0.0)
            assert max(moved) == pytest.approx(each.length)


@pytest.mark.parametrize("tolerance", [0.0, 0.02, 1.0])
def test_nothing_is_lost_at_any_tolerance(route: Route, tolerance: float) -> None:
    found = segments(route, tolerance)
    assert sum(each.amount for each in found) == pytest.approx(route.amount.sum())
    assert np.allclose(sum(each.received for each in found), list(route.totals.values()))
    assert sum(each.length for each in found) == pytest.approx(
        len(route.problem.world_spec.path.cells)
    )
    # The last step ends at the end of the path, before it is over.
    assert route.steps - 1 < sum(each.steps for each in found) <= route.steps


def test_a_route_that_the_horizon_cuts_off_ends_there() -> None:
    found = segments(drive_over([[1, 1, 1], [2, 2, 2]], 1.0, horizon_steps=2))
    assert found[-1].ends.tolist() == [[1.5, 2.5], [1.5, 2.0]]


def test_a_vehicle_too_slow_for_its_numbers_still_gives_out() -> None:
    """A step of 2e-8 cells is lost in single precision from half a cell on."""
    vehicle = Vehicle(inertia=0.0, max_speed=1e-6, crawl=0.02, rate=3.0, start_noise=0.9)
    spec = SweepSpec(from_labels(np.array([[1, 1]])), vehicle, route=RouteSettings(horizon_steps=9))
    route = drive(Problem.create(spec), Constant(jnp.zeros(())), seed=2)
    assert route.along[0] == route.along[-1] > 0.5
    assert sum(each.amount for each in segments(route)) == 27.0


def test_a_tolerance_is_a_share(route: Route) -> None:
    with pytest.raises(ExportError, match=r"tolerance = 1\.5 must lie between 0 and 1"):
        segments(route, 1.5)
