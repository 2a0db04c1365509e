"""The true world from both sides: the lattice by hand, the drives against the world itself."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import scrl
from scrl.problems import Problem
from scrl.reference.answer import Question
from scrl.reference.lattice import SpeedLattice, drive
from scrl.reference.solve import fluid_reference, solve_question
from scrl.reference.stepwise import StepwiseOptimum, best_drive
from scrl.violation import cons_vio
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import Service, SweepRoute, SweepSpec

SERVICES: tuple[Service, ...] = ("poured", "landing")


def agri(service: Service) -> SweepSpec:
    spec = scrl.load("agri-joint").world_spec
    return dataclasses.replace(spec, route=dataclasses.replace(spec.route, service=service))


pytestmark = pytest.mark.optimised


def test_the_reach_of_a_speed_by_hand(strip: SweepSpec) -> None:
    low, high = SpeedLattice(strip, levels=48).reach
    # From rest: 0.4 * 48 * 0.01 = 0.19, at least 1; 0.4 * 48 = 19.2 -> 19.
    assert (low[0], high[0]) == (1, 19)
    # From the top: 0.6 * 48 + 0.19 = 28.99 -> 29; top stays top.
    assert (low[48], high[48]) == (29, 48)
    # From 47: 0.6 * 47 + 19.2 = 47.4 counts as the top.
    assert high[47] == 48


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("slowest", [1, 2])
@pytest.mark.parametrize("prices", [[[0.06, -0.02]], [[0.06, -0.02], [-0.01, 0.05], [0.0, 0.07]]])
def test_the_lattice_equals_brute_force_on_a_tiny_path(
    slowest: int, service: Service, prices: list[list[float]]
) -> None:
    """Every sequence of lattice speeds, by recursion without tables.

    With three prices each cell has its own; a position is priced by the cell that holds it.
    """
    spec = SweepSpec(from_labels(np.array([[1, 0, 2]])), route=SweepRoute(service=service))
    lattice = SpeedLattice(spec, 6, slowest)
    low, high = lattice.reach
    kinds = spec.service.kinds

    def price(position: int) -> float:
        cell = int((position + 0.5) * lattice.unit)
        of_part = np.array(prices[cell * len(prices) // 3]) if cell < 3 else np.zeros(2)
        return float(of_part @ kinds[spec.service.kind_of_cell[min(cell, 3)]])

    def earned(position: int, target: int) -> float:
        if service == "landing":
            return price(position + target)
        ends = 0.5 * (price(position) + price(position + target))
        return (ends + sum(price(position + ahead) for ahead in range(1, target))) / target

    def best(position: int, level: int) -> float:
        if (position + 0.5) * lattice.unit >= 3:
            return 0.0
        options = []
        for target in range(low[level], high[level] + 1):
            cost = -0.1 / (1 + target * lattice.unit)
            options.append(cost + earned(position, target) + best(position + target, target))
        return max(options)

    values = lattice.values(np.array([prices]))[0]
    assert values[0, 0] == pytest.approx(best(0, 0), abs=1e-5)
    assert values[2, 4] == pytest.approx(best(2, 4), abs=1e-5)


@pytest.mark.parametrize("service", SERVICES)
def test_without_prices_the_drive_is_full_speed(service: Service) -> None:
    problem = Problem.create(agri(service))
    lattice = SpeedLattice(problem.world_spec, levels=48)
    prices = np.zeros((1, 5))
    driven = drive(lattice, prices, np.asarray(lattice.values(prices[:, None])))
    full = scrl.evaluate(problem, "full-speed")
    assert driven.steps[0] == full.steps
    assert driven.returns[0] == pytest.approx(full.return_, abs=1e-3)
    assert driven.density[0] == pytest.approx(list(full.density.values()), abs=5)


@pytest.mark.parametrize("service", SERVICES)
def test_a_drive_is_what_the_environment_would_do(service: Service) -> None:
    """Replay the drive's speeds as throttles in the Gymnasium environment."""
    spec = agri(service)
    lattice = SpeedLattice(spec, levels=48)
    prices = np.array([[0.0, 0.0, 0.06, 0.0, 0.0]])
    driven = drive(lattice, prices, np.asarray(lattice.values(prices[:, None])))
    env = scrl.gym.SweepEnv(spec)
    env.reset(seed=0)
    total, amount, speed, terminated = 0.0, np.zeros(5), 0.0, False
    for target in driven.speeds[:, 0]:
        throttle = (target - 0.6 * speed) / (0.4 * 3.0)
        assert -1e-9 <= throttle <= 1 + 1e-9
        _, reward, terminated, _, info = env.step(np.array([throttle]))
        total, amount, speed = total + reward, amount + 2.25 * info["labels"], target
    assert terminated
    assert total == pytest.approx(driven.returns[0], abs=1e-6)
    assert amount == pytest.approx(driven.density[0])


def driven(problem: Problem) -> StepwiseOptimum | None:
    """The best mixture of drives on the lattice for the fluid's branch and from its multipliers."""
    _, found = solve_question(Question.of(problem))
    assert found.best is not None
    used = np.unique(found.best.branch)
    return best_drive(
        problem.world_spec, problem.atoms.coefficients[used], problem.atoms.bounds[used],
        found.best.multipliers[used], slowest_speed=1.0 / float(found.best.times.max()), rounds=3,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["agri-situational", "agri-multi"])
def test_the_driven_mixture_keeps_the_rules_near_the_fluid(name: str) -> None:
    problem = scrl.load(name)
    fluid, found = fluid_reference(problem).fluid, driven(problem)
    assert fluid is not None
    assert found is not None
    assert found.violation == pytest.approx(0.0, abs=1e-6)
    assert cons_vio(problem.atoms, found.density) < 1e-4
    assert found.return_ == pytest.approx(fluid, rel=0.04)
    assert found.return_ <= found.estimate_above <= 0.98 * found.return_


def test_a_path_too_long_for_the_lattice_is_not_driven() -> None:
    spec = SweepSpec(from_labels(np.ones((200, 200), int)))
    route = dataclasses.replace(spec.route, horizon_steps=100_000)
    problem = Problem.create(dataclasses.replace(spec, route=route), "S1 >= 40000")
    assert driven(problem) is None


@pytest.mark.parametrize(
    ("inertia", "return_"), [(0.0, -22.04), (0.8, -22.07), (0.95, -22.31), (0.99, -26.74)]
)
def test_sluggish_vehicles_are_driven_too(inertia: float, return_: float) -> None:
    spec = scrl.load("agri-joint").world_spec
    vehicle = dataclasses.replace(spec.vehicle, inertia=inertia)
    problem = Problem.create(dataclasses.replace(spec, vehicle=vehicle), "S1 >= 300")
    found = driven(problem)
    assert found is not None
    assert found.violation == pytest.approx(0.0, abs=1e-6)
    assert found.return_ == pytest.approx(return_, rel=0.005)
    if inertia == 0.0:
        assert found.return_ <= found.estimate_above <= 0.999 * found.return_
    else:  # the lattice is too coarse for it: its estimate was beaten, and is none
        assert found.estimate_above < found.return_


def test_where_chance_plays_a_part_there_is_no_plan_and_no_bound() -> None:
    spec = scrl.load("agri-joint").world_spec
    noisy = dataclasses.replace(spec, vehicle=dataclasses.replace(spec.vehicle, start_noise=50.0))
    found = scrl.solve(Problem.create(noisy, "S1 >= 300"))
    assert found.status == "unknown"
    assert found.plan is None
    assert found.bound is None
    assert found.fluid is not None


def test_a_bound_that_can_never_matter() -> None:
    problem = scrl.load("agri-joint").with_rules("S1 <= 1e100")
    assert driven(problem) is not None
