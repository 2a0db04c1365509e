"""The sweep world as a Gymnasium environment, in plain Python floats.

It shares the dynamics with the JAX world, so both give the same numbers.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from scrl.worlds.sweep import dynamics
from scrl.worlds.sweep.dynamics import Place, Scalars, Served
from scrl.worlds.sweep.observation import (
    OBSERVED_SCALARS,
    VIEWS,
    cells_ahead,
    milestones,
    observation_size,
    place_of_cells,
)
from scrl.worlds.sweep.regions import region_colours
from scrl.worlds.sweep.spec import TIMES, SweepSpec


class SweepEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """A vehicle sweeps a map along a fixed path and chooses its speed.

    ## Action space
    `Box(0, 1, (1,))`: the throttle, as a share of the top speed. A vehicle with a flow has
    `Box(0, 1, (2,))`: the throttle, and the opening of the pump from its least to its largest flow.

    ## Observation space
    `Box(-1, 1, (5 + 8 regions,))`: progress along the path, speed as a share of the top speed,
    gust, row, column; for each region the share of the swath that serves it, here and at six places
    ahead; and the share of each region that still lies ahead.

    ## Reward
    `-effort / (1 + v)` in every step, less the cost of what is given out.

    ## Episode end
    Terminated at the end of the path, truncated at `horizon_steps`.

    ## Info
    `labels`: what each region received in this step, as a share of the vehicle's rate (of its
    largest flow).
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (Gymnasium declares it so)
        "render_modes": ["rgb_array"],
        "render_fps": 30,
    }

    def __init__(self, world: SweepSpec, render_mode: str | None = None) -> None:
        self.world = world
        self.render_mode = render_mode
        self._kind_of_part: list[int] = world.service.kind_of_part.tolist()
        self._parts = world.service.parts
        self._served = _as_lists(world.service.of_regions)
        self._scenery = np.asarray(world.service.kinds, np.float32)
        self._cells_ahead: list[int] = cells_ahead(world.vehicle).tolist()
        self._left, self._stride = milestones(world)
        self._place: list[list[float]] = place_of_cells(world).tolist()
        self._length = len(self._place) - 1
        actions = (2,) if world.vehicle.has_flow else (1,)
        self.action_space = gymnasium.spaces.Box(0.0, 1.0, actions, np.float32)
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (self._size,), np.float32)
        self._start(0.0)

    @property
    def _size(self) -> int:
        return observation_size(self.world.service.kinds.shape[1])

    def _start(self, position: float) -> None:
        self._cell, self._offset = dynamics.advance(0.0, position, Scalars)
        self._speed = self._gust = self._supply = 0.0
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Put the vehicle at rest at the start of the path, moved forward by the start noise."""
        super().reset(seed=seed, options=options)
        noise = self.world.vehicle.start_noise
        self._start(self.np_random.uniform(0.0, noise) if noise > 0 else 0.0)
        return self._observe(), {"labels": np.zeros(len(self.world.amounts), np.float32)}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One step with the throttle `action[0]` and, with a flow, the opening `action[1]`."""
        world, left = self.world, self._length - self._cell - self._offset
        self._speed = dynamics.next_speed(world.vehicle, self._speed, float(action[0]), Scalars)
        if not world.wind.is_calm:
            noise = self.np_random.standard_normal()
            self._gust = dynamics.disturbed(world.wind, self._gust, noise)
        supply = world.vehicle.supply
        if not supply.is_calm:
            noise = self.np_random.standard_normal()
            self._supply = dynamics.disturbed(supply, self._supply, noise)
        distance = dynamics.ground_speed(self._speed, self._gust, Scalars)
        before = self._on_parts()
        whole, self._offset = dynamics.advance(self._offset, distance, Scalars)
        self._cell = min(self._cell + whole, self._length)
        self._steps += 1
        is_terminated = self._cell >= self._length
        is_truncated = not is_terminated and self._steps >= world.route.horizon_steps
        reward = dynamics.step_reward(world.vehicle, distance)
        flow = 1.0
        if world.vehicle.has_flow:
            flow = dynamics.flow_of(world.vehicle, distance, float(action[1]), Scalars)
        flow *= dynamics.supplied(self._supply, Scalars)
        labels = dynamics.share_of_step(
            self._served, before, self._on_parts(), self._parts * distance,
            is_poured=world.is_poured, look=list.__getitem__,
        )  # fmt: skip
        reward -= world.vehicle.product * flow * self._given(distance, left)
        given = flow * labels
        for index, name in enumerate(world.amounts):
            if name in world.totals and name in TIMES:
                given[index] = labels[index]
        info = {"labels": np.array(given, np.float32)}
        return self._observe(), reward, is_terminated, is_truncated, info

    def _given(self, distance: float, left: float) -> float:
        """The share of the step's amount that is given out before the path ends."""
        if not self.world.is_poured:
            return float(self._cell < self._length)
        return min(left / distance, 1.0)

    def _on_parts(self) -> Place:
        return Place.of(self._cell, self._offset, self._parts, int)

    def _observe(self) -> np.ndarray:
        observation = np.empty(self._size, np.float32)
        here, last = self._on_parts().part, self._parts * self._length
        seen = [min(here + self._parts * ahead, last) for ahead in self._cells_ahead]
        views = self._scenery[[self._kind_of_part[part] for part in seen]]
        first_left = OBSERVED_SCALARS + VIEWS * views.shape[1]
        observation[OBSERVED_SCALARS:first_left] = views.ravel()
        observation[first_left:] = self._left[self._cell // self._stride]
        row, column = self._place[self._cell]
        observation[:OBSERVED_SCALARS] = (
            min((self._cell + self._offset) / self._length, 1.0),
            self._speed / self.world.vehicle.max_speed,
            min(max(self._gust, -1.0), 1.0),
            row,
            column,
        )
        return observation

    def render(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The map in colours with the vehicle as a dark square, eight pixels a cell."""
        if self.render_mode != "rgb_array":
            return None
        picture = region_colours(self.world.regions)
        row, column = self.world.path.cells[min(self._cell, self._length - 1)]
        picture[row, column] = (20, 20, 20)
        return picture.repeat(8, axis=0).repeat(8, axis=1)


def _as_lists(served: Served) -> Served:
    """Tables as lists of numbers and of rows: looking up one row of an array takes longer."""
    return Served(
        served.kind_of_part.tolist(), list(served.kinds.astype(float)), served.run_of_part.tolist(),
        served.first_part.tolist(), list(served.sums), served.unit,
    )  # fmt: skip
