"""A run folder to begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from scrl.problems import Problem, ProblemOptions
from scrl.runs.folder import RunFolder
from scrl.worlds.sweep.spec import SweepSpec

from .small import RECORD


@pytest.fixture
def problem(strip: SweepSpec) -> Problem:
    return Problem.create(strip, {"adequacy": "S1 >= 1"}, ProblemOptions(name="strip"))


@pytest.fixture
def run(tmp_path: Path, problem: Problem) -> RunFolder:
    return RunFolder.create(tmp_path / "run", problem, RECORD)
