"""A field on Earth with two islands, and a drive over it at speeds that change."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest

import scrl
from scrl.policies import Schedule
from scrl.problems import Problem, load
from scrl.route import Route, drive

LABELS = np.array(
    [
        [1, 1, 1, 1, 0, 0, 2, 2],
        [1, 1, 1, 1, 0, 0, 2, 2],
        [1, 1, 3, 3, 0, 0, 3, 3],
    ]
)
ON_EARTH = 'extent = [10.0, 49.997, 10.008, 50.0]\ncoordinates = "geographic"\n'
TINY = {
    "worlds": 2, "steps": 32, "iterations": 2, "settle": 0, "width": 8, "depth": 1, "epochs": 1,
    "minibatches": 2,
}  # fmt: skip


def write_problem(folder: Path, world: str = "") -> Path:
    """`west`, `east` and `south`, with nothing swept between them."""
    np.save(folder / "map.npy", LABELS)
    path = folder / "islands.toml"
    path.write_text(
        '[world]\nmap = "map.npy"\nregions = ["west", "east", "south & co"]\nfield = "*"\n'
        f'{world}unit = "litres"\n[rules]\nlow = "west >= 1"\n'
    )
    return path


@pytest.fixture(scope="session")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """On Earth and with both scales."""
    folder = tmp_path_factory.mktemp("islands")
    return load(write_problem(folder, f"{ON_EARTH}cell = 70.0\nstep = 10.0\n"))


@pytest.fixture(scope="session")
def route(problem: Problem) -> Route:
    """Throttles up and down, so that steps fall everywhere, also across turns and legs."""
    throttles = jax.random.uniform(jax.random.key(3), (60,), minval=0.05, maxval=0.6)
    return drive(problem, Schedule(throttles))


@pytest.fixture(scope="module")
def run(problem: Problem, quick_compiling: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two seeds, hardly trained."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    scrl.train(problem, seeds=2, settings=TINY, out=folder)
    return folder
