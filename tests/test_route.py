"""Routes: what one episode drives, step by step."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from scrl.evaluation import evaluate
from scrl.policies import Constant, Schedule, fixed_policy
from scrl.problems import Problem, load
from scrl.route import drive
from scrl.worlds.sweep.georeference import Georeference
from scrl.worlds.sweep.places import ends_of_stretches, places_at, stretch_at, turns_of
from scrl.worlds.sweep.regions import from_masks
from scrl.worlds.sweep.spec import Service, SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Units, Vehicle, Wind


def problem(
    shape: tuple[int, int] = (2, 3), **parts: Vehicle | Wind | SweepRoute | Units
) -> Problem:
    """The left column is `west`; everything is `all`."""
    masks = np.ones((2, *shape), bool)
    masks[0, :, 1:] = False
    where = Georeference(10.0, 50.0, 0.1, 0.2, shape, "geographic")
    vehicle = Vehicle(inertia=0.0, max_speed=2.0, rate=3.0)
    spec = SweepSpec(from_masks(masks, ["west", "all"], where), vehicle)
    return Problem.create(replace(spec, **parts))


@pytest.mark.parametrize(
    ("service", "amount", "received"),
    [
        # It lands in the third cell, then in the fifth, neither in the west; then past the end.
        ("landing", [3.0, 3.0, 0.0], [[0.0, 3.0], [0.0, 3.0], [0.0, 0.0]]),
        # The west is the first cell and the last one: half of the first and of the last step.
        ("poured", [3.0, 3.0, 3.0], [[1.5, 3.0], [0.0, 3.0], [1.5, 3.0]]),
    ],
)
def test_every_step_has_its_place_speed_and_amounts(
    service: Service, amount: list[float], received: list[list[float]]
) -> None:
    """Two cells a step over a field of two rows of three: 0, 2, 4, and off the path at 6."""
    route = drive(problem(route=SweepRoute(service=service)), Constant(jnp.ones(())))
    assert route.along.tolist() == [0.0, 2.0, 4.0, 6.0]
    assert route.speed.tolist() == [2.0, 2.0, 2.0]
    # The vehicle starts at the first cell's edge; distance 2 lies between the second and third
    # cell, 4 between the first and second of the way back, 6 is the last cell's far edge.
    assert route.cells.tolist() == [[0.5, 0.0], [0.5, 2.0], [1.5, 2.0], [1.5, 0.0]]
    assert route.coordinates is not None
    assert np.allclose(route.coordinates, [[10.0, 49.9], [10.2, 49.9], [10.2, 49.7], [10.0, 49.7]])
    assert route.amount.tolist() == amount
    west, everywhere = np.sum(received, axis=0).tolist()
    assert route.totals == {"west": west, "all": everywhere}
    assert route.received.tolist() == received
    assert route.outside.tolist() == [0.0, 0.0, 0.0]
    assert route.is_whole


def test_of_the_last_step_only_what_lies_before_the_end_is_given_out() -> None:
    """1.75 cells a step: the fourth leads from 5.25 to 7, and the path ends at 6."""
    route = drive(problem(), Constant(jnp.full((), 0.875)))
    assert route.along.tolist() == [0.0, 1.75, 3.5, 5.25, 6.0]
    share = 0.75 / 1.75
    assert route.amount == pytest.approx(3.0 * np.array([1.0, 1.0, 1.0, share]))
    # The west lies before 1 and after 5.
    west = np.array([1.0, 0.0, 0.25, 0.75]) / 1.75
    assert route.received[:, 0] == pytest.approx(3.0 * west)


@pytest.mark.parametrize(("service", "west", "everywhere"), [("landing", 3, 11), ("poured", 4, 12)])
def test_a_slow_drive_serves_the_west_too(service: Service, west: int, everywhere: int) -> None:
    """Half a cell a step: landings at 0.5 (west), 1, 1.5, ..., 5 and 5.5 (west), 6 (over)."""
    route = drive(problem(route=SweepRoute(service=service)), Constant(jnp.full((), 0.25)))
    assert route.totals == {"west": west * 3.0, "all": everywhere * 3.0}
    assert route.steps == 12


def test_metres_per_second_where_both_scales_are_known() -> None:
    full_speed = Constant(jnp.ones(()))
    assert drive(problem(), full_speed).metres_per_second is None
    assert drive(problem(units=Units(cell=5.0)), full_speed).metres_per_second is None
    known = drive(problem(units=Units(cell=5.0, step=4.0)), full_speed).metres_per_second
    assert known is not None
    assert known.tolist() == [2.5, 2.5, 2.5]


def test_an_episode_that_the_horizon_cuts_off_gives_to_its_last_step() -> None:
    route = drive(problem(route=SweepRoute(horizon_steps=2)), Constant(jnp.ones(())))
    assert (route.steps, route.is_whole) == (2, False)
    assert route.along.tolist() == [0.0, 2.0, 4.0]
    assert route.amount.tolist() == [3.0, 3.0]


def test_a_schedule_is_driven_throttle_by_throttle() -> None:
    route = drive(problem(), Schedule(jnp.array([0.5, 1.0, 0.25])))
    assert route.throttle.tolist() == [0.5, 1.0, *[0.25] * 6]
    assert route.along.tolist() == [0.0, 1.0, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0]


@pytest.mark.parametrize("name", ["agri-joint", "med-situational"])
@pytest.mark.parametrize("policy", ["full-speed", "constant:1.3"])
def test_totals_are_the_densities_of_the_evaluation(name: str, policy: str) -> None:
    loaded = load(name)
    route = drive(loaded, fixed_policy(policy, loaded))
    found = evaluate(loaded, policy, episodes=1)
    assert route.totals == pytest.approx(found.density, rel=1e-6)
    assert (route.steps, route.is_whole) == (found.steps, True)


def test_in_wind_it_is_the_evaluations_first_episode() -> None:
    windy = problem((20, 20), wind=Wind(strength=0.3), vehicle=Vehicle(start_noise=5.0))
    routes = [drive(windy, Constant(jnp.ones(())), seed=seed) for seed in (3, 4)]
    found = [evaluate(windy, "full-speed", episodes=1, seed=seed) for seed in (3, 4)]
    assert routes[0].along[0] != routes[1].along[0]
    for route, expected in zip(routes, found, strict=True):
        assert route.totals == pytest.approx(expected.density, rel=1e-6)
        assert route.steps == expected.steps


def test_the_place_jumps_where_a_new_leg_begins() -> None:
    """Two fields of two cells in a row with a cell between them that must not be entered."""
    masks = np.array([[[True] * 5]])
    regions = from_masks(masks)
    regions.forbidden[0, 2] = True
    path = SweepSpec(regions).path
    assert path.legs == (0, 2)
    along = np.array([0.0, 0.5, 1.0, 1.75, 2.0, 2.25, 3.0, 4.0])
    assert places_at(path, along)[:, 1].tolist() == [0.0, 0.5, 1.0, 1.75, 3.0, 3.25, 4.0, 5.0]
    assert ends_of_stretches(path).tolist() == [[0.5, 2.0], [0.5, 5.0]]
    assert turns_of(path).tolist() == [2.0]
    assert stretch_at(path, along).tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_a_lone_cell_is_crossed_to_the_right_and_a_way_turns_at_centres() -> None:
    lone = SweepSpec(from_masks(np.ones((1, 1, 1), bool))).path
    assert places_at(lone, np.array([0.0, 0.5, 1.0])).tolist() == [[0.5, 0.0], [0.5, 0.5], [0.5, 1]]
    path = SweepSpec(from_masks(np.ones((1, 2, 3), bool))).path
    assert turns_of(path).tolist() == [2.5, 3.5]
