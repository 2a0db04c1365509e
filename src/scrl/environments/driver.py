"""Algorithm 2 in external environments: episodes step on the host between compiled parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, Shaped

from scrl.environments.encoder import EnvironmentEncoder, RunningMoments
from scrl.environments.lanes import Lanes
from scrl.environments.rollout import (
    SAMPLES,
    Explored,
    FirstDrive,
    collect,
    drive_at_random,
    run_episodes,
)
from scrl.environments.spaces import Actions
from scrl.learners import TrainedPolicy
from scrl.learners.actions import Discrete
from scrl.rollout import Episode, Rollout
from scrl.training.algorithm import (
    LoopState,
    Metrics,
    Task,
    around,
    improve,
    judge,
    move,
    present_policy,
    untrained,
)
from scrl.training.config import LearningPlan
from scrl.violation import automatic_kappa_rate


class RoundKeys(NamedTuple):
    """All that a round leaves to chance."""

    measure: Int[Array, "*seeds world"]
    wobble: Key[Array, "*seeds"]
    drive: Int[Array, "*seeds world"]
    noise: Float[Array, "*seeds_time_world_and_action"]
    update: Key[Array, "*seeds"]
    next: Key[Array, "*seeds"]


@partial(jax.jit, static_argnums=(0, 1))
def round_keys(plan: LearningPlan, actions: Actions, keys: Key[Array, " seed"]) -> RoundKeys:
    """Seeds of environments, noise, and keys for everything else."""
    kind, loop = actions.kind, plan.loop
    shape = (kind.count,) if isinstance(kind, Discrete) else kind.shape

    def of_seed(key: PRNGKeyArray) -> RoundKeys:
        measure, wobble, drive, noise, update, after = jax.random.split(key, 6)
        return RoundKeys(
            reset_seeds(measure, loop.worlds),
            wobble,
            reset_seeds(drive, loop.worlds),
            jax.random.normal(noise, (loop.steps, loop.worlds, *shape)),
            update,
            after,
        )

    return jax.vmap(of_seed)(keys)


@partial(jax.jit, static_argnums=1)
def reset_seeds_of_all(keys: Key[Array, " seed"], worlds: int) -> Int[Array, "seed world"]:
    """Seeds of environments, from a key for each seed of the training."""
    return jax.vmap(lambda key: reset_seeds(key, worlds))(keys)


def reset_seeds(key: PRNGKeyArray, worlds: int) -> Int[Array, " world"]:
    return jax.random.randint(key, (worlds,), 0, 2**31 - 1)


@partial(jax.jit, static_argnums=(0, 2))
def begin_all(
    plan: LearningPlan, task: Task, actions: Actions, first: FirstDrive, keys: Key[Array, " seed"]
) -> LoopState:
    """An untrained policy and kappa = 0 for every seed; units are read off random drives."""

    def of_seed(first: FirstDrive, key: PRNGKeyArray) -> LoopState:
        learner_key, loop_key, settle_key = jax.random.split(key, 3)
        encoder = _encoder(plan, task, actions, first)
        beta = _kappa_rate(plan, task, encoder, first.steps.mean())
        return untrained(plan, task, encoder, beta, keys=(learner_key, loop_key, settle_key))

    return jax.vmap(of_seed)(first, keys)


def _kappa_rate(
    plan: LearningPlan, task: Task, encoder: EnvironmentEncoder, steps: Float[Array, ""]
) -> Float[Array, " atom"]:
    """Beta of every atom, for episodes of so many steps."""
    reading = task.reading
    if plan.loop.kappa_rate is not None:
        return jnp.full(reading.bounds.shape, plan.loop.kappa_rate)
    weight = jnp.abs(reading.coefficients)
    unit = weight @ jnp.abs(encoder.label_unit) / weight.sum(axis=1)
    return automatic_kappa_rate(encoder.price_unit / unit, unit * steps, reading.bounds)


def _encoder(
    plan: LearningPlan, task: Task, actions: Actions, first: FirstDrive
) -> EnvironmentEncoder:
    # Where chance finds no reward, a step counts as 1: prices must have some size.
    size = jnp.where(first.size.sum() > 0, first.size.mean(), first.steps.mean())
    label_unit = jnp.where(
        first.times.sum(axis=0) > 0,
        first.served.sum(axis=0) / jnp.maximum(first.times.sum(axis=0), 1.0),
        1.0,
    )
    served = jnp.maximum(first.served.mean(axis=0), 0.1 * label_unit * first.steps.mean())
    # What counts down has negative units: networks see what a step earns, however it is counted.
    sign = jnp.where(first.net.sum(axis=0) < 0, -1.0, 1.0)
    sees_prices = plan.loop.sees_prices
    seen = first.features.reshape(-1, first.features.shape[-1])
    return EnvironmentEncoder(
        price_unit=size / first.steps.mean(),
        channel_unit=jnp.concatenate([size[None], *([sign * served] if sees_prices else [])]),
        label_unit=sign * label_unit,
        moments=RunningMoments(jnp.asarray(float(len(seen))), seen.mean(axis=0), seen.var(axis=0)),
        actions=actions.kind,
        features=seen.shape[1],
        regions=task.world.regions,
        sees_prices=sees_prices,
        atoms=len(task.reading.bounds),
    )


def first_drive_like(worlds: int, features: int, regions: int) -> FirstDrive:
    """The shapes of one seed's first drive."""

    def of(*shape: int) -> Any:
        return jax.ShapeDtypeStruct((1, worlds, *shape), jnp.float32)

    return FirstDrive(of(), of(), of(regions), of(regions), of(regions), of(SAMPLES, features))


@partial(jax.jit, static_argnums=0)
def policies(plan: LearningPlan, task: Task, state: LoopState) -> TrainedPolicy:
    """The policies without noise, of all seeds."""
    return jax.vmap(lambda each: present_policy(plan, task, each))(state)


@jax.jit
def choose_all(
    policy: TrainedPolicy, features: Float[Array, "seed world feature"]
) -> Shaped[Array, "seed world *action"]:
    """What every seed's policy does in its lanes."""

    def of_seed(policy: TrainedPolicy, features: Array) -> Array:
        return jax.vmap(lambda row: act_on(policy, row))(features)

    return jax.vmap(of_seed)(policy, features)


def act_on(policy: TrainedPolicy, row: Float[Array, " feature"]) -> Shaped[Array, "*action"]:
    """What a policy does without noise: numbers that may lie outside of [0, 1], or a choice."""
    return policy.network(policy.encoder.actor(row, policy.price))  # pyright: ignore[reportCallIssue]


@partial(jax.jit, static_argnums=0)
def explore_all(
    plan: LearningPlan, task: Task, acting: Any, features: Array, noise: Array
) -> tuple[Array, Array]:
    """What every seed tries in its lanes, and how probable that was."""

    def of_seed(acting: Any, features: Array, noise: Array) -> tuple[Array, Array]:
        state, encoder, prices = acting
        learner = plan.build(encoder, task.discount)

        def of_world(row: Array, price: Array, noise: Array) -> tuple[Array, Array]:
            return learner.explore(state, encoder.actor(row, price), noise)

        return jax.vmap(of_world)(features, prices, noise)

    return jax.vmap(of_seed)(acting, features, noise)


@partial(jax.jit, static_argnums=0)
def kappas_around(
    plan: LearningPlan, task: Task, state: LoopState, keys: Key[Array, " seed"]
) -> tuple[Array, Array]:
    """The kappas that the worlds of every seed drive under, and their prices."""
    return jax.vmap(lambda each, key: around(plan, task, each, key=key))(state, keys)


@partial(jax.jit, static_argnums=(0, 5))
def move_all(
    plan: LearningPlan,
    task: Task,
    state: LoopState,
    policy: TrainedPolicy,
    ran: Episode,
    is_learning: bool,
) -> tuple[LoopState, Metrics]:
    """Judge the measured episodes of every seed and move its kappa; settling ends a round so.

    Beta is read off these episodes: policies may live many times as long as random actions do.
    """

    def of_seed(state: LoopState, policy: TrainedPolicy, ran: Episode) -> Any:
        seen = judge(task, ran, deviations=plan.loop.deviations)
        beta = _kappa_rate(plan, task, cast(EnvironmentEncoder, state.encoder), seen.steps)
        state = state._replace(kappa_rate=beta)
        state, metrics = move(plan, task, state, policy, seen, is_learning=is_learning)
        return state._replace(iteration=state.iteration + (not is_learning)), metrics

    return jax.vmap(of_seed)(state, policy, ran)


@partial(jax.jit, static_argnums=0)
def remeasure_best(plan: LearningPlan, task: Task, state: LoopState, ran: Episode) -> LoopState:
    """The best policy of every seed, with what these episodes say of it."""

    def of_seed(state: LoopState, ran: Episode) -> LoopState:
        seen = judge(task, ran, deviations=plan.loop.deviations)
        best = state.best._replace(
            reading_violation=seen.reading_violation, violation=seen.violation, return_=seen.return_
        )
        return state._replace(best=best)

    return jax.vmap(of_seed)(state, ran)


@partial(jax.jit, static_argnums=0)
def improve_all(
    plan: LearningPlan,
    task: Task,
    state: LoopState,
    rollout: Rollout,
    kappas: Array,
    update_keys: Key[Array, " seed"],
    next_keys: Key[Array, " seed"],
) -> tuple[LoopState, Float[Array, " seed"]]:
    """Every seed learns from its rollout, and updates the running moments of its observations."""

    def of_seed(state: LoopState, rollout: Rollout, kappas: Array, key: Any, after: Any) -> Any:
        state, loss = improve(plan, task, state, rollout, kappas, key=key)
        encoder = cast(EnvironmentEncoder, state.encoder)
        moments = encoder.moments.with_more(rollout.observation)
        encoder = eqx.tree_at(lambda encoder: encoder.moments, encoder, moments)
        return state._replace(encoder=encoder, key=after), loss

    return jax.vmap(of_seed)(state, rollout, kappas, update_keys, next_keys)


class OutsideRounds:
    """The rounds of one task for some seeds, in lanes."""

    def __init__(
        self, plan: LearningPlan, task: Task, actions: Actions, lanes: Lanes, seeds: Sequence[int]
    ) -> None:
        self.plan, self.task, self.actions = plan, task, actions
        self.lanes, self.seeds = lanes, tuple(seeds)
        self.atoms = (task.reading.shape[0],)

    def begin(self) -> LoopState:
        """The state of every seed before the first round."""
        keys = jnp.stack([jax.random.key(seed) for seed in self.seeds])
        seeds = np.ravel(reset_seeds_of_all(keys, self.plan.loop.worlds))
        first = drive_at_random(self.lanes, self.actions, seeds=seeds.tolist())
        features = np.moveaxis(first.features, 0, 1)
        by_seed = jax.tree.map(self._by_seed, first._replace(features=features))
        return begin_all(self.plan, self.task, self.actions, by_seed, keys)

    def learn(self, state: LoopState) -> tuple[LoopState, Metrics]:
        """One round of learning; the old state is used up."""
        loop = self.plan.loop
        keys = round_keys(self.plan, self.actions, state.key)
        policy = policies(self.plan, self.task, state)
        ran = self._measure(policy, loop.episodes, keys.measure)
        state, metrics = move_all(self.plan, self.task, state, policy, ran, True)
        kappas, prices = kappas_around(self.plan, self.task, state, keys.wobble)
        rollout = self._explore(state, prices, keys)
        state, loss = improve_all(
            self.plan, self.task, state, rollout, kappas, keys.update, keys.next
        )
        return state, metrics._replace(loss=loss)

    def settle(self, state: LoopState) -> tuple[LoopState, Metrics]:
        """One round of settling, always from the same seeds on; the old state is used up."""
        loop = self.plan.loop
        seeds = np.asarray(reset_seeds_of_all(state.settle_key, loop.worlds))
        if int(state.iteration[0]) == loop.iterations:
            # The best so far may have been lucky: it is measured anew, as its rivals will be.
            ran = self._measure(state.best.policy, loop.settle_episodes, seeds)
            state = remeasure_best(self.plan, self.task, state, ran)
        policy = policies(self.plan, self.task, state)
        ran = self._measure(policy, loop.settle_episodes, seeds)
        return move_all(self.plan, self.task, state, policy, ran, False)

    def counted_steps(self) -> int | None:
        """Steps in all lanes since this was last asked."""
        counted, self.lanes.driven_steps = self.lanes.driven_steps, 0
        return counted

    def actor(self, state: LoopState, task: int) -> Any:
        """The networks that act, of all seeds."""
        del task
        return policies(self.plan, self.task, state).network

    def part(self, state: LoopState, task: int) -> LoopState:
        """The state of one task: there is only one."""
        del task
        return state

    def whole(self, parts: Sequence[LoopState]) -> LoopState:
        """The opposite."""
        return parts[0]

    def own(self, metrics: Metrics, task: int) -> Metrics:
        """What one task saw."""
        del task
        return metrics

    def _measure(self, policy: TrainedPolicy, episodes: int, seeds: np.ndarray) -> Episode:
        """Whole episodes of every seed's policy without noise; the seed is the first axis."""

        def act(lanes: Lanes) -> np.ndarray:
            return self.actions.to_environment(
                np.asarray(choose_all(policy, self._by_seed(lanes.features))).reshape(
                    lanes.count, *_shape(self.actions)
                )
            )

        each = -(-episodes // self.plan.loop.worlds)
        ran = run_episodes(
            self.lanes, act, each=each, seeds=np.ravel(seeds).tolist(), discount=self.task.discount
        )
        whole = ran._replace(is_terminated=jnp.ones(ran.is_terminated.shape, bool))
        return jax.tree.map(lambda leaf: leaf.reshape(len(self.seeds), -1, *leaf.shape[2:]), whole)

    def _explore(self, state: LoopState, prices: Array, keys: RoundKeys) -> Rollout:
        """Steps with noise, of every seed in its lanes; the seed is the first axis."""
        acting = (state.learner, state.encoder, prices)
        noise = np.asarray(keys.noise)

        def explore(features: Float[np.ndarray, "lane feature"], time: int) -> Explored:
            chosen, chance = explore_all(
                self.plan, self.task, acting, self._by_seed(features), noise[:, time]
            )
            flat = np.asarray(chosen).reshape(len(features), *_shape(self.actions))
            return Explored(flat, np.asarray(chance).ravel())

        seeds = np.ravel(keys.drive).tolist()
        found = collect(self.lanes, self.actions, explore, steps=self.plan.loop.steps, seeds=seeds)
        if self.task_discount == 1.0:
            # Plain sums end with the horizon: without an end they would have no value.
            found = found._replace(is_terminated=found.is_terminated | found.is_truncated)
        return jax.tree.map(
            lambda leaf: np.moveaxis(
                leaf.reshape(len(leaf), len(self.seeds), -1, *leaf.shape[2:]), 1, 0
            ),
            found,
        )

    @property
    def task_discount(self) -> float:
        """What the learner discounts by."""
        own = self.plan.settings.discount
        return self.task.discount if own is None else own

    def _by_seed(self, by_lane: np.ndarray) -> np.ndarray:
        return np.reshape(by_lane, (len(self.seeds), -1, *by_lane.shape[1:]))


def _shape(actions: Actions) -> tuple[int, ...]:
    return () if isinstance(actions.kind, Discrete) else actions.kind.shape
