"""The lattice by hand and by brute force, and its drives against the world itself."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import scrl
from scrl.problems import Problem
from scrl.reference.lattice import SpeedLattice, drive
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
        return float(of_part @ kinds[spec.service.kind_of_part[min(cell, 3)]])

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

    values = lattice.values(np.array([prices]))[..., 0]
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
