"""`scrl.train`, `resume`, `load_policy`, `evaluate_run`, `learn` and `learned`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrl.errors import PolicyError, ScrlError, did_you_mean
from scrl.evaluation import Evaluation
from scrl.opening import EnvironmentRun, environment_problem, open_problem, open_run
from scrl.problems import Problem
from scrl.runs.folder import new_run_path
from scrl.runs.result import RunResult
from scrl.terminal import Auto, watching
from scrl.training.maps import check_seeds
from scrl.training.methods import LEARN
from scrl.training.progress import TrainingProgressBar, Watcher
from scrl.training.result import TrainingResult, config_of

if TYPE_CHECKING:
    from scrl.environments import EnvironmentPolicy
    from scrl.environments.asking import EnvironmentPlanner
    from scrl.learners import TrainedPolicy
    from scrl.planning.feedback import FeedbackPolicy
    from scrl.policies import Schedule


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

    `problem` is a problem, its name or the path of its file; or any Gymnasium environment, with
    `labels`, `rules` and the other options of `scrl.environment`. `seeds` is how many (from `seed`
    on), or which. `steps` is the whole budget of environment steps for each seed. The run folder
    is `out`, or a new one in `runs/`. `watch` is called after every round; by default progress is
    shown on standard error if that is a terminal or a notebook, and with None nothing is.
    """
    chosen = tuple(range(seed, seed + seeds)) if isinstance(seeds, int) else tuple(seeds)
    check_options(environment, train)
    found = open_problem(problem, environment)
    check_seeds(chosen)
    config = found.configure(
        method=method, seeds=len(chosen), settings=settings,
        learner=learner, penalty=penalty, preset=preset, steps=steps,
    )  # fmt: skip
    path = Path(out) if out else new_run_path(Path("runs"), found.problem.name, config.method)
    with watching(watch, TrainingProgressBar) as bar:
        return found.train(config, chosen, path, bar)


def resume(
    path: Path | str,
    env: Any = None,
    *,
    watch: Watcher | Auto | None = "auto",
    **environment: Any,
) -> RunResult:
    """Resume a run that was interrupted; the result of a finished one is read.

    A run in an external environment needs it again, with its labels: a folder cannot hold it.
    Rules, regions and horizon come from the folder where they are not given.
    """
    check_options(environment, resume)
    run = open_run(path)
    if run.result is not None:
        return run.result
    with watching(watch, TrainingProgressBar) as bar:
        if env is None and not environment:
            return run.resume(bar)
        return _in_environment(run).resume(bar, _in_environment(run).made_again(env, environment))


def load_policy(
    run: Path | str, seed: int | None = None
) -> TrainedPolicy | EnvironmentPolicy | FeedbackPolicy | Schedule:
    """The policy that a run ended with: that of a seed, or of the best one.

    One for an external environment is a function of an observation; the environment is not needed.
    """
    return open_run(run).policy(seed)


def evaluate_run(
    run: Path | str,
    env: Any = None,
    *,
    policy_seed: int | None = None,
    episodes: int | None = None,
    seed: int = 0,
    **environment: Any,
) -> Evaluation:
    """Judge the policy of a run in new episodes: that of a training seed, or of the best one.

    A run in an external environment needs it again, with its labels: a folder cannot hold it.
    Rules, regions and horizon come from the folder where they are not given.
    """
    check_options(environment, evaluate_run)
    opened = open_run(run)
    if env is None and not environment:
        return opened.evaluate(policy_seed=policy_seed, episodes=episodes, seed=seed)
    opened = _in_environment(opened)
    problem = opened.made_again(env, environment)
    return opened.evaluate(problem, policy_seed=policy_seed, episodes=episodes, seed=seed)


def learn(
    env: Any,
    *,
    seed: int = 0,
    steps: int | None = None,
    settings: Mapping[str, Any] | None = None,
    out: Path | str | None = None,
    watch: Watcher | Auto | None = "auto",
    **environment: Any,
) -> EnvironmentPlanner:
    """Train one policy in a Gymnasium environment that then answers any rules there.

    The policy sees what amounts are worth and is trained for prices of a wide range, with no rules
    at all. `labels` and the other options are those of `scrl.environment`, `steps` is the budget of
    environment steps, and all else is as in `scrl.train`.
    """
    check_options(environment, learn)
    if "rules" in environment:
        raise ScrlError("rules: nothing is learned for them; ask for them afterwards")
    if not environment and isinstance(env, str | Path | Problem):
        raise ScrlError(
            f"{env!r:.80}: on a map nothing need be learned: scrl.planner().ask(world, rules). If "
            "it is a Gymnasium environment, say with `labels` what its steps give to which regions"
        )
    from scrl.environments.asking import WORLDS

    found = open_problem(env, environment)
    lanes = environment_problem(found.problem, {}).source.lanes
    usual = {"worlds": WORLDS} if lanes is None else {}
    config = found.configure(
        method=LEARN, seeds=1, settings={**usual, **(settings or {})}, steps=steps
    )
    path = Path(out) if out else new_run_path(Path("runs"), found.problem.name, LEARN)
    with watching(watch, TrainingProgressBar) as bar:
        found.train(config, (seed,), path, bar)
    return learned(path, found.problem)


def learned(run: Path | str, env: Any = None, **environment: Any) -> EnvironmentPlanner:
    """What `scrl.learn` has trained in a folder, to be asked.

    The environment is needed again with its labels, unless it is an id and labels are from `info`.
    """
    from scrl.environments.asking import EnvironmentPlanner

    check_options(environment, learned)
    opened = open_run(run)
    if opened.folder.record.method != LEARN:
        raise PolicyError(f"{run}: this run was not trained by `scrl learn`, so it has no prices")
    opened = _in_environment(opened)
    made = env is not None or environment
    problem = opened.made_again(env, environment) if made else opened.made_alone()
    policy = opened.policy().policy
    return EnvironmentPlanner(problem, policy, config_of(opened.folder), opened.path)


def _in_environment(run: Any) -> EnvironmentRun:
    if not isinstance(run, EnvironmentRun):
        raise PolicyError(f"{run.path}: this run is on a map, which needs no environment")
    return run


def check_options(options: Mapping[str, Any], caller: Callable[..., Any]) -> None:
    """Raise if an option is known neither to a function nor to `scrl.environment`."""
    if not options:
        return
    from scrl.environments.problem import OPTIONS

    own = list(inspect.signature(caller).parameters)[1:-1]
    for key in options:
        if key not in OPTIONS:
            raise ScrlError(f"unknown option '{key}'{did_you_mean(key, [*own, *OPTIONS])}")
