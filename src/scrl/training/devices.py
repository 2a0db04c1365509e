"""Rounds of the loop, compiled, for all seeds of one task or of several, over all devices.

Seeds and tasks know nothing of each other. Each device takes some of the seeds and of the tasks and
runs on its own (on a CPU every core can be a device: JAX_NUM_CPU_DEVICES; the commands see to it);
where they cannot be shared out evenly, the last ones run twice and count once. Tasks of one shape
run side by side in one call, which is what fills a GPU; every array of the state has the seed as
its first axis and the task as its second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Key

from scrl.learners import LEARNERS
from scrl.penalty import Atoms
from scrl.problems import Problem
from scrl.rules import reading_of
from scrl.training.algorithm import LoopState, Metrics, Task, begin, iterate, settle
from scrl.training.config import LearningPlan, TrainingConfig

BY_TASK, BY_SEED_AND_TASK = PartitionSpec("task"), PartitionSpec("seed", "task")


def task_of(problem: Problem, config: TrainingConfig) -> Task:
    """A problem as the loop wants it."""
    return Task(
        problem.world,
        Atoms.of(problem.atoms),
        Atoms.of(reading_of(problem.rules, config.reading)),
        config.penalty_functions,
        problem.tolerance,
        problem.discount,
        problem.is_random,
    )


def shape_of(plan: LearningPlan, task: Task) -> Any:
    """Tasks for which this is the same can run side by side: all is alike but atoms and clauses."""
    bare = eqx.tree_at(lambda task: (task.rules, task.reading), task, (None, None))
    leaves, structure = jax.tree.flatten(bare)
    atoms = task.reading.shape if LEARNERS[plan.learner].has_multipliers else None
    return plan, structure, tuple((leaf.shape, leaf.dtype) for leaf in leaves), atoms


def side_by_side(tasks: Sequence[Task]) -> Task:
    """Tasks of one shape as one, with the task as the first axis of every array."""
    padded = [
        eqx.tree_at(lambda each: (each.rules, each.reading), task, (rules, of_reading))
        for task, rules, of_reading in zip(
            tasks, _alike([task.rules for task in tasks]), _alike([task.reading for task in tasks]),
            strict=True,
        )
    ]  # fmt: skip
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *padded)


def _alike(tables: Sequence[Atoms]) -> list[Atoms]:
    """Padded to one shape; where a clause is added, there must be an added atom to keep it."""
    clauses, places = (max(table.shape[axis] for table in tables) for axis in (1, 2))
    atoms = max(table.shape[0] + (table.shape[1] < clauses) for table in tables)
    return [table.padded(atoms, clauses, places) for table in tables]


class TaskRounds(Protocol):
    """Rounds of one task or several for some seeds, wherever worlds step."""

    def begin(self) -> LoopState: ...
    def learn(self, state: LoopState) -> tuple[LoopState, Metrics]: ...
    def settle(self, state: LoopState) -> tuple[LoopState, Metrics]: ...
    def counted_steps(self) -> int | None: ...
    def actor(self, state: LoopState, task: int) -> Any: ...
    def own(self, metrics: Metrics, task: int) -> Metrics: ...
    def part(self, state: LoopState, task: int) -> LoopState: ...
    def whole(self, parts: Sequence[LoopState]) -> LoopState: ...


class Rounds:
    """The compiled rounds of one task or several of one shape, for some seeds."""

    def __init__(self, plan: LearningPlan, tasks: Sequence[Task], seeds: Sequence[int]) -> None:
        self.plan = plan
        self.seeds = tuple(seeds)
        self.atoms = tuple(task.reading.shape[0] for task in tasks)
        self.mesh = mesh_for(len(self.seeds), len(tasks))
        self._counts = tuple(
            _multiple(count, self.mesh.shape[axis])
            for count, axis in ((len(self.seeds), "seed"), (len(tasks), "task"))
        )
        whole = [*tasks, *[tasks[-1]] * (self._counts[1] - len(tasks))]
        self.tasks = jax.device_put(side_by_side(whole), NamedSharding(self.mesh, BY_TASK))

    def begin(self) -> LoopState:
        """The state of every seed and task before the first round."""
        return begin_all(self.plan, self.mesh, self.tasks, self._keys())

    def compile_ahead(self) -> None:
        """Compile all of this into the cache on disk, where the calls themselves will find it.

        Without that cache this would be in vain.
        """
        given = (self.plan, self.mesh, self.tasks)
        compiled = begin_all.lower(*given, self._keys()).compile()
        state = jax.tree.map(
            lambda leaf, sharding: leaf.update(sharding=sharding),
            jax.eval_shape(self.begin), compiled.output_shardings,
        )  # fmt: skip
        for function in (learn_round, settle_round):
            function.lower(*given, state).compile()

    def learn(self, state: LoopState) -> tuple[LoopState, Metrics]:
        """One round of learning; the old state is used up."""
        return learn_round(self.plan, self.mesh, self.tasks, state)

    def settle(self, state: LoopState) -> tuple[LoopState, Metrics]:
        """One round of settling; the old state is used up."""
        return settle_round(self.plan, self.mesh, self.tasks, state)

    def counted_steps(self) -> int | None:
        """Steps since this was last asked: compiled rounds do not count, metrics tell."""
        return None

    def actor(self, state: LoopState, task: int) -> Any:
        """The networks that drive in one task, of all seeds."""
        first, encoder = (
            jax.tree.map(lambda leaf: leaf[0], each) for each in (self.tasks, state.encoder)
        )
        of_all = self.plan.build(encoder, first.discount).actor(state.learner)
        return self._of_task(of_all, task)

    def own(self, metrics: Metrics, task: int) -> Metrics:
        """What one task saw, with its own atoms."""
        own = self._of_task(metrics, task)
        return own._replace(kappa=own.kappa[:, : self.atoms[task]])

    def part(self, state: LoopState, task: int) -> LoopState:
        """The state of one task, with its own atoms: as if it had run alone."""
        own = self._of_task(state, task)
        atoms = self.atoms[task]
        return own._replace(
            kappa=own.kappa[:, :atoms], best=own.best._replace(kappa=own.best.kappa[:, :atoms])
        )

    def whole(self, parts: Sequence[LoopState]) -> LoopState:
        """The opposite of `part`: the states of all tasks as one."""
        most = self.tasks.reading.bounds.shape[1]

        def padded(part: LoopState) -> list[Any]:
            def wide(kappa: Any) -> Any:
                return jnp.pad(kappa, ((0, 0), (0, most - kappa.shape[1])))

            best = part.best._replace(kappa=wide(part.best.kappa))
            return jax.tree.leaves(part._replace(kappa=wide(part.kappa), best=best))

        stacked = [jnp.stack(leaves, axis=1) for leaves in zip(*map(padded, parts), strict=True)]
        return self._place(jax.tree.unflatten(jax.tree.structure(parts[0]), stacked))

    def _keys(self) -> Key[Array, "seed task"]:
        keys = jnp.stack([jax.random.key(seed) for seed in self.seeds])
        return self._place(jnp.broadcast_to(keys[:, None], (len(self.seeds), len(self.atoms))))

    def _of_task(self, state: Any, task: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[: len(self.seeds), task], state)

    def _place(self, state: Any) -> Any:
        """Arrays with a row per seed and task, filled up, on the devices of their seeds."""

        def filled(leaf: Any) -> Any:
            for axis, count in enumerate(self._counts):
                last = jax.lax.slice_in_dim(leaf, leaf.shape[axis] - 1, leaf.shape[axis], axis=axis)
                leaf = jnp.concatenate([leaf, *[last] * (count - leaf.shape[axis])], axis=axis)
            return leaf

        sharding = NamedSharding(self.mesh, BY_SEED_AND_TASK)
        return jax.device_put(jax.tree.map(filled, state), sharding)


def mesh_for(seeds: int, tasks: int = 1) -> Mesh:
    """As many devices as make for the fewest runs one after the other, and no more."""
    devices = jax.local_devices()

    def cost(shape: tuple[int, int]) -> tuple[int, int]:
        rows, columns = shape
        return -(-seeds // rows) * -(-tasks // columns), rows * columns

    shapes = [
        (rows, columns)
        for rows in range(1, min(seeds, len(devices)) + 1)
        for columns in range(1, min(tasks, len(devices) // rows) + 1)
    ]
    rows, columns = min(shapes, key=cost)
    used = np.array(devices[: rows * columns]).reshape(rows, columns)
    return Mesh(used, ("seed", "task"), axis_types=(AxisType.Auto, AxisType.Auto))


def _multiple(count: int, of: int) -> int:
    """The next one that is not smaller."""
    return -(-count // of) * of


@partial(jax.jit, static_argnums=(0, 1))
def begin_all(
    plan: LearningPlan, mesh: Mesh, tasks: Task, keys: Key[Array, "seed task"]
) -> LoopState:
    """The state of every seed and task before the first round."""
    return _on_all(mesh, lambda task, key: begin(plan, task, key=key))(tasks, keys)


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=3)
def learn_round(
    plan: LearningPlan, mesh: Mesh, tasks: Task, state: LoopState
) -> tuple[LoopState, Metrics]:
    """One round of learning for every seed and task."""
    return _on_all(mesh, lambda task, each: iterate(plan, task, each))(tasks, state)


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=3)
def settle_round(
    plan: LearningPlan, mesh: Mesh, tasks: Task, state: LoopState
) -> tuple[LoopState, Metrics]:
    """One round of settling for every seed and task."""
    return _on_all(mesh, lambda task, each: settle(plan, task, each))(tasks, state)


def _on_all(mesh: Mesh, for_one: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a task and one seed's data, for all tasks and all seeds of all devices."""
    is_cpu = mesh.devices.flat[0].platform == "cpu"

    def of_seed(tasks: Task, data: Any) -> Any:
        return _each(for_one, (tasks, data), is_cpu=is_cpu)

    def of_device(tasks: Task, data: Any) -> Any:
        return _each(lambda data: of_seed(tasks, data), (data,), is_cpu=is_cpu)

    return jax.shard_map(
        of_device,
        mesh=mesh,
        in_specs=(BY_TASK, BY_SEED_AND_TASK),
        out_specs=BY_SEED_AND_TASK,
        check_vma=False,
    )


def _each(function: Callable[..., Any], rows: tuple[Any, ...], *, is_cpu: bool) -> Any:
    """A function of every row: one after the other on a core, side by side elsewhere.

    A row alone is not stacked: look-ups in a table are quicker than in a stack of one table.
    """
    if len(jax.tree.leaves(rows)[0]) == 1:
        only = jax.tree.map(lambda leaf: leaf[0], rows)
        return jax.tree.map(lambda leaf: leaf[None], function(*only))
    if is_cpu:
        return jax.lax.map(lambda row: function(*row), rows)
    return jax.vmap(function)(*rows)
