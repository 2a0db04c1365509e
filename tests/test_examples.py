"""The examples: what they need is said, and what does not take long is run."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from scrl.problems import load

EXAMPLES = Path(__file__).parents[1] / "examples"

STEPS = """
import sys
sys.path.insert(0, {examples!r})
import real_map
real_map.FORMATS = ()
real_map.scrl = lambda *arguments: (
    real_map.subprocess.run([sys.executable, "-m", "scrl", *arguments], check=True)
    if arguments[0] in ("new", "check") else None
)
real_map.walk(real_map.Path("walk"))
"""


def fake_plotly(folder: Path) -> None:
    """A package with a map where plotly has it: a district in two parts, and another."""
    data = folder / "plotly" / "package_data" / "datasets"
    data.mkdir(parents=True)
    (folder / "plotly" / "__init__.py").write_text("")
    squares = [
        ("13-Ahuntsic", [[0, 0], [1, 2]]), ("21-Ouest", [[2, 0]]), ("43-Fort-Rolland", [[3, 3]]),
    ]  # fmt: skip
    features = ",".join(
        f'{{"type": "Feature", "properties": {{"district": "{name}"}}, "geometry": '
        f'{{"type": "MultiPolygon", "coordinates": {[[square(*corner)] for corner in corners]}}}}}'
        for name, corners in squares
    )
    text = f'{{"type": "FeatureCollection", "features": [{features}]}}'
    (data / "election.geojson.gz").write_bytes(gzip.compress(text.encode()))


def square(x: int, y: int) -> list[list[int]]:
    return [[x, y], [x + 1, y], [x + 1, y + 1], [x, y + 1], [x, y]]


def test_the_real_map_is_skipped_where_its_package_is_missing(tmp_path: Path) -> None:
    if subprocess.run([sys.executable, "-c", "import plotly"], capture_output=True).returncode == 0:
        pytest.skip("plotly is installed here")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "real_map.py")],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.stderr.strip().startswith("skipped: this walk needs a map of plotly's")
    assert not list(tmp_path.iterdir())


def test_the_real_maps_problem_is_written_as_a_person_would(tmp_path: Path) -> None:
    fake_plotly(tmp_path)
    code = STEPS.format(examples=str(EXAMPLES))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    problem = load(tmp_path / "walk" / "montreal")
    assert (problem.world_spec.units.step, problem.world_spec.units.unit) == (60.0, "litres")
    assert [rule.name for rule in problem.rules.rules] == ["north", "fair"]
    assert len(problem.world_spec.path.legs) > 1
