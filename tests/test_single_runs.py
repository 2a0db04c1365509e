"""Violations of single runs as labels: what they add up to, and what service is worth then."""

from __future__ import annotations

import dataclasses
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scrl.rollout import collect
from scrl.single_runs import CountedState, CountedWorld, RunAtoms, SeenRun, added_violations
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.vehicle import Wind
from scrl.worlds.sweep.world import SweepWorld

ATOMS = RunAtoms(
    coefficients=jnp.array([[-1.0, 0.0], [0.5, -0.5]]),
    bounds=jnp.array([-6.0, 0.4]),
    expected=jnp.array([4.0, 5.0]),
    cells=jnp.array([4.0, 4.0]),
    unit=jnp.ones(2),
)
"""At least 6 steps in S1, and at most 0.8 more in S1 than in S2."""


@pytest.fixture
def world(strip: SweepSpec) -> SweepWorld:
    return SweepWorld.from_spec(dataclasses.replace(strip, wind=Wind(strength=0.3)))


def test_the_labels_of_a_run_add_up_to_its_violation_less_the_first_forecast(
    world: SweepWorld,
) -> None:
    counted = CountedWorld(world, ATOMS)
    starts = jax.vmap(lambda key: counted.initial(key=key))(jax.random.split(jax.random.key(0), 8))

    def act(seen: jax.Array, lane: jax.Array, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
        del seen, lane
        return jnp.clip(0.5 + 0.4 * noise, 0.0, 1.0), jnp.zeros(())

    _, rollout = jax.jit(
        lambda states: collect(counted, act, states, steps=60, key=jax.random.key(1))
    )(starts)
    labels, is_over = np.asarray(rollout.labels, float), np.asarray(rollout.is_terminated)
    first = np.asarray(ATOMS.violation(ATOMS.expected, jnp.ones(2)), float)
    assert is_over.any(axis=0).all()
    for lane in range(8):
        end = int(is_over[:, lane].argmax()) + 1
        service, added = np.split(labels[:end, lane].sum(axis=0), [2])
        found = np.maximum([6.0 - service[0], (service[0] - service[1]) / 2 - 0.4], 0.0)
        assert added == pytest.approx(found - first, abs=1e-4)
        # The observation ends with the service so far, and the next run begins with none.
        seen = np.asarray(rollout.next_observation[end - 1, lane, -2:])
        assert seen == pytest.approx(service, abs=1e-4)
        assert np.asarray(rollout.observation[end, lane, -2:]).tolist() == [0.0, 0.0]


def test_what_service_is_worth_is_the_slope_of_the_violation() -> None:
    of_violation = jnp.array([-2.0, -3.0])
    for share, forecast in product((0.0, 0.5), ([3.0, 1.0], [7.0, 1.0], [7.0, 9.0])):
        left, service = jnp.full(2, share), jnp.array(forecast)
        found = ATOMS.price(of_violation, service, left)
        cost = lambda each, left=left: of_violation @ ATOMS.violation(each, left)  # noqa: E731
        slope = jax.grad(cost)(service)
        assert found.tolist() == pytest.approx(slope.tolist(), rel=1e-5)


def test_a_forecast_is_as_uncertain_as_what_is_left() -> None:
    """With 3 forecast where 6 are asked, 3 are missed at the end of a run. A forecast of exactly 6
    is missed by spread * log 2 on average, with a spread of 0.15 for the root of 4 cells."""
    end, start, twice = jnp.zeros(2), jnp.ones(2), dataclasses.replace(ATOMS, unit=2 * jnp.ones(2))
    assert float(ATOMS.violation(jnp.array([3.0, 0.0]), end)[0]) == pytest.approx(3.0)
    near = jnp.array([6.0, 0.0])
    assert float(ATOMS.violation(near, end)[0]) == pytest.approx(0.0, abs=1e-5)
    assert float(ATOMS.violation(near, start)[0]) == pytest.approx(
        0.15 * 2.0 * np.log(2.0), rel=1e-4
    )
    assert float(twice.violation(near, start)[0]) == pytest.approx(
        0.3 * 2.0 * np.log(2.0), rel=1e-4
    )
    # Half of what is missed is paid for where it is as likely as not.
    of_first = jnp.array([-1.0, 0.0])
    assert ATOMS.price(of_first, near, start).tolist() == pytest.approx([0.5, 0.0])


def test_labels_of_another_size_do_not_blur_the_end_of_a_run() -> None:
    """At least 8 thousandths of the second label, whose steps are a thousandth; those of the first
    label are a million."""
    atoms = RunAtoms.of(
        jnp.array([[0.0, -1.0]]), jnp.array([-0.008]), jnp.array([5e6, 0.01]),
        jnp.array([20.0, 20.0]), jnp.array([1e6, 1e-3]),
    )  # fmt: skip
    end, of_violation = jnp.zeros(2), jnp.array([-1.0])
    kept, broken = jnp.array([5e6, 0.02]), jnp.array([5e6, 0.005])
    assert float(atoms.violation(kept, end)[0]) == pytest.approx(0.0, abs=1e-6)
    assert float(atoms.violation(broken, end)[0]) == pytest.approx(0.003, rel=1e-3)
    assert atoms.price(of_violation, kept, end).tolist() == pytest.approx([0.0, 0.0])
    assert atoms.price(of_violation, broken, end).tolist() == pytest.approx([0.0, 1.0])


def test_the_pace_is_what_each_cell_that_is_left_must_make_up_for() -> None:
    """3 steps were given and half of S1 is left, which will bring 2 more: 1 of 6 is missing, over
    two cells."""
    left = jnp.array([0.5, 1.0])
    forecast = ATOMS.forecast(jnp.array([3.0, 0.0]), left)
    assert forecast.tolist() == [5.0, 5.0]
    assert float(ATOMS.pace(forecast, left)[0]) == pytest.approx(0.5)


def test_a_counted_state_holds_the_service_of_its_run(world: SweepWorld) -> None:
    counted = CountedWorld(world, ATOMS)
    state = counted.initial(key=jax.random.key(0))
    assert isinstance(state, CountedState)
    after = counted.step(state, jnp.ones(()), key=jax.random.key(1))
    assert np.allclose(after.state.service, after.labels[:2])
    plain = world.step(state.state, jnp.ones(()), key=jax.random.key(1))
    assert np.allclose(after.labels[:2], plain.labels)
    assert float(after.reward) == float(plain.reward)


def test_without_a_path_what_is_left_of_a_run_is_what_is_left_of_its_steps() -> None:
    """At least 7: after 3 of 6 steps 2 were given, and half of 8 will come: 1 is missing. After one
    more step with 2 it is a third of 8, so 1/3 is missing; if the run ends there, 3 are. Typical
    steps are so small that forecasts are certain."""
    atoms = RunAtoms.of(
        jnp.array([[-2.0]]), jnp.array([-14.0]), jnp.array([8.0]), jnp.array([6.0]),
        jnp.array([1e-3]),
    )  # fmt: skip
    before, after = jnp.array([[0.5, 2.0, 3.0]] * 2), jnp.array([[0.6, 4.0, 4.0]] * 2)
    added = added_violations(atoms, before, after, jnp.array([False, True]))
    assert added[:, 0].tolist() == pytest.approx([1 / 3 - 1.0, 3.0 - 1.0])
    seen = SeenRun.of(atoms, before[0])
    # Half of the run is left; 1 is missing in 3 steps of 0.5, so 2/3 of a step in each; 8 steps of
    # 0.5 are near.
    needs = seen.needs(atoms, jnp.array([0.5])).tolist()
    assert needs == pytest.approx([2.0 / 10.0, 0.5, (1 / 3) / 0.5, 1.0 / 4.0])
    assert atoms.following(jnp.array([10.0]), jnp.array(8.0)).left(jnp.array(3.5)).tolist() == [0.5]
