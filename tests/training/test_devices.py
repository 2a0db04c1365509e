"""Rounds are compiled once; over several devices, in a process of its own with four of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scrl.problems import Problem
from scrl.runs.folder import RunFolder
from scrl.training import devices

from ..compiled import CompiledFunction
from .small import LOOP, train

SCRIPT = """
import json, os, sys
import jax, numpy as np
from scrl.training.config import configure
from scrl.problems import Problem
from scrl.training.devices import task_of
from scrl.training.devices import DeviceRounds
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle

small = dict(iterations=2, settle=1, worlds=2, rollout_steps=16, epochs=1, minibatches=2, depth=0)
config = configure(settings=small)
spec = SweepSpec(from_labels(np.array([[1] * 10 + [2] * 10]), ["A", "B"]), Vehicle(rate=1.0))
problems = [Problem.create(spec, (rule,)) for rule in ("A >= 12", "B >= 9")]
tasks = [task_of(each, config) for each in problems]
cache = os.environ["JAX_COMPILATION_CACHE_DIR"]

def compiled():
    names = ("begin_all", "learn_round", "settle_round")
    return {each for each in os.listdir(cache) if any(name in each for name in names)}

def measured(tasks, seeds, is_ahead=False):
    rounds = DeviceRounds(tasks, seeds)
    if is_ahead:
        rounds.compile_ahead()
    kept = compiled()
    state, _ = rounds.learn(rounds.begin()[0])
    state, metrics = rounds.learn(state)
    if is_ahead:
        state, _ = rounds.settle(state)
    parts = rounds.split(metrics)
    returns = [np.asarray(part.return_).tolist() for part in parts]
    whole = rounds.join(rounds.split(state))
    alike = all(
        np.array_equal(one, other)
        for task in range(len(tasks))
        for one, other in zip(
            jax.tree.leaves(rounds.split(state)[task].learner),
            jax.tree.leaves(rounds.split(whole)[task].learner), strict=True
        )
    )
    return {
        "mesh": dict(rounds.mesh.shape), "returns": returns, "is_whole": alike,
        "compiled": [len(kept), len(compiled() - kept)],
    }

json.dump({
    "all": measured(tasks, range(5), is_ahead=True),
    "alone": [[measured([task], [seed])["returns"][0][0] for seed in (0, 4)] for task in tasks],
}, sys.stdout)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Two tasks with five seeds on four devices, and some of them alone."""
    cache: Path = tmp_path_factory.mktemp("compiled")
    environment = {
        **os.environ,
        "JAX_NUM_CPU_DEVICES": "4",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_seeds_and_tasks_are_shared_out_among_the_devices(found: dict[str, Any]) -> None:
    """Ten runs on four devices: three each at best, two devices for each task; one runs twice."""
    assert found["all"]["mesh"] == {"seed": 2, "task": 2}


def test_each_run_is_what_it_is_alone(found: dict[str, Any]) -> None:
    for together, alone in zip(found["all"]["returns"], found["alone"], strict=True):
        assert len(together) == 5
        assert [together[0], together[4]] == pytest.approx(alone, rel=1e-4)
        assert len({round(each, 4) for each in together}) == 5
    assert found["all"]["is_whole"], "the parts of a state, put together, are the state again"


def test_what_was_compiled_ahead_is_found(found: dict[str, Any]) -> None:
    ahead, later = found["all"]["compiled"]
    assert ahead >= 3
    assert later == 0


@pytest.fixture(scope="module")
def forgotten() -> None:
    """Nothing of the rounds is compiled; what is compiled here serves the tests of other files."""
    for compiled in (devices.begin_all, devices.learn_round, devices.settle_round):
        assert isinstance(compiled, CompiledFunction)
        compiled.clear_cache()


@pytest.mark.parametrize("name", ["ppo", "ddpg", "sac", "cal"])
def test_rounds_are_compiled_once_however_many_there_are(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgotten: None, name: str
) -> None:
    traced: Counter[str] = Counter()

    def counting(function: str) -> Callable[..., Any]:
        counted = getattr(devices, function)

        def count(*arguments: Any, **options: Any) -> Any:
            traced[function] += 1
            return counted(*arguments, **options)

        return count

    for function in ("begin_sweep", "iterate", "settle"):
        monkeypatch.setattr(devices, function, counting(function))
    result = train(problem, name, tmp_path / "run")
    rows = RunFolder.open(result.run).metrics()
    settles = len(rows) // 2 > LOOP["iterations"]
    assert traced == Counter(begin_sweep=1, iterate=1) + Counter(settle=int(settles))
