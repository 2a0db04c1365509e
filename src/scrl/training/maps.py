"""Training on maps: a problem in a compiled world, alone or with others side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from scrl.errors import MethodError, ScrlError
from scrl.evaluation import (
    REPORT_EPISODES,
    REPORT_SEED,
    Evaluation,
    chosen_episodes,
    evaluate,
)
from scrl.learners import LEARNERS, TrainedPolicy
from scrl.problems import Problem
from scrl.rollout import Episode
from scrl.runs.folder import RunFolder, RunRecord
from scrl.training.algorithm import begin
from scrl.training.config import TrainingConfig, configure
from scrl.training.devices import DeviceRounds, sweep_encoder, task_of
from scrl.training.loop import run_to_end
from scrl.training.progress import Watcher
from scrl.training.result import TrainingResult, config_of
from scrl.training.run import Training, TrainingRun

IN_RUNS = {"epochs": 4, "run_kappa_rate": 30.0, "settle_share": 0.4}
"""Settings for rules on single runs: a policy that reacts has more to learn from each step, and its
aims settle in rounds of many episodes."""
RANDOM_BUDGET = 10_000_000
"""Steps of each seed where chance plays a part, unless these say how many there are."""
ROUNDS = frozenset({"iterations", "settle", "budget"})
TYPICAL_THROTTLE = 0.6
"""About that of policies in training: a budget of steps is shared out by it."""


def configure_map(
    problem: Problem,
    *,
    method: str | None = None,
    seeds: int = 1,
    settings: Mapping[str, Any] | None = None,
    steps: int | None = None,
    **names: Any,
) -> TrainingConfig:
    """A method with its settings, for a map; `names` are the other options of `configure`."""
    del seeds
    spec = problem.world_spec
    if problem.is_random and steps is None and not ROUNDS & set(settings or {}):
        steps = RANDOM_BUDGET
    episode = len(spec.path.cells) / (TYPICAL_THROTTLE * spec.vehicle.max_speed)
    is_in_runs = problem.is_random and problem.rules.largest_share is not None
    return configure(
        method, settings=settings, steps=steps, usual=IN_RUNS if is_in_runs else None,
        episode_steps=episode, is_random=problem.is_random, **names,
    )  # fmt: skip


def create_run(
    problem: Problem, config: TrainingConfig, seeds: tuple[int, ...], path: Path
) -> TrainingRun:
    """A new run in a folder of its own; what cannot be run is refused before it is written."""
    check_seeds(seeds)
    config.read(problem.rules)
    if problem.is_random and problem.rules.largest_share is not None:
        _check_single_runs(problem, config)
    record = RunRecord.now(problem.name, config.method, config.to_json(), seeds)
    return training_run(RunFolder.create(path, problem, record), problem, config)


def _check_single_runs(problem: Problem, config: TrainingConfig) -> None:
    """Raise where rules on single runs cannot be learned."""
    if problem.discount < 1.0:
        raise MethodError(
            f"discount = {problem.discount:g}: training for rules on single runs needs a discount "
            "of 1"
        )
    if LEARNERS[config.learner].has_multipliers:
        raise MethodError(
            f"the learner '{config.learner}' predicts costs of means: it cannot be trained for "
            "rules on single runs"
        )


def training_run(
    folder: RunFolder, problem: Problem | None = None, config: TrainingConfig | None = None
) -> TrainingRun:
    """The run of a folder on a map."""
    problem, config = problem or folder.problem(), config or config_of(folder)
    return TrainingRun(
        problem,
        config,
        folder,
        report=partial(report, problem, config.method),
        bound=partial(bound_of, problem),
        reports_last=True,
    )


def train_side_by_side(
    runs: Sequence[TrainingRun],
    watch: Watcher | None = None,
    *,
    is_stopped: Callable[[], bool] = lambda: False,
) -> list[TrainingResult]:
    """Train runs on maps with one plan, the same seeds and tasks of one shape to the end."""
    tasks = [task_of(run.folder.problem(), run.config) for run in runs]
    rounds = DeviceRounds(tasks, runs[0].seeds)
    return run_to_end(Training(runs, rounds), watch, is_stopped=is_stopped)


def load_policies(folder: RunFolder) -> TrainedPolicy:
    """The policies of all seeds of a finished run on a map; the first axis is the seed."""
    config = config_of(folder)
    task = task_of(folder.problem(), config)

    def policies(keys: Key[Array, "seed 3"]) -> TrainedPolicy:
        one = jnp.ones(1)
        first = Episode(one, jnp.ones((1, task.regions)), jnp.ones(1, int), one > 0, None)
        encoder = sweep_encoder(task, first)
        return jax.vmap(lambda each: begin(task, encoder, None, keys=each).best.policy)(keys)

    keys = jax.eval_shape(
        lambda: jax.random.split(jax.random.key(0), (len(folder.record.seeds), 3))
    )
    return folder.load_policy(jax.eval_shape(policies, keys))


def report(problem: Problem, name: str, policy: TrainedPolicy, seed: int) -> Evaluation:
    """What a trained policy does in episodes that had no part in choosing it."""
    episodes = chosen_episodes(
        problem.rules, None, is_random=problem.is_random, usual=REPORT_EPISODES
    )
    return evaluate(problem, policy, episodes=episodes, seed=REPORT_SEED + seed, name=name)


def bound_of(problem: Problem) -> float | None:
    """What no policy that keeps the rules exceeds; none where nothing is proven in a moment."""
    from scrl.reference.answer import Question  # with solvers that take a while to import
    from scrl.reference.solve import bounded, solve_question

    try:
        question = Question.of(problem)
        reference, _ = solve_question(question)
        return bounded(question, reference, time_limit_s=BOUND_TIME_S, enough=inf).bound
    except ScrlError:
        return None


BOUND_TIME_S = 5.0
LARGEST_SEED = 2**32 - REPORT_SEED
"""Seeds below this give different keys, in training and in the report."""


def check_seeds(seeds: tuple[int, ...]) -> None:
    """Raise unless the seeds are different whole numbers within range."""
    is_whole = all(isinstance(each, int) and 0 <= each < LARGEST_SEED for each in seeds)
    if not seeds or not is_whole or len(set(seeds)) < len(seeds):
        raise ScrlError(
            "seeds must be one or more different whole numbers of at least 0 and below "
            f"{LARGEST_SEED:,}"
        )
