"""`scrl.train`: seeds side by side, round after round, into a run folder that can be gone on with.

A round is one call of compiled code; `together` calls it, for one run or for many.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrl.errors import ScrlError, did_you_mean
from scrl.learners import TrainedPolicy
from scrl.problems import Problem
from scrl.problems import load as load_problem
from scrl.rules import reading_of
from scrl.runs.folder import RunFolder, RunRecord, new_run_path
from scrl.terminal import Auto, watching
from scrl.training import result
from scrl.training.config import TrainingConfig, configure
from scrl.training.loop import explaining_interruption, train_side_by_side
from scrl.training.progress import TrainingProgressBar, Watcher
from scrl.training.result import REPORT_SEED, TrainingResult, config_of, read_result, seed_index
from scrl.training.run import TrainingRun

if TYPE_CHECKING:
    from scrl.environments import EnvironmentPolicy, EnvironmentProblem

USUAL_THROTTLE = 0.6
"""About that of policies in training: a budget of steps is shared out by it."""
LARGEST_SEED = 2**32 - REPORT_SEED
"""Seeds below this give different keys, in training and in the report."""


def train(  # noqa: PLR0913 (one for each thing that a user may want to say)
    problem: Any,
    *,
    method: str | None = None,
    seeds: int | Sequence[int] = 1,
    seed: int = 0,
    learner: str | None = None,
    penalty: str | None = None,
    preset: str | None = None,
    steps: int | None = None,
    settings: Mapping[str, Any] | None = None,
    out: Path | str | None = None,
    watch: Watcher | Auto | None = "auto",
    **environment: Any,
) -> TrainingResult:
    """Learn to keep the rules of a problem at the least cost, for some seeds at once.

    `problem` is one, its name or the path of its file; or anybody's Gymnasium environment, with
    `labels`, `rules` and the other options of `scrl.environment`. `seeds` is how many (from `seed`
    on), or which. `steps` is the whole budget of environment steps for each seed. The run folder
    is `out`, or a new one in `runs/`. `watch` is called after every round; without it progress is
    watching on standard error, if that is a terminal or a notebook, and with None nothing is.
    """
    chosen = tuple(range(seed, seed + seeds)) if isinstance(seeds, int) else tuple(seeds)
    parts = {"learner": learner, "penalty": penalty, "preset": preset, "steps": steps}
    check_options(environment, train)
    if environment or not isinstance(problem, Problem | str | Path):
        outside = _outside(problem, environment)
        _check_seeds(chosen)
        config = _room().configure_outside(
            outside, method=method, seeds=len(chosen), settings=settings, **parts
        )
        path = Path(out) if out else new_run_path(Path("runs"), outside.name, config.method)
        reading_of(outside.rules, config.reading)
        with _room().waiting():
            record = RunRecord.now(outside.name, config.method, config.to_json(), chosen)
            folder = RunFolder.create(path, None, record, environment=outside.kept)
            with (
                watching(watch, TrainingProgressBar) as bar,
                explaining_interruption(folder, is_new=True),
            ):
                return _room().run_outside(outside, config, folder, bar)
    loaded = problem if isinstance(problem, Problem) else load_problem(problem)
    spec = loaded.world_spec
    usual_steps = len(spec.path.cells) / (USUAL_THROTTLE * spec.vehicle.max_speed)
    config = configure(
        method, settings=settings, episode_steps=usual_steps, is_random=loaded.is_random, **parts
    )
    path = Path(out) if out else new_run_path(Path("runs"), loaded.name, config.method)
    run = begin_run(loaded, config, chosen, path)
    with (
        watching(watch, TrainingProgressBar) as bar,
        explaining_interruption(run.folder, is_new=True),
    ):
        return train_side_by_side([run], bar)[0]


def begin_run(
    problem: Problem, config: TrainingConfig, seeds: tuple[int, ...], path: Path
) -> TrainingRun:
    """A new run in a folder of its own; what cannot be run is refused before it is written."""
    _check_seeds(seeds)
    reading_of(problem.rules, config.reading)
    record = RunRecord.now(problem.name, config.method, config.to_json(), seeds)
    return TrainingRun(problem, config, RunFolder.create(path, problem, record))


def _check_seeds(seeds: tuple[int, ...]) -> None:
    is_whole = all(isinstance(each, int) and 0 <= each < LARGEST_SEED for each in seeds)
    if not seeds or not is_whole or len(set(seeds)) < len(seeds):
        raise ScrlError(
            "seeds must be one or more different whole numbers of at least 0 and below "
            f"{LARGEST_SEED:,}"
        )


def resume(
    path: Path | str,
    env: Any = None,
    *,
    watch: Watcher | Auto | None = "auto",
    **environment: Any,
) -> TrainingResult:
    """Go on with a run that was interrupted; a finished one is read.

    A run in somebody's environment needs it again, with its labels: a folder cannot hold it. Rules,
    regions and horizon come from the folder where they are not given.
    """
    check_options(environment, resume)
    folder = RunFolder.open(path)
    if (finished := read_result(folder)) is not None:
        return finished
    if env is None and not environment:
        run = TrainingRun.again(folder)
        with (
            watching(watch, TrainingProgressBar) as bar,
            explaining_interruption(folder, is_new=False),
        ):
            return train_side_by_side([run], bar)[0]
    outside = environment_again(folder, env, environment)
    _room().check_lanes(outside, folder)
    config = config_of(folder)
    with (
        _room().waiting(),
        watching(watch, TrainingProgressBar) as bar,
        explaining_interruption(folder, is_new=False),
    ):
        return _room().run_outside(outside, config, folder, bar)


def environment_again(
    folder: RunFolder, env: Any, options: Mapping[str, Any]
) -> EnvironmentProblem:
    """The problem of a run with its environment made anew; what is not given the folder knows."""
    kept = folder.environment()
    known = {} if kept is None else kept.to_json()
    same = {name: known[name] for name in _KEPT_OPTIONS if name in known}
    outside = _outside(env, options if _is_problem(env) else {**same, **options})
    _room().check_same(outside, folder)
    return outside


_KEPT_OPTIONS = ("rules", "regions", "horizon_steps", "name", "description", "unit", "tolerance",
                 "discount", "margin", "equality_band")  # fmt: skip


def load_policy(run: Path | str, seed: int | None = None) -> TrainedPolicy | EnvironmentPolicy:
    """The policy that a run ended with: that of a seed, or of the best one.

    One for somebody's environment is a function of an observation; the environment is not needed.
    """
    folder = RunFolder.open(run)
    if folder.environment() is None:
        return result.load_policy(run, seed)
    return _room().load_outside(folder, seed_index(folder, seed))


def _outside(env: Any, options: Mapping[str, Any]) -> EnvironmentProblem:
    """The problem of somebody's environment."""
    from scrl.environments import environment

    if _is_problem(env):
        if options:
            raise ScrlError(f"{', '.join(options)}: the environment has its own already")
        return env
    if isinstance(env, Problem):
        raise ScrlError(
            f"{', '.join(options)}: options of a Gymnasium environment, and {env.name} is a "
            "problem with a map and rules of its own"
        )
    if "labels" not in options:
        wrong = f"{', '.join(options)}: no options of" if options else "this is no problem:"
        raise ScrlError(
            f"{wrong} {env!r:.60}; if it is a Gymnasium environment, say with `labels` what its "
            "steps give to which regions"
        )
    return environment(env, **options)


def check_options(options: Mapping[str, Any], caller: Callable[..., Any]) -> None:
    """Raise where an option is known neither to a function nor to `scrl.environment`."""
    if not options:
        return
    from scrl.environments.problem import OPTIONS

    own = list(inspect.signature(caller).parameters)[1:-1]
    for key in options:
        if key not in OPTIONS:
            raise ScrlError(f"unknown option '{key}'{did_you_mean(key, [*own, *OPTIONS])}")


def _is_problem(env: Any) -> bool:
    from scrl.environments import EnvironmentProblem

    return isinstance(env, EnvironmentProblem)


def _room() -> Any:
    """The training of somebody's environments: only who has one pays for its import."""
    from scrl.environments import training

    return training
