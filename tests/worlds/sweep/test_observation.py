"""What a policy sees, against numbers worked by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import shapely

from scrl.worlds.sweep import observation
from scrl.worlds.sweep.gym import SweepEnv
from scrl.worlds.sweep.observation import cells_ahead, milestones, read_observation
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle
from scrl.worlds.sweep.world import SweepWorld

from .outlined import outlined


@pytest.fixture
def corridor() -> SweepSpec:
    """Ten cells in a row: four of A, two of none, four of B."""
    return SweepSpec(from_labels(np.array([[1, 1, 1, 1, 0, 0, 2, 2, 2, 2]])))


def test_the_vehicle_looks_further_the_faster_it_is() -> None:
    assert cells_ahead(Vehicle()).tolist() == [0, 1, 2, 3, 4, 6, 8]
    assert cells_ahead(Vehicle(max_speed=30.0)).tolist() == [0, 10, 20, 30, 40, 60, 80]
    # Views never coincide, however slow the vehicle.
    assert cells_ahead(Vehicle(max_speed=0.1)).tolist() == [0, 1, 2, 3, 4, 5, 6]


def test_what_lies_here_ahead_and_is_left_by_hand(corridor: SweepSpec) -> None:
    world = SweepWorld.from_spec(corridor)
    state = world.initial(key=jax.random.key(0))._replace(cell=jnp.asarray(3))
    seen = read_observation(world.observe(state))
    assert len(seen.scalars) == 5
    # Cells 3, 4, 5, 6, 7, 9, and 11, which lies past the end.
    expected = [[1, 0], [0, 0], [0, 0], [0, 1], [0, 1], [0, 1], [0, 0]]
    assert np.array_equal(seen.views, expected)
    # One of A's four cells is still ahead (the one it stands on), and all of B's.
    assert np.allclose(seen.left, [0.25, 1.0])


def test_what_parts_of_cells_lie_in_is_seen_by_hand() -> None:
    """A from 0 to 1.5 and B from 3.25 to 4 of four cells: what is here depends on the offset."""
    boxes = [[shapely.box(0, 0, 1.5, 1)], [shapely.box(3.25, 0, 4, 1)]]
    spec = SweepSpec(outlined(boxes, (1, 4)))
    world, env = SweepWorld.from_spec(spec), SweepEnv(spec)
    env.reset(seed=0)
    for offset, here, ahead in ((0.2, 1, 0), (0.3, 1, 1), (0.49, 1, 1), (0.5, 0, 1)):
        state = world.initial(key=jax.random.key(0))
        seen = world.observe(state._replace(cell=jnp.asarray(1), offset=jnp.asarray(offset)))
        # One and two cells ahead, the latter in cell 3; then past the end.
        expected = [[here, 0], [0, 0], [0, ahead], *[[0, 0]] * 4]
        assert read_observation(seen).views.tolist() == expected
        # 0.5 cells of A's 1.5 lie in this cell or ahead, and all of B.
        assert np.allclose(read_observation(seen).left, [1 / 3, 1.0])
        env._cell, env._offset = 1, offset
        assert np.allclose(env._observe(), seen)


def test_what_is_left_is_known_at_few_places_of_a_long_path(
    corridor: SweepSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observation, "MOST_MILESTONES", 3)
    marks = milestones(corridor)
    # Every fourth cell: 0, 4, 8.
    assert marks.stride == 4
    assert np.allclose(marks.left, [[1.0, 1.0], [0.0, 1.0], [0.0, 0.5]])
