"""What lies ahead: the fluid in closed form, and sums over parts of cells."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Float

from scrl.planning.outlook import Outlook, best_time
from scrl.problems import load
from scrl.reference.fluid import FluidSweep
from scrl.worlds.sweep.world import SweepWorld


@pytest.fixture(scope="module", params=["poured", "landing"])
def world(request: pytest.FixtureRequest) -> SweepWorld:
    spec = load("agri-joint").world_spec
    route = dataclasses.replace(spec.route, service=request.param)
    return SweepWorld.from_spec(dataclasses.replace(spec, route=route))


PRICES = np.array([0.6, -0.5, 0.9, 0.0, 0.2])


def outlook(world: SweepWorld) -> Outlook:
    return Outlook.of(world, jnp.asarray(PRICES, jnp.float32)[None], 20)


def prices_of_cells(world: SweepWorld) -> Float[np.ndarray, " cell_and_end"]:
    """The mean over the parts of each cell."""
    of_part = (np.asarray(world.kinds, float) @ PRICES)[np.asarray(world.kind_of_part)]
    return of_part.reshape(-1, world.parts).mean(axis=1)


def test_the_best_time_is_the_fluids(world: SweepWorld) -> None:
    fluid = dataclasses.replace(FluidSweep.of(load("agri-joint").world_spec), effort=1.0)
    prices = np.linspace(-2.0, 0.999, 50)
    expected = [fluid.best_times(np.full(fluid.groups, -price)).max() for price in prices]
    assert np.allclose(best_time(jnp.asarray(prices), world.numbers), expected, rtol=1e-3)


@pytest.mark.parametrize("long_path", [1_000_000, 0])
def test_sums_on_the_way_are_those_of_the_cells(
    world: SweepWorld, long_path: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrl.planning.outlook.LONG_PATH", long_path)
    found, of_cell = outlook(world), prices_of_cells(world)
    for cell in (0, 777, world.length - 3):
        view = found.view(jnp.asarray(cell))
        for place in (0.0, 0.25, 3.0, 17.6):
            whole, part = int(place), place - int(place)
            ahead = np.array([min(cell + step, world.length) for step in range(whole + 1)])
            prices = jnp.asarray(of_cell[ahead])
            time = best_time(prices, world.numbers)
            gains = np.asarray(prices * time - time**2 / (1.0 + time)) * (ahead < world.length)
            expected = gains[:-1].sum() + part * gains[-1]
            at = jnp.asarray(place)
            gained = view.gain_upto(at) - view.gain_upto(jnp.zeros(()))
            assert float(gained) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("distance", [0.125, 1.0, 2.9, 5.75])
def test_a_step_earns_the_price_along_its_way_or_where_it_ends(
    world: SweepWorld, distance: float
) -> None:
    found, of_cell = outlook(world), prices_of_cells(world)
    for cell, offset in ((0, 0.0), (777, 0.75), (1000, 0.5), (world.length - 3, 0.25)):
        earned = found.view(jnp.asarray(cell)).earned(jnp.asarray(offset), jnp.asarray(distance))
        end = offset + distance
        if world.is_poured:
            edges = [offset, *range(int(offset) + 1, int(np.ceil(end))), end]
            prices = [of_cell[min(cell + int(edge), world.length)] for edge in edges[:-1]]
            expected = np.diff(edges) @ prices / distance
        else:
            expected = of_cell[min(cell + int(end), world.length)]
        assert float(earned) == pytest.approx(expected, abs=1e-5)


def test_nothing_past_the_end_is_worth_anything(world: SweepWorld) -> None:
    view = outlook(world).view(jnp.asarray(world.length))
    far = jnp.asarray([0.0, 0.5, 17.0])
    assert not np.any(np.diff(view.gain_upto(far)))
    assert not np.any(view.earned(jnp.zeros(()), jnp.maximum(far, 0.1)))
