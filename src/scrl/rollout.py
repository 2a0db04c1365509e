"""Rollouts of a policy in a compiled world; only this module resets such worlds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, Shaped

from scrl.errors import PolicyError
from scrl.policies import Action, PlacedPolicy
from scrl.threads import IsStopped, in_threads
from scrl.worlds.contract import State, SteppedWorld
from scrl.worlds.sweep.lookup import on_device
from scrl.worlds.sweep.world import SweepState, SweepWorld

ActInLane = Callable[..., tuple[Float[Array, "*action"], Float[Array, ""]]]
"""(observation, lane, noise) -> an action and its log probability."""


class Transition(NamedTuple):
    """One step: next state, labels, reward, and whether it terminated or truncated the episode."""

    state: SweepState
    action: Float[Array, "*batch_and_action"]
    labels: Float[Array, "*batch region"]
    reward: Float[Array, "*batch"]
    is_terminated: Bool[Array, "*batch"]
    is_truncated: Bool[Array, "*batch"]


class Trajectory(NamedTuple):
    """Consecutive steps; `is_active` is false after the end of the episode, where values are 0."""

    transition: Transition
    is_active: Bool[Array, "*time"]


class Episode(NamedTuple):
    """The sums of one episode: sum gamma^t r, sum gamma^t labels, steps, and how it ended."""

    return_: Float[Array, "*batch"]
    service: Float[Array, "*batch region"]
    steps: Int[Array, "*batch"]
    is_terminated: Bool[Array, "*batch"]
    given: Float[Array, "*batch given"] | None
    """What was given out in all and to no region, and on how many cells of the path the dose is
    beyond its limits, where the pump may miss these; None without a map."""


def take_step(
    world: SweepWorld,
    policy: Action | PlacedPolicy,
    state: SweepState,
    seen: tuple[Float[Array, " region"], Any],
    *,
    key: PRNGKeyArray,
) -> tuple[Transition, Any]:
    """One step: choose an action by the service so far and the memory, and apply it."""
    act_key, world_key = jax.random.split(key)
    if isinstance(policy, PlacedPolicy):
        action, memory = policy.at(world, state, *seen)
    else:
        action, memory = policy(world.observe(state), key=act_key), seen[1]
    if world.has_flow and action.shape != (2,):
        raise PolicyError(
            "this vehicle has a flow: an action is a throttle and an opening of the pump, two "
            f"numbers from 0 to 1, and this policy gives an array of shape {action.shape}"
        )
    after, reward, labels, is_terminated, is_truncated = world.step(state, action, key=world_key)
    return Transition(after, action, labels, reward, is_terminated, is_truncated), memory


def _memory_of(policy: Action | PlacedPolicy | None) -> Any:
    """What a policy remembers before the first step."""
    return policy.begin() if isinstance(policy, PlacedPolicy) else ()


class RunningEpisode(NamedTuple):
    """An unfinished episode: its state, its sums so far, gamma^t, and what its policy remembers."""

    state: SweepState
    sums: Episode
    weight: Float[Array, "*batch"]
    key: Key[Array, "*batch"]
    memory: Any


def begin_episode(
    world: SweepWorld, policy: Action | PlacedPolicy | None = None, *, key: PRNGKeyArray
) -> RunningEpisode:
    """The start of an episode, with all sums 0; the default is a policy without a memory."""
    start_key, loop_key = jax.random.split(key)
    regions = world.kinds.shape[1]
    nothing = Episode(
        jnp.zeros(()), jnp.zeros(regions), jnp.zeros((), int), jnp.zeros((), bool),
        jnp.zeros(3 if world.may_miss_dose else 2),
    )  # fmt: skip
    start = world.initial(key=start_key)
    return RunningEpisode(start, nothing, jnp.ones(()), loop_key, _memory_of(policy))


def continue_episode(
    world: SweepWorld,
    policy: Action | PlacedPolicy,
    running: RunningEpisode,
    *,
    until_step: int | Int[Array, ""],
    until_cell: Int[Array, ""] | None = None,
    discount: float | Float[Array, ""] = 1.0,
) -> RunningEpisode:
    """Continue to the end or to a given step or path cell; memory does not grow with the length."""
    last_step = jnp.minimum(until_step, world.horizon_steps)

    def is_running(now: RunningEpisode) -> Bool[Array, ""]:
        is_on = ~now.sums.is_terminated & (now.state.step < last_step)
        return is_on if until_cell is None else is_on & (now.state.cell < until_cell)

    def body(now: RunningEpisode) -> RunningEpisode:
        return one_step(world, policy, now, discount)[0]

    return jax.lax.while_loop(is_running, body, running)


def one_step(
    world: SweepWorld,
    policy: Action | PlacedPolicy,
    now: RunningEpisode,
    discount: float | Float[Array, ""] = 1.0,
) -> tuple[RunningEpisode, Float[Array, " *action"]]:
    """An episode one step later, and the action that led there."""
    step_key = jax.random.fold_in(now.key, now.state.step)
    seen = now.sums.service, now.memory
    moved, memory = take_step(world, policy, now.state, seen, key=step_key)
    assert now.sums.given is not None  # noqa: S101 (for the type checker: there is a map)
    given = now.weight * world.at_flow(
        moved.action, moved.state, world.given(now.state, moved.state)
    )
    if world.may_miss_dose:
        given = jnp.append(given, world.off_dose(now.state, moved.state))
    sums = Episode(
        now.sums.return_ + now.weight * moved.reward,
        now.sums.service + now.weight * moved.labels,
        now.sums.steps + 1,
        moved.is_terminated,
        now.sums.given + given,
    )
    return RunningEpisode(moved.state, sums, now.weight * discount, now.key, memory), moved.action


def run_episode(
    world: SweepWorld, policy: Action | PlacedPolicy, *, key: PRNGKeyArray, discount: float = 1.0
) -> Episode:
    """One episode from start to end."""
    running = begin_episode(world, policy, key=key)
    until = world.horizon_steps
    return continue_episode(world, policy, running, until_step=until, discount=discount).sums


CHUNK_STEPS = 5_000
CHUNK_EPISODES = 250
"""Episodes per batch; fixed, so that results do not depend on the machine."""


def unused_keys(episodes: int) -> Key[Array, " episode"]:
    """Keys for episodes in which nothing is left to chance.

    They look like any others to the compiler, and their kind is the quickest to compile.
    """
    return jax.random.wrap_key_data(
        on_device(np.zeros((episodes, 4), np.uint32)), impl="unsafe_rbg"
    )


def run_episodes(
    world: SweepWorld,
    policy: Action | PlacedPolicy,
    *,
    keys: Key[Array, " episode"],
    discount: float = 1.0,
) -> Episode:
    """Many episodes in parallel, one per key; in chunks, so that Ctrl-C takes effect soon."""
    chunks = [keys[first : first + CHUNK_EPISODES] for first in range(0, len(keys), CHUNK_EPISODES)]

    def run_chunk(keys: Key[Array, " episode"], is_stopped: IsStopped) -> Episode:
        return _run_chunk(world, policy, keys, discount, is_stopped)

    ran = in_threads(run_chunk, chunks)
    return jax.tree.map(lambda *sums: jnp.concatenate(sums), *ran)


def _run_chunk(
    world: SweepWorld,
    policy: Action | PlacedPolicy,
    keys: Key[Array, " episode"],
    discount: float,
    is_stopped: IsStopped,
) -> Episode:
    running = _begin_all(world, policy, keys)
    for until in range(CHUNK_STEPS, world.horizon_steps + CHUNK_STEPS, CHUNK_STEPS):
        running = _continue_all(
            world, policy, running, on_device(until), on_device(discount, float)
        )
        if is_stopped() or bool(np.asarray(running.sums.is_terminated).all()):
            break
    return running.sums


@eqx.filter_jit
def _begin_all(
    world: SweepWorld, policy: Action | PlacedPolicy, keys: Key[Array, " episode"]
) -> RunningEpisode:
    return jax.vmap(lambda key: begin_episode(world, policy, key=key))(keys)


@eqx.filter_jit
def _continue_all(
    world: SweepWorld,
    policy: Action | PlacedPolicy,
    running: RunningEpisode,
    until: Int[Array, ""],
    discount: Float[Array, ""],
) -> RunningEpisode:
    def one(now: RunningEpisode) -> RunningEpisode:
        return continue_episode(world, policy, now, until_step=until, discount=discount)

    return jax.vmap(one)(running)


def service_along(
    world: SweepWorld,
    policy: Action | PlacedPolicy,
    *,
    keys: Key[Array, " episode"],
    cells: Int[np.ndarray, " place"],
    columns: Int[np.ndarray, " column"],
    discount: float = 1.0,
) -> Float[np.ndarray, "episode place column"]:
    """The service of some regions so far, when an episode reaches each of these path cells.

    The cells ascend. They are reached by whole steps; an episode that the horizon cuts off keeps
    its last service. What is stored does not grow with the number of steps.
    """
    chunks = [keys[first : first + CHUNK_EPISODES] for first in range(0, len(keys), CHUNK_EPISODES)]
    places, shown = on_device(cells), on_device(columns)

    def run_chunk(
        keys: Key[Array, " episode"], is_stopped: IsStopped
    ) -> Float[np.ndarray, "episode place column"]:
        del is_stopped
        return np.asarray(
            _run_along(world, policy, keys, places, shown, on_device(discount, float))
        )

    return np.concatenate(in_threads(run_chunk, chunks))


@eqx.filter_jit
def _run_along(
    world: SweepWorld,
    policy: Action | PlacedPolicy,
    keys: Key[Array, " episode"],
    cells: Int[Array, " place"],
    columns: Int[Array, " column"],
    discount: Float[Array, ""],
) -> Float[Array, "episode place column"]:
    def one(key: PRNGKeyArray) -> Float[Array, "place column"]:
        def to_cell(
            now: RunningEpisode, cell: Int[Array, ""]
        ) -> tuple[RunningEpisode, Float[Array, " column"]]:
            there = continue_episode(
                world, policy, now,
                until_step=world.horizon_steps, until_cell=cell, discount=discount,
            )  # fmt: skip
            return there, there.sums.service[columns]

        return jax.lax.scan(to_cell, begin_episode(world, policy, key=key), cells)[1]

    return jax.vmap(one)(keys)


def forget_compiled() -> None:
    """Free the memory of the compiled episode functions; they are compiled again if needed.

    Equinox cannot clear the cache of one function, so this uses its inner jitted function.
    """
    for function in (_begin_all, _continue_all, _run_along):
        cast(Any, function)._cached.clear_cache()


def run_trajectory(
    world: SweepWorld, policy: Action | PlacedPolicy, *, key: PRNGKeyArray, steps: int
) -> Trajectory:
    """The first `steps` steps of one episode, with every step stored."""
    start_key, loop_key = jax.random.split(key)

    def body(carry: Any, step_key: PRNGKeyArray) -> tuple[Any, Trajectory]:
        state, (service, memory), is_active = carry
        moved, memory = take_step(world, policy, state, (service, memory), key=step_key)
        masked = moved._replace(
            labels=jnp.where(is_active, moved.labels, 0.0),
            reward=jnp.where(is_active, moved.reward, 0.0),
        )
        is_next_active = is_active & ~moved.is_terminated & ~moved.is_truncated
        seen = service + masked.labels, memory
        return (moved.state, seen, is_next_active), Trajectory(masked, is_active)

    seen = jnp.zeros(world.regions), _memory_of(policy)
    start = (world.initial(key=start_key), seen, jnp.ones((), bool))
    step_keys = jax.vmap(lambda step: jax.random.fold_in(loop_key, step))(jnp.arange(steps))
    return jax.lax.scan(body, start, step_keys)[1]


class Rollout(NamedTuple):
    """Steps of many worlds side by side that go on from episode to episode.

    The axes of the batch are [time world], behind the seed if there are several.
    """

    observation: Float[Array, "*batch feature"]
    action: Shaped[Array, "*batch_and_action"]
    """A throttle has no axes of its own, a box of numbers has."""
    log_probability: Float[Array, "*batch"]
    reward: Float[Array, "*batch"]
    labels: Float[Array, "*batch region"]
    is_terminated: Bool[Array, "*batch"]
    is_truncated: Bool[Array, "*batch"]
    next_observation: Float[Array, "*batch feature"]
    """What was seen after the step, before any reset."""


def begin_worlds(world: SteppedWorld[State], worlds: int, *, key: PRNGKeyArray) -> State:
    """As many worlds as asked for, each at the start of an episode."""
    return jax.vmap(lambda each: world.initial(key=each))(jax.random.split(key, worlds))


def collect(
    world: SteppedWorld[State],
    act: ActInLane,
    states: State,
    *,
    steps: int,
    action_shape: tuple[int, ...] = (),
    key: PRNGKeyArray,
) -> tuple[State, Rollout]:
    """Run some steps in every world; a world whose episode ends is reset in the same step.

    `act(observation, lane, noise)` gives an action and its log probability; `lane` is the number
    of the world, and the noise is standard normal.
    """
    worlds = len(jax.tree.leaves(states)[0])
    lanes = jnp.arange(worlds)
    noise_key, world_key, reset_key = jax.random.split(key, 3)
    draws = RandomDraws(
        jax.random.normal(noise_key, (steps, worlds, *action_shape)),
        jax.random.split(world_key, (steps, worlds)),
        jax.random.split(reset_key, (steps, worlds)),
    )

    def one(state: State, lane: Int[Array, ""], draw: RandomDraws) -> tuple[State, Rollout]:
        seen = world.observe(state)
        action, log_probability = act(seen, lane, draw.noise)
        after = world.step(state, action, key=draw.world)
        fresh = world.initial(key=draw.reset)
        is_over = after.is_terminated | after.is_truncated
        going = jax.tree.map(lambda new, old: jnp.where(is_over, new, old), fresh, after.state)
        return going, Rollout(
            seen, action, log_probability, after.reward, after.labels,
            after.is_terminated, after.is_truncated, world.observe(after.state),
        )  # fmt: skip

    def body(states: State, draw: RandomDraws) -> tuple[State, Rollout]:
        return jax.vmap(one)(states, lanes, draw)

    return jax.lax.scan(body, states, draws)


class RandomDraws(NamedTuple):
    """The random draws of a step, made for all steps together; unused ones are compiled away."""

    noise: Float[Array, "*batch_and_action"]
    world: Key[Array, "*batch"]
    reset: Key[Array, "*batch"]
