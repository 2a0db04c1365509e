"""Environments of pure JAX functions: whole rollouts and measurements are compiled.

They are trained by the same rounds as all others. Where single steps are wanted (first looks,
evaluations, questions), they are lanes like any others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, UInt32

from scrl.environments.contract import EnvironmentFault
from scrl.environments.driver import EnvironmentRounds, EnvironmentTask, act_on, uniform_size
from scrl.environments.labels import Labels, Step
from scrl.environments.lanes import Lanes, LaneSteps
from scrl.environments.sources import JaxEnvironment
from scrl.environments.spaces import Actions
from scrl.learners import TrainedPolicy
from scrl.rollout import Episode, Rollout
from scrl.training.algorithm import Explorer, Measured, explore


@dataclass(frozen=True, eq=False)
class Course:
    """An environment, its labels, and how long its episodes are at most; programs belong to it."""

    env: JaxEnvironment
    labels: Labels
    horizon_steps: int

    def open(self, lanes: int) -> CompiledLanes:
        """So many lanes."""
        return CompiledLanes(self, lanes)

    def first_step(self, action: np.ndarray) -> Step:
        """A step from a start, on the host; what breaks the contract is refused here."""
        env, (reset_key, step_key) = self.env, jax.random.split(jax.random.key(0))
        state, seen = _parts("reset", env.reset, reset_key)
        shape = env.observation_space.shape
        _check_shape("an observation", seen, shape)
        given = state, jnp.asarray(action), step_key
        _, seen, reward, is_terminated, info = _parts("step", env.step, *given)
        _check_shape("an observation", seen, shape)
        _check_shape("the reward", reward, ())
        _check_shape("is_terminated", is_terminated, ())
        if not isinstance(info, Mapping):
            raise EnvironmentFault(f"info must be a dictionary, not {info!r:.80}")
        _called(
            "step", jax.eval_shape, lambda *now: env.step(*now)[:4], *given
        )  # as it is compiled
        return Step(np.asarray(seen), action, float(reward), jax.tree.map(np.asarray, info))


RETURNED = {
    "reset": ("state", "observation"),
    "step": ("state", "observation", "reward", "is_terminated", "info"),
}
"""What the functions of an environment return."""


def _called(what: str, call: Callable[..., Any], *given: Any) -> Any:
    try:
        return call(*given)
    except Exception as error:
        raise EnvironmentFault(f"{what} raised {type(error).__name__}: {error}") from error


def _parts(what: str, call: Callable[..., Any], *given: Any) -> tuple[Any, ...]:
    """What a function of an environment returns, as many parts as there must be."""
    found, names = _called(what, call, *given), RETURNED[what]
    if not isinstance(found, tuple) or len(found) != len(names):
        raise EnvironmentFault(f"{what} must return ({', '.join(names)}), not {found!r:.80}")
    return found


def _check_shape(name: str, value: Any, shape: tuple[int, ...]) -> None:
    if np.shape(value) != shape:
        raise EnvironmentFault(f"{name} of shape {np.shape(value)}, which must be {shape}")


class LaneState(NamedTuple):
    """Where a lane stands."""

    state: Any
    seen: Float[Array, "*lanes feature"]
    steps: Int[Array, "*lanes"]
    """Of this episode."""
    done: Int[Array, "*lanes"]
    """Steps of all episodes: what is left to chance in a step follows from the key and this."""
    key: Key[Array, "*lanes"]


class Moved(NamedTuple):
    """What happened in a step, in the order of a rollout."""

    reward: Float[Array, "*lanes"]
    labels: Float[Array, "*lanes region"]
    is_terminated: Bool[Array, "*lanes"]
    is_truncated: Bool[Array, "*lanes"]
    next_observation: Float[Array, "*lanes feature"]


def begun(course: Course, key: PRNGKeyArray, done: Int[Array, ""] | int = 0) -> LaneState:
    """A lane at the start of an episode."""
    state, seen = course.env.reset(jax.random.fold_in(key, 2 * done))
    return LaneState(state, _row(seen), jnp.zeros((), int), jnp.asarray(done, int), key)


def advanced(course: Course, now: LaneState, action: Array) -> tuple[LaneState, Moved]:
    """A lane one step later; where the episode ended, it is at the start of the next one."""
    key = jax.random.fold_in(now.key, 2 * now.done + 1)
    state, seen, reward, is_terminated, info = course.env.step(now.state, action, key)
    is_terminated = jnp.asarray(is_terminated, bool)
    steps, after = now.steps + 1, _row(seen)
    is_truncated = (steps >= course.horizon_steps) & ~is_terminated
    labels = _labels(course.labels, Step(seen, action, reward, info))
    fresh = begun(course, now.key, now.done + 1)
    is_over = is_terminated | is_truncated
    kept = LaneState(state, after, steps, now.done + 1, now.key)
    chosen = jax.tree.map(lambda new, old: jnp.where(is_over, new, old), fresh[:3], kept[:3])
    return LaneState(chosen[0], chosen[1], chosen[2], kept.done, now.key), Moved(
        jnp.asarray(reward, float), labels, is_terminated, is_truncated, after
    )


def _row(seen: Any) -> Float[Array, " feature"]:
    return jnp.ravel(jnp.asarray(seen, float))


def _labels(labels: Labels, step: Step) -> Float[Array, " region"]:
    """What a step gives to each region, traced."""
    given = labels.read(step)
    if isinstance(given, Mapping):
        given = jnp.stack([jnp.asarray(given[name], float).reshape(()) for name in labels.names])
    return jnp.asarray(given, float).reshape(len(labels.names))


class CompiledLanes(Lanes):
    """Lanes of a JAX environment, one step at a time."""

    def __init__(self, course: Course, lanes: int) -> None:
        self.course, self.count, self.labels = course, lanes, course.labels
        self.driven_steps = 0
        self._running: LaneState | None = None
        self._steps = np.zeros(lanes, int)
        self._given = np.zeros((lanes, len(self.labels.names)))

    def __enter__(self) -> CompiledLanes:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def features(self) -> Float[np.ndarray, "lane feature"]:
        return np.array(self._now.seen)

    def observations(self) -> list[np.ndarray]:
        shape = self.course.env.observation_space.shape
        return list(self.features.reshape(self.count, *shape))

    def reset(self, seeds: Sequence[int]) -> None:
        self._running = _begin_lanes(self.course, np.asarray(seeds, np.uint32))
        self._steps[:], self._given[:] = 0, 0.0

    def step(self, actions: np.ndarray) -> LaneSteps:
        self.driven_steps += self.count
        self._running, found = _step_lanes(self.course, self._now, actions)
        check(self.labels, found, before=int(self._now.done[0]) - 1)
        reward, labels, is_terminated, is_truncated, after = map(np.asarray, found)
        self._steps += 1
        self._given += labels
        counted = self._counted(after)
        is_over = is_terminated | is_truncated
        self._steps[is_over], self._given[is_over] = 0, 0.0
        return LaneSteps(reward, labels, is_terminated, is_truncated, after, counted)

    @property
    def _now(self) -> LaneState:
        if self._running is None:
            raise RuntimeError("lanes are reset before they are used")
        return self._running


def check(labels: Labels, found: Moved | Rollout, *, before: int = 0) -> None:
    """Raise where something is not a finite number; `before` steps were done before these."""
    parts = {"the reward": found.reward[..., None], "the observation": found.next_observation}
    for at, name in enumerate(labels.names):
        parts[f"the label of '{name}'"] = found.labels[..., at, None]
    for what, values in parts.items():
        is_bad = ~np.isfinite(values).all(axis=-1)
        if is_bad.any():
            *first, lane = np.argwhere(is_bad)[0]
            step = before + 1 + (int(first[-1]) if first else 0)
            value = np.asarray(values)[(*first, lane)]
            raise EnvironmentFault(
                f"environment {lane}, step {step}: {what} is not finite: {value}"
            )


@partial(jax.jit, static_argnums=0)
def _begin_lanes(course: Course, seeds: UInt32[Array, " lane"]) -> LaneState:
    return jax.vmap(lambda seed: begun(course, jax.random.key(seed)))(seeds)


@partial(jax.jit, static_argnums=0)
def _step_lanes(course: Course, now: LaneState, actions: Array) -> tuple[LaneState, Moved]:
    return jax.vmap(partial(advanced, course))(now, actions)


class CompiledRounds(EnvironmentRounds):
    """The rounds of one run in a JAX environment: what others do step by step is one program."""

    lanes: CompiledLanes

    def _measure(self, policy: TrainedPolicy, keys: Key[Array, " seed"], episodes: int) -> Measured:
        course, discount = self.lanes.course, self.task.discount
        ran = _run_episodes(course, _for_jax(self.actions), episodes, policy, keys, discount)
        return Measured(ran, ran.steps.sum(axis=1))

    def _collect(
        self, explorer: Explorer, worlds: None, keys: Key[Array, " seed"]
    ) -> tuple[None, Rollout]:
        actions = _for_jax(self.actions)
        found = _collect(self.lanes.course, actions, self.task, explorer, keys)
        check(self.lanes.labels, found)
        return worlds, found


def _for_jax(actions: Actions) -> Actions:
    """The actions with a type of numbers that JAX has."""
    return replace(actions, dtype=str(jax.dtypes.canonicalize_dtype(actions.dtype)))


@partial(jax.jit, static_argnums=(0, 1, 2))
def _run_episodes(
    course: Course,
    actions: Actions,
    episodes: int,
    policies: TrainedPolicy,
    keys: Key[Array, " seed"],
    discount: Float[Array, ""],
) -> Episode:
    """Whole episodes of the policy of every seed; the seed is the first axis."""
    size = uniform_size(policies)

    def of_episode(policy: TrainedPolicy, key: PRNGKeyArray) -> Episode:
        def body(now: tuple[LaneState, Episode, Array]) -> tuple[LaneState, Episode, Array]:
            running, sums, is_over = now
            drawn = jax.random.uniform(jax.random.fold_in(key, ~sums.steps), (size,))
            action = actions.to_environment(act_on(policy, running.seen, drawn))
            running, step = advanced(course, running, action)
            weight = discount**sums.steps
            is_over = step.is_terminated | step.is_truncated
            sums = Episode(
                sums.return_ + weight * step.reward, sums.service + weight * step.labels,
                sums.steps + 1, step.is_terminated, None,
            )  # fmt: skip
            return running, sums, is_over

        nothing = Episode(
            jnp.zeros(()), jnp.zeros(len(course.labels.names)), jnp.zeros((), int),
            jnp.zeros((), bool), None,
        )  # fmt: skip
        first = begun(course, key), nothing, jnp.zeros((), bool)
        return jax.lax.while_loop(lambda now: ~now[2], body, first)[1]

    def of_seed(policy: TrainedPolicy, key: PRNGKeyArray) -> Episode:
        return jax.vmap(partial(of_episode, policy))(jax.random.split(key, episodes))

    return jax.vmap(of_seed)(policies, keys)


@partial(jax.jit, static_argnums=(0, 1))
def _collect(
    course: Course,
    actions: Actions,
    task: EnvironmentTask,
    explorers: Explorer,
    keys: Key[Array, " seed"],
) -> Rollout:
    """Steps with noise in the worlds of every seed; the seed is the first axis."""
    loop = task.plan.loop

    def of_seed(explorer: Explorer, key: PRNGKeyArray) -> Rollout:
        start_key, noise_key = jax.random.split(key)
        shape = (loop.rollout_steps, loop.worlds, *actions.kind.noise_shape)
        starts = jax.vmap(partial(begun, course))(jax.random.split(start_key, loop.worlds))

        def step(running: LaneState, noise: Array) -> tuple[LaneState, tuple[Any, ...]]:
            chosen, log_probability = jax.vmap(partial(explore, task, explorer))(
                running.seen, explorer.prices, noise
            )
            taken = jax.vmap(actions.to_environment)(chosen)
            then, now = jax.vmap(partial(advanced, course))(running, taken)
            return then, (running.seen, chosen, log_probability, *now)

        _, rows = jax.lax.scan(step, starts, jax.random.normal(noise_key, shape))
        return Rollout._make(rows)

    return jax.vmap(of_seed)(explorers, keys)
