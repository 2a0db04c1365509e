"""Rounds of Algorithm 2 in compiled worlds: all seeds of several tasks, over all devices.

Seeds and tasks are independent of each other. Each device takes some of the seeds and of the tasks
(on a CPU every core can be a device: JAX_NUM_CPU_DEVICES; the commands see to it). Where they
cannot be shared out evenly, the last ones run twice and count once. Tasks of one shape run side by
side in one call, which is what fills a GPU. Every array of the state has the seed as its first axis
and the task as its second.
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
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, Shaped

from scrl.learners import LEARNERS, Encoder, SweepEncoder
from scrl.penalty import Atoms
from scrl.policies import Action, Constant
from scrl.problems import Problem
from scrl.rollout import Episode, Rollout, begin_worlds, collect, run_episode
from scrl.single_runs import CountedWorld, RunAtoms
from scrl.training.algorithm import (
    Driver,
    Explorer,
    LoopState,
    Measured,
    Metrics,
    Task,
    TrainedPolicy,
    begin,
    explore,
    iterate,
    present_policy,
    remeasure_best,
    settle,
)
from scrl.training.config import TrainingConfig
from scrl.violation import largest_step
from scrl.worlds.contract import State, SteppedWorld
from scrl.worlds.sweep.world import SweepWorld

BY_TASK, BY_SEED_AND_TASK = PartitionSpec("task"), PartitionSpec("seed", "task")


class SweepTask(Task):
    """A task in the sweep world."""

    world: SweepWorld

    @property
    def rate(self) -> Float[Array, ""]:
        return self.world.rate

    @property
    def largest_labels(self) -> Float[Array, " region"] | float:
        return 1.0 if self.world.in_step is None else self.world.in_step

    @property
    def is_horizon_an_end(self) -> bool:
        """An episode that the horizon cuts off has not shown what it would give."""
        return False


def task_of(problem: Problem, config: TrainingConfig) -> SweepTask:
    """A problem on a map as Algorithm 2 wants it."""
    is_in_runs = problem.rules.largest_share is not None and problem.is_random
    return SweepTask(
        plan=config.plan.for_task(problem.discount),
        rules=Atoms.of(problem.atoms),
        reading=Atoms.of(config.read(problem.rules)),
        penalty=config.penalty_rule(is_in_runs=is_in_runs),
        is_in_runs=is_in_runs,
        tolerance=problem.tolerance,
        discount=problem.discount,
        is_random=problem.is_random,
        world=problem.world,
    )


def sweep_driver(task: SweepTask) -> Driver:
    """How the sweep world is measured and driven, for one seed."""

    def measured(policy: TrainedPolicy, key: PRNGKeyArray, episodes: int) -> Measured:
        ran = measure(task, policy, episodes, key=key)
        return Measured(ran, ran.steps.sum())

    def collected(explorer: Explorer, worlds: State, key: PRNGKeyArray) -> tuple[State, Rollout]:
        def act(observation: Array, world: Array, noise: Array) -> tuple[Array, Array]:
            return explore(task, explorer, observation, explorer.prices[world], noise)

        world = counted(task.world, explorer.encoder)
        steps, shape = task.plan.loop.rollout_steps, task.world.action_shape
        return collect(world, act, worlds, steps=steps, action_shape=shape, key=key)

    def directly(function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    return Driver(measured, collected, directly)


def measure(task: SweepTask, policy: Action, episodes: int, *, key: PRNGKeyArray) -> Episode:
    """Whole episodes of a policy; the first axis is the episode."""
    keys = jax.random.split(key, episodes)

    def run(key: PRNGKeyArray) -> Episode:
        return run_episode(task.world, policy, key=key, discount=task.discount)

    return jax.vmap(run)(keys)


def sweep_encoder(task: SweepTask, first: Episode) -> SweepEncoder:
    """An encoder with units read off one episode at the initial throttle."""
    return_, steps = jnp.abs(first.return_[0]), first.steps[0].astype(float)
    plan, of_runs = task.plan, _run_atoms(task, first)
    labels = [jnp.maximum(first.service[0], task.largest_labels)]
    if of_runs is not None:
        labels.append(0.3 * jnp.abs(of_runs.coefficients) @ labels[0])
    sizes = jnp.concatenate([return_[None], *(labels if plan.is_decomposed else [])])
    atoms = len(task.reading.bounds)
    return SweepEncoder(
        return_ / steps, sizes, task.regions, plan.loop.sees_prices, atoms, of_runs,
        task.world.action_shape, task.world.in_step,
    )  # fmt: skip


def _run_atoms(task: SweepTask, first: Episode) -> RunAtoms | None:
    """What the reading asks of single runs, with the bounds drawn in; None if it asks nothing."""
    if not task.is_in_runs:
        return None
    world, atoms = task.world, task.reading
    inset = task.plan.loop.run_inset * largest_step(
        atoms.coefficients * task.largest_labels, task.rate
    )
    cells = world.kinds[world.kind_of_part].sum(axis=0) / world.parts
    return RunAtoms.of(
        atoms.coefficients, atoms.bounds - inset, first.service[0], cells,
        jnp.ones(task.regions) * task.largest_labels, rate=task.rate,
    )  # fmt: skip


def counted(world: SweepWorld, encoder: Encoder) -> SteppedWorld[Any]:
    """The world to learn in: one that counts where the encoder wants to know."""
    return world if encoder.of_runs is None else CountedWorld(world, encoder.of_runs)


def begin_sweep(task: SweepTask, *, key: PRNGKeyArray) -> tuple[LoopState, Int[Array, ""]]:
    """The state before the first round, and the steps that were driven to read the units."""
    learner_key, first_key, worlds_key, loop_key, settle_key = jax.random.split(key, 5)
    throttle = Constant(jnp.full(task.world.action_shape, task.plan.settings.first_mean, float))
    first = measure(task, throttle, 1, key=first_key)
    keys = jnp.stack([learner_key, loop_key, settle_key])
    encoder = sweep_encoder(task, first)
    worlds = begin_worlds(counted(task.world, encoder), task.plan.loop.worlds, key=worlds_key)
    return begin(task, encoder, worlds, keys=keys), first.steps.sum()


class Rounds(Protocol):
    """The rounds of one run, or of several side by side, for all their seeds."""

    def begin(self) -> tuple[LoopState, Int[Array, "seed ..."]]:
        """The state before the first round, and the environment steps this took."""
        ...

    def learn(self, state: LoopState) -> tuple[LoopState, Metrics]:
        """One round of learning; the old state must not be used any more."""
        ...

    def settle(self, state: LoopState) -> tuple[LoopState, Metrics]:
        """One round of settling; the old state must not be used any more."""
        ...

    def remeasure(self, state: LoopState) -> tuple[LoopState, Int[Array, "seed ..."]]:
        """Measure the best policies again before settling; and the steps this took."""
        ...

    def present(self, state: LoopState) -> TrainedPolicy:
        """The policies of all seeds without noise, under their present kappas."""
        ...

    def split(self, tree: Any) -> list[Any]:
        """A state, metrics or counts of all runs -> those of each run."""
        ...

    def join(self, states: Sequence[LoopState]) -> LoopState:
        """The opposite of `split`: the states of each run -> that of all runs."""
        ...

    def chosen(self, is_new: Sequence[bool], new: LoopState, old: LoopState) -> LoopState:
        """The new state of some runs and the old state of the others."""
        ...


def shape_of(task: SweepTask) -> Any:
    """Tasks for which this is the same can run side by side: they differ in rules and numbers.

    They also have the same number of rounds, and of atoms where the network sees one by one.
    """
    bare = eqx.tree_at(lambda task: (task.rules, task.reading), task, (None, None))
    leaves, structure = jax.tree.flatten(bare)
    sees_atoms = task.is_in_runs or LEARNERS[task.plan.learner].has_multipliers
    atoms = task.reading.shape if sees_atoms else None
    rounds = task.plan.loop.iterations, task.plan.loop.settle
    shapes = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
    return structure, shapes, atoms, rounds


def side_by_side(tasks: Sequence[SweepTask]) -> SweepTask:
    """Tasks of one shape as one, with the task as the first axis of every array."""
    padded = [
        eqx.tree_at(lambda each: (each.rules, each.reading), task, (rules, of_reading))
        for task, rules, of_reading in zip(
            tasks, _alike([task.rules for task in tasks]), _alike([task.reading for task in tasks]),
            strict=True,
        )
    ]  # fmt: skip
    return jax.tree.map(lambda *leaves: np.stack(leaves), *padded)


def _alike(tables: Sequence[Atoms]) -> list[Atoms]:
    """Padded to one shape; where a clause is added, there must be an added atom to keep it."""
    clauses, places, groups = (max(table.shape[axis] for table in tables) for axis in (1, 2, 3))
    atoms = max(table.shape[0] + (table.shape[1] < clauses) for table in tables)
    return [table.padded(atoms, clauses, places, groups) for table in tables]


class DeviceRounds:
    """The compiled rounds of one task or several of one shape, for some seeds."""

    def __init__(self, tasks: Sequence[SweepTask], seeds: Sequence[int]) -> None:
        self.seeds = tuple(seeds)
        self.atoms = tuple(task.reading.shape[0] for task in tasks)
        self.mesh = mesh_for(len(self.seeds), len(tasks))
        self._counts = (
            _multiple(len(self.seeds), self.mesh.shape["seed"]),
            _multiple(len(tasks), self.mesh.shape["task"]),
        )
        whole = [*tasks, *[tasks[-1]] * (self._counts[1] - len(tasks))]
        self.tasks = jax.device_put(side_by_side(whole), NamedSharding(self.mesh, BY_TASK))

    def begin(self) -> tuple[LoopState, Int[Array, "seed task"]]:
        return begin_all(self.mesh, self.tasks, self._keys())

    def learn(self, state: LoopState) -> tuple[LoopState, Metrics]:
        return learn_round(self.mesh, self.tasks, state)

    def settle(self, state: LoopState) -> tuple[LoopState, Metrics]:
        return settle_round(self.mesh, self.tasks, state)

    def remeasure(self, state: LoopState) -> tuple[LoopState, Int[Array, "seed task"]]:
        return remeasure_round(self.mesh, self.tasks, state)

    def present(self, state: LoopState) -> TrainedPolicy:
        return present_policies(self.mesh, self.tasks, state)

    def compile_ahead(self) -> None:
        """Compile all of this into the cache on disk, where the calls themselves will find it.

        Without that cache this would be in vain.
        """
        given = (self.mesh, self.tasks)
        compiled = begin_all.lower(*given, self._keys()).compile()
        state, _ = jax.tree.map(
            lambda leaf, sharding: leaf.update(sharding=sharding),
            jax.eval_shape(self.begin), compiled.output_shardings,
        )  # fmt: skip
        for function in (learn_round, settle_round):
            function.lower(*given, state).compile()

    def split(self, tree: Any) -> list[Any]:
        """What each run has of it, with the atoms of its own task, as if it had run alone."""
        is_on_host = all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(tree))
        return (_parts if is_on_host else split_runs)(len(self.seeds), self.atoms, tree)

    def join(self, states: Sequence[LoopState]) -> LoopState:
        atoms = self.tasks.reading.bounds.shape[1]
        return self._place(join_runs(self._counts, atoms, list(states)))

    def chosen(self, is_new: Sequence[bool], new: LoopState, old: LoopState) -> LoopState:
        added = self._counts[1] - len(is_new)
        return choose_runs(np.array([*is_new, *[False] * added]), new, old)

    def _keys(self) -> Key[Array, "seed task"]:
        seeds = [*self.seeds, *[self.seeds[-1]] * (self._counts[0] - len(self.seeds))]
        keys = jnp.stack([jax.random.key(seed) for seed in seeds])
        return self._place(jnp.broadcast_to(keys[:, None], self._counts))

    def _place(self, rows: Any) -> Any:
        """Arrays with a row per seed and task, on the devices of their seeds."""
        return jax.device_put(rows, NamedSharding(self.mesh, BY_SEED_AND_TASK))


def _by_atom(tree: Any, change: Callable[[Any], Any]) -> Any:
    """A state or metrics with all that has one number for each atom changed."""
    if isinstance(tree, LoopState):
        best = tree.best._replace(kappa=change(tree.best.kappa))
        tree = tree._replace(integral=change(tree.integral), excess=change(tree.excess), best=best)
    return tree._replace(kappa=change(tree.kappa)) if hasattr(tree, "kappa") else tree


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
    """The smallest multiple of a number that is not smaller than the count."""
    return -(-count // of) * of


@partial(jax.jit, static_argnums=0)
def begin_all(
    mesh: Mesh, tasks: SweepTask, keys: Key[Array, "seed task"]
) -> tuple[LoopState, Int[Array, "seed task"]]:
    """The state of every seed and task before the first round, and the steps driven for it."""
    return _on_all(mesh, lambda task, key: begin_sweep(task, key=key))(tasks, keys)


@partial(jax.jit, static_argnums=0, donate_argnums=2)
def learn_round(mesh: Mesh, tasks: SweepTask, state: LoopState) -> tuple[LoopState, Metrics]:
    """One round of learning for every seed and task."""
    return _on_all(mesh, _of_one(iterate))(tasks, state)


@partial(jax.jit, static_argnums=0, donate_argnums=2)
def settle_round(mesh: Mesh, tasks: SweepTask, state: LoopState) -> tuple[LoopState, Metrics]:
    """One round of settling for every seed and task."""
    return _on_all(mesh, _of_one(settle))(tasks, state)


@partial(jax.jit, static_argnums=0, donate_argnums=2)
def remeasure_round(
    mesh: Mesh, tasks: SweepTask, state: LoopState
) -> tuple[LoopState, Int[Array, "seed task"]]:
    """The best policy of every seed and task, measured again."""
    return _on_all(mesh, _of_one(remeasure_best))(tasks, state)


@partial(jax.jit, static_argnums=0)
def present_policies(mesh: Mesh, tasks: SweepTask, state: LoopState) -> TrainedPolicy:
    """The policy of every seed and task without noise, under its present kappa."""
    return _on_all(mesh, present_policy)(tasks, state)


def _parts(seeds: int, atoms: tuple[int, ...], tree: Any) -> list[Any]:
    """What each run has of the rows of all seeds and tasks."""

    def own(run: int) -> Any:
        mine = jax.tree.map(lambda leaf: leaf[:seeds, run], tree)
        return _by_atom(mine, lambda values: values[:, : atoms[run]])

    return [own(run) for run in range(len(atoms))]


split_runs = partial(jax.jit, static_argnums=(0, 1))(_parts)
"""The same on the device, in one call for all arrays."""


@jax.jit
def choose_runs(
    is_new: Bool[np.ndarray, " task"] | Bool[Array, " task"], new: LoopState, old: LoopState
) -> LoopState:
    """The new rows of some tasks and the old ones of the others."""

    def choose(new: Shaped[Array, "seed task ..."], old: Any) -> Shaped[Array, "seed task ..."]:
        return jnp.where(jnp.expand_dims(is_new, (0, *range(2, new.ndim))), new, old)

    return jax.tree.map(choose, new, old)


@partial(jax.jit, static_argnums=(0, 1))
def join_runs(counts: tuple[int, int], atoms: int, states: list[LoopState]) -> LoopState:
    """The opposite of `split_runs`, with the last seed and task repeated up to these counts."""

    def padded(part: LoopState) -> LoopState:
        def wide(kappa: Float[Array, "seed atom"]) -> Float[Array, "seed more"]:
            return jnp.pad(kappa, ((0, 0), (0, atoms - kappa.shape[1])))

        return _by_atom(part, wide)

    def filled(leaf: Shaped[Array, "seed task ..."]) -> Shaped[Array, "seeds tasks ..."]:
        for axis, count in enumerate(counts):
            last = jax.lax.slice_in_dim(leaf, leaf.shape[axis] - 1, leaf.shape[axis], axis=axis)
            leaf = jnp.concatenate([leaf, *[last] * (count - leaf.shape[axis])], axis=axis)
        return leaf

    return jax.tree.map(
        lambda *leaves: filled(jnp.stack(leaves, axis=1)), *(padded(part) for part in states)
    )


def _of_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """A part of the algorithm as a function of one task and the state of one seed."""
    return lambda task, state: function(task, sweep_driver(task), state)


def _on_all(mesh: Mesh, for_one: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a task and one seed's data, for all tasks and all seeds of all devices."""
    is_cpu = mesh.devices.flat[0].platform == "cpu"

    def of_seed(tasks: SweepTask, data: Any) -> Any:
        return _each(for_one, (tasks, data), is_cpu=is_cpu)

    def of_device(tasks: SweepTask, data: Any) -> Any:
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
        only = jax.tree.map(lambda leaf: jnp.squeeze(leaf, 0), rows)
        return jax.tree.map(lambda leaf: jnp.expand_dims(leaf, 0), function(*only))
    if is_cpu:
        return jax.lax.map(lambda row: function(*row), rows)
    return jax.vmap(function)(*rows)
