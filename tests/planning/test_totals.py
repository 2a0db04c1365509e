"""Rules on the time and on what is used: counted, bounded, asked for and trained on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from scrl.cli.app import app
from scrl.evaluation import evaluate
from scrl.opening import open_run
from scrl.planning import planner
from scrl.planning.planner import bound_of
from scrl.planning.solve import solve
from scrl.policies import Schedule
from scrl.problems import Problem, ProblemOptions, load, save
from scrl.reference.fluid import FluidSweep
from scrl.reference.priced import price_rules
from scrl.rules.show import show_region
from scrl.worlds.sweep.gym import SweepEnv
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Units, Vehicle

FIXED = Vehicle()
FREE = Vehicle(flow=(0.0, 2.25), product_cost=0.002)
PROPORTIONAL = Vehicle(flow=(0.0, 3.0), pump="proportional", dose=(0.1, 1.5), product_cost=0.002)
VEHICLES = pytest.mark.parametrize(
    "vehicle", [FIXED, FREE, PROPORTIONAL], ids=["fixed", "free", "proportional"]
)
BOTH = "time <= 4000; used <= 4000"


def field(vehicle: Vehicle = FIXED, step: float | None = 2.0, service: str = "poured") -> Problem:
    """Eight rows of thirty cells: ten each of S1, S2 and S3, with a column of none in between."""
    row = [1] * 9 + [0] + [2] * 9 + [0] + [3] * 10
    route = SweepRoute(service="poured" if service == "poured" else "landing", horizon_steps=2000)
    spec = SweepSpec(
        from_labels(np.array([row] * 8)), vehicle, route=route, units=Units(cell=5.0, step=step)
    )
    return Problem.create(spec, (), ProblemOptions(name="field"))


def actions(vehicle: Vehicle, seed: int = 0, steps: int = 2000) -> np.ndarray:
    shape = (steps, 2) if vehicle.has_flow else (steps,)
    return np.random.default_rng(seed).uniform(0.05, 1.0, shape)


@pytest.mark.optimised
@VEHICLES
def test_time_and_used_are_what_the_drive_takes(vehicle: Vehicle) -> None:
    problem, policy = field(vehicle).with_rules(BOTH), Schedule.of(actions(vehicle))
    found = evaluate(problem, policy)
    plain = evaluate(field(vehicle), policy)
    assert found.given_out == plain.given_out
    assert found.density["used"] == pytest.approx(plain.given_out, rel=1e-5)
    # Whole steps of two seconds, the last one up to the end of the path.
    assert 2.0 * (plain.steps - 1.0) < found.density["time"] * (1.0 + 2e-5)
    assert found.density["time"] * (1.0 - 2e-5) <= 2.0 * plain.steps
    # What was there before is the same to the last bit.
    assert {name: found.density[name] for name in plain.density} == plain.density
    assert found.return_ == plain.return_
    assert found.units == {
        "S1": "units", "S2": "units", "S3": "units", "time": "seconds", "used": "units",
    }  # fmt: skip
    assert plain.units == {}


def test_with_landing_service_the_last_step_does_not_count() -> None:
    problem = field(step=None, service="landing").with_rules(BOTH)
    found = evaluate(problem, "constant:1.5")
    assert found.density["time"] == pytest.approx(found.steps - 1.0, rel=1e-5)
    assert found.density["used"] == pytest.approx(2.25 * (found.steps - 1.0), rel=1e-6)
    assert problem.unit_of(["time"]) == "steps"


@VEHICLES
def test_gymnasium_counts_the_same(vehicle: Vehicle) -> None:
    problem, chosen = field(vehicle).with_rules(BOTH), actions(vehicle, seed=3)
    env: gymnasium.Env = SweepEnv(problem.world_spec)
    env.reset(seed=0)
    total = np.zeros(len(problem.regions))
    for action in chosen.astype(np.float32):
        _, _, is_over, _, info = env.step(np.atleast_1d(action))
        total += info["labels"]
        if is_over:
            break
    found = evaluate(problem, Schedule.of(chosen))
    assert vehicle.rate * total == pytest.approx(list(found.density.values()), rel=1e-4, abs=1e-3)


def test_only_rules_that_name_totals_have_them(tmp_path: Path) -> None:
    world = field()
    timed = world.with_rules({"north": "if S1 > 20 then time <= 500"})
    assert timed.regions == ("S1", "S2", "S3", "time")
    assert timed.with_rules("S1 >= 3").world_spec == world.world_spec
    assert timed.with_rules("S1 >= 3").regions == world.regions
    assert world.with_rules("time <= 2*distance").rules.rules[0].statement == (
        world.with_rules("time <= 2400").rules.rules[0].statement  # 240 cells of 5 m
    )
    read = load(save(timed, tmp_path / "problem.toml"))
    assert read.world_spec.totals == ("time",)
    assert read.rules == timed.rules
    assert any("follows from the time alone" in each for each in
               world.with_rules("used <= 3").warnings())  # fmt: skip


def test_a_region_may_have_the_name_of_a_total() -> None:
    regions = replace(from_labels(np.array([[1, 1, 2, 2]] * 4)), names=("time", "S2"))
    problem = Problem.create(SweepSpec(regions), f"{show_region('time')} >= 3; used >= 1")
    assert problem.regions == ("time", "S2", "used")


@VEHICLES
def test_the_fluid_reaches_whatever_drives_reach(vehicle: Vehicle) -> None:
    """Every drive has amounts that a point of the fluid has, at no larger cost."""
    problem = field(vehicle).with_rules(BOTH)
    fluid = FluidSweep.of(problem.world_spec)
    (least_time, most_time), (least_used, most_used) = fluid.ranges(np.eye(5)[3:])
    assert least_time == pytest.approx(2.0 * fluid.weight @ fluid.fastest, rel=1e-6)
    assert most_time <= 2.0 * 2000 * (1 + 1e-6)
    for seed in range(4):
        found = evaluate(problem, Schedule.of(actions(vehicle, seed)))
        time, used = (found.density[name] for name in ("time", "used"))
        assert least_time <= time * (1 + 1e-5)
        assert time <= most_time * (1 + 1e-5)
        assert least_used - 1e-2 <= used <= most_used + 1e-2
        # The bound of rules that this drive just keeps lies above its return.
        kept = field(vehicle).with_rules(
            f"time <= {time * (1 + 2e-5):.4f}; time >= {time * (1 - 2e-5):.4f}; "
            f"used >= {used - 0.02:.3f}; S2 >= {found.density['S2'] - 0.02:.3f}"
        )
        reference = bound_of(kept, price_rules(kept).reference, 5.0, enough=np.inf)
        assert reference.bound is not None
        assert reference.bound >= found.return_ - 1e-6


@VEHICLES
@pytest.mark.parametrize(
    "rules",
    [
        "S2 >= 60; time >= 300",
        "if S2 > 50 then 280 <= time <= 285; S2 >= 60",
        "used >= 300; S1 <= 90",
    ],
)
def test_plans_keep_rules_on_totals_near_the_bound(vehicle: Vehicle, rules: str) -> None:
    answer = planner().ask(field(vehicle), rules)
    assert answer.status == "satisfied"
    assert answer.gap is not None
    assert -1e-6 <= answer.gap < 0.025


def test_a_plan_with_a_price_of_time_is_kept_and_driven_again(tmp_path: Path) -> None:
    answer = planner().ask(field(FREE), "S2 >= 40; time >= 300; used <= 60")
    run = open_run(planner().keep(answer, tmp_path / "run"))
    again = evaluate(answer.problem, run.policy())
    assert again.density == answer.evaluation.density
    assert answer.evaluation.density["time"] >= 300 - 1e-6
    assert answer.evaluation.density["used"] <= 60 + 1e-6


def test_no_drive_takes_less_time_than_at_full_speed() -> None:
    found = solve(field().with_rules({"hurry": "time <= 150"}), time_limit_s=10.0)
    assert found.status == "infeasible"
    assert [name for name, _ in found.conflict] == ["hurry"]


def test_labels_of_the_world_are_steps() -> None:
    world = field(FREE).with_rules(BOTH).world
    state = world.initial(key=jax.random.key(0))
    labels = world.step(state, jnp.array([1.0, 0.0])).labels
    assert float(world.rate * labels[3]) == pytest.approx(2.0, rel=1e-6)
    assert float(labels[4]) == 0.0


def test_commands_say_the_units(tmp_path: Path) -> None:
    problem = field().with_rules({"pace": "time >= distance / 8", "least": "used >= 100"})
    path = save(problem, tmp_path / "field.toml")
    checked = json.loads(CliRunner().invoke(app, ["check", str(path), "--json"]).stdout)
    assert checked["totals"] == [
        {"name": "time", "unit": "seconds", "always": None},
        {"name": "used", "unit": "units", "always": None},
        {"name": "distance", "unit": "metres", "always": 1200.0},
    ]
    assert [each["name"] for each in checked["regions"]] == ["S1", "S2", "S3"]
    shown = CliRunner().invoke(app, ["check", str(path)]).stdout
    assert "distance: of the whole drive, in metres, always 1,200 here" in shown
    command = ["eval", str(path), "--policy", "constant:1", "--json"]
    found = json.loads(CliRunner().invoke(app, command).stdout)
    assert set(found["density"]) == {"S1", "S2", "S3", "time", "used"}
    assert found["units"]["time"] == "seconds"


@pytest.mark.parametrize("swath", [1, 3])
def test_a_dose_is_per_area_that_the_path_covers(swath: int) -> None:
    # One dose of 2 units for each cell of the path, which is 5 m long and `swath` cells wide: with
    # three cells the last band has two, which get what three get.
    vehicle = Vehicle(max_speed=1.0, flow=(0.0, 9.0), dose=(2.0, 2.0), pump="proportional")
    spec = replace(field(vehicle).world_spec, route=SweepRoute(swath=swath))
    found = evaluate(Problem.create(spec), Schedule.of(actions(vehicle)))
    assert spec.areas * 10_000 / 25 == pytest.approx([72.0, 72.0, 80.0])
    dose = np.array(list(found.density.values())) / spec.areas
    of_band = {1: 2.0, 3: 2.0 * 3 / 8}[swath]
    assert dose * 25 / 10_000 == pytest.approx(of_band, rel=1e-5)
    given = Problem.create(spec, [f"dose({name}) >= {1.001 * dose[0]}" for name in ("S1", "S3")])
    assert not evaluate(given, Schedule.of(actions(vehicle))).is_satisfied
    given = given.with_rules([f"dose({name}) >= {0.999 * dose[0]}" for name in ("S1", "S3")])
    assert evaluate(given, Schedule.of(actions(vehicle))).is_satisfied


def test_check_says_in_what_a_dose_is(tmp_path: Path) -> None:
    asked = field(FREE).with_rules("dose(S1) >= 22")
    said = json.loads(CliRunner().invoke(
        app, ["check", str(save(asked, tmp_path / "field.toml")), "--json"]
    ).stdout)  # fmt: skip
    assert said["totals"] == [{"name": "dose(S1)", "unit": "units per hectare", "always": None}]
    assert said["regions"][0] == {"name": "S1", "cells": 72, "area": pytest.approx(0.18)}
    assert said["area_unit"] == "hectares"
    assert said["rules"][0]["text"] == "S1 >= 3.96"
