"""What a step gives: every implementation against a plain loop over the parts that it crosses."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Float, Int

from scrl.policies import Schedule
from scrl.problems import Problem
from scrl.reference.lattice import SpeedLattice
from scrl.reference.lattice import drive as drive_lattice
from scrl.route import drive
from scrl.worlds.sweep.gym import SweepEnv
from scrl.worlds.sweep.regions import from_labels, from_masks
from scrl.worlds.sweep.spec import Service, SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle, Wind
from scrl.worlds.sweep.world import SweepState, SweepWorld

from .outlined import outlined, tilted

SERVICES: tuple[Service, ...] = ("poured", "landing")


def by_cells(
    spec: SweepSpec, cell: int, offset: float, distance: float, landing: int
) -> Float[np.ndarray, " region"]:
    """The share of a step that each region receives, cell by cell or part by part."""
    rows, parts = spec.path.service, spec.service.parts
    nothing = np.zeros(rows.shape[1])
    if not spec.is_poured:
        return rows[landing] if landing < len(rows) else nothing
    if parts > 1:
        rows = spec.service.kinds[spec.service.on_path]
    cell, offset, distance = parts * cell, parts * offset, parts * distance
    end = offset + distance
    for ahead in range(int(offset), min(math.ceil(end), len(rows) - cell)):
        overlap = min(ahead + 1.0, end) - max(float(ahead), offset)
        nothing = nothing + overlap / distance * rows[cell + ahead]
    return nothing


def worlds() -> dict[str, SweepSpec]:
    """Regions that overlap, swaths of one to three cells, wind, and a start that is drawn."""
    first, second = np.zeros((2, 9, 14), bool)
    first[1:7, :6], second[3:, 4:11] = True, True
    regions = from_masks(np.stack([first, second, first | second]), ["one", "other", "either"])
    calm = SweepSpec(regions, Vehicle(max_speed=3.0, inertia=0.6))
    wide = [dataclasses.replace(calm, route=SweepRoute(swath=swath)) for swath in (2, 3)]
    windy = dataclasses.replace(
        calm, wind=Wind(strength=0.4), vehicle=Vehicle(start_noise=5.0, inertia=0.2)
    )
    columns = dataclasses.replace(windy, route=SweepRoute(direction="columns", swath=2))
    fast = dataclasses.replace(calm, vehicle=Vehicle(max_speed=40.0, inertia=0.3, crawl=0.001))
    rng = np.random.default_rng(7)
    polygons = outlined([tilted(rng, (9, 14)) for _ in range(3)], (9, 14))
    drawn = {
        name: dataclasses.replace(spec, regions=polygons)
        for name, spec in (("polygons", calm), ("polygons, two wide", wide[0]),
                           ("windy polygons", windy))
    }  # fmt: skip
    return drawn | {
        "calm": calm, "two wide": wide[0], "three wide": wide[1], "windy": windy,
        "windy in columns": columns, "fast": fast,
    }  # fmt: skip


SPECS = [
    pytest.param(
        dataclasses.replace(spec, route=dataclasses.replace(spec.route, service=service)),
        id=f"{service}, {name}",
    )
    for name, spec in worlds().items()
    for service in SERVICES
]


def random_states(spec: SweepSpec, count: int) -> SweepState:
    """Anywhere on the path, at any speed, in any gust."""
    rng, vehicle = np.random.default_rng(1), spec.vehicle
    cells, top = len(spec.path.cells), vehicle.max_speed
    return SweepState(
        cell=jnp.asarray(rng.integers(0, cells, count)),
        offset=jnp.asarray(rng.uniform(0.0, 1.0, count) * (1.0 - 1e-7), float),
        speed=jnp.asarray(rng.uniform(0.0, top, count), float),
        gust=jnp.asarray(rng.normal(0.0, spec.wind.strength, count), float),
        step=jnp.zeros(count, int),
    )


def off_by(
    spec: SweepSpec, states: SweepState, throttles: Float[np.ndarray, " state"]
) -> Float[np.ndarray, " state"]:
    """By how many cells of service the compiled world is off, in one step from each state."""
    world = SweepWorld.from_spec(spec)
    keys = jax.random.split(jax.random.key(0), len(throttles))
    found = jax.jit(jax.vmap(lambda state, throttle, key: world.step(state, throttle, key=key)))(
        states, jnp.asarray(throttles, float), keys
    )
    after, distance = found.state, np.asarray(found.state.speed, float)
    if world.is_windy:
        distance = distance * np.maximum(1.0 + np.asarray(after.gust, float), 0.05)
    expected = [
        by_cells(spec, cell, offset, far, landing)
        for cell, offset, far, landing in zip(
            states.cell.tolist(), states.offset.tolist(), distance.tolist(), after.cell.tolist(),
            strict=True,
        )
    ]  # fmt: skip
    return np.abs(np.asarray(found.labels, float) - expected).max(axis=1) * distance


@pytest.mark.parametrize("spec", SPECS)
def test_the_compiled_world_gives_to_the_cells_that_a_step_crosses(spec: SweepSpec) -> None:
    throttles = np.random.default_rng(2).uniform(0.0, 1.0, 400)
    off = off_by(spec, random_states(spec, len(throttles)), throttles)
    # Places are single floats below 16 + max_speed, so off by some 1e-6 cells.
    assert off.max() < 5e-6 * max(1.0, spec.vehicle.max_speed / 16.0)


@pytest.mark.parametrize("spec", SPECS)
def test_gymnasium_gives_to_the_cells_that_a_step_crosses(spec: SweepSpec) -> None:
    env, rng = SweepEnv(spec), np.random.default_rng(3)
    _, info = env.reset(seed=0)
    assert np.array_equal(info["labels"], np.zeros(3))  # nothing is given before the first step
    is_over = False
    while not is_over:
        before = env._cell, env._offset
        _, _, is_terminated, is_truncated, info = env.step(rng.uniform(0.0, 1.0, 1))
        distance = env._speed * max(1.0 + env._gust, 0.05)
        expected = by_cells(spec, int(before[0]), before[1], distance, int(env._cell))
        assert info["labels"] == pytest.approx(expected, abs=1e-6)
        is_over = is_terminated or is_truncated


@pytest.mark.parametrize("spec", SPECS)
def test_a_route_gives_to_the_cells_that_a_step_crosses(spec: SweepSpec) -> None:
    throttles = np.random.default_rng(4).uniform(0.0, 1.0, 500)
    route = drive(Problem.create(spec), Schedule.of(throttles), seed=5)
    assert route.is_whole
    for step, (begin, end) in enumerate(zip(route.along[:-1], route.along[1:], strict=True)):
        cell = int(begin)
        expected = by_cells(spec, cell, begin - cell, route.speed[step], int(end))
        assert route.received[step] / spec.vehicle.rate == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("spec", [each for each in SPECS if "windy" not in str(each.id)])
def test_the_drives_of_the_lattice_give_to_the_cells_that_they_cross(spec: SweepSpec) -> None:
    lattice = SpeedLattice(spec, levels=24)
    effort = spec.vehicle.effort
    prices = effort * np.array([[0.0, 0.0, 0.0], [0.7, -0.4, 0.1], [-0.5, 0.9, 0.0]])
    driven = drive_lattice(lattice, prices, np.asarray(lattice.values(prices[:, None])))
    assert driven.is_finished.all()
    for plan, steps in enumerate(driven.steps.tolist()):
        place, received = 0.0, np.zeros(3)
        for speed in driven.speeds[:steps, plan].tolist():
            cell = int(place)
            received += by_cells(spec, cell, place - cell, speed, int(place + speed))
            place += speed
        assert driven.density[plan] == pytest.approx(spec.vehicle.rate * received, rel=1e-6)


@pytest.mark.parametrize("service", SERVICES)
def test_all_of_them_drive_the_same_to_the_last_step(service: Service) -> None:
    """Speeds in 64ths of a cell are exact in single precision, at the edges of cells too."""
    spec = dataclasses.replace(
        worlds()["two wide"],
        vehicle=Vehicle(max_speed=4.0, inertia=0.0),
        route=SweepRoute(swath=2, service=service),
    )
    throttles = np.random.default_rng(6).integers(1, 257, 300) / 256.0
    route = drive(Problem.create(spec), Schedule.of(throttles))
    env = SweepEnv(spec)
    env.reset(seed=0)
    steps = [env.step(np.array([throttle])) for throttle in route.throttle]
    given = [info["labels"] for *_, info in steps]
    assert [is_terminated for _, _, is_terminated, *_ in steps].index(True) == route.steps - 1
    assert route.received == pytest.approx(spec.vehicle.rate * np.array(given), abs=1e-6)


def long_path() -> SweepSpec:
    """300,000 cells; regions of one to 300 cells, and a swath whose shares are thirds."""
    rng = np.random.default_rng(0)
    runs = np.repeat(rng.integers(0, 4, 40_000), rng.integers(1, 50, 40_000))
    labels = np.repeat(runs[:300_000].reshape(500, 600), 3, axis=0)
    labels[rng.uniform(size=labels.shape) < 0.05] = 2
    spec = SweepSpec(from_labels(labels), route=SweepRoute(swath=3, horizon_steps=10**6))
    assert len(spec.path.cells) == 300_000
    return spec


def prefix_sums(spec: SweepSpec) -> Float[np.ndarray, "cell_and_end region"]:
    return np.concatenate([np.zeros((1, 3)), np.cumsum(spec.path.service.astype(float), axis=0)])


def share_by_sums(
    spec: SweepSpec,
    sums: Float[np.ndarray, "cell_and_end region"],
    cell: Int[np.ndarray, " step"],
    offset: Float[np.ndarray, " step"],
    distance: Float[np.ndarray, " step"],
) -> Float[np.ndarray, "step region"]:
    """The same in double precision, by sums along the whole path."""

    def upto(place: Float[np.ndarray, " step"]) -> Float[np.ndarray, "step region"]:
        place = np.minimum(place, len(spec.path.cells))
        whole = np.minimum(place.astype(int), len(spec.path.cells) - 1)
        return sums[whole] + (place - whole)[:, None] * spec.path.service[whole]

    return (upto(cell + offset + distance) - upto(cell + offset)) / distance[:, None]


def test_long_paths_lose_no_precision() -> None:
    """Sums of single floats would be off by 0.03 cells at the end of such a path."""
    spec = long_path()
    sums = prefix_sums(spec)
    throttles = np.random.default_rng(7).uniform(0.0, 1.0, 4000)
    states = random_states(spec, len(throttles))
    last = jnp.asarray(299_990 + np.arange(10))
    states = states._replace(cell=states.cell.at[:10].set(last))
    world = SweepWorld.from_spec(spec)
    after = jax.vmap(world.transition)(states, jnp.asarray(throttles, float))
    found = np.asarray(jax.vmap(world.labels)(states, after), float)
    cell, offset, distance = (
        np.asarray(each) for each in (states.cell, states.offset, after.speed)
    )
    expected = share_by_sums(spec, sums, cell, offset.astype(float), distance.astype(float))
    assert (np.abs(found - expected) * distance[:, None]).max() < 5e-6
    env = SweepEnv(spec)
    for start in [*cell[:50].tolist(), 299_999]:
        env.reset(seed=0)
        env._cell, env._offset, env._speed = start, 0.25, 2.0
        labels = env.step(np.array([0.5]))[4]["labels"]
        step = np.array([start]), np.array([0.25]), np.array([env._speed])
        assert labels == pytest.approx(share_by_sums(spec, sums, *step)[0], abs=1e-6)


@pytest.mark.parametrize("service", SERVICES)
def test_a_long_route_gives_what_its_sums_say(service: Service) -> None:
    spec = long_path()
    spec = dataclasses.replace(spec, route=dataclasses.replace(spec.route, service=service))
    route = drive(Problem.create(spec), Schedule.of(np.full(2, 0.9)))
    assert route.is_whole
    begin, end = route.along[:-1], route.along[1:]
    cell = begin.astype(int)
    share = share_by_sums(spec, prefix_sums(spec), cell, begin - cell, route.speed)
    if service == "landing":
        ended = end.astype(int)
        share = np.where(
            (ended < 300_000)[:, None], spec.path.service[ended % 300_000], 0.0
        ).astype(float)
    assert route.received.sum(axis=0) == pytest.approx(
        spec.vehicle.rate * share.sum(axis=0), rel=1e-7
    )
    shares = np.column_stack([route.received, route.outside]).sum()
    assert shares == pytest.approx(route.amount.sum(), rel=1e-6)
