"""The lattice's policy earns what the lattice's values promise."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scrl.evaluation import evaluate
from scrl.planning.drives import PARTS, PriceDriver
from scrl.planning.lattice_policy import (
    LatticePolicy,
    PlacesOnLattice,
    ValuesOnLattice,
    lattice_for,
)
from scrl.planning.outlook import Outlook, window_for
from scrl.problems import Problem
from scrl.reference.lattice import SpeedLattice
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import Service, SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle, Wind
from scrl.worlds.sweep.world import SweepWorld

pytestmark = pytest.mark.optimised


def small(service: Service, inertia: float = 0.6) -> SweepSpec:
    labels = np.zeros((24, 48), int)
    labels[3:15, 4:22], labels[10:, 28:] = 1, 2
    vehicle = Vehicle(inertia=inertia)
    return SweepSpec(from_labels(labels), vehicle, route=SweepRoute(service=service))


@pytest.mark.parametrize("service", ["poured", "landing"])
@pytest.mark.parametrize("inertia", [0.0, 0.6])
@pytest.mark.parametrize("worth", [[0.0, 0.0], [0.6, 0.0], [0.6, -0.5], [-0.3, 0.8]])
def test_it_earns_what_the_values_promise(
    service: Service, inertia: float, worth: list[float]
) -> None:
    """Costs less what the amounts earn: V at the start within 1 % of both together."""
    spec = small(service, inertia)
    prices = spec.vehicle.effort * np.array(worth)
    lattice = SpeedLattice(spec, levels=64)
    values = lattice.values(prices[None, None])
    world = SweepWorld.from_spec(spec)
    outlook = Outlook.of(
        world, jnp.asarray([worth], jnp.float32), window_for(spec.vehicle.max_speed)
    )
    ahead = ValuesOnLattice(PlacesOnLattice.of(lattice), values / spec.vehicle.effort)
    policy = LatticePolicy(ahead, outlook, jnp.asarray(0))
    found = evaluate(Problem.create(spec), policy)
    steps = np.array(list(found.density.values())) / spec.vehicle.rate
    close = 0.01 * (abs(found.return_) + float(np.abs(prices) @ steps))
    assert found.return_ + prices @ steps == pytest.approx(float(values[0, 0, 0]), abs=close)


def driver_of(spec: SweepSpec) -> PriceDriver:
    return PriceDriver(spec, SweepWorld.from_spec(spec))


@pytest.mark.parametrize("service", ["poured", "landing"])
def test_it_earns_at_least_what_the_fluid_policy_does(service: Service) -> None:
    """Whatever the prices, in calm air and on a short path, give or take the last step."""
    spec = small(service)
    driver, keys = driver_of(spec), jax.random.split(jax.random.key(0), 1)
    rng = np.random.default_rng(0)
    prices = spec.vehicle.effort * rng.uniform(-0.8, 0.95, (8, 1, 2)).repeat(PARTS, axis=1)
    lattice = driver.lattice(np.full(2, 0.95 * spec.vehicle.effort))
    assert lattice is not None
    driven, beyond_fluid = (
        driver.drive(prices, most_steps=np.inf, keys=keys, lattice=each) for each in (lattice, None)
    )
    assert driven.is_finished.all()
    earned, otherwise = (
        each.returns[:, 0]
        + np.einsum("pr,pr->p", prices[:, 0], each.amounts[:, 0]) / spec.vehicle.rate
        for each in (driven, beyond_fluid)
    )
    last_step = spec.vehicle.effort / (1.0 + spec.vehicle.max_speed)
    assert (earned >= otherwise - last_step - 0.002 * np.abs(otherwise)).all()


def test_following_the_throttles_of_a_drive_repeats_it() -> None:
    spec = small("poured")
    driver, keys = driver_of(spec), jax.random.split(jax.random.key(0), 1)
    prices = spec.vehicle.effort * np.array([[0.7, -0.2], [0.0, 0.8]])[:, None].repeat(PARTS, 1)
    driven = driver.drive(
        prices, most_steps=np.inf, keys=keys, lattice=driver.lattice(prices.max(axis=(0, 1)))
    )
    again = driver.follow(driven.throttles)
    assert again.returns == pytest.approx(driven.returns, rel=1e-5)
    assert again.amounts == pytest.approx(driven.amounts, rel=1e-5)
    assert np.array_equal(again.steps, driven.steps)


def test_a_random_world_and_a_path_too_long_have_no_lattice() -> None:
    spec = small("poured")
    for random in (
        dataclasses.replace(spec, wind=Wind(strength=0.1)),
        dataclasses.replace(spec, vehicle=Vehicle(start_noise=2.0)),
    ):
        assert driver_of(random).lattice(np.zeros(2)) is None
    assert lattice_for(spec, np.zeros(2), plans=1) is not None
    assert lattice_for(spec, np.zeros(2), plans=10**6) is None


def test_dear_regions_need_a_fine_lattice() -> None:
    """At a price of p efforts the best speed is 1 / (1 / sqrt(1 - p) - 1): 1 for p = 3 / 4."""
    levels = [
        found.levels
        for price in (0.0, 0.75, 0.99)
        if (found := lattice_for(small("poured"), np.array([price, 0.0]), plans=1)) is not None
    ]
    # 1 of 3 cells is level 10.7 of 32; 1 / 9 is level 1.2 of 32, 4.7 of 128.
    assert levels == [32, 32, 128]
