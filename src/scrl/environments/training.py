"""Training in an external environment: its settings, its run folder, its environments."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax

from scrl.environments.compiled import CompiledRounds
from scrl.environments.contract import EnvironmentFault
from scrl.environments.driver import EnvironmentRounds, EnvironmentTask, policies_like
from scrl.environments.lanes import Lanes
from scrl.environments.policy import EnvironmentPolicy, evaluate_in
from scrl.environments.problem import EnvironmentProblem
from scrl.environments.spaces import Actions
from scrl.evaluation import REPORT_SEED, Evaluation, chosen_episodes
from scrl.learners import TrainedPolicy
from scrl.learners.actions import Discrete
from scrl.learners.config import OnPolicyConfig
from scrl.penalty import Atoms
from scrl.problems import BaseProblem
from scrl.runs.environment import EnvironmentRecord
from scrl.runs.files import RunError, plain
from scrl.runs.folder import RunFolder, RunRecord
from scrl.training.config import PRESETS, MethodError, TrainingConfig, configure
from scrl.training.loop import run_to_end
from scrl.training.methods import find_method
from scrl.training.progress import Watcher
from scrl.training.result import TrainingResult, config_of
from scrl.training.run import Training, TrainingRun

REPORT_EPISODES = 200
"""Episodes behind a result, at least."""
LEAST_STEPS = 4000
"""Steps of all worlds in a rollout, at least, if nothing else is said."""
MEASURED_STEPS = 3200
"""Steps behind a measurement, about, where episodes are long; there are 4 to 16 of them."""
FEWEST = 4
"""Worlds and measured episodes, at least."""
ROLLOUTS = 150
"""Rollouts of a training in all."""
BATCH = 128
"""Steps in a minibatch."""

DEFAULTS: Mapping[str, Any] = {
    "settle": 30,
    "inset": 0.0,
    "run_inset": 0.5,
    "is_netted": False,
    "settle_episodes": 64,
    "deviations": 2.0,
    "first_mean": 0.5,
    "discount": 0.99,
    "gae_lambda": 0.95,
    "epochs": 10,
    "learning_rate": 7e-4,
    "initial_std": 0.4,
    "least_std": 0.02,
}
"""What differs from the settings for our maps."""


def configure_environment(
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
    usual = {**DEFAULTS, **_fitting(worlds, horizon, given.get("rollout_steps", fitting), given)}
    known = {key: value for key, value in usual.items() if key not in own}
    known |= {"worlds": worlds, "rollout_steps": fitting}
    known = {key: value for key, value in known.items() if _is_known(key, plain)}
    chosen = known | given
    for key in ("episodes", "settle_episodes"):  # every lane runs as many as the others
        wanted = chosen.get(key, getattr(plain.loop, key))
        if isinstance(wanted, int):
            chosen[key] = worlds * -(-wanted // worlds)
    found = configure(method, settings=chosen, episode_steps=horizon, is_random=True, **names)
    steps = found.loop.rollout_steps
    if steps < horizon <= chosen["rollout_steps"]:  # a small budget, but episodes must fit in
        found = replace(found, loop=replace(found.loop, rollout_steps=horizon))
    elif steps < horizon:
        raise MethodError(
            f"rollout_steps = {steps} is less than the {horizon} steps of an episode: its end "
            "would never be seen"
        )
    takes_choices = isinstance(plain.learner_settings, OnPolicyConfig)
    if isinstance(problem.actions.kind, Discrete) and not takes_choices:
        raise MethodError(
            f"the learner '{plain.learner}' needs actions that are numbers, and those of "
            f"{problem.name} are choices: take learner='ppo'"
        )
    return found


def _fitting(
    worlds: int, horizon: int, rollout_steps: Any, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Settings that follow from the length of episodes.

    Measuring takes about a quarter of all steps, so where episodes are long, several rollouts lie
    between two measurements.
    """
    if not isinstance(rollout_steps, int) or rollout_steps < 1:
        return {}  # refused with its reason when the settings are checked
    collected = worlds * rollout_steps
    episodes = min(16, max(FEWEST, MEASURED_STEPS // horizon))
    measured = given.get("episodes", episodes)
    measured = measured if isinstance(measured, int) else episodes
    rollouts = max(1, 3 * max(worlds, measured) * horizon // collected)
    return {
        "episodes": episodes,
        "rollouts": rollouts,
        "iterations": math.ceil(ROLLOUTS / rollouts),
        "minibatches": max(1, collected // BATCH),
    }


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
        if "worlds" in given:
            return config.loop.worlds
        most = max(FEWEST, LEAST_STEPS // problem.horizon_steps)
        return min(config.loop.worlds, most)
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


def task_of(problem: BaseProblem, config: TrainingConfig) -> EnvironmentTask:
    """The problem as Algorithm 2 wants it."""
    is_in_runs = problem.rules.largest_share is not None
    return EnvironmentTask(
        plan=config.plan.for_task(problem.discount),
        rules=Atoms.of(problem.atoms),
        reading=Atoms.of(config.read(problem.rules)),
        is_in_runs=is_in_runs,
        penalty=config.penalty_rule(is_in_runs=is_in_runs),
        tolerance=problem.tolerance,
        discount=problem.discount,
        is_random=problem.is_random,
    )


def create_folder(
    problem: EnvironmentProblem, config: TrainingConfig, seeds: tuple[int, ...], path: Path
) -> RunFolder:
    """A new run folder; what cannot be run is refused before it is written."""
    config.read(problem.rules)
    record = RunRecord.now(problem.name, config.method, config.to_json(), seeds)
    return RunFolder.create(path, None, record, environment=problem.record)


def train_in(
    problem: EnvironmentProblem,
    config: TrainingConfig,
    folder: RunFolder,
    watch: Watcher | None = None,
) -> TrainingResult:
    """Train in a folder to the end; the environments are closed whatever happens."""
    seeds = folder.record.seeds
    with waiting(), problem.open(len(seeds) * config.loop.worlds) as lanes:
        task = task_of(problem, config)
        # Rules on single episodes need the amounts so far, which the lanes count.
        is_compiled = problem.course is not None and not task.is_in_runs
        kind = CompiledRounds if is_compiled else EnvironmentRounds
        rounds = kind(task, problem.actions, lanes, seeds)
        report = partial(_report, problem, lanes, config.method)
        run = TrainingRun(problem, config, folder, report=report)
        return run_to_end(Training([run], rounds), watch)[0]


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


def _report(
    problem: EnvironmentProblem, lanes: Lanes, name: str, policy: TrainedPolicy, seed: int
) -> Evaluation:
    """What a policy does in these lanes, in episodes that had no part in choosing it."""
    usual = chosen_episodes(problem.rules, None, is_random=True, usual=REPORT_EPISODES)
    episodes = lanes.count * -(-usual // lanes.count)
    return evaluate_in(
        lanes, problem, EnvironmentPolicy(policy, problem.actions),
        episodes=episodes, seed=REPORT_SEED + seed, name=name,
    )  # fmt: skip


def check_lanes(problem: EnvironmentProblem, folder: RunFolder) -> None:
    """Raise where there are not as many environments as a run has begun with."""
    worlds = config_of(folder).loop.worlds
    lanes, needed = problem.source.lanes, worlds * len(folder.record.seeds)
    if lanes not in (None, needed):
        raise RunError(f"{folder.path}: this run began with {needed} environments, not {lanes}")


def check_same(problem: EnvironmentProblem, folder: RunFolder) -> None:
    """Raise unless an environment is the one that a run has begun with, as far as one can tell."""
    kept, given = folder.environment(), problem.record
    if kept is None:
        raise RunError(f"{folder.path}: this run is on a map, which needs no environment")
    before, now = plain(kept.to_json()), plain(given.to_json())
    unlike = {"name", "description", "labels"}  # the regions say enough of labels
    if not (kept.is_id and given.is_id):
        unlike.add("environment")  # a function may have got another name
    for name, value in before.items():
        if name not in unlike and value != now[name]:
            raise RunError(
                f"{folder.path}: this run began with other {name}: {value!r:.120}, and now it is "
                f"{now[name]!r:.120}"
            )


def load_policies(folder: RunFolder, record: EnvironmentRecord) -> TrainedPolicy:
    """The policies of all seeds of a finished run; the environment is not needed."""
    config, actions = config_of(folder), Actions.from_json(record.actions)
    seeds = len(folder.record.seeds)
    task = task_of(record, config)
    return folder.load_policy(policies_like(task, actions, record.features, seeds))
