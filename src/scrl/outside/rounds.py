"""Rounds of the loop for environments that step on the host.

The parts of a round are those of `scrl.loop`, compiled for all seeds at once; what lies between
them, whole episodes to measure and steps to learn from, happens in the lanes. Seed s has the lanes
from s * worlds on. Every round begins with new episodes whose seeds come from its key, so a round
hangs on its state alone, and a run that is gone on with ends with the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from scrl.learners import SeeingPolicy
from scrl.learners.actions import Choice
from scrl.loop import LoopState, Metrics
from scrl.measuring import Task
from scrl.outside.compiled import (
    RoundKeys,
    begin_all,
    choose_all,
    explore_all,
    improve_all,
    kappas_around,
    move_all,
    policies,
    remeasure_best,
    reset_seeds_of_all,
    round_keys,
)
from scrl.outside.driving import Explored, drive_at_random, gather, run_episodes
from scrl.outside.lanes import Lanes
from scrl.outside.spaces import Actions
from scrl.plan import LearningPlan
from scrl.rollout import Episode, Stretch


class OutsideRounds:
    """The rounds of one task for some seeds, in lanes."""

    def __init__(
        self, plan: LearningPlan, task: Task, actions: Actions, lanes: Lanes, seeds: Sequence[int]
    ) -> None:
        self.plan, self.task, self.actions = plan, task, actions
        self.lanes, self.seeds = lanes, tuple(seeds)
        self.atoms = (task.told.shape[0],)

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
        stretch = self._explore(state, prices, keys)
        state, loss = improve_all(
            self.plan, self.task, state, stretch, kappas, keys.update, keys.next
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

    def _measure(self, policy: SeeingPolicy, episodes: int, seeds: np.ndarray) -> Episode:
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

    def _explore(self, state: LoopState, prices: Array, keys: RoundKeys) -> Stretch:
        """Steps with noise, of every seed in its lanes; the seed is the first axis."""
        acting = (state.learner, state.eyes, prices)
        noise = np.asarray(keys.noise)

        def explore(features: Float[np.ndarray, "lane feature"], time: int) -> Explored:
            chosen, chance = explore_all(
                self.plan, self.task, acting, self._by_seed(features), noise[:, time]
            )
            flat = np.asarray(chosen).reshape(len(features), *_shape(self.actions))
            return Explored(flat, np.asarray(chance).ravel())

        seeds = np.ravel(keys.drive).tolist()
        found = gather(self.lanes, self.actions, explore, steps=self.plan.loop.steps, seeds=seeds)
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
    return () if isinstance(actions.kind, Choice) else actions.kind.shape
