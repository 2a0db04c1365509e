"""Even plans: one speed and one dose for each region."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.farms import FIELDS, farm
from benchmarks.flow import actions_of, within_bounds

from scrl.errors import PolicyError
from scrl.planning import even, planner
from scrl.planning.answer import Answer
from scrl.policies import Schedule
from scrl.problems import Problem
from scrl.route import drive, given_over_cells
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """At the prices of money product is a hundred times as dear as time."""
    return planner().ask(farm("marsh", tmp_path_factory.mktemp("farm")), even=True)


def test_each_field_of_a_farm_has_its_dose_everywhere(answer: Answer) -> None:
    assert answer.is_satisfied
    assert answer.gap is not None
    shares = within_bounds(answer.problem, Schedule.of(actions_of(answer)))
    assert len(shares) == len(FIELDS)
    assert shares.min() >= 0.99


def test_nothing_is_given_along_the_river_and_nothing_is_lost(answer: Answer) -> None:
    found = answer.evaluation
    assert found.density["buffer"] == 0.0
    assert found.outside is not None
    assert found.given_out == sum(found.density.values()) + found.outside
    # By the sums of all steps, which are in single precision.
    route = drive(answer.problem, Schedule.of(actions_of(answer)))
    assert route.amount.sum() == pytest.approx(found.given_out, rel=1e-6)


def field(vehicle: Vehicle) -> Problem:
    row = [0] * 3 + [1] * 9 + [0] * 3 + [2] * 9 + [0] * 3
    return Problem.create(SweepSpec(from_labels(np.array([row] * 6)), vehicle))


def test_the_cheaper_way_is_taken_and_slow_regions_are_reached_slowly() -> None:
    # 3 units a cell need a third of a cell a step; the pump gives 1 a step at most.
    vehicle = Vehicle(max_speed=1.0, flow=(0.0, 1.0), product_cost=0.01)
    rules = ["dose(S2) >= 3", "dose(S1) >= 2 or dose(S1) <= 0.1"]
    found = planner().ask(field(vehicle), rules, even=True)
    assert found.is_satisfied
    assert found.evaluation.density["S1"] <= 0.1 * 54
    given = given_over_cells(drive(found.problem, Schedule.of(actions_of(found))))
    inside = given[:, 15:24]
    assert inside.min() >= 3.0
    assert inside.max() <= 3.01


def test_an_even_plan_is_found_where_product_costs_much_more_than_time() -> None:
    vehicle = Vehicle(max_speed=1.0, flow=(0.0, 1.0), product_cost=5.0)
    found = planner().ask(field(vehicle), ["dose(S1) >= 0.7", "dose(S2) <= 0.5"], even=True)
    assert found.is_satisfied
    assert found.evaluation.density["S1"] == pytest.approx(0.7 * 54, rel=0.01)


@pytest.mark.parametrize(("rule", "most"), [("dose(S1) <= 0.3", 5.5), ("time <= 160", 8.0)])
def test_rules_that_cannot_be_kept_are_missed_by_little(rule: str, most: float) -> None:
    # 0.1 too much on 54 cells, and 162 cells from rest.
    vehicle = Vehicle(max_speed=1.0, flow=(0.0, 1.0), product_cost=0.01)
    found = planner().ask(field(vehicle), ["dose(S1) >= 0.4", rule], even=True)
    assert found.status == "impossible"
    assert found.reference.relax
    assert found.evaluation.cons_vio < most


def test_where_the_fluid_is_not_solved_to_the_last_digit_a_plan_is_judged_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(even, "NEAR", -1.0)
    vehicle = Vehicle(max_speed=1.0, flow=(0.0, 1.0), product_cost=0.01)
    assert planner().ask(field(vehicle), "dose(S1) >= 0.4", even=True).is_satisfied


def test_an_even_plan_needs_a_flow(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="an even plan needs a pump that can be set"):
        planner().ask(field(Vehicle()), "S1 >= 3", even=True)
    with pytest.raises(PolicyError, match="an even plan is one plan"):
        planner().ask(field(Vehicle(flow=(0.0, 1.0))), "S1 >= 3", even=True, mix=True)
