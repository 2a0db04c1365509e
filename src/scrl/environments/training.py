"""Training in somebody's environment: the same loop, run folders and results as on our maps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from scrl.environments.contract import EnvironmentFault
from scrl.environments.driver import OutsideRounds, begin_all, first_drive_like
from scrl.environments.lanes import Lanes
from scrl.environments.policy import EnvironmentPolicy, evaluate_in
from scrl.environments.problem import EnvironmentProblem
from scrl.environments.spaces import Actions
from scrl.evaluation import Evaluation
from scrl.learners import TrainedPolicy
from scrl.learners.actions import Discrete
from scrl.penalty import Atoms
from scrl.problems import Terms
from scrl.rules import reading_of
from scrl.runs.files import plain
from scrl.runs.folder import RunError, RunFolder
from scrl.training.algorithm import Task
from scrl.training.config import PRESETS, MethodError, TrainingConfig, configure
from scrl.training.loop import TrainingLoop
from scrl.training.methods import find_method
from scrl.training.progress import Watcher
from scrl.training.result import REPORT_SEED, TrainingResult, config_of
from scrl.training.run import Evaluator, TrainingRun
from scrl.worlds.outside import OutsideWorld

REPORT_EPISODES = 200
"""Episodes behind a result, at least."""
LEAST_STEPS = 4096
"""Steps of all worlds in a round, at least, if nothing else is said."""

DEFAULTS: Mapping[str, Any] = {
    "iterations": 150,
    "settle": 30,
    "inset": 0.0,
    "is_netted": False,
    "episodes": 16,
    "settle_episodes": 64,
    "deviations": 2.0,
    "first_mean": 0.5,
    "discount": 0.99,
    "trace": 0.95,
    "epochs": 5,
    "learning_rate": 1e-3,
}
"""What differs from the settings for our maps."""


def configure_outside(
    problem: EnvironmentProblem,
    *,
    method: str | None = None,
    seeds: int = 1,
    settings: Mapping[str, Any] | None = None,
    **names: Any,
) -> TrainingConfig:
    """A method with its settings, for an environment: whole episodes fit into a round.

    What is given wins over the preset, the preset over the method's own, and that over `DEFAULTS`.
    """
    given = dict(settings or {})
    plain = configure(method, settings=given, **{**names, "steps": None})
    worlds = _worlds(problem, plain, given, seeds)
    horizon = problem.horizon_steps
    fitting = horizon * max(1, math.ceil(LEAST_STEPS / (worlds * horizon)))
    own = {*_settings_of(method), *PRESETS[names.get("preset") or "default"]}
    known = {key: value for key, value in DEFAULTS.items() if key not in own}
    known |= {"worlds": worlds, "steps": fitting}
    known = {key: value for key, value in known.items() if _is_known(key, plain)}
    chosen = known | given
    for key in ("episodes", "settle_episodes"):  # every lane runs as many as the others
        wanted = chosen.get(key, getattr(plain.loop, key))
        if isinstance(wanted, int):
            chosen[key] = worlds * -(-wanted // worlds)
    found = configure(method, settings=chosen, episode_steps=horizon, is_random=True, **names)
    if found.loop.steps < horizon <= chosen["steps"]:  # a small budget, but episodes must fit in
        found = replace(found, loop=replace(found.loop, steps=horizon))
    if found.loop.steps < horizon:
        raise MethodError(
            f"steps = {found.loop.steps} is less than the {horizon} steps of an episode: its end "
            "would never be seen"
        )
    if isinstance(problem.actions.kind, Discrete) and plain.learner != "ppo":
        raise MethodError(
            f"the learner '{plain.learner}' needs actions that are numbers, and those of "
            f"{problem.name} are choices: take learner='ppo'"
        )
    return found


def _settings_of(method: str | None) -> Mapping[str, Any]:
    """What a method sets by itself."""
    found = find_method(method or "scrl")
    return {} if found is None else found.settings


def _is_known(key: str, config: TrainingConfig) -> bool:
    tables = (config.loop, config.learner_settings, config.penalty_settings)
    return any(hasattr(table, key) for table in tables)


def _worlds(
    problem: EnvironmentProblem, config: TrainingConfig, given: Mapping[str, Any], seeds: int
) -> int:
    """Lanes of each seed."""
    lanes = problem.source.lanes
    if lanes is None:
        return config.loop.worlds
    if lanes % seeds:
        raise EnvironmentFault(
            f"{lanes} environments cannot be shared out evenly to {seeds} seeds: give a function "
            "that makes them"
        )
    if given.get("worlds", lanes // seeds) != lanes // seeds:
        raise MethodError(
            f"worlds = {given['worlds']}, but there are {lanes} environments for {seeds} seeds"
        )
    return lanes // seeds


def task_outside(problem: Terms, config: TrainingConfig) -> Task:
    """The problem as the loop wants it."""
    reading = reading_of(problem.rules, config.reading)
    atoms = Atoms.of(reading_of(problem.rules, "all"))
    world = OutsideWorld(len(problem.regions))
    return Task(
        world,
        atoms,
        Atoms.of(reading),
        config.penalty_functions,
        problem.tolerance,
        problem.discount,
        True,
    )


def run_outside(
    problem: EnvironmentProblem,
    config: TrainingConfig,
    folder: RunFolder,
    watch: Watcher | None = None,
) -> TrainingResult:
    """Train in a folder to the end; the environments are closed whatever happens."""
    seeds = folder.record.seeds
    with problem.open(len(seeds) * config.loop.worlds) as lanes:
        task = task_outside(problem, config)
        rounds = OutsideRounds(config.plan, task, problem.actions, lanes, seeds)
        judge = Evaluator(_report_in(lanes), lambda _: None)
        return TrainingLoop([TrainingRun(problem, config, folder, judge)], rounds, watch).run()[0]


@contextmanager
def waiting() -> Iterator[None]:
    """Compiled code runs in the thread that asks for it.

    Lanes wait for every action: handing it to a thread and back would only take time, and on a busy
    machine most of the time there is. It must hold before JAX looks at its devices.
    """
    name = "jax_cpu_enable_async_dispatch"
    before = jax.config.read(name)
    jax.config.update(name, False)
    try:
        yield
    finally:
        jax.config.update(name, before)


def _report_in(lanes: Lanes) -> Any:
    """Reports policies in these lanes, in episodes that had no part in choosing them."""

    def report(
        problem: EnvironmentProblem, policy: TrainedPolicy, seed: int, name: str
    ) -> Evaluation:
        episodes = lanes.count * -(-REPORT_EPISODES // lanes.count)
        return evaluate_in(
            lanes, problem, EnvironmentPolicy(policy, problem.actions),
            episodes=episodes, seed=REPORT_SEED + seed, name=name,
        )  # fmt: skip

    return report


def check_lanes(problem: EnvironmentProblem, folder: RunFolder) -> None:
    """Raise where there are not as many environments as a run has begun with."""
    worlds = config_of(folder).loop.worlds
    lanes, needed = problem.source.lanes, worlds * len(folder.record.seeds)
    if lanes not in (None, needed):
        raise RunError(f"{folder.path}: this run began with {needed} environments, not {lanes}")


def check_same(problem: EnvironmentProblem, folder: RunFolder) -> None:
    """Raise unless an environment is the one that a run has begun with, as far as one can tell."""
    kept, given = folder.environment(), problem.kept
    if kept is None:
        raise RunError(f"{folder.path}: this run is on a map, which needs no environment")
    before, now = plain(kept.to_json()), plain(given.to_json())
    unlike = {"name", "description"}
    if not (kept.is_id and given.is_id):
        unlike.add("environment")  # a function may have got another name
    for name, value in before.items():
        if name not in unlike and value != now[name]:
            raise RunError(
                f"{folder.path}: this run began with other {name}: {value!r:.120}, and now it is "
                f"{now[name]!r:.120}"
            )


def load_outside(folder: RunFolder, seed_index: int) -> EnvironmentPolicy:
    """The policy of one seed of a finished run; the environment is not needed."""
    kept = folder.environment()
    if kept is None:
        raise RunError(f"{folder.path}: this run is on a map")
    config, actions = config_of(folder), Actions.from_json(kept.actions)
    task = task_outside(kept, config)
    first = first_drive_like(config.loop.worlds, kept.features, len(kept.regions))
    seeds = len(folder.record.seeds)

    def begin() -> TrainedPolicy:
        drives = jax.tree.map(lambda leaf: jnp.zeros((seeds, *leaf.shape[1:])), first)
        keys = jnp.stack([jax.random.key(0)] * seeds)
        return begin_all(config.plan, task, actions, drives, keys).best.policy

    policies = folder.load_policy(jax.eval_shape(begin))
    return EnvironmentPolicy(jax.tree.map(lambda leaf: leaf[seed_index], policies), actions)
