"""The route of one episode: places, speeds, and the amounts that regions receive."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from scrl.policies import Action, PlacedPolicy, Policy
from scrl.problems import Problem
from scrl.rollout import CHUNK_STEPS, RunningEpisode, begin_episode, one_step
from scrl.worlds.sweep.dynamics import Served, flow_of, ground_speed
from scrl.worlds.sweep.georeference import Georeference
from scrl.worlds.sweep.places import places_at, stretch_at
from scrl.worlds.sweep.service import ServiceTable
from scrl.worlds.sweep.transits import Transit
from scrl.worlds.sweep.world import SweepWorld


@dataclass(frozen=True, eq=False, repr=False)
class Route:
    """One episode, step by step. A step leads from place i to place i + 1."""

    problem: Problem
    """Map, vehicle, units and rules."""
    along: Float[np.ndarray, " place"]
    """Distance along the path before the first step and after each one, in path cells."""
    speed: Float[np.ndarray, " step"]
    """Speed over ground in each step, in cells per step."""
    throttle: Float[np.ndarray, " step"]
    """What the policy chose in each step, from 0 to 1."""
    flow: Float[np.ndarray, " step"]
    """What is given out in each step, as units for a whole step."""
    is_whole: bool
    """Whether the episode reached the end of the path; otherwise it was truncated."""

    @property
    def steps(self) -> int:
        return len(self.speed)

    @property
    def regions(self) -> tuple[str, ...]:
        """The names of the regions, in the order of `received`."""
        return self.problem.world_spec.regions.names

    @property
    def georeference(self) -> Georeference | None:
        """The georeference of the map; None if it has none."""
        return self.problem.world_spec.regions.georeference

    @cached_property
    def cells(self) -> Float[np.ndarray, "place 2"]:
        """Row and column of each place; the centre of the first cell is (0.5, 0.5)."""
        return places_at(self.problem.world_spec.path, self.along)

    @cached_property
    def coordinates(self) -> Float[np.ndarray, "place 2"] | None:
        """x and y of each place on the map (longitude and latitude if geographic), if known."""
        return None if self.georeference is None else self.georeference.places(self.cells)

    @property
    def metres_per_second(self) -> Float[np.ndarray, " step"] | None:
        """Speed over ground in each step; None unless `cell` and `step` are known."""
        units = self.problem.world_spec.units
        if units.cell is None or units.step is None:
            return None
        return self.speed * (units.cell / units.step)

    @cached_property
    def amount(self) -> Float[np.ndarray, " step"]:
        """Units given out in each step; in the last step, only those before the path's end."""
        share = np.ones(self.steps)
        if self.is_whole:
            last = (self.along[-1] - self.along[-2]) / self.speed[-1]
            share[-1] = last if self._service.is_poured else 0.0
        return self.flow * share

    @cached_property
    def received(self) -> Float[np.ndarray, "step region"]:
        """Units that each region receives in each step."""
        return self._given_to(self._service.of_regions)[: len(self.regions)].T

    @cached_property
    def outside(self) -> Float[np.ndarray, " step"]:
        """Units that no region receives in each step."""
        return self._given_to(self._service.of_none)[0]

    def _given_to(self, served: Served) -> Float[np.ndarray, "column step"]:
        begin, end = self.along[:-1], self.along[1:]
        if self._service.is_poured:
            end = begin + self.speed  # the last step may lead past the end
        share = self._service.share_between(served, begin, end)
        return self.flow * share

    def poured_on(
        self,
        step: Int[np.ndarray, " part"],
        begin: Float[np.ndarray, " part"],
        length: Float[np.ndarray, " part"],
        share: Float[np.ndarray, " part"],
    ) -> tuple[Float[np.ndarray, " part"], Float[np.ndarray, "part region"]]:
        """What parts of steps give out in all and to each region, where service is poured.

        `share` is the part's share of its step's time.
        """
        amount = self.amount[step] * share
        end = begin + np.maximum(length, 1e-9)  # some are too short for their numbers
        shares = self._service.share_between(self._service.of_regions, begin, end)
        return amount, (amount * shares[: len(self.regions)]).T

    @property
    def _service(self) -> ServiceTable:
        return self.problem.world_spec.service

    @property
    def totals(self) -> dict[str, float]:
        """Units that each region receives: the densities of this episode, without discount."""
        return dict(zip(self.regions, self.received.sum(axis=0).tolist(), strict=True))

    @cached_property
    def transits(self) -> tuple[Transit, ...]:
        """The transits between the stretches that were driven, in order."""
        spec = self.problem.world_spec
        first, last = stretch_at(spec.path, self.along[[0, -1]]).tolist()
        return spec.transits[first:last]

    @cached_property
    def ways(self) -> tuple[Transit, ...]:
        """All ways on which nothing was given out: transits, and those from and to the start."""
        spec = self.problem.world_spec
        if spec.stand is None:
            return self.transits
        return (spec.ways[0], *self.transits, *(spec.ways[-1:] if self.is_whole else ()))

    @property
    def transit_length(self) -> float:
        """Length of these ways in cells; `along` does not count it."""
        return sum(each.length for each in self.ways)

    @property
    def transit_steps(self) -> float:
        """Steps of these ways and of the turns; `steps` does not count them."""
        spec = self.problem.world_spec
        return self.transit_length / spec.transfer_speed + len(self.transits) * spec.turn_steps

    @property
    def length(self) -> float:
        """Length of the whole drive in cells."""
        return float(self.along[-1] - self.along[0]) + self.transit_length

    @property
    def first_place(self) -> Float[np.ndarray, " 2"]:
        """Row and column where the drive begins."""
        stand = self.problem.world_spec.stand
        return self.cells[0] if stand is None else np.array(stand)

    @property
    def duration(self) -> str:
        """Driving time as text, with that of transits."""
        return self.problem.units.duration(self.steps, self.transit_steps)


def given_over_cells(route: Route) -> Float[np.ndarray, "row col"]:
    """Units given out over each cell of a route; a wide swath gives to all cells that it covers."""
    spec = route.problem.world_spec
    path = spec.path.cells
    # Cumulative amount, interpolated at every edge between two cells.
    given = np.concatenate([[0.0], np.cumsum(route.amount)])
    at_edges = np.interp(np.arange(len(path) + 1), route.along, given)
    nearest = spec.path.number
    sharing = np.bincount(nearest[nearest >= 0], minlength=len(path))
    return on_map(np.diff(at_edges) / np.maximum(sharing, 1), nearest)


def on_map(
    values: Float[np.ndarray, " cell"], nearest: Int[np.ndarray, "row col"]
) -> Float[np.ndarray, "row col"]:
    """Values of path cells on the cells that these cover; NaN elsewhere."""
    return np.where(nearest >= 0, values[nearest], np.nan)


class _Steps(NamedTuple):
    """What is stored of consecutive steps; after the end of an episode its last state repeats."""

    cell: Int[Array | np.ndarray, "*steps"]
    offset: Float[Array | np.ndarray, "*steps"]
    speed: Float[Array | np.ndarray, "*steps"]
    action: Float[Array | np.ndarray, "*steps_and_action"]


def drive(problem: Problem, policy: Policy | Action | PlacedPolicy, *, seed: int = 0) -> Route:
    """Run one episode and store every step.

    It is the first episode that `evaluate` runs with the same seed.
    """
    world = problem.world
    running = _begin(world, policy, jax.random.split(jax.random.key(seed), 1)[0])
    start, chunks = float(running.state.cell + running.state.offset), []
    while _is_running(world, running):
        running, chunk = _continue(world, policy, running)
        chunks.append(jax.tree.map(np.asarray, chunk))
    count, is_whole = int(running.sums.steps), bool(running.sums.is_terminated)
    steps = _Steps(*(np.concatenate(parts)[:count] for parts in zip(*chunks, strict=True)))
    along = np.concatenate([[start], steps.cell + np.asarray(steps.offset, float)])
    if is_whole:
        along[-1] = world.length  # the world does not count further
    vehicle, actions = problem.world_spec.vehicle, np.asarray(steps.action, float)
    flow = np.ones(count)
    if vehicle.has_flow:
        flow = flow_of(vehicle, np.asarray(steps.speed, float), actions[:, 1], np)
    return Route(
        problem=problem,
        along=along,
        speed=np.asarray(steps.speed, float),
        throttle=actions if actions.ndim == 1 else actions[:, 0],
        flow=vehicle.rate * flow,
        is_whole=is_whole,
    )


def _is_running(world: SweepWorld, running: RunningEpisode) -> bool:
    return bool(~running.sums.is_terminated & (running.state.step < world.horizon_steps))


@eqx.filter_jit
def _begin(world: SweepWorld, policy: Action | PlacedPolicy, key: PRNGKeyArray) -> RunningEpisode:
    return begin_episode(world, policy, key=key)


@eqx.filter_jit
def _continue(
    world: SweepWorld, policy: Action | PlacedPolicy, running: RunningEpisode
) -> tuple[RunningEpisode, _Steps]:
    """Run a chunk of steps; a finished episode stays in its last state."""

    def body(now: RunningEpisode, _: None) -> tuple[RunningEpisode, _Steps]:
        moved, action = one_step(world, policy, now)
        is_over = now.sums.is_terminated | (now.state.step >= world.horizon_steps)
        after = jax.tree.map(lambda old, new: jnp.where(is_over, old, new), now, moved)
        state = after.state
        speed = ground_speed(state.speed, state.gust, jnp)
        return after, _Steps(state.cell, state.offset, speed, action)

    return jax.lax.scan(body, running, None, length=CHUNK_STEPS)
