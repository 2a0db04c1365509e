"""Fields on Earth in several parts, and drives over them at speeds that change."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import shapely

import scrl
from scrl.evaluation import Evaluation
from scrl.policies import Schedule
from scrl.problems import Problem, load
from scrl.route import Route, drive
from scrl.worlds.sweep.spec import Service

LABELS = np.array(
    [
        [1, 1, 1, 1, 0, 0, 2, 2],
        [1, 1, 1, 1, 0, 0, 2, 2],
        [1, 1, 3, 3, 0, 0, 3, 3],
    ]
)
ON_EARTH = 'extent = [10.0, 49.997, 10.008, 50.0]\ncoordinates = "geographic"\n'
TINY = {
    "worlds": 2, "rollout_steps": 32, "iterations": 2, "settle": 0, "width": 8, "depth": 1,
    "epochs": 1, "minibatches": 2,
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


class AsRun:
    """A policy on a problem, with what `export` asks of a run."""

    warning: str | None = None
    conflict: tuple[str, ...] = ()

    def __init__(self, problem: Problem, policy: Any) -> None:
        self.problem = problem
        self._policy = policy

    def policy(self, seed: int | None = None) -> Any:
        return self._policy

    def route(self, seed: int | None = None) -> Route:
        return drive(self.problem, self._policy)

    def evaluation_of_policy(self, seed: int | None = None) -> Evaluation | None:
        return None


@pytest.fixture(scope="session")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """On Earth and with both scales."""
    folder = tmp_path_factory.mktemp("islands")
    return load(write_problem(folder, f"{ON_EARTH}cell = 70.0\nstep = 10.0\n"))


@pytest.fixture(scope="session")
def route(problem: Problem) -> Route:
    return served(problem, "poured")


def served(problem: Problem, service: Service) -> Route:
    """Throttles up and down, so that steps fall everywhere, also across turns and legs."""
    spec = problem.world_spec
    route = dataclasses.replace(spec.route, service=service)
    problem = dataclasses.replace(problem, world_spec=dataclasses.replace(spec, route=route))
    throttles = jax.random.uniform(jax.random.key(3), (60,), minval=0.05, maxval=0.6)
    return drive(problem, Schedule(throttles))


@pytest.fixture(scope="session")
def run(problem: Problem, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two seeds, hardly trained."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    scrl.train(problem, seeds=2, settings=TINY, out=folder)
    return folder


def _box(left: float, bottom: float, right: float, top: float) -> list[tuple[float, float]]:
    return [(left, bottom), (right, bottom), (right, top), (left, top)]


FARM_SHAPES = {
    "field": [_box(0, 0, 18, 20), _box(24, 4, 30, 16)],
    "orchard": [_box(0, 11, 18, 20)],
    "barley": [_box(0, 0, 18, 11), _box(24, 4, 30, 16)],
    "pond": [[(4.3, 9.6), (7.3, 6.2), (10.6, 9.8), (7.2, 13.1)]],
    "barn": [[(12.2, 14.4), (15.7, 13.6), (13.9, 17.2)]],
}
"""A field of two parts with two holes, in cells of a 20 x 30 grid: x to the right, y upwards."""
FARM_DEGREES = 1e-4
"""Of a cell, which at the equator is 11.1 m long and as high."""


def farm_polygons() -> dict[str, shapely.MultiPolygon]:
    """The shapes of the farm in degrees."""
    return {
        name: shapely.MultiPolygon(
            [shapely.Polygon(np.array(ring) * FARM_DEGREES) for ring in rings]
        )
        for name, rings in FARM_SHAPES.items()
    }


@pytest.fixture(scope="session")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """A field that is swept in strips around its holes, with jumps between them."""
    folder = tmp_path_factory.mktemp("farm")
    features = [
        {
            "type": "Feature",
            "properties": {"name": name},
            "geometry": shapely.geometry.mapping(each),
        }
        for name, each in farm_polygons().items()
    ]
    document = {"type": "FeatureCollection", "features": features}
    (folder / "farm.geojson").write_text(json.dumps(document))
    (folder / "farm.toml").write_text(
        '[world]\nmap = "farm.geojson"\ngrid = [20, 30]\nfield = "field"\n'
        'forbidden = ["pond", "barn"]\nstep = 4.0\nunit = "litres"\n[vehicle]\nrate = 2.1\n'
        '[rules]\nlow = "orchard >= 1"\nhigh = "barley >= 1000000"\n'
    )
    return load(folder / "farm.toml")


@pytest.fixture(scope="session")
def farm_run(farm: Problem) -> Any:
    """Throttles up and down, so that steps fall everywhere, also across jumps."""
    throttles = jax.random.uniform(jax.random.key(5), (400,), minval=0.1, maxval=1.0)
    return AsRun(farm, Schedule(throttles))


@pytest.fixture(scope="session")
def farm_route(farm_run: Any) -> Route:
    """A drive over the farm that breaks a rule."""
    return farm_run.route()
