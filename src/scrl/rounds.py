"""Rounds of the loop, compiled, for all seeds of a run at once."""

from __future__ import annotations

from functools import partial

import jax
from jaxtyping import PRNGKeyArray

from scrl.loop import LoopState, Metrics, Plan, Task, begin, iterate, settle
from scrl.methods import TrainingConfig
from scrl.problems import Problem
from scrl.punish import Atoms


def task_of(problem: Problem, config: TrainingConfig) -> Task:
    """A problem as the loop wants it."""
    return Task(
        problem.world,
        Atoms.of(problem.atoms),
        config.mechanism,
        problem.tolerance,
        problem.discount,
        problem.world_spec.is_random,
    )


@partial(jax.jit, static_argnums=0)
def begin_all(plan: Plan, task: Task, keys: PRNGKeyArray) -> LoopState:
    """The state of every seed before the first round."""
    return jax.vmap(lambda key: begin(plan, task, key=key))(keys)


@partial(jax.jit, static_argnums=0, donate_argnums=2)
def learn_round(plan: Plan, task: Task, state: LoopState) -> tuple[LoopState, Metrics]:
    """One round of learning for every seed."""
    return jax.vmap(lambda each: iterate(plan, task, each))(state)


@partial(jax.jit, static_argnums=0, donate_argnums=2)
def settle_round(plan: Plan, task: Task, state: LoopState) -> tuple[LoopState, Metrics]:
    """One round of settling for every seed."""
    return jax.vmap(lambda each: settle(plan, task, each))(state)
