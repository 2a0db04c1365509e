"""A field of two halves, driven in rows at one litre a second, and its log."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scrl.problems import Problem, load

LEFT, BOTTOM, SIDE = 10.0, 50.0, 0.001
"""Degrees: the west half is a square of this side, and so is the east half."""
RULES = '[rules]\nleast = "west >= 190"\nmost = "east <= 210"\n'


def square(left: float) -> list[list[list[float]]]:
    corners = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]
    return [[[left + SIDE * x, BOTTOM + SIDE * y] for x, y in corners]]


def write_field(folder: Path, rules: str = RULES) -> Path:
    """The problem file; the map has 10 x 20 cells of about 7 x 11 m."""
    features = [
        {
            "type": "Feature",
            "properties": {"name": name},
            "geometry": {"type": "Polygon", "coordinates": square(left)},
        }
        for name, left in (("west", LEFT), ("east", LEFT + SIDE))
    ]
    document = {"type": "FeatureCollection", "features": features}
    (folder / "field.geojson").write_text(json.dumps(document))
    path = folder / "field.toml"
    path.write_text(
        '[world]\nmap = "field.geojson"\ngrid = [10, 20]\nstep = 1.0\nunit = "litres"\n'
        f"[vehicle]\nrate = 1.0\nmax_speed = 1.0\n{rules}"
    )
    return path


def driven(seconds: int = 401) -> np.ndarray:
    """Time, x and y: ten rows of 40 s each, to and fro, 20 s in each half."""
    time = np.arange(seconds)
    row, along = np.divmod(time, 40)
    share = np.where(row % 2 == 0, along, 40 - along) / 40.0
    x = LEFT + 2 * SIDE * share
    y = BOTTOM + SIDE * (0.95 - 0.1 * np.minimum(row, 9))
    return np.column_stack([time, x, y])


def clock(second: float) -> str:
    minutes, rest = divmod(second, 60.0)
    hours, minutes = divmod(minutes, 60.0)
    return f"2026-05-01T{int(hours) + 6:02}:{int(minutes):02}:{rest:06.3f}Z"


def rows_of(track: np.ndarray) -> list[str]:
    """The rows of a log: time, longitude, latitude and a flow of one litre a second."""
    return [f"{clock(time)},{x:.8f},{y:.8f},1.0" for time, x, y in track.tolist()]


HEADER = "time,longitude,latitude,flow"


@pytest.fixture(scope="session")
def field(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    return load(write_field(tmp_path_factory.mktemp("field")))


@pytest.fixture
def logged(tmp_path: Path) -> Callable[..., Path]:
    """Writes a log, by default the whole drive."""

    def write(rows: list[str] | None = None, header: str = HEADER, name: str = "log.csv") -> Path:
        path = tmp_path / name
        body = rows_of(driven()) if rows is None else rows
        path.write_text("\n".join([header, *body]) + "\n")
        return path

    return write
