"""The vehicle's settings: which speeds, flows and doses it may have."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from scrl.errors import PolicyError, ProblemError
from scrl.evaluation import evaluate
from scrl.problems import Problem
from scrl.route import drive
from scrl.worlds.sweep import dynamics
from scrl.worlds.sweep.dynamics import Scalars
from scrl.worlds.sweep.gym import SweepEnv
from scrl.worlds.sweep.spec import SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Units, Vehicle, Wind
from scrl.worlds.sweep.world import SweepWorld


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"flow": (2.0, 1.0)}, "flow = [2, 1]: the least is above the most"),
        ({"flow": (0.0, 0.0)}, "flow: the most that the pump can give out must be above 0"),
        ({"flow": 2.0}, "flow = 2.0 must be two numbers from 0 on: [least, most]"),
        ({"flow": (0.0, math.nan)}, "flow = (0.0, nan) must be two numbers from 0 on"),
        ({"flow": (0.0, 2.0), "rate": 3.0}, "rate = 3 and flow = [0.0, 2.0] contradict each other"),
        ({"dose": (0.0, 1.0)}, "dose = (0.0, 1.0) needs a flow that can be chosen"),
        ({"pump": "proportional"}, "pump = 'proportional' needs a flow that can be chosen"),
        ({"flow": (0.0, 2.0), "pump": "proportional"}, "needs the doses to choose from"),
        ({"flow": (0.0, 2.0), "pump": "propotional"}, "did you mean 'proportional'"),
        ({"flow": (0.0, 2.0), "dose": (1.0, 2.0)}, "at most 0.666667 units, and 1 are asked for"),
        ({"flow": (1.0, 2.0), "dose": (0.0, 0.1)}, "at least 0.333333 units, and at most 0.1"),
        ({"product_cost": -1.0}, "product_cost = -1.0 must be at least 0"),
    ],
)
def test_wrong_settings_are_told(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ProblemError) as error:
        Vehicle(**settings)
    assert message in str(error.value)


def test_landing_service_has_a_fixed_rate(strip: SweepSpec) -> None:
    with pytest.raises(ProblemError, match="counts whole steps at a fixed rate"):
        dataclasses.replace(
            strip, vehicle=Vehicle(flow=(0.0, 1.0)), route=SweepRoute(service="landing")
        )


def test_a_fixed_rate_is_a_flow_of_one_kind() -> None:
    fixed = Vehicle()
    assert not fixed.has_flow
    assert dynamics.flow_limits(fixed, 1.7, Scalars) == (1.0, 1.0)
    assert Vehicle(flow=(0.5, 2.0)).rate == 2.0


def test_a_proportional_pump_follows_the_speed_between_its_limits() -> None:
    vehicle = Vehicle(flow=(0.2, 2.0), pump="proportional", dose=(0.1, 1.0), max_speed=4.0)
    # An opening of 0.5 is a dose of 0.55 for a cell: at 1 and 2 cells a step 0.55 and 1.1 units.
    flows = [
        vehicle.rate * dynamics.flow_of(vehicle, speed, 0.5, Scalars) for speed in (1.0, 2.0, 4.0)
    ]
    # At 1 cell a step the least dose would be 0.1, and the pump gives 0.2 at least: 0.6 in between.
    assert flows == pytest.approx([0.6, 1.1, 1.2])
    limits = np.array([dynamics.flow_limits(vehicle, speed, Scalars) for speed in (0.1, 3.0, 4.0)])
    assert vehicle.rate * limits == pytest.approx(np.array([[0.2, 0.2], [0.3, 2.0], [0.4, 2.0]]))


FLOWS = [
    Vehicle(flow=(0.5, 2.0), product_cost=0.03),
    Vehicle(flow=(0.0, 2.0), pump="proportional", dose=(0.1, 0.5), product_cost=0.03),
    Vehicle(product_cost=0.03),
]


@pytest.mark.parametrize("vehicle", FLOWS)
def test_gymnasium_and_jax_give_the_same_numbers(strip: SweepSpec, vehicle: Vehicle) -> None:
    spec = dataclasses.replace(strip, vehicle=vehicle)
    env, world = SweepEnv(spec), SweepWorld.from_spec(spec)
    env.reset(seed=0)
    state, rng = world.initial(key=jax.random.key(0)), np.random.default_rng(3)
    for _ in range(20):
        action = rng.uniform(-0.2, 1.2, env.action_space.shape).astype(np.float32)
        after = world.step(state, jnp.asarray(action.reshape(world.action_shape)))
        _, reward, is_terminated, _, info = env.step(action)
        assert reward == pytest.approx(float(after.reward), rel=1e-4)
        assert info["labels"] == pytest.approx(np.asarray(after.labels), abs=1e-5)
        assert is_terminated == bool(after.is_terminated)
        state = after.state
        if is_terminated:
            break
    else:
        pytest.fail("the strip has no end")


def test_an_env_with_a_flow_passes_the_checker(strip: SweepSpec) -> None:
    windy = dataclasses.replace(strip, vehicle=FLOWS[0], wind=Wind(strength=0.2))
    check_env(SweepEnv(windy), skip_render_check=True)
    assert SweepEnv(windy).action_space.shape == (2,)


@pytest.mark.parametrize("vehicle", FLOWS)
def test_all_that_is_given_out_is_received_somewhere(strip: SweepSpec, vehicle: Vehicle) -> None:
    problem = Problem.create(dataclasses.replace(strip, vehicle=vehicle), ())
    found = evaluate(problem, "constant:1.1")
    assert found.given_out == pytest.approx(sum(found.density.values()) + (found.outside or 0.0))
    route = drive(problem, lambda _, key: jnp.full(problem.world.action_shape, 0.4))
    total = route.amount.sum()
    assert total == pytest.approx(route.received.sum() + route.outside.sum(), rel=1e-6)
    assert (route.flow <= vehicle.rate).all()


def test_what_is_given_out_costs(strip: SweepSpec) -> None:
    free, dear = (
        Problem.create(dataclasses.replace(strip, vehicle=vehicle), ())
        for vehicle in (Vehicle(flow=(0.5, 2.0)), FLOWS[0])
    )
    one, other = (evaluate(problem, "full-speed") for problem in (free, dear))
    assert one.density == pytest.approx(other.density)
    assert one.return_ - other.return_ == pytest.approx(0.03 * (other.given_out or 0.0), rel=1e-5)


def test_a_policy_of_throttles_is_refused_where_there_is_a_flow(strip: SweepSpec) -> None:
    problem = Problem.create(dataclasses.replace(strip, vehicle=FLOWS[0]), ())
    with pytest.raises(PolicyError, match="an action is a throttle and an opening of the pump"):
        evaluate(problem, lambda _, key: jnp.ones(()))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hour_cost": 40.0}, "hour_cost = 40 needs the length of a step: step = ... (seconds)"),
        ({"unit_cost": 1.5}, 'unit_cost = 1.5 needs the unit that it is for: unit = "litres", say'),
        ({"unit": "minutes"}, 'unit = "minutes": driving times are told in minutes'),
        ({"unit": "EUR", "currency": "EUR"}, "currency and unit are both called 'EUR'"),
    ],
)
def test_a_cost_without_its_unit_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ProblemError) as caught:
        Units(**settings)
    assert str(caught.value) == message


def test_costs_are_told_in_minutes_product_and_money(strip: SweepSpec) -> None:
    assert Units().cost(90.0, 12.0) == {}
    assert Units(step=2.0).cost(90.0, 12.0) == {"minutes": 3.0}
    # 3 minutes at 40 EUR an hour are 2 EUR, and 12 litres at 1.5 EUR are 18 EUR.
    units = Units(step=2.0, unit="litres", hour_cost=40.0, unit_cost=1.5, currency="EUR")
    assert units.cost(90.0, 12.0) == {"minutes": 3.0, "litres": 12.0, "EUR": 20.0}
    problem = Problem.create(dataclasses.replace(strip, units=units))
    found = evaluate(problem, "full-speed")
    assert found.cost == units.cost(found.steps, found.given_out or 0.0)
    assert found.to_json()["cost"] == found.cost
    # The strip takes 6 steps of 2 s.
    assert f"cost: 0.20 minutes, {found.shown_total:,.2f} litres, " in str(found)
