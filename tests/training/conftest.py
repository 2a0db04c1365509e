"""Small runs that the tests of training share."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scrl.problems import Problem, ProblemOptions
from scrl.training import loop
from scrl.training.result import TrainingResult
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec

from .small import train


@pytest.fixture(scope="session")
def problem() -> Problem:
    """Full speed gives S1 14.52 and breaks the rule; an untrained policy gives 20 and keeps it.

    S2 always gets more than 10, so that the kappa of one atom grows all the time.
    """
    spec = SweepSpec(from_labels(np.repeat([[1] * 4 + [2] * 4], 4, axis=0)))
    rules = {"situational": "if S2 > 10 then S1 >= 18"}
    return Problem.create(spec, rules, ProblemOptions(name="small"))


@pytest.fixture(scope="session")
def whole(
    problem: Problem, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], TrainingResult]:
    """Runs that nothing interrupts, each trained once."""
    root = tmp_path_factory.mktemp("whole")
    return functools.cache(lambda name: train(problem, name, root / name))


@pytest.fixture
def copied(whole: Callable[[str], TrainingResult], tmp_path: Path) -> Path:
    """A finished run of its own."""
    return shutil.copytree(whole("ppo").run, tmp_path / "copied")


@pytest.fixture
def saves_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_EVERY_S", -1.0)
