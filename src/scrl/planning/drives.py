"""Prices -> what driving by them does: many plans side by side in one compiled call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from scrl.planning.features import Outlook, part_of, window_for
from scrl.planning.policy import AheadOfFluid, PricePolicy
from scrl.rollout import Episode, RunningEpisode, begin_episode, forget_compiled, one_step
from scrl.threads import IsStopped, in_threads
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.world import SweepWorld

PARTS = 64
"""Parts of the path that may have prices of their own, and whose sums are kept apart."""
AT_ONCE = 4
"""Plans in one call. Calls run in threads of their own, which is what fills the cores."""
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
    throttles: list[Float[np.ndarray, " step"]]
    """Those of each plan in its first episode."""


Kept = tuple[Episode, Float[np.ndarray, "plan part sum"], list[Float[np.ndarray, " step"]]]
"""Sums of episodes, sums of parts, and throttles."""


class Recorded(NamedTuple):
    """Episodes of some plans under way."""

    running: RunningEpisode
    """Axes: plan, episode."""
    step: Int[Array, ""]
    """Steps of this call."""
    throttles: Float[Array, "plan step"]
    """Those of this call: on long paths the throttles of all steps would be copied every time."""
    sums_of_part: Float[Array, "plan part sum"]
    """Return and service, summed over episodes."""


class PriceDriver:
    """Drives one world by any prices."""

    def __init__(self, ahead: AheadOfFluid, spec: SweepSpec, world: SweepWorld) -> None:
        _drop_other_shapes(world)
        self.ahead, self.spec, self.world = ahead, spec, world
        self.watch: Callable[[float], None] | None = None
        """Told now and then how much of the path the slowest of some plans has behind it."""
        self.window = window_for(spec.vehicle.max_speed, spec.vehicle.inertia)

    def policy(self, prices: Float[np.ndarray, "part region"]) -> PricePolicy:
        """The policy for prices in return per step."""
        scaled = jnp.asarray(prices / self.spec.vehicle.effort, jnp.float32)
        return PricePolicy(self.ahead, Outlook.of(self.world, scaled, self.window))

    def drive(
        self,
        prices: Float[np.ndarray, "plan part region"],
        *,
        most_steps: float,
        keys: Key[Array, " episode"],
        discount: float = 1.0,
    ) -> Driven:
        """Every plan in the same episodes, one for each key; longer ones are broken off."""
        until = int(min(most_steps, self.spec.route.horizon_steps))
        some = [prices[first : first + AT_ONCE] for first in range(0, len(prices), AT_ONCE)]
        drive_some = partial(self._drive_some, until=until, keys=keys, discount=discount)
        ran = in_threads(drive_some, some)
        sums, of_part = jax.tree.map(
            lambda *leaves: np.concatenate(leaves), *(each[:2] for each in ran)
        )
        rate, of_part = self.spec.vehicle.rate, of_part.astype(float) / len(keys)
        return Driven(
            sums.return_.astype(float),
            rate * sums.service.astype(float),
            of_part[..., 0],
            rate * of_part[..., 1:],
            sums.steps.astype(float),
            sums.is_terminated.all(axis=1),
            [throttles for _, _, some in ran for throttles in some],
        )

    def _drive_some(
        self,
        prices: Float[np.ndarray, "plan part region"],
        is_stopped: IsStopped,
        *,
        until: int,
        keys: Key[Array, " episode"],
        discount: float,
    ) -> Kept:
        """Some plans in one call: the same number each time, so that it is compiled once."""
        padded = np.concatenate([prices, np.repeat(prices[:1], AT_ONCE - len(prices), axis=0)])
        scaled = jnp.asarray(padded / self.spec.vehicle.effort, jnp.float32)
        chunk = max(CHUNK_STEPS // (AT_ONCE * len(keys)), 1)
        outlooks, now = _begin_all(self.world, scaled, keys, window=self.window, capacity=chunk)
        pieces = []
        for first in range(0, until, chunk):
            now = _drive_on(
                self.ahead, self.world, outlooks, now, jnp.asarray(min(chunk, until - first)),
                jnp.asarray(discount, float),
            )  # fmt: skip
            pieces.append(np.asarray(now.throttles))
            if self.watch is not None:
                self.watch(float(now.running.state.cell.min()) / self.world.length)
            if is_stopped() or bool(now.running.sums.is_terminated.all()):
                break
        sums, of_part = jax.tree.map(
            lambda leaf: np.asarray(leaf)[: len(prices)], (now.running.sums, now.sums_of_part)
        )
        throttles = [
            np.concatenate([piece[plan] for piece in pieces])[:steps]
            for plan, steps in enumerate(sums.steps[:, 0])
        ]
        return sums, of_part, [each.copy() for each in throttles]


_shapes: set[Any] = set()
"""Of worlds for which something is compiled."""


def _drop_other_shapes(world: SweepWorld) -> None:
    """Forget what was compiled for other worlds, once there are many: each takes some 20 MB."""
    shape = jax.tree.structure(world), tuple(leaf.shape for leaf in jax.tree.leaves(world))
    if shape not in _shapes and len(_shapes) >= MOST_SHAPES:
        _shapes.clear()
        for compiled in (_begin_all, _drive_on):
            cast(Any, compiled).clear_cache()
        forget_compiled()
    _shapes.add(shape)


@partial(jax.jit, static_argnames=("window", "capacity"))
def _begin_all(
    world: SweepWorld,
    prices: Float[Array, "plan part region"],
    keys: Key[Array, " episode"],
    *,
    window: int,
    capacity: int,
) -> tuple[Outlook, Recorded]:
    """What lies ahead of each plan, and its episodes before their first step."""
    plans, parts, regions = prices.shape
    # One after the other: what is needed in between would be as large as all outlooks together.
    outlooks = jax.lax.map(lambda price: Outlook.of(world, price, window), prices)
    begun = jax.vmap(lambda key: begin_episode(world, key=key))(keys)
    return outlooks, Recorded(
        jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (plans, *leaf.shape)), begun),
        jnp.zeros((), int),
        jnp.zeros((plans, capacity)),
        jnp.zeros((plans, parts, 1 + regions)),
    )


@jax.jit
def _drive_on(
    ahead: AheadOfFluid,
    world: SweepWorld,
    outlooks: Outlook,
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

    def drive_on(outlook: Outlook, now: RunningEpisode) -> tuple[RunningEpisode, Array]:
        return one_step(world, PricePolicy(ahead, outlook), now, discount)

    def body(now: Recorded) -> Recorded:
        on_each = jax.vmap(jax.vmap(drive_on, in_axes=(None, 0)))
        moved, throttle = on_each(outlooks, now.running)
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
