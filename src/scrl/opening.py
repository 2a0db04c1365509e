"""`open_run`: a run folder as a run on a map, a run in an external environment, or a plan.

This and the loading of problems are the only places that ask which of them it is.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from scrl.errors import PolicyError, ScrlError
from scrl.evaluation import (
    REPORT_SEED,
    Evaluation,
    chosen_episodes,
    evaluate,
    evaluate_mixture,
)
from scrl.learners import TrainedPolicy
from scrl.planning import plan_files
from scrl.planning.feedback import FeedbackPolicy
from scrl.policies import PlacedPolicy, Policy, Schedule
from scrl.problems import BaseProblem, Problem
from scrl.route import Route, drive
from scrl.runs.environment import EnvironmentRecord
from scrl.runs.folder import RunError, RunFolder
from scrl.runs.result import RunResult, SeedResult
from scrl.training import maps
from scrl.training.loop import explaining_interruption
from scrl.training.methods import LEARN
from scrl.training.progress import Watcher
from scrl.training.result import (
    TrainingResult,
    config_of,
    read_result,
    seed_policy,
)

if TYPE_CHECKING:
    from scrl.environments import EnvironmentPolicy, EnvironmentProblem

ProblemType = TypeVar("ProblemType", bound=BaseProblem)
ResultType = TypeVar("ResultType", bound=RunResult)


@dataclass(frozen=True)
class Recreation:
    """How to make a run again: as commands, or as calls in Python."""

    train: str
    resume: str
    evaluate: str
    problem_file: str
    """The file of the run folder that holds the problem."""
    problem_title: str
    note: str = ""
    facts: tuple[tuple[str, str], ...] = ()


class BaseRun(ABC, Generic[ProblemType, ResultType]):
    """A run folder, opened: what was asked, what came out, and what acts."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    @abstractmethod
    def problem(self) -> ProblemType: ...

    @cached_property
    @abstractmethod
    def result(self) -> ResultType | None:
        """What it ended with; none while it is not finished."""

    @property
    @abstractmethod
    def recreation(self) -> Recreation: ...

    def seed_result(self, seed: int | None = None) -> SeedResult:
        """What a finished run says of a seed, or of the best one."""
        result = self.result
        if result is None:
            raise PolicyError(
                f"{self.path}: this run is not finished; resume with {self.folder.resume_command} "
                "first"
            )
        if seed is None:
            return result.best
        for each in result.seeds:
            if each.seed == seed:
                return each
        known = ", ".join(str(each.seed) for each in result.seeds)
        raise PolicyError(f"{self.path}: there is no seed {seed} in this run, only {known}")

    @abstractmethod
    def policy(self, seed: int | None = None) -> Any:
        """The policy of a seed, or of the best one."""

    @abstractmethod
    def route(self, seed: int | None = None) -> Route:
        """What that policy drives in one episode of those that reported it."""

    def received(self, seed: int | None = None) -> tuple[dict[str, float], float]:
        """What each region receives on that route, and the steps it takes."""
        route = self.route(seed)
        return route.totals, route.steps

    def evaluation_of_policy(self, seed: int | None = None) -> Evaluation | None:
        """How the result judges the policy of a seed alone; none if it does not."""
        return self.seed_result(seed).evaluation

    @property
    def warning(self) -> str | None:
        """What a reader of the route should know."""
        return None

    @property
    def conflict(self) -> tuple[str, ...]:
        """Names of rules that were found not to hold together."""
        return ()


class RunOnMap(BaseRun[Problem, ResultType]):
    """A run whose policies drive over a map."""

    @property
    def problem(self) -> Problem:
        return self.folder.problem()

    @property
    def recreation(self) -> Recreation:
        path = shlex.quote(str(self.path))
        problem = shlex.quote(str(self.path / "problem.toml"))
        return Recreation(
            train=self.folder.record.command,
            resume=f"scrl train --resume {path}",
            evaluate=f"scrl eval {problem} --policy {path}",
            problem_file="problem.toml",
            problem_title="The problem file",
        )

    @property
    def drivers(self) -> list[tuple[float, Policy | PlacedPolicy]]:
        """What drives in the best result, and in which share of the episodes."""
        return [(1.0, self.policy())]

    def route(self, seed: int | None = None) -> Route:
        chosen = self.seed_result(seed).seed
        return drive(self.problem, self.policy(chosen), seed=REPORT_SEED + chosen)


class MapRun(RunOnMap[TrainingResult]):
    """Training on a map."""

    @cached_property
    def result(self) -> TrainingResult | None:
        return read_result(self.folder, self.problem)

    def policy(self, seed: int | None = None) -> TrainedPolicy:
        index = self.folder.record.seeds.index(self.seed_result(seed).seed)
        return seed_policy(maps.load_policies(self.folder), index)

    def evaluate(
        self,
        problem: Problem | None = None,
        *,
        policy_seed: int | None = None,
        episodes: int | None = None,
        seed: int = 0,
        name: str | None = None,
    ) -> Evaluation:
        """Judge the policy in new episodes, on its own problem or on another one."""
        policy, name = self.policy(policy_seed), name or str(self.path)
        return evaluate(problem or self.problem, policy, episodes=episodes, seed=seed, name=name)

    def resume(self, watch: Watcher | None = None) -> TrainingResult:
        """Train to the end."""
        with explaining_interruption(self.folder, is_new=False):
            return maps.train_side_by_side([maps.training_run(self.folder)], watch)[0]


class PlanRun(RunOnMap[plan_files.PlanResult]):
    """A plan of `scrl ask`: one policy, or several of which each episode draws one."""

    @cached_property
    def result(self) -> plan_files.PlanResult | None:
        return read_result(self.folder, self.problem, plan_files.PlanResult)

    @cached_property
    def plans(self) -> list[tuple[float, FeedbackPolicy | Schedule]]:
        """What drives, and in which share of the episodes; the most driven first."""
        return plan_files.read_plans(self.folder)

    @property
    def drivers(self) -> list[tuple[float, Policy | PlacedPolicy]]:
        return list(self.plans)

    @cached_property
    def answer(self) -> dict[str, Any]:
        """The JSON fields of `scrl ask`."""
        return plan_files.read_answer(self.folder)

    def policy(self, seed: int | None = None) -> FeedbackPolicy | Schedule:
        self._check_seed(seed)
        return self.plans[0][1]

    def evaluate(
        self,
        problem: Problem | None = None,
        *,
        policy_seed: int | None = None,
        episodes: int | None = None,
        seed: int = 0,
        name: str | None = None,
    ) -> Evaluation:
        """Judge the plan in new episodes, on its own problem or on another one."""
        self._check_seed(policy_seed)
        problem, name = problem or self.problem, name or str(self.path)
        weights, policies = zip(*self.plans, strict=True)
        if len(policies) == 1:
            return evaluate(problem, policies[0], episodes=episodes, seed=seed, name=name)
        count = chosen_episodes(problem.rules, episodes, is_random=problem.is_random)
        return evaluate_mixture(
            problem, policies, np.array(weights), episodes=count, seed=seed, name=name
        )

    def evaluation_of_policy(self, seed: int | None = None) -> Evaluation | None:
        return self.seed_result(seed).evaluation if len(self.plans) == 1 else None

    @property
    def warning(self) -> str | None:
        if len(self.plans) == 1:
            return None
        whole = "the rules are kept by" if self.seed_result().is_satisfied else "the answer is"
        return (
            f"{whole} a mixture of {len(self.plans)} plans; this is one of them, driven "
            f"in {self.plans[0][0]:.0%} of the episodes, and alone it may break a rule"
        )

    @property
    def conflict(self) -> tuple[str, ...]:
        return plan_files.conflict_in(self.answer, self.path)

    def resume(self, watch: Watcher | None = None) -> plan_files.PlanResult:
        """A plan is always finished."""
        del watch
        self.seed_result()
        assert self.result is not None  # noqa: S101 (seed_result has looked)
        return self.result

    def _check_seed(self, seed: int | None) -> None:
        if seed not in (None, *self.folder.record.seeds):
            raise PolicyError(f"{self.path}: a plan of `scrl ask` has no seeds to choose from")


class EnvironmentRun(BaseRun[EnvironmentRecord, TrainingResult]):
    """Training in an external environment, which a folder cannot hold."""

    @property
    def problem(self) -> EnvironmentRecord:
        found = self.folder.environment()
        assert found is not None  # noqa: S101 (open_run has looked)
        return found

    @cached_property
    def result(self) -> TrainingResult | None:
        return read_result(self.folder, self.problem)

    @property
    def recreation(self) -> Recreation:
        from scrl.environments.calls import evaluate_call, resume_call

        record = self.problem
        call, what = self._first_call
        return Recreation(
            train=call,
            resume=resume_call(record, self.path),
            evaluate=evaluate_call(record, self.path),
            problem_file="environment.json",
            problem_title="What the run folder knows of the environment",
            note="A run folder cannot hold an environment. Whoever has it, and knows what its "
            f"steps give to which regions, {what} again in Python:",
            facts=(
                ("environment", record.environment[:200]),
                ("horizon", record.units.duration(record.horizon_steps)),
                ("begun by", self.folder.record.command),
            ),
        )

    @property
    def _first_call(self) -> tuple[str, str]:
        """The call that made this run, and what it does."""
        from scrl.environments.calls import ask_call, learn_call, train_call

        record, run = self.problem, self.folder.record
        if run.method != LEARN:
            return train_call(record, run), "trains the same"
        if record.rules.rules:
            return ask_call(record, run, self.path), "asks the same policy for the same rules"
        return learn_call(record, run), "trains the same"

    def policy(self, seed: int | None = None) -> EnvironmentPolicy:
        from scrl.environments import EnvironmentPolicy
        from scrl.environments.spaces import Actions
        from scrl.environments.training import load_policies

        index = self.folder.record.seeds.index(self.seed_result(seed).seed)
        policies = load_policies(self.folder, self.problem)
        return EnvironmentPolicy(
            seed_policy(policies, index), Actions.from_json(self.problem.actions)
        )

    def route(self, seed: int | None = None) -> Route:
        del seed
        raise PolicyError(
            f"{self.problem.name}: there is no route, since there is no map: the policy acts in "
            f"an external environment ({self.problem.environment})"
        )

    def received(self, seed: int | None = None) -> tuple[dict[str, float], float]:
        """What was measured when the run ended."""
        found = self.seed_result(seed).evaluation
        return found.density, found.steps

    def evaluate(
        self,
        problem: EnvironmentProblem | None = None,
        *,
        policy_seed: int | None = None,
        episodes: int | None = None,
        seed: int = 0,
        name: str | None = None,
    ) -> Evaluation:
        """Judge the policy in new episodes of its environment, which is needed again."""
        if problem is None:
            raise PolicyError(
                f"{self.path}: this run was trained in an external environment, which is needed "
                f"again: scrl.evaluate_run({str(self.path)!r}, env, labels=...)"
            )
        policy, name = self.policy(policy_seed), name or str(self.path)
        return evaluate(problem, policy, episodes=episodes, seed=seed, name=name)

    def made_again(self, env: Any, options: Mapping[str, Any]) -> EnvironmentProblem:
        """The problem with its environment made again; the folder knows what is not given."""
        from scrl.environments.training import check_same

        known = self.problem.to_json()
        same = {name: known[name] for name in _RECORDED_OPTIONS if known.get(name) is not None}
        found = environment_problem(env, options if is_problem(env) else {**same, **options})
        check_same(found, self.folder)
        return found

    def made_alone(self) -> EnvironmentProblem:
        """The same where the folder knows all: an id, and labels that come from `info`."""
        record = self.problem
        if not record.is_id or record.labels is None:
            raise RunError(
                f"{self.path}: this run is not on a map but in an external environment "
                f"({record.environment}), which only its owner's Python can make; see "
                "scrl.resume, scrl.learned, scrl.load_policy and scrl.evaluate_run"
            )
        return self.made_again(record.environment, {})

    def resume(
        self, watch: Watcher | None = None, problem: EnvironmentProblem | None = None
    ) -> TrainingResult:
        """Train to the end in the environment, which is needed again."""
        from scrl.environments.training import check_lanes, train_in

        problem = problem or self.made_alone()
        check_lanes(problem, self.folder)
        with explaining_interruption(self.folder, is_new=False):
            return train_in(problem, config_of(self.folder), self.folder, watch)


Run = MapRun | EnvironmentRun | PlanRun

_RECORDED_OPTIONS = ("labels", "rules", "regions", "horizon_steps", "name", "description", "unit",
                     "tolerance", "discount", "margin", "equality_band")  # fmt: skip


def open_run(path: Path | str) -> Run:
    """A run folder of `scrl train`, `scrl.train` or `scrl ask --out`."""
    run = _opened(RunFolder.open(path))
    _ = run.result  # a result that does not belong to the problem beside it is refused here
    return run


def _opened(folder: RunFolder) -> Run:
    path = folder.path
    if (path / "environment.json").is_file():
        return EnvironmentRun(folder)
    if folder.has_problem:
        return PlanRun(folder) if folder.record.method == plan_files.METHOD else MapRun(folder)
    if folder.record.method == "prices":
        raise ScrlError(
            f"{path}: an earlier version has trained a price policy here, which is not needed any "
            "more: scrl ask WORLD RULES"
        )
    raise RunError(f"{path}: this run has neither problem.toml nor environment.json")


def on_map(run: Run) -> MapRun | PlanRun | None:
    """The run if its policies drive over a map; else none."""
    return None if isinstance(run, EnvironmentRun) else run


@dataclass(frozen=True)
class Trainable:
    """A problem that can be trained on: how it is configured, and how it is trained."""

    problem: BaseProblem
    configure: Callable[..., Any]
    """(method, seeds, settings, ...) -> the settings of training."""
    train: Callable[..., TrainingResult]
    """(config, seeds, path, watch) -> the result."""


def open_problem(problem: Any, options: Mapping[str, Any]) -> Trainable:
    """A problem on a map, given itself, by name or by path; or an external environment."""
    from functools import partial

    from scrl.problems import load

    if options or not isinstance(problem, Problem | str | Path):
        from scrl.environments import training

        found = environment_problem(problem, options)
        return Trainable(
            found,
            partial(training.configure_environment, found),
            partial(_train_in, found),
        )
    loaded = problem if isinstance(problem, Problem) else load(problem)
    return Trainable(loaded, partial(maps.configure_map, loaded), partial(_train_map, loaded))


def _train_map(
    problem: Problem, config: Any, seeds: tuple[int, ...], path: Path, watch: Watcher | None
) -> TrainingResult:
    run = maps.create_run(problem, config, seeds, path)
    with explaining_interruption(run.folder, is_new=True):
        return maps.train_side_by_side([run], watch)[0]


def _train_in(
    problem: EnvironmentProblem,
    config: Any,
    seeds: tuple[int, ...],
    path: Path,
    watch: Watcher | None,
) -> TrainingResult:
    from scrl.environments import training

    folder = training.create_folder(problem, config, seeds, path)
    with explaining_interruption(folder, is_new=True):
        return training.train_in(problem, config, folder, watch)


def environment_problem(env: Any, options: Mapping[str, Any]) -> EnvironmentProblem:
    """The problem of an external environment."""
    from scrl.environments import environment

    if is_problem(env):
        if options:
            raise ScrlError(f"{', '.join(options)}: the environment has its own already")
        return env
    if isinstance(env, Problem):
        raise ScrlError(
            f"{', '.join(options)}: options of a Gymnasium environment, and {env.name} is a "
            "problem with a map and rules of its own"
        )
    if not {"labels", "rewards"} & set(options):
        wrong = f"{', '.join(options)}: no options of" if options else "this is no problem:"
        raise ScrlError(
            f"{wrong} {env!r:.60}; if it is a Gymnasium environment, say with `labels` what its "
            "steps give to which regions"
        )
    return environment(env, **options)


def is_problem(env: Any) -> bool:
    """Whether it is a problem of an external environment already."""
    from scrl.environments import EnvironmentProblem

    return isinstance(env, EnvironmentProblem)
