"""Rounds of the loop, compiled, for all seeds of a run at once, over all devices there are.

Seeds know nothing of each other, so each device takes some of them and runs on its own. On a CPU
every core can be a device (JAX_NUM_CPU_DEVICES; the commands see to it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import PRNGKeyArray

from scrl.loop import LoopState, Metrics, Plan, begin, iterate, settle
from scrl.measuring import Task
from scrl.methods import TrainingConfig
from scrl.problems import Problem
from scrl.punish import Atoms
from scrl.rules import told

BY_SEED = PartitionSpec("seed")


def task_of(problem: Problem, config: TrainingConfig) -> Task:
    """A problem as the loop wants it."""
    return Task(
        problem.world,
        Atoms.of(problem.atoms),
        Atoms.of(told(problem.rules, config.told)),
        config.mechanism,
        problem.tolerance,
        problem.discount,
        problem.world_spec.is_random,
    )


class Rounds:
    """The compiled rounds of one task for some seeds."""

    def __init__(self, problem: Problem, config: TrainingConfig, seeds: Sequence[int]) -> None:
        self.plan = config.plan
        self.seeds = tuple(seeds)
        self.mesh = mesh_for(len(self.seeds))
        self.sharding = NamedSharding(self.mesh, BY_SEED)
        self.task = jax.device_put(
            task_of(problem, config), NamedSharding(self.mesh, PartitionSpec())
        )

    def begin(self) -> LoopState:
        """The state of every seed before the first round."""
        keys = jnp.stack([jax.random.key(seed) for seed in self.seeds])
        return begin_all(self.plan, self.mesh, self.task, self.place(keys))

    def learn(self, state: LoopState) -> tuple[LoopState, Metrics]:
        """One round of learning; the old state is used up."""
        return learn_round(self.plan, self.mesh, self.task, state)

    def settle(self, state: LoopState) -> tuple[LoopState, Metrics]:
        """One round of settling; the old state is used up."""
        return settle_round(self.plan, self.mesh, self.task, state)

    def actor(self, state: LoopState) -> Any:
        """The networks that drive, of all seeds."""
        eyes = jax.tree.map(lambda leaf: leaf[0], state.eyes)
        return self.plan.build(self.task, eyes).actor(state.learner)

    def place(self, by_seed: Any) -> Any:
        """Arrays with a row per seed, moved to the devices of their seeds."""
        return jax.device_put(by_seed, self.sharding)


def mesh_for(seeds: int) -> Mesh:
    """As many devices as share the seeds out evenly."""
    devices = jax.local_devices()
    used = max(count for count in range(1, len(devices) + 1) if seeds % count == 0)
    return Mesh(devices[:used], ("seed",), axis_types=(AxisType.Auto,))


@partial(jax.jit, static_argnums=(0, 1))
def begin_all(plan: Plan, mesh: Mesh, task: Task, keys: PRNGKeyArray) -> LoopState:
    """The state of every seed before the first round."""
    return _on_all(mesh, lambda task, key: begin(plan, task, key=key))(task, keys)


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=3)
def learn_round(plan: Plan, mesh: Mesh, task: Task, state: LoopState) -> tuple[LoopState, Metrics]:
    """One round of learning for every seed."""
    return _on_all(mesh, lambda task, each: iterate(plan, task, each))(task, state)


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=3)
def settle_round(plan: Plan, mesh: Mesh, task: Task, state: LoopState) -> tuple[LoopState, Metrics]:
    """One round of settling for every seed."""
    return _on_all(mesh, lambda task, each: settle(plan, task, each))(task, state)


def _on_all(mesh: Mesh, for_one: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a task and one seed's data, for all seeds of all devices."""
    return jax.shard_map(
        jax.vmap(for_one, in_axes=(None, 0)),
        mesh=mesh,
        in_specs=(PartitionSpec(), BY_SEED),
        out_specs=BY_SEED,
        check_vma=False,
    )
