"""Problems as Gymnasium environments: `scrl.gym.make(problem)`, `scrl/agri-joint-v0`, ..."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scrl.problems import Problem, load
from scrl.worlds.sweep.gym import SweepEnv

__all__ = ["SweepEnv", "make"]


def make(problem: Problem | str | Path, **options: Any) -> SweepEnv:
    """The environment of a problem, given as an object, by name, or by the path of its file."""
    loaded = problem if isinstance(problem, Problem) else load(problem)
    return SweepEnv(loaded.world_spec, **options)
