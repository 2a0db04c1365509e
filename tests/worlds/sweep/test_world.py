"""The JAX world against numbers worked by hand."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scrl.errors import ProblemError
from scrl.problems import load
from scrl.worlds.sweep.regions import from_labels, from_masks
from scrl.worlds.sweep.service import service_table
from scrl.worlds.sweep.spec import Service, SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle, Wind
from scrl.worlds.sweep.world import SweepState, SweepWorld


def serving(spec: SweepSpec, service: Service) -> SweepSpec:
    return dataclasses.replace(spec, route=dataclasses.replace(spec.route, service=service))


@pytest.mark.parametrize("service", ["poured", "landing"])
def test_two_steps_at_full_throttle_by_hand(strip: SweepSpec, service: Service) -> None:
    world = SweepWorld.from_spec(serving(strip, service))
    start = world.initial(key=jax.random.key(0))
    first = world.transition(start, jnp.ones(()))
    second = world.transition(first, jnp.ones(()))
    # v = 0.4 * 3 = 1.2, then 0.6 * 1.2 + 1.2 = 1.92; p = 1.2, then 3.12.
    assert first.speed == pytest.approx(1.2)
    assert (int(first.cell), float(first.offset)) == (1, pytest.approx(0.2))
    assert second.speed == pytest.approx(1.92)
    assert (int(second.cell), float(second.offset)) == (3, pytest.approx(0.12, abs=1e-6))
    # r = -0.1 / (1 + v).
    assert float(world.reward(first)) == pytest.approx(-0.1 / 2.2)
    assert float(world.reward(second)) == pytest.approx(-0.1 / 2.92)
    # Both steps lie in S1, which is four cells long.
    assert world.labels(start, first) == pytest.approx(np.array([1.0, 0.0]), abs=1e-6)
    assert world.labels(first, second) == pytest.approx(np.array([1.0, 0.0]), abs=1e-6)
    # p = 5.472 after v = 2.352: of the third step 0.88 lie in S1, and it ends in no region.
    third = world.transition(second, jnp.ones(()))
    share = 0.88 / 2.352 if service == "poured" else 0.0
    assert world.labels(second, third) == pytest.approx(np.array([share, 0.0]), abs=1e-6)
    assert world.given(second, third) == pytest.approx(np.array([1.0, 1.0 - share]), abs=1e-6)


def test_the_throttle_never_falls_below_crawl_nor_above_one(strip: SweepSpec) -> None:
    world = SweepWorld.from_spec(strip)
    start = world.initial(key=jax.random.key(0))
    crawling = world.transition(start, jnp.asarray(-5.0))
    racing = world.transition(start, jnp.asarray(7.0))
    assert float(crawling.speed) == pytest.approx(0.4 * 3 * 0.01)
    assert float(racing.speed) == pytest.approx(1.2)


@pytest.mark.parametrize(("service", "served"), [("poured", 0.5 / 3.0), ("landing", 0.0)])
def test_the_step_past_the_end_terminates_and_serves_only_what_lies_before_it(
    strip: SweepSpec, service: Service, served: float
) -> None:
    """From 11.5 at speed 3: half a cell of S2 is left."""
    world = SweepWorld.from_spec(serving(strip, service))
    state = world.initial(key=jax.random.key(0))._replace(
        cell=jnp.asarray(11), offset=jnp.asarray(0.5), speed=jnp.asarray(3.0)
    )
    after = world.transition(state, jnp.ones(()))
    assert bool(world.is_terminal(after))
    assert not bool(world.is_truncated(after))
    assert world.labels(state, after) == pytest.approx(np.array([0.0, served]), abs=1e-6)
    assert world.given(state, after) == pytest.approx(np.array([served, 0.0]), abs=1e-6)


@pytest.mark.parametrize(
    ("start", "distance", "poured", "landing"),
    [
        # What is given in all, outside all regions, and to S1 and S2; in parts of the step.
        (0.0, 4.0, [1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]),
        (3.5, 1.0, [1.0, 0.5, 0.5, 0.0], [1.0, 1.0, 0.0, 0.0]),
        (3.0, 8.0, [1.0, 4 / 8, 1 / 8, 3 / 8], [1.0, 0.0, 0.0, 1.0]),
        (3.0, 10.0, [0.9, 0.4, 0.1, 0.4], [0.0, 0.0, 0.0, 0.0]),
        (0.0, 48.0, [12 / 48, 4 / 48, 4 / 48, 4 / 48], [0.0, 0.0, 0.0, 0.0]),
        (8.0, 4.0, [1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]),
        (8.25, 0.125, [1.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 1.0]),
    ],
)
def test_steps_over_several_regions_by_hand(
    strip: SweepSpec, start: float, distance: float, poured: list[float], landing: list[float]
) -> None:
    """S1 lies from 0 to 4, S2 from 8 to 12, where the path ends."""
    vehicle = Vehicle(max_speed=distance, inertia=0.0)
    moving = dataclasses.replace(strip, vehicle=vehicle)
    specs = serving(moving, "poured"), serving(moving, "landing")
    for spec, expected in zip(specs, (poured, landing), strict=True):
        world = SweepWorld.from_spec(spec)
        cell, offset = divmod(start, 1.0)
        state = world.initial(key=jax.random.key(0))._replace(
            cell=jnp.asarray(int(cell)), offset=jnp.asarray(offset)
        )
        after = world.transition(state, jnp.ones(()))
        found = np.concatenate([world.given(state, after), world.labels(state, after)])
        assert found == pytest.approx(np.array(expected), abs=1e-6)


def test_where_regions_overlap_each_receives_all_of_a_poured_step() -> None:
    """Cells 0 to 2 are of one region, 2 and 3 of another: from 1.5 to 3.5 one gets 1.5 of 2."""
    masks = np.zeros((2, 1, 4), bool)
    masks[0, 0, :3], masks[1, 0, 2:] = True, True
    world = SweepWorld.from_spec(SweepSpec(from_masks(masks), Vehicle(max_speed=2.0, inertia=0.0)))
    state = world.initial(key=jax.random.key(0))._replace(
        cell=jnp.asarray(1), offset=jnp.asarray(0.5)
    )
    after = world.transition(state, jnp.ones(()))
    assert world.labels(state, after) == pytest.approx(np.array([0.75, 0.75]), abs=1e-6)


def test_the_horizon_truncates_and_does_not_terminate(strip: SweepSpec) -> None:
    world = SweepWorld.from_spec(dataclasses.replace(strip, route=SweepRoute(horizon_steps=1)))
    after = world.transition(world.initial(key=jax.random.key(0)), jnp.ones(()))
    assert bool(world.is_truncated(after))
    assert not bool(world.is_terminal(after))


def test_positions_stay_exact_on_long_paths() -> None:
    """A float32 position of a million cells would be off by 1/16; cell and offset are not."""
    labels = np.ones((1000, 1000), int)
    world = SweepWorld.from_spec(SweepSpec(from_labels(labels)))
    state = world.initial(key=jax.random.key(0))._replace(
        cell=jnp.asarray(999_000), offset=jnp.asarray(0.01), speed=jnp.asarray(0.03)
    )
    after = world.transition(state, jnp.zeros(()))
    assert int(after.cell) == 999_000
    assert float(after.offset) == pytest.approx(0.04, abs=1e-6)


def test_wind_has_the_strength_it_says(strip: SweepSpec) -> None:
    windy = dataclasses.replace(strip, wind=Wind(strength=0.2, persistence=0.9))
    world = SweepWorld.from_spec(windy)
    state = world.initial(key=jax.random.key(0))

    def gusts(key: jax.Array) -> jax.Array:
        def body(carry: SweepState, step_key: jax.Array) -> tuple[SweepState, jax.Array]:
            after = world.transition(carry, jnp.ones(()), key=step_key)
            return after, after.gust

        return jax.lax.scan(body, state, jax.random.split(key, 200))[1]

    seen = np.asarray(jax.vmap(gusts)(jax.random.split(jax.random.key(1), 500)))[:, 100:]
    # 50,000 correlated draws, worth about 50,000 / 19 independent ones: 2 % is three errors.
    assert seen.std() == pytest.approx(0.2, rel=0.05)
    lag = np.corrcoef(seen[:, :-1].ravel(), seen[:, 1:].ravel())[0, 1]
    assert lag == pytest.approx(0.9, abs=0.02)


def test_a_windy_world_asks_for_a_key(strip: SweepSpec) -> None:
    world = SweepWorld.from_spec(dataclasses.replace(strip, wind=Wind(strength=0.1)))
    state = world.initial(key=jax.random.key(0))
    with pytest.raises(ValueError, match="needs a key"):
        world.transition(state, jnp.ones(()))


def test_start_noise_spreads_the_start(strip: SweepSpec) -> None:
    noisy = dataclasses.replace(strip, vehicle=Vehicle(start_noise=4.0))
    world = SweepWorld.from_spec(noisy)
    keys = jax.random.split(jax.random.key(0), 2000)
    states = jax.vmap(lambda key: world.initial(key=key))(keys)
    starts = np.asarray(states.cell + states.offset)
    assert 0.0 <= starts.min() < 0.1
    assert 3.9 < starts.max() < 4.0
    assert starts.mean() == pytest.approx(2.0, abs=0.1)


def test_start_noise_longer_than_the_path_is_refused(strip: SweepSpec) -> None:
    with pytest.raises(ProblemError, match="start_noise = 50 must be below the path's length, 12"):
        dataclasses.replace(strip, vehicle=Vehicle(start_noise=50.0))


def test_overlapping_regions_are_served_together() -> None:
    masks = np.zeros((2, 1, 4), bool)
    masks[0, 0, :3] = True
    masks[1, 0, 2:] = True
    world = SweepWorld.from_spec(SweepSpec(from_masks(masks)))
    served = world.kinds[world.kind_of_part]
    assert np.array_equal(served, [[1, 0], [1, 0], [1, 1], [0, 1], [0, 0]])


def test_the_observation_stays_in_its_box() -> None:
    world = load("agri-joint").world
    state = world.initial(key=jax.random.key(0))
    assert world.observe(state).shape == (world.observation_size,)
    for cell in (0, 1234, 2499, 2500):
        seen = np.asarray(world.observe(state._replace(cell=jnp.asarray(cell))))
        assert np.all(seen >= -1.0)
        assert np.all(seen <= 1.0)


def test_equal_rows_are_stored_once_and_read_back() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (500, 3)).astype(float)
    outside = np.where(rows.any(axis=1), 0.0, np.arange(500) % 2 + 1.0)
    table = service_table(rows, outside, is_poured=True, most_cells=24.0)
    assert np.array_equal(table.kinds[table.kind_of_part[:-1]], rows)
    assert np.array_equal(table.kinds[table.kind_of_part[-1]], np.zeros(3))
    assert np.array_equal(table.outside[table.kind_of_part], [*outside, 0.0])
    assert len(table.kinds) == 10  # eight rows, one of them with two shares outside, and the end


def test_changing_the_vehicle_does_not_compile_again(strip: SweepSpec) -> None:
    traces = 0

    @jax.jit
    def step(world: SweepWorld, state: SweepState) -> SweepState:
        nonlocal traces
        traces += 1
        return world.transition(state, jnp.ones(()))

    for speed in (1.0, 2.0, 3.0):
        world = SweepWorld.from_spec(dataclasses.replace(strip, vehicle=Vehicle(max_speed=speed)))
        step(world, world.initial(key=jax.random.key(0)))
    assert traces == 1


@pytest.mark.parametrize("bits", ["32", "64"])
def test_gymnasium_and_jax_step_to_the_same_numbers(bits: str) -> None:
    """The whole of an episode with changing throttle, in both precisions and kinds of service."""
    script = f"""
import dataclasses
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", {bits == "64"})
import scrl
from scrl.worlds.sweep.gym import SweepEnv
from scrl.worlds.sweep.world import SweepWorld
tolerance = {"1e-9" if bits == "64" else "2e-3"}
@jax.jit
def step(world, state, action):
    after = world.transition(state, action)
    return after, world.reward(after), world.labels(state, after), world.observe(after)
problem = scrl.load("agri-joint")
for service in ("landing", "poured"):
    route = dataclasses.replace(problem.world_spec.route, service=service)
    spec = dataclasses.replace(problem.world_spec, route=route)
    env, world = SweepEnv(spec), SweepWorld.from_spec(spec)
    env.reset(seed=0)
    state, off = world.initial(key=jax.random.key(0)), 0
    for t in range(2000):
        throttle = 0.5 + 0.5 * np.sin(t / 7)
        seen, reward, terminated, truncated, info = env.step(np.array([throttle]))
        state, jax_reward, labels, jax_seen = step(world, state, throttle)
        place = int(state.cell) + float(state.offset)
        assert abs(place - (env._cell + env._offset)) < tolerance or terminated, t
        assert abs(float(jax_reward) - reward) < 1e-6, t
        is_near_edge = min(place % 1, 1 - place % 1) < tolerance
        if service == "poured":
            close = 1e-6 + 2 * tolerance / env._speed  # both ends of the step may be off
            assert np.allclose(info["labels"], labels, rtol=0, atol=close), t
        elif not is_near_edge:
            assert np.array_equal(info["labels"], labels), t
        assert is_near_edge or np.allclose(jax_seen, seen, atol=1e-5), t
        off += is_near_edge
        assert terminated == bool(world.is_terminal(state))
        if terminated:
            break
    assert terminated and not truncated and off < 20
print("same", t)
"""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment
    )
    assert done.stdout.startswith("same"), done.stderr
