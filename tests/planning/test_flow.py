"""Plans of a vehicle with a flow: asked for, kept, driven again and exported."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from pathlib import Path

import numpy as np
import pytest

from scrl.errors import ScrlError
from scrl.evaluation import evaluate
from scrl.export import export
from scrl.opening import open_run
from scrl.planning import Answer, planner
from scrl.planning.feedback import Aims, FeedbackPolicy
from scrl.planning.plan_files import PLAN
from scrl.planning.timetable import averaged, flows_of, openings_of, places_of, with_times
from scrl.problems import Problem, ProblemOptions, load, save
from scrl.reference.fluid import BranchDual
from scrl.reference.priced import price_rules
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle, Wind

from ..runs.small import rewrite

FREE = Vehicle(flow=(0.0, 2.25), product_cost=0.002)
PROPORTIONAL = Vehicle(flow=(0.0, 3.0), pump="proportional", dose=(0.1, 1.5), product_cost=0.002)
RULES = ["S1 >= 40 or S2 >= 90", "S3 <= 10", "if S1 >= 30 then S2 >= 50"]


def field(vehicle: Vehicle, wind: Wind | None = None) -> Problem:
    """Eight rows of thirty cells: ten each of S1, S2 and S3, with a column of none in between."""
    row = [1] * 9 + [0] + [2] * 9 + [0] + [3] * 10
    spec = SweepSpec(from_labels(np.array([row] * 8)), vehicle, wind=wind or Wind())
    return Problem.create(spec, (), ProblemOptions(name="field"))


@pytest.fixture(scope="module", params=[FREE, PROPORTIONAL], ids=["free", "proportional"])
def answer(request: pytest.FixtureRequest) -> Answer:
    return planner().ask(field(request.param), RULES)


def test_the_rules_are_kept_near_the_bound(answer: Answer) -> None:
    assert answer.status == "satisfied"
    assert answer.gap is not None
    assert 0.0 <= answer.gap < 0.03
    density = answer.evaluation.density
    assert density["S3"] <= 10.0


def test_all_that_is_given_out_is_received_somewhere(answer: Answer) -> None:
    found = answer.evaluation
    assert found.given_out is not None
    assert found.given_out == pytest.approx(sum(found.density.values()) + (found.outside or 0.0))


def test_a_kept_plan_drives_the_same_and_is_exported(answer: Answer, tmp_path: Path) -> None:
    run = open_run(planner().keep(answer, tmp_path / "run"))
    again = evaluate(answer.problem, run.policy())
    assert again.return_ == pytest.approx(answer.evaluation.return_, rel=1e-6)
    assert again.density == pytest.approx(answer.evaluation.density, rel=1e-6)
    written = export(run, "csv", tmp_path / "steps.csv")
    rows = list(csv.DictReader(io.StringIO(written.paths[0].read_text())))[1:]
    flows = np.array([float(row["flow_per_step"]) for row in rows if row["throttle"]])
    vehicle = answer.problem.world_spec.vehicle
    assert flows.min() < 0.1 * vehicle.rate
    assert 0.9 * vehicle.rate < flows.max() <= vehicle.rate * (1.0 + 1e-6)
    amounts = sum(float(row["amount"]) for row in rows)
    assert amounts == pytest.approx(again.given_out, rel=1e-4)
    lines = json.loads(export(run, "geojson", tmp_path / "r.geojson").paths[0].read_text())
    parts = [each["properties"] for each in lines["features"]]
    assert sum(each["amount"] for each in parts) == pytest.approx(again.given_out, rel=1e-3)
    assert any(each["flow_per_step"] == 0.0 for each in parts) == (vehicle.dose is None)


def test_a_plan_without_its_openings_is_damaged(answer: Answer, tmp_path: Path) -> None:
    path = planner().keep(answer, tmp_path / "run")
    plans = json.loads((path / PLAN).read_text())["plans"]
    del plans[0]["openings"]
    rewrite(path / PLAN, plans=plans)
    with pytest.raises(ScrlError, match="openings must be numbers from 0 to 1"):
        open_run(path).policy()


def test_a_pump_that_closes_gives_nothing(answer: Answer) -> None:
    problem = answer.problem
    found = planner().ask(problem, ["S3 <= 0", "S1 >= 30"])
    if problem.world_spec.vehicle.dose is None:
        assert found.evaluation.density["S3"] == 0.0
        assert found.is_satisfied
    else:
        assert found.status == "impossible"  # some dose is given everywhere


def test_a_problem_with_a_flow_is_saved_and_read_back(tmp_path: Path) -> None:
    problem = field(PROPORTIONAL)
    found = load(save(problem, tmp_path / "field.toml"))
    assert found.world_spec.vehicle == problem.world_spec.vehicle


@pytest.mark.parametrize("vehicle", [FREE, PROPORTIONAL])
def test_in_wind_a_plan_reacts_with_speed_and_flow(vehicle: Vehicle, tmp_path: Path) -> None:
    windy = field(vehicle, Wind(strength=0.1))
    calm = planner().ask(field(vehicle), RULES).evaluation
    for rules in (RULES, [f"{rule} in 95 %" for rule in RULES]):
        answer = planner().ask(windy, rules)
        assert answer.status == "satisfied"
        assert answer.evaluation.return_ > 1.08 * calm.return_
        policy = open_run(planner().keep(answer, tmp_path / str(len(rules[0])))).policy()
        again = evaluate(answer.problem, policy, episodes=2000, seed=5)
        assert again.return_ == pytest.approx(answer.evaluation.return_, rel=0.005)
        if "95" in rules[0]:
            assert again.episodes_satisfied > 0.95 * 2000


def test_in_wind_what_must_be_given_nothing_is_given_nothing() -> None:
    """Cells of S2, which needs what it gets, lie one cell from those of S3."""
    windy = field(FREE, Wind(strength=0.1))
    answer = planner().ask(windy, ["S1 >= 40", "S2 >= 60", "S3 <= 0", "time <= 300"])
    assert answer.status == "satisfied"
    assert answer.evaluation.density["S3"] == 0.0
    assert answer.evaluation.density["S2"] < 62.0


def test_in_wind_the_multipliers_are_those_of_the_fluid() -> None:
    calm, rules = field(FREE), ["S1 >= 300", "S2 >= 20", "used <= 400", "time <= 230"]
    branch = price_rules(calm.with_rules(rules)).branch
    assert branch is not None
    rows = branch.coefficients @ branch.fluid.amount
    dual = BranchDual(branch.fluid, rows, branch.bounds).maximise(branch.multipliers)
    windy = field(FREE, Wind(strength=0.1)).with_rules(rules)
    aims = Aims(branch.coefficients, branch.bounds, np.zeros(len(branch.bounds)))
    policy = FeedbackPolicy.of(windy.world_spec, windy.world, aims)
    found = np.asarray(policy.multipliers)[0, : len(branch.bounds)]
    wanted = dual.multipliers * np.abs(branch.coefficients).max(axis=1)
    # In efforts for a step of 2.25 units, from return for a unit.
    assert found == pytest.approx(wanted * 2.25 / FREE.effort, abs=0.02)


@pytest.mark.parametrize("vehicle", [FREE, PROPORTIONAL])
def test_the_mean_of_drives_gives_the_mean_of_what_they_give(vehicle: Vehicle) -> None:
    rng = np.random.default_rng(1)
    drives = [rng.uniform(0.1, 1.0, (200, 2)) for _ in range(2)]
    weights, length = np.array([0.3, 0.7]), 60
    one = averaged(vehicle, length, drives, weights)

    def upto(actions: np.ndarray, stop: float) -> float:
        places = places_of(vehicle, actions)
        given = np.cumsum(flows_of(vehicle, places, actions))
        return float(np.interp(stop, places, np.append(0.0, given)))

    for stop in (20.0, 40.0, 59.0):
        wanted = weights @ [upto(each, stop) for each in drives]
        assert upto(one, stop) == pytest.approx(wanted, abs=0.5)


def test_openings_lead_to_the_flows_they_are_for() -> None:
    lengths, wanted = np.array([0.5, 1.0, 2.9]), np.array([0.1, 0.3, 0.9])
    openings = openings_of(PROPORTIONAL, lengths, wanted)
    places = np.append(0.0, np.cumsum(lengths))
    flows = flows_of(PROPORTIONAL, places, np.column_stack([openings, openings]))
    assert flows == pytest.approx(wanted)


def test_a_drive_by_times_and_services_serves_so_much() -> None:
    times, services = np.full(60, 0.5), np.repeat([0.1, 0.4, 0.0], 20)
    actions = with_times(FREE, times, services=services)
    places = places_of(FREE, actions)
    given = np.append(0.0, np.cumsum(flows_of(FREE, places, actions)))
    assert np.diff(np.interp([0.0, 20.0, 40.0, 60.0], places, given)) == pytest.approx(
        [2.0, 8.0, 0.0], abs=0.2
    )


def test_dropping_the_flow_is_never_better() -> None:
    """A pump that may also give less returns at least as much as the fixed rate."""
    fixed = dataclasses.replace(FREE, flow=None, rate=2.25)
    returns = [
        planner().ask(field(vehicle), "S1 >= 70").evaluation.return_ for vehicle in (FREE, fixed)
    ]
    assert returns[0] > returns[1]
