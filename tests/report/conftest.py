"""One whole run folder that the tests of the page share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scrl.problems import Problem
from scrl.runs.folder import RunFolder
from scrl.runs.result import SeedResult
from scrl.training.config import configure
from scrl.training.devices import DeviceRounds, task_of
from scrl.training.maps import report
from scrl.training.result import TrainingResult, seed_policy
from scrl.worlds.sweep.vehicle import Wind

from .made import make_run, small_problem

TINY = {"worlds": 2, "rollout_steps": 32, "iterations": 20, "settle": 10, "width": 8, "depth": 1}


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds with metrics, policies that have learned nothing yet, and what these really do."""
    return make_whole(tmp_path_factory.mktemp("whole") / "run", small_problem())


@pytest.fixture(scope="session")
def windy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in wind."""
    problem = small_problem({"north": "S1 >= 22 in 50 %", "either": "S1 + S2 <= 50 or S2 >= 500"})
    spec = replace(problem.world_spec, wind=Wind(strength=0.3))
    return make_whole(tmp_path_factory.mktemp("windy") / "run", replace(problem, world_spec=spec))


def make_whole(path: Path, problem: Problem) -> Path:
    """A run folder with everything that a page can show."""
    config = configure("scrl", settings={**TINY, "epochs": 1, "minibatches": 2})
    make_run(path, problem, speeds=(1.5, 1.6), is_finished=False, settings=config.to_json())
    rounds = DeviceRounds([task_of(problem, config)], (0, 1))
    policies = rounds.split(rounds.begin()[0])[0].best.policy
    folder = RunFolder.open(path)
    folder.save_policy(policies)
    judged = [report(problem, "scrl", seed_policy(policies, seed), seed) for seed in (0, 1)]
    seeds = tuple(
        SeedResult(seed, each, (-3.0 - each.return_) / 3.0) for seed, each in enumerate(judged)
    )
    result = TrainingResult(problem.name, "scrl", -3.0, seeds, 2.0, path, 1_000)
    folder.save_result(result.to_json())
    return path
