"""Algorithm 2 in external environments, which step on the host between compiled parts.

Seed s of the training has the lanes from s * worlds on. Every round begins with new episodes whose
seeds come from its key, so a round depends on its state alone, and a resumed run ends with the same
bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, Shaped

from scrl.environments.encoder import LEAST_SHARE, EnvironmentEncoder, RunningMoments
from scrl.environments.lanes import Lanes
from scrl.environments.rollout import (
    SAMPLES,
    Explored,
    FirstEpisodes,
    collect,
    run_at_random,
    run_episodes,
)
from scrl.environments.spaces import Actions
from scrl.learners import Encoder, TrainedPolicy
from scrl.learners.actors import DrawnActor
from scrl.rollout import Rollout
from scrl.single_runs import RunAtoms, added_violations
from scrl.training.algorithm import (
    Driver,
    Explorer,
    LoopState,
    Measured,
    Metrics,
    Task,
    begin,
    explore,
    iterate,
    present_policy,
    remeasure_best,
    settle,
)


class EnvironmentTask(Task):
    """A task in an external environment: labels are amounts, and episodes end with the horizon."""

    @property
    def rate(self) -> Float[Array, ""]:
        return jnp.ones(())

    @property
    def is_horizon_an_end(self) -> bool:
        return True


class EnvironmentRounds:
    """The rounds of one run for all its seeds, in lanes."""

    def __init__(
        self,
        task: EnvironmentTask,
        actions: Actions,
        lanes: Lanes,
        seeds: Sequence[int],
    ) -> None:
        self.task, self.actions = task, actions
        self.lanes, self.seeds = lanes, tuple(seeds)
        self.driver = Driver(self._measure, self._collect, for_seeds)

    def begin(self) -> tuple[LoopState, Int[Array, " seed"]]:
        keys = jnp.stack([jax.random.key(seed) for seed in self.seeds])
        seeds = np.ravel(reset_seeds(keys, self.task.plan.loop.worlds))
        first = run_at_random(self.lanes, self.actions, seeds=seeds.tolist())
        by_seed = jax.tree.map(self._by_seed, first)
        return begin_all(self.task, self.actions, by_seed, keys), self._driven_steps()

    def learn(self, state: LoopState) -> tuple[LoopState, Metrics]:
        return iterate(self.task, self.driver, state)

    def settle(self, state: LoopState) -> tuple[LoopState, Metrics]:
        return settle(self.task, self.driver, state)

    def remeasure(self, state: LoopState) -> tuple[LoopState, Int[Array, " seed"]]:
        return remeasure_best(self.task, self.driver, state)

    def present(self, state: LoopState) -> TrainedPolicy:
        return for_seeds(present_policy, self.task, state)

    def split(self, tree: Any) -> list[Any]:
        return [tree]

    def join(self, states: Sequence[LoopState]) -> LoopState:
        return states[0]

    def chosen(self, is_new: Sequence[bool], new: LoopState, old: LoopState) -> LoopState:
        return new if is_new[0] else old

    def _measure(self, policy: TrainedPolicy, keys: Key[Array, " seed"], episodes: int) -> Measured:
        """Whole episodes of the policy of every seed; the seed is the first axis."""

        answer = held(act_all, policy)
        worlds = self.task.plan.loop.worlds
        seeds = np.ravel(reset_seeds(keys, worlds)).tolist()
        uniform = Uniform(policy, seeds)

        def act(lanes: Lanes) -> np.ndarray:
            rows = lanes.features if policy.encoder.of_runs is None else lanes.counted
            chosen = np.asarray(answer(self._by_seed(rows), uniform(len(self.seeds), worlds)))
            flat = chosen.reshape(lanes.count, *self.actions.kind.shape)
            return self.actions.to_environment(flat)

        discount = self.task.discount
        each = -(-episodes // worlds)
        ran = run_episodes(self.lanes, act, each=each, seeds=seeds, discount=discount)
        count = len(self.seeds)
        by_seed = jax.tree.map(lambda leaf: leaf.reshape(count, -1, *leaf.shape[2:]), ran)
        return Measured(by_seed, self._driven_steps())

    def _collect(
        self, explorer: Explorer, worlds: None, keys: Key[Array, " seed"]
    ) -> tuple[None, Rollout]:
        """Steps with noise, of every seed in its lanes; the seed is the first axis."""
        loop = self.task.plan.loop
        steps = loop.rollout_steps
        seeds, noise = chance(keys, steps, loop.worlds, self.actions.kind.noise_shape)
        noise = np.asarray(noise)
        answer = held(explore_all, (self.task, explorer))

        def explored(features: Float[np.ndarray, "lane feature"], time: int) -> Explored:
            chosen, log_probability = answer(self._by_seed(features), noise[:, time])
            flat = np.asarray(chosen).reshape(len(features), *self.actions.kind.shape)
            return Explored(flat, np.asarray(log_probability).ravel())

        reset = np.ravel(seeds).tolist()
        is_counted = explorer.encoder.of_runs is not None
        found = collect(
            self.lanes, self.actions, explored, steps=steps, seeds=reset, is_counted=is_counted
        )
        self._driven_steps()  # counted by the rollout's size

        def by_seed(leaf: np.ndarray) -> np.ndarray:
            split = leaf.reshape(len(leaf), len(self.seeds), -1, *leaf.shape[2:])
            return np.moveaxis(split, 1, 0)

        rollout = jax.tree.map(by_seed, found)
        return worlds, with_violations(explorer.encoder, rollout) if is_counted else rollout

    def _driven_steps(self) -> Int[Array, " seed"]:
        """Steps of each seed since this was last asked; all lanes step together."""
        counted, self.lanes.driven_steps = self.lanes.driven_steps, 0
        return jnp.full(len(self.seeds), counted // len(self.seeds))

    def _by_seed(self, by_lane: np.ndarray) -> np.ndarray:
        return np.reshape(by_lane, (len(self.seeds), -1, *by_lane.shape[1:]))


@partial(jax.jit, static_argnums=0)
def for_seeds(function: Callable[..., Any], task: Task, *data: Any) -> Any:
    """A part of the algorithm for all seeds, compiled."""
    return jax.vmap(lambda *each: function(task, *each))(*data)


@partial(jax.jit, static_argnums=1)
def reset_seeds(keys: Key[Array, " seed"], worlds: int) -> Int[Array, "seed world"]:
    """Seeds of environments, from a key for each seed of the training."""
    return jax.vmap(lambda key: jax.random.randint(key, (worlds,), 0, 2**31 - 1))(keys)


@partial(jax.jit, static_argnums=(1, 2, 3))
def chance(
    keys: Key[Array, " seed"], steps: int, worlds: int, shape: tuple[int, ...]
) -> tuple[Int[Array, "seed world"], Float[Array, "seed time world *noise"]]:
    """Seeds of environments and exploration noise, from a key for each seed of the training."""
    seeds, noise = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)

    def of_seed(key: PRNGKeyArray) -> Float[Array, "time world *noise"]:
        return jax.random.normal(key, (steps, worlds, *shape))

    return reset_seeds(seeds, worlds), jax.vmap(of_seed)(noise)


@partial(jax.jit, static_argnums=1)
def begin_all(
    task: Task,
    actions: Actions,
    first: FirstEpisodes,
    keys: Key[Array, " seed"],
) -> LoopState:
    """The state of every seed before the first round, with units read off random episodes."""

    def of_seed(first: FirstEpisodes, key: PRNGKeyArray) -> LoopState:
        encoder = first_encoder(task, actions, first)
        return begin(task, encoder, None, keys=jax.random.split(key, 3))

    return jax.vmap(of_seed)(first, keys)


@jax.jit
def with_violations(encoder: Encoder, rollout: Rollout) -> Rollout:
    """The steps of every seed, with what they add to the violations of their runs as labels."""

    def of_seed(encoder: Encoder, rollout: Rollout) -> Rollout:
        assert encoder.of_runs is not None  # noqa: S101 (for the type checker)
        added = added_violations(
            encoder.of_runs, rollout.observation, rollout.next_observation,
            rollout.is_terminated | rollout.is_truncated,
        )  # fmt: skip
        return rollout._replace(labels=jnp.concatenate([rollout.labels, added], axis=-1))

    return jax.vmap(of_seed)(encoder, rollout)


def first_encoder(task: Task, actions: Actions, first: FirstEpisodes) -> EnvironmentEncoder:
    """An encoder with units and moments read off random episodes."""
    # Where random actions find no reward, a step counts as 1: prices must have some size.
    size = jnp.where(first.size.sum() > 0, first.size.mean(), first.steps.mean())
    label_unit = jnp.where(
        first.times.sum(axis=0) > 0,
        first.served.sum(axis=0) / jnp.maximum(first.times.sum(axis=0), 1.0),
        1.0,
    )
    served = jnp.maximum(first.served.mean(axis=0), LEAST_SHARE * label_unit * first.steps.mean())
    # What counts down has negative units: networks see what a step earns, however it is counted.
    sign = jnp.where(first.net.sum(axis=0) < 0, -1.0, 1.0)
    plan = task.plan
    # A discounted sum is over about 1 / (1 - discount) steps, however long an episode is.
    seen_ahead = jnp.minimum(first.steps.mean(), 1.0 / max(1.0 - plan.settings.gamma, 1e-9))
    share = seen_ahead / first.steps.mean()
    seen = first.features.reshape(-1, first.features.shape[-1])
    of_runs, of_labels = None, [share * sign * served]
    if task.is_in_runs and task.discount == 1.0:
        reading, steps = task.reading, jnp.full(task.regions, first.steps.mean())
        inset = plan.loop.run_inset * jnp.abs(reading.coefficients) @ label_unit
        bounds, expected = reading.bounds - inset, first.net.mean(axis=0)
        of_runs = RunAtoms.of(reading.coefficients, bounds, expected, steps, label_unit)
        of_labels.append(0.3 * jnp.abs(of_runs.coefficients) @ of_labels[0])
    return EnvironmentEncoder(
        price_unit=size / first.steps.mean(),
        channel_unit=jnp.concatenate(
            [share * size[None], *(of_labels if plan.is_decomposed else [])]
        ),
        label_unit=sign * label_unit,
        moments=RunningMoments(jnp.asarray(float(len(seen))), seen.mean(axis=0), seen.var(axis=0)),
        actions=actions.kind,
        own_features=seen.shape[1],
        regions=task.regions,
        sees_prices=plan.loop.sees_prices,
        atoms=len(task.reading.bounds),
        of_runs=of_runs,
    )


def policies_like(task: Task, actions: Actions, features: int, seeds: int) -> TrainedPolicy:
    """The shapes of the policies of all seeds."""
    worlds, regions = task.plan.loop.worlds, task.regions

    def policies() -> TrainedPolicy:
        by_lane, by_region = jnp.zeros((seeds, worlds)), jnp.zeros((seeds, worlds, regions))
        samples = jnp.zeros((seeds, worlds, SAMPLES, features))
        sums = (by_lane, by_lane, by_region, by_region, by_region)
        first = FirstEpisodes._make((*sums, samples))
        keys = jnp.stack([jax.random.key(0)] * seeds)
        return begin_all(task, actions, first, keys).best.policy

    return jax.eval_shape(policies)


def held(function: Callable[..., Any], first: Any) -> Callable[..., Any]:
    """A function of (first, ...) with its first argument taken apart once, not in every step.

    Taking a policy apart takes several times as long as a small network's answer.
    """
    leaves, kind = jax.tree.flatten(first)
    compiled = _of_leaves(function, kind)
    return lambda *others: compiled(leaves, *others)


@cache
def _of_leaves(function: Callable[..., Any], kind: Any) -> Callable[..., Any]:
    return jax.jit(lambda leaves, *others: function(jax.tree.unflatten(kind, leaves), *others))


class Uniform:
    """The numbers from (0, 1) that a policy draws its actions with; none if it does not draw."""

    def __init__(self, policy: TrainedPolicy, seed: int | Sequence[int]) -> None:
        self.size = uniform_size(policy)
        self.chance = np.random.default_rng(seed)

    def __call__(self, *shape: int) -> Float[np.ndarray, "*shape choice"]:
        return self.chance.random((*shape, self.size), np.float32)


def uniform_size(policy: TrainedPolicy) -> int:
    """How many numbers an action of a policy is drawn with."""
    network = policy.network
    return network.kind.size if isinstance(network, DrawnActor) else 0


def act_all(
    policy: TrainedPolicy,
    features: Float[Array, "seed world feature"],
    uniform: Float[Array, "seed world choice"],
) -> Shaped[Array, "seed world *action"]:
    """What the policy of every seed does in its lanes."""

    def of_seed(policy: TrainedPolicy, features: Array, uniform: Array) -> Array:
        return jax.vmap(partial(act_on, policy))(features, uniform)

    return jax.vmap(of_seed)(policy, features, uniform)


def act_on(
    policy: TrainedPolicy, row: Float[Array, " feature"], uniform: Float[Array, " choice"]
) -> Shaped[Array, "*action"]:
    """What a policy does: numbers that may lie outside of [0, 1], or choices."""
    inputs, network = policy.encoder.actor(row, policy.price), policy.network
    if isinstance(network, DrawnActor):
        return network(inputs, uniform)
    return network(inputs)  # pyright: ignore[reportCallIssue]


def explore_all(
    policy: tuple[Task, Explorer], features: Array, noise: Array
) -> tuple[Array, Array]:
    """What every seed tries in its lanes, and the log probability of that."""
    task, explorer = policy

    def of_seed(explorer: Explorer, features: Array, noise: Array) -> tuple[Array, Array]:
        of_world = partial(explore, task, explorer)
        return jax.vmap(of_world)(features, explorer.prices, noise)

    return jax.vmap(of_seed)(explorer, features, noise)
