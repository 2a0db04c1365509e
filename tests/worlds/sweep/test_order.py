"""Fields one after another, in a short order, and what the ways between passes cost."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from scrl.errors import ProblemError
from scrl.problems import Problem
from scrl.worlds.sweep.order import Order, Sweeps, _Tour, short_order
from scrl.worlds.sweep.path import CountedWay, sweep_path
from scrl.worlds.sweep.regions import RegionMap, from_labels
from scrl.worlds.sweep.spec import SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Units, Vehicle


def fields(*rows: str) -> RegionMap:
    """A map whose field is its labelled cells; # is forbidden."""
    cells = np.array([list(row) for row in rows])
    labels = np.where(np.isin(cells, (" ", "#")), "0", cells).astype(int)
    return replace(from_labels(labels), field=cells != " ", forbidden=cells == "#")


def drawn(count: int, seed: int) -> Sweeps:
    """Strips that are straight lines, and so have two ways, each twice."""
    ends = np.random.default_rng(seed).uniform(0.0, 10.0, (count, 2, 2))
    entry = ends[:, [0, 1, 0, 1]]
    leave = ends[:, [1, 0, 1, 0]]
    backwards = np.tile([1, 0, 3, 2], (count, 1))
    return Sweeps(entry, leave, backwards, np.arange(count) // 2)


@pytest.mark.parametrize("seed", range(6))
def test_the_order_of_few_strips_is_as_short_as_that_of_all_orders(seed: int) -> None:
    """All orders of 5 strips of 3 fields, in all ways; fields are not left before their end."""
    sweeps, begin = drawn(5, seed), np.zeros(2)
    home = begin if seed % 2 else None
    tour = _Tour(sweeps, begin, home)
    orders = (
        Order(np.array(strips), np.array(ways))
        for strips in permutations(range(5))
        for ways in product((0, 1), repeat=5)
    )
    shortest = min(map(tour.length, orders))
    found = short_order(sweeps, begin, home)
    assert sorted(found.strip.tolist()) == [0, 1, 2, 3, 4]
    assert tour.length(found) == pytest.approx(shortest)


def test_a_field_is_finished_before_the_next_one() -> None:
    """A hole cuts the left field into four strips; nothing of the right one comes between."""
    path = sweep_path(fields("11111  22", "11 11  22", "11111  22"), counted=CountedWay())
    fields_in_order = path.service.argmax(axis=1)
    assert np.count_nonzero(np.diff(fields_in_order)) == 1


def test_every_change_of_band_is_a_turn_where_turns_count() -> None:
    """2 x 3 cells: two passes from edge to edge, and a way of one cell between them."""
    region_map = fields("111", "111")
    free = SweepSpec(region_map)
    assert free.path.stretches == (0,)
    assert free.transits == ()
    spec = SweepSpec(region_map, Vehicle(transfer_speed=0.5, turn_time=4.0))
    assert spec.path.stretches == (0, 3)
    assert [each.places.tolist() for each in spec.transits] == [[[0.5, 3.0], [1.5, 3.0]]]
    assert spec.transit_steps == 1.0 / 0.5 + 4.0
    assert spec.fewest_steps == 6 / 3.0 + 6.0


def test_the_vehicle_comes_from_where_it_stands_and_goes_back() -> None:
    """From (0, 0) below the map to its nearest corner: cells of 2 m, y upwards."""
    route = SweepRoute(start=(0.0, -2.0))
    spec = SweepSpec(fields("111", "111"), Vehicle(transfer_speed=1.0), route=route,
                     units=Units(cell=2.0))  # fmt: skip
    assert spec.stand == (3.0, 0.0)
    out, turn, home = spec.ways
    # Either pass may be the first one.
    assert {out.length, home.length} == {1.5, 2.5}
    assert (out.places[0].tolist(), home.places[-1].tolist()) == ([3.0, 0.0], [3.0, 0.0])
    assert turn.length == 1.0
    assert spec.transit_length == 1.5 + 1.0 + 2.5


@pytest.mark.parametrize(
    ("route", "vehicle", "said"),
    [
        ({"start": (0.0, 0.0)}, {}, "transfer_speed or turn_time"),
        ({"start": (0.0, 900.0)}, {"turn_time": 1.0}, "lies far from the map"),
        ({"start": "middle"}, {}, "is not one of top-left"),
        ({"start": (1.0, "x")}, {}, r"two numbers: \[x, y\]"),
        ({}, {"turn_time": 1.0, "start_noise": 4.0}, "within the first pass"),
    ],
)
def test_a_start_that_cannot_be_is_refused(
    route: dict[str, Any], vehicle: dict[str, Any], said: str
) -> None:
    with pytest.raises(ProblemError, match=said):
        SweepSpec(fields("111", "111"), Vehicle(**vehicle), route=SweepRoute(**route))


def test_rules_on_time_and_distance_count_the_ways() -> None:
    """Two passes of 30 m and a turn of 10 m: 70 m; it takes 10 m / (5 m/s) + 8 s = 10 s."""
    vehicle = Vehicle(transfer_speed=1.0, turn_time=4.0)
    spec = SweepSpec(fields("111", "111"), vehicle, units=Units(cell=10.0, step=2.0))
    problem = Problem.create(spec, "time <= 60 and (S1 >= 1 or distance <= 80 * S1)")
    assert problem.world_spec.totals == ("working_time",)
    shown = [atom.show() for atom in problem.atoms.atoms]
    assert shown[0] == "working_time <= 50"
    assert shown[2] == "80*S1 >= 70"
    # A rule that is read again from what it says does not count them twice.
    again = problem.with_rules([rule.statement for rule in problem.rules.rules])
    assert [atom.show() for atom in again.atoms.atoms] == shown
    free = Problem.create(SweepSpec(fields("111", "111")), "time <= 60")
    assert free.world_spec.totals == ("time",)


def test_a_boom_gives_to_what_lies_beside_the_field_where_turns_count() -> None:
    """A boom of two cells, of which the lower one is in the field on the left half only."""
    region_map = fields("1111", "11  ")
    assert sweep_path(region_map, swath=2).service[:, 0].tolist() == [1.0, 1.0, 1.0, 1.0]
    path = sweep_path(region_map, swath=2, counted=CountedWay())
    assert path.service[:, 0].tolist() == [1.0, 1.0, 0.5, 0.5]
    assert path.outside.tolist() == [0.0, 0.0, 0.5, 0.5]
    assert (path.number >= 0).all()
