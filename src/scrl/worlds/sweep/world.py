"""The paper's world in JAX: a vehicle sweeps a map along a fixed path and chooses its speed.

Pure functions of arrays, so that whole batches of worlds step in one compiled graph. The numbers
of the vehicle are traced, not compiled in: another vehicle or another map of the same size runs
the same machine code.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from scrl.worlds.contract import StepResult
from scrl.worlds.sweep import dynamics
from scrl.worlds.sweep.dynamics import Place, Served
from scrl.worlds.sweep.lookup import on_device
from scrl.worlds.sweep.observation import cells_ahead, milestones, observation_size, place_of_cells
from scrl.worlds.sweep.spec import TIMES, SweepSpec


class SweepState(NamedTuple):
    """Cell and offset of the vehicle, its speed, the gust, the number of steps, and by which share
    the rate of the last step was off, where it varies."""

    cell: Int[Array, "*batch"]
    offset: Float[Array, "*batch"]
    speed: Float[Array, "*batch"]
    gust: Float[Array, "*batch"]
    step: Int[Array, "*batch"]
    supply: Float[Array, "*batch"] | None = None


class SupplyNumbers(eqx.Module):
    """How the rate varies, as traced scalars."""

    persistence: Float[Array, ""]
    freshness: Float[Array, ""]
    counts: Float[Array, " region"]
    """1 for amounts that the rate changes, 0 for the time."""


class VehicleNumbers(eqx.Module):
    """The settings of `Vehicle` and `Wind` as traced scalars."""

    max_speed: Float[Array, ""]
    inertia: Float[Array, ""]
    crawl: Float[Array, ""]
    rate: Float[Array, ""]
    effort: Float[Array, ""]
    least_flow: Float[Array, ""]
    least_dose: Float[Array, ""]
    most_dose: Float[Array, ""]
    product: Float[Array, ""]
    start_noise: Float[Array, ""]
    persistence: Float[Array, ""]
    freshness: Float[Array, ""]


class SweepWorld(eqx.Module):
    """The sweep world: initial state, transition, reward, termination, observation and labels."""

    served: tuple[Served, Served]
    """What each region receives, and what none does."""
    place: tuple[Float[Array, " cell_and_end"], Float[Array, " cell_and_end"]]
    """Row and column of each cell."""
    left: Float[Array, "milestone region"]
    cells_ahead: Int[Array, " view"]
    numbers: VehicleNumbers
    stride: int = eqx.field(static=True)
    horizon_steps: int = eqx.field(static=True)
    is_windy: bool = eqx.field(static=True)
    is_poured: bool = eqx.field(static=True)
    parts: int = eqx.field(static=True, default=1)
    """Parts of a cell that differ in what they serve."""
    has_flow: bool = eqx.field(static=True, default=False)
    """Whether an action is a throttle and an opening of the pump, or a throttle alone."""
    has_cost: bool = eqx.field(static=True, default=False)
    """Whether what is given out costs something."""
    may_miss_dose: bool = eqx.field(static=True, default=False)
    """Whether the pump cannot keep the doses at every speed over the ground."""
    timed: int | None = eqx.field(static=True, default=None)
    """The amount that a flow does not change, if there is one."""
    in_step: Float[Array, " region"] | None = None
    """The largest label of each amount, where totals are counted; without them it is 1."""
    supply: SupplyNumbers | None = None
    """How the rate varies; None where it does not."""

    @classmethod
    def from_spec(cls, spec: SweepSpec) -> SweepWorld:
        """Build the arrays of the world from its description."""
        vehicle, wind = spec.vehicle, spec.wind
        numbers = VehicleNumbers(
            *(on_device(getattr(vehicle, name), float) for name in _VEHICLE_FIELDS),
            persistence=on_device(wind.persistence, float),
            freshness=on_device(wind.freshness, float),
        )
        marks, place = milestones(spec), place_of_cells(spec)
        return cls(
            served=(
                _served_on_device(spec.service.of_regions),
                _served_on_device(spec.service.of_none),
            ),
            place=(on_device(place[:, 0], float), on_device(place[:, 1], float)),
            left=on_device(marks.left),
            cells_ahead=on_device(cells_ahead(vehicle)),
            numbers=numbers,
            stride=marks.stride,
            horizon_steps=spec.route.horizon_steps,
            is_windy=not wind.is_calm,
            is_poured=spec.is_poured,
            parts=spec.service.parts,
            has_flow=vehicle.has_flow,
            has_cost=vehicle.product_cost > 0.0,
            may_miss_dose=spec.may_miss_dose,
            timed=spec.timed,
            in_step=on_device(spec.in_step, float) if spec.totals else None,
            supply=_supply(spec),
        )

    @property
    def kind_of_part(self) -> Int[Array, " part_and_end"]:
        return self.served[0].kind_of_part

    @property
    def kinds(self) -> Float[Array, "kind region"]:
        """The share of the swath in each region, by kind of part."""
        return self.served[0].kinds

    @property
    def regions(self) -> int:
        """The number of regions."""
        return self.kinds.shape[1]

    @property
    def action_shape(self) -> tuple[int, ...]:
        """Of a throttle, or with a flow of a throttle and an opening."""
        return (2,) if self.has_flow else ()

    @property
    def rate(self) -> Float[Array, ""]:
        """Units that a step of service gives out, at full flow."""
        return self.numbers.rate

    @property
    def length(self) -> int:
        """Cells on the path."""
        return self.place[0].shape[0] - 1

    @property
    def observation_size(self) -> int:
        return observation_size(self.kinds.shape[1])

    def initial(self, *, key: PRNGKeyArray) -> SweepState:
        """At rest at the start of the path, moved forward by the start noise."""
        drawn = jax.random.uniform(key) * self.numbers.start_noise
        cell, offset = dynamics.advance(jnp.zeros(()), drawn, jnp)
        zero = jnp.zeros_like(offset)
        supply = None if self.supply is None else zero
        return SweepState(cell.astype(int), offset, zero, zero, jnp.zeros((), int), supply)

    def transition(
        self,
        state: SweepState,
        action: Float[Array, " *action"],
        *,
        key: PRNGKeyArray | None = None,
    ) -> SweepState:
        """One step of throttle, gust and movement along the path. Calm worlds need no key."""
        throttle = action[0] if self.has_flow else action
        speed = dynamics.next_speed(self.numbers, state.speed, throttle, jnp)
        gust, supply = state.gust, state.supply
        if key is None and (self.is_windy or self.supply is not None):
            raise ValueError("a world with wind or a rate that varies needs a key in every step")
        if self.is_windy and key is not None:
            noise = jax.random.normal(key, dtype=gust.dtype)
            gust = dynamics.disturbed(self.numbers, gust, noise)
        if self.supply is not None and supply is not None and key is not None:
            noise = jax.random.normal(jax.random.fold_in(key, 1), dtype=supply.dtype)
            supply = dynamics.disturbed(self.supply, supply, noise)
        distance = dynamics.ground_speed(speed, gust, jnp)
        whole, offset = dynamics.advance(state.offset, distance, jnp)
        cell = jnp.minimum(state.cell + whole.astype(int), self.length)
        return SweepState(cell, offset, speed, gust, state.step + 1, supply)

    def step(
        self,
        state: SweepState,
        action: Float[Array, " *action"],
        *,
        key: PRNGKeyArray | None = None,
    ) -> StepResult[SweepState]:
        """One step, and what it earned and gave."""
        after = self.transition(state, action, key=key)
        reward, labels = self.reward(after), self.labels(state, after)
        if self.has_cost:
            reward -= (
                self.numbers.product * self.at_flow(action, after, self.given(state, after))[0]
            )
        given = self.at_flow(action, after, labels)
        if self.timed is not None:
            given = given.at[self.timed].set(labels[self.timed])
        return StepResult(
            after,
            reward,
            given,
            self.is_terminal(after),
            self.is_truncated(after),
        )

    def reward(self, state: SweepState) -> Float[Array, ""]:
        """r = -effort / (1 + v) for the step that led to `state`."""
        distance = dynamics.ground_speed(state.speed, state.gust, jnp)
        return dynamics.step_reward(self.numbers, distance)

    def is_terminal(self, state: SweepState) -> Bool[Array, ""]:
        """Whether the path is at its end; with landing service the last step serves nothing."""
        return state.cell >= self.length

    def is_truncated(self, state: SweepState) -> Bool[Array, ""]:
        """Whether the horizon was reached before the end of the path."""
        return (state.step >= self.horizon_steps) & ~self.is_terminal(state)

    def labels(self, state: SweepState, after: SweepState) -> Float[Array, " region"]:
        """L(s, s'): the share of the step's amount that each region receives."""
        share = self._share(self.served[0], state, after)
        if self.supply is None or after.supply is None:
            return share
        counts = self.supply.counts
        return share * (1.0 - counts + counts * dynamics.supplied(after.supply, jnp))

    def given(self, state: SweepState, after: SweepState) -> Float[Array, " 2"]:
        """The shares of the step's amount that the path and, of it, no region receives."""
        outside = self._share(self.served[1], state, after)[0]
        if self.is_poured:
            distance = dynamics.ground_speed(after.speed, after.gust, jnp)
            left = (self.length - state.cell) - state.offset
            given = jnp.stack([jnp.minimum(left / distance, 1.0), outside])
        else:
            given = jnp.stack([(after.cell < self.length).astype(float), outside])
        return given if after.supply is None else given * dynamics.supplied(after.supply, jnp)

    def at_flow(
        self, action: Float[Array, " *action"], after: SweepState, service: Float[Array, " column"]
    ) -> Float[Array, " column"]:
        """What a step gives, in steps at full flow, from shares of its amount."""
        if not self.has_flow:
            return service
        distance = dynamics.ground_speed(after.speed, after.gust, jnp)
        return dynamics.flow_of(self.numbers, distance, action[1], jnp) * service

    def off_dose(self, state: SweepState, after: SweepState) -> Float[Array, ""]:
        """How many cells of the path a step gives a dose beyond its limits, at any opening."""
        distance = dynamics.ground_speed(after.speed, after.gust, jnp)
        numbers, length = self.numbers, (self.length - state.cell) - state.offset
        is_slow = numbers.most_dose * distance < (1.0 - ROUNDING) * numbers.least_flow
        is_fast = numbers.least_dose * distance > 1.0 + ROUNDING
        return (is_slow | is_fast) * jnp.minimum(length, distance)

    def _share(
        self, served: Served, state: SweepState, after: SweepState
    ) -> Float[Array, " column"]:
        return dynamics.share_of_step(
            served,
            self._place(state),
            self._place(after),
            self.parts * dynamics.ground_speed(after.speed, after.gust, jnp),
            is_poured=self.is_poured,
            look=_row,
        )

    def _place(self, state: SweepState) -> Place:
        return Place.of(state.cell, state.offset, self.parts, lambda place: place.astype(int))

    def observe(self, state: SweepState) -> Float[Array, " feature"]:
        """Progress, speed, gust, place on the map, the regions here and ahead, and what is left."""
        progress = (state.cell + state.offset) / self.length
        speed = state.speed / self.numbers.max_speed
        scalars = jnp.stack([jnp.minimum(progress, 1.0), speed, jnp.clip(state.gust, -1.0, 1.0)])
        place = jnp.stack([_row(each, state.cell) for each in self.place])
        return jnp.concatenate([scalars, place, self._views(state), self.left_of(state)])

    def left_of(self, state: SweepState) -> Float[Array, " region"]:
        """The share of each region's cells that still lies ahead."""
        return _row(self.left, state.cell // self.stride)

    def _views(self, state: SweepState) -> Float[Array, " view_and_region"]:
        """The regions here and some cells ahead; past the end of the path there are none."""
        last = self.parts * self.length
        ahead = jnp.minimum(self._place(state).part + self.parts * self.cells_ahead, last)
        # One look-up serves all views: XLA splits every operation that may read a large table
        # over threads, and each split costs more than the look-up.
        kinds = _row(self.kind_of_part, ahead)
        return _row(self.kinds, kinds).reshape(-1)


ROUNDING = 1e-5
"""The share by which a dose may miss its limits."""

_VEHICLE_FIELDS = (
    "max_speed", "inertia", "crawl", "rate", "effort", "least_flow", "least_dose", "most_dose",
    "product", "start_noise",
)  # fmt: skip


def _supply(spec: SweepSpec) -> SupplyNumbers | None:
    supply = spec.vehicle.supply
    if supply.is_calm:
        return None
    counts = np.array([name not in TIMES for name in spec.amounts], float)
    numbers = supply.persistence, supply.freshness, counts
    return SupplyNumbers(*(on_device(each, float) for each in numbers))


RUNS = 512
"""Tables by run have a multiple of this many rows, so that maps of one size share one program."""


def _served_on_device(served: Served) -> Served:
    whole, real = (partial(on_device, kind=kind) for kind in (int, float))
    more = -len(served.first_part) % RUNS  # no part belongs to these runs
    first_part, sums = (
        np.pad(served.first_part, (0, more)),
        np.pad(served.sums, ((0, more), (0, 0))),
    )
    return Served(
        whole(served.kind_of_part), real(served.kinds), whole(served.run_of_part),
        whole(first_part), on_device(sums), real(served.unit),
    )  # fmt: skip


MOST_COLUMNS_ONE_BY_ONE = 16


def _row(table: Array, index: Int[Array, "*rows"]) -> Array:
    """Rows by indices that are in bounds, without clamping.

    A CPU gathers scalars four times as fast as short rows, so narrow tables go by single numbers.
    """
    if table.ndim > 1 and table.shape[1] <= MOST_COLUMNS_ONE_BY_ONE:
        index = table.shape[1] * index[..., None] + jnp.arange(table.shape[1])
        table = table.reshape(-1)
    return table.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)
