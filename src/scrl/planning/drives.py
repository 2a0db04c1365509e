"""Prices -> what driving by them does: many plans side by side in one compiled call."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from scrl.planning.fluid_policy import FluidPolicy
from scrl.planning.lattice_policy import (
    LatticePolicy,
    PlacesOnLattice,
    ValuesOnLattice,
    lattice_for,
)
from scrl.planning.outlook import Outlook, part_of, window_for
from scrl.policies import PlacedPolicy, Schedule, lengthened, padded_length
from scrl.reference.lattice import SpeedLattice
from scrl.rollout import (
    Episode,
    RunningEpisode,
    begin_episode,
    forget_compiled,
    one_step,
    unused_keys,
)
from scrl.threads import IsStopped, in_threads
from scrl.worlds.sweep.dynamics import Served
from scrl.worlds.sweep.lookup import on_device
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.world import SweepWorld

PARTS = 64
"""Parts of the path that may have prices of their own, and whose sums are kept apart."""
AT_ONCE = 4
"""Plans in one call. Calls run in threads of their own, which is what fills the cores."""
REGIONS_AT_ONCE, LEAST_ROWS = 4, 512
"""Regions are filled up to a multiple, and rows of other tables to a power of two from here on."""
MOST_SHAPES = 8
"""Sizes of worlds whose compiled code is kept at a time."""
CHUNK_STEPS = 50_000
"""Steps of all episodes together in one call: after each, Ctrl-C is heard."""


class Driven(NamedTuple):
    """What plans did; amounts in raw units, return raw."""

    returns: Float[np.ndarray, "plan episode"]
    amounts: Float[np.ndarray, "plan episode region"]
    returns_of_part: Float[np.ndarray, "plan part"]
    """Where it was earned, on average."""
    amounts_of_part: Float[np.ndarray, "plan part region"]
    """Where they were given, on average."""
    steps: Float[np.ndarray, "plan episode"]
    is_finished: Bool[np.ndarray, " plan"]
    """Whether every episode came to its end in the time it was given."""
    throttles: list[Float[np.ndarray, "step ..."]]
    """The actions of each plan in its first episode; with a flow, its openings beside them."""


Kept = tuple[Episode, Float[np.ndarray, "plan part sum"], list[Float[np.ndarray, "step ..."]]]
"""Sums of episodes, sums of parts, and throttles."""


class Recorded(NamedTuple):
    """Episodes of some plans under way."""

    running: RunningEpisode
    """Axes: plan, episode."""
    step: Int[Array, ""]
    """Steps of this call."""
    throttles: Float[Array, "plan step *action"]
    """Those of this call: on long paths the throttles of all steps would be copied every time."""
    sums_of_part: Float[Array, "plan part sum"]
    """Return and service, summed over episodes."""


class PriceDriver:
    """Drives one world by any prices."""

    def __init__(self, spec: SweepSpec, world: SweepWorld) -> None:
        self.spec, self.world = spec, world
        self.filled_world = _with_filled_tables(world)
        _drop_other_shapes(self.filled_world)
        self.watch: Callable[[float], None] | None = None
        """Told now and then how much of the path the slowest of some plans has behind it."""
        self.window = window_for(spec.vehicle.max_speed)

    def lattice(
        self,
        prices: Float[np.ndarray, " region"],
        least_levels: int = 0,
        *,
        is_polished: bool = False,
    ) -> SpeedLattice | None:
        """The lattice for prices like these, in return for a step.

        It knows calm air and the start of the path: a random world has none, nor has a long path.
        """
        if self.spec.is_random:
            return None
        in_efforts = prices / self.spec.vehicle.effort
        return lattice_for(
            self.spec, in_efforts,
            plans=AT_ONCE, least_levels=least_levels, is_polished=is_polished,
        )  # fmt: skip

    def drive(
        self,
        prices: Float[np.ndarray, "plan part region"],
        *,
        most_steps: float,
        keys: Key[Array, " episode"],
        discount: float = 1.0,
        lattice: SpeedLattice | None = None,
    ) -> Driven:
        """Every plan in the same episodes, one for each key; longer ones are broken off.

        With a lattice, the best drives for these prices; without one, those of the fluid policy.
        """
        some = [prices[first : first + AT_ONCE] for first in range(0, len(prices), AT_ONCE)]
        until = int(min(most_steps, self.spec.route.horizon_steps))

        def drive_some(
            prices: Float[np.ndarray, "plan part region"], is_stopped: IsStopped
        ) -> Kept:
            policies = self._policies(_filled(prices), lattice)
            run = _Run(until, keys, discount, is_stopped)
            return self._drive_some(policies, len(prices), run)

        return self._driven(in_threads(drive_some, some), len(keys))

    def follow(self, throttles: Sequence[Float[np.ndarray, "step ..."]]) -> Driven:
        """Drives with given throttles, in a world without chance."""
        some = [throttles[first : first + AT_ONCE] for first in range(0, len(throttles), AT_ONCE)]
        longest = padded_length(max(map(len, throttles)))

        def follow_some(
            throttles: Sequence[Float[np.ndarray, "step ..."]], is_stopped: IsStopped
        ) -> Kept:
            padded = [lengthened(each, longest) for each in throttles]
            policies = _Policies(_scheduled, None, (on_device(_filled(np.array(padded)), float),))
            run = _Run(self.spec.route.horizon_steps, unused_keys(1), 1.0, is_stopped)
            return self._drive_some(policies, len(throttles), run)

        return self._driven(in_threads(follow_some, some), 1)

    def _driven(self, ran: list[Kept], episodes: int) -> Driven:
        sums, of_part = jax.tree.map(
            lambda *leaves: np.concatenate(leaves), *(each[:2] for each in ran)
        )
        rate, of_part = self.spec.vehicle.rate, of_part.astype(float) / episodes
        regions = self.world.regions
        return Driven(
            sums.return_.astype(float),
            rate * sums.service[..., :regions].astype(float),
            of_part[..., 0],
            rate * of_part[..., 1 : 1 + regions],
            sums.steps.astype(float),
            sums.is_terminated.all(axis=1),
            [throttles for _, _, some in ran for throttles in some],
        )

    def _drive_some(self, policies: _Policies, plans: int, run: _Run) -> Kept:
        """Some plans in one call: the same number each time, so that it is compiled once."""
        chunk = max(CHUNK_STEPS // (AT_ONCE * len(run.keys)), 1)
        now = _begin_all(self.filled_world, run.keys, capacity=chunk)
        pieces = []
        for first in range(0, run.until, chunk):
            now = _drive_on(
                policies, self.filled_world, now,
                on_device(min(chunk, run.until - first)), on_device(run.discount, float),
            )  # fmt: skip
            pieces.append(np.asarray(now.throttles))
            if self.watch is not None:
                self.watch(float(np.asarray(now.running.state.cell).min()) / self.world.length)
            if run.is_stopped() or bool(np.asarray(now.running.sums.is_terminated).all()):
                break
        sums, of_part = jax.tree.map(
            lambda leaf: np.asarray(leaf)[:plans], (now.running.sums, now.sums_of_part)
        )
        throttles = [
            np.concatenate([piece[plan] for piece in pieces])[:steps]
            for plan, steps in enumerate(sums.steps[:, 0])
        ]
        return sums, of_part, [each.copy() for each in throttles]

    def _policies(
        self, prices: Float[np.ndarray, "plan part region"], lattice: SpeedLattice | None
    ) -> _Policies:
        effort = self.spec.vehicle.effort
        beyond = self.filled_world.regions - self.world.regions
        scaled = np.pad(prices / effort, ((0, 0), (0, 0), (0, beyond))).astype(np.float32)
        outlooks = _outlooks(self.filled_world, scaled, window=self.window)
        if lattice is None:
            return _Policies(_beyond_fluid, None, (outlooks,))
        values = lattice.values(prices, unit=effort)
        ahead = ValuesOnLattice(PlacesOnLattice.of(lattice), values)
        return _Policies(LatticePolicy, ahead, (outlooks, on_device(np.arange(len(prices)))))


def _with_filled_tables(world: SweepWorld) -> SweepWorld:
    """The world with tables of few sizes: maps of one size run the same code.

    Rows that are added are never looked up, and regions that are added receive nothing.
    """
    regions = REGIONS_AT_ONCE * math.ceil(world.regions / REGIONS_AT_ONCE)
    of_regions, of_none = world.served
    return replace(
        world,
        served=(_filled_served(of_regions, regions), _filled_served(of_none, 1)),
        left=on_device(_filled_up(world.left, len(world.left), regions)),
        in_step=None,  # which plans do not ask for
    )


def _filled_served(served: Served, columns: int) -> Served:
    kinds, runs = (_few(len(each)) for each in (served.kinds, served.first_part))
    return served._replace(
        kinds=on_device(_filled_up(served.kinds, kinds, columns)),
        first_part=on_device(_filled_up(served.first_part, runs)),
        sums=on_device(_filled_up(served.sums, runs, columns)),
    )


def _few(rows: int) -> int:
    """As many or more, one of few numbers."""
    return max(2 ** (rows - 1).bit_length(), LEAST_ROWS)


def _filled_up(table: Shaped[Array, "row ..."], *shape: int) -> Shaped[np.ndarray, "filled ..."]:
    """The table with zeros added up to this shape."""
    return np.pad(table, [(0, size - has) for size, has in zip(shape, table.shape, strict=True)])


def _filled(rows: np.ndarray) -> np.ndarray:
    """As many rows as are driven at once; the first one is repeated."""
    return np.concatenate([rows, np.repeat(rows[:1], AT_ONCE - len(rows), axis=0)])


def _scheduled(_: None, throttles: Float[Array, "step ..."]) -> Schedule:
    return Schedule(throttles)


def _beyond_fluid(_: None, outlook: Outlook) -> FluidPolicy:
    return FluidPolicy(outlook)


class _Run(NamedTuple):
    """How plans are driven."""

    until: int
    keys: Key[Array, " episode"]
    discount: float
    is_stopped: IsStopped


class _Policies(eqx.Module):
    """Policies side by side, from what they share and what each has of its own."""

    build: Callable[..., PlacedPolicy] = eqx.field(static=True)
    shared: Any
    own: tuple[Any, ...]


_shapes: set[Any] = set()
"""Of worlds for which something is compiled."""


def _drop_other_shapes(world: SweepWorld) -> None:
    """Forget what was compiled for other worlds, once there are many: each takes some 20 MB."""
    shape = jax.tree.structure(world), tuple(leaf.shape for leaf in jax.tree.leaves(world))
    if shape not in _shapes and len(_shapes) >= MOST_SHAPES:
        _shapes.clear()
        for compiled in (_outlooks, _begin_all, _drive_on):
            cast(Any, compiled).clear_cache()
        forget_compiled()
    _shapes.add(shape)


@partial(jax.jit, static_argnames="window")
def _outlooks(
    world: SweepWorld, prices: Float[Array, "plan part region"], *, window: int
) -> Outlook:
    """What lies ahead of each plan, from prices in efforts for a step."""
    # One after the other: what is needed in between would be as large as all outlooks together.
    return jax.lax.map(lambda price: Outlook.of(world, price, window), prices)


@partial(jax.jit, static_argnames="capacity")
def _begin_all(world: SweepWorld, keys: Key[Array, " episode"], *, capacity: int) -> Recorded:
    """The episodes of each plan before their first step."""
    begun = jax.vmap(lambda key: begin_episode(world, key=key))(keys)
    return Recorded(
        jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (AT_ONCE, *leaf.shape)), begun),
        jnp.zeros((), int),
        jnp.zeros((AT_ONCE, capacity, 2) if world.has_flow else (AT_ONCE, capacity)),
        jnp.zeros((AT_ONCE, PARTS, 1 + world.regions)),
    )


@jax.jit
def _drive_on(
    policies: _Policies,
    world: SweepWorld,
    start: Recorded,
    until: Int[Array, ""],
    discount: Float[Array, ""],
) -> Recorded:
    """So many steps on, in one loop for all: under `vmap` each record would be copied in each."""
    start = start._replace(step=jnp.zeros((), int))
    plans, parts = start.sums_of_part.shape[:2]
    plan = jnp.arange(plans)[:, None]

    def is_going(now: Recorded) -> Bool[Array, "plan episode"]:
        return ~now.running.sums.is_terminated & (now.step < until)

    def drive_on(own: tuple[Any, ...], now: RunningEpisode) -> tuple[RunningEpisode, Array]:
        return one_step(world, policies.build(policies.shared, *own), now, discount)

    def body(now: Recorded) -> Recorded:
        on_each = jax.vmap(jax.vmap(drive_on, in_axes=(None, 0)))
        moved, throttle = on_each(policies.own, now.running)
        going = is_going(now)
        after = _chosen(going, moved, now.running)
        part = part_of(after.state.cell, world, parts)
        before = now.running.sums
        earned = (after.sums.return_ - before.return_)[..., None]
        given = after.sums.service - before.service
        return Recorded(
            after,
            now.step + 1,
            now.throttles.at[:, now.step].set(throttle[:, 0]),
            now.sums_of_part.at[plan, part].add(jnp.concatenate([earned, given], axis=-1)),
        )

    return jax.lax.while_loop(lambda now: is_going(now).any(), body, start)


def _chosen(
    is_first: Bool[Array, "plan episode"], first: RunningEpisode, second: RunningEpisode
) -> RunningEpisode:
    """The first where so said, else the second; their keys are the same."""

    def choose(one: Array, other: Array) -> Array:
        shape = is_first.shape + (1,) * (one.ndim - is_first.ndim)
        return jnp.where(is_first.reshape(shape), one, other)

    return jax.tree.map(choose, first, second)
