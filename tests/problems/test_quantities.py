"""Quantities with units in problem files, and `scrl new` for a machine."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from scrl.cli.app import app
from scrl.errors import ScrlError
from scrl.problems import Problem, load
from scrl.problems.templates import Machine, start_problem

WORLD = "cell = 8.0\nstep = 2.4\nswath = 3\n"
MACHINE = ["--boom", "24", "--speed", "12", "--flow", "0", "90", "--dose", "0", "250"]


def read(tmp_path: Path, vehicle: str, world: str = WORLD) -> Problem:
    np.save(tmp_path / "map.npy", np.ones((6, 9), int))
    path = tmp_path / "farm.toml"
    path.write_text(f'[world]\nmap = "map.npy"\n{world}[vehicle]\n{vehicle}\n')
    return load(path)


def test_units_are_converted_to_cells_and_steps(tmp_path: Path) -> None:
    vehicle = read(
        tmp_path, 'max_speed = "12 km/h"\nflow = ["0 l/min", "90 l/min"]\n'
        'dose = ["1e2 l/ha", "0.025 l/m2"]',
    ).world_spec.vehicle  # fmt: skip
    # 12 km/h are 8 m in 2.4 s; a cell of the path is 8 m long and 24 m wide: 0.0192 ha.
    assert vehicle.max_speed == pytest.approx(1.0)
    assert vehicle.flow == pytest.approx((0.0, 3.6))
    assert vehicle.dose == pytest.approx((1.92, 4.8))
    assert read(tmp_path, 'rate = "54 kg/h"').world_spec.vehicle.rate == pytest.approx(0.036)
    in_litres = read(tmp_path, 'rate = "9 l/min"', WORLD + 'unit = "litres"\n')
    assert in_litres.world_spec.vehicle.rate == pytest.approx(0.36)


@pytest.mark.parametrize(
    ("vehicle", "world", "message"),
    [
        ('max_speed = "12 mph"', WORLD, "max_speed = '12 mph' is no speed: write 12 km/h or 3 m/s"),
        ('rate = "12 l/ha"', WORLD, "rate = '12 l/ha' is no flow: write 60 l/min"),
        ('rate = "fast"', WORLD, "rate = 'fast' is no flow: write 60 l/min"),
        ('max_speed = "3 m/s"', "cell = 8.0\n", "needs the length of a step: step = ... (seconds)"),
        (
            'flow = [0, "9 l/min"]\ndose = [0, "9 l/ha"]',
            "step = 1.0\n",
            "needs the length of a cell",
        ),
        ('max_speed = "-3 m/s"', WORLD, "max_speed = -0.8999"),
        (
            'flow = ["90 l/min", "45 l/min"]',
            WORLD,
            "flow = [3.6, 1.8]: the least is above the most; this is in cells and steps, from "
            "flow = ['90 l/min', '45 l/min']",
        ),
        (
            'max_speed = "12 km/h"\nflow = ["0 l/min", "90 l/min"]\n'
            'dose = ["500 l/ha", "600 l/ha"]',
            WORLD,
            "lower max_speed to 0.375, 37.5% of it, or ask for less; this is in cells and "
            "steps, from max_speed = '12 km/h', dose = ['500 l/ha', '600 l/ha']",
        ),
        (
            'rate = "9 gallons/min"',
            WORLD + 'unit = "litres"\n',
            "rate = '9 gallons/min': what is given out is told in litres (unit in [world])",
        ),
        ('inertia = "3 m"', WORLD, "[vehicle] inertia = '3 m'"),
    ],
)
def test_mistakes(tmp_path: Path, vehicle: str, world: str, message: str) -> None:
    with pytest.raises(ScrlError) as caught:
        read(tmp_path, vehicle, world)
    assert message in str(caught.value)


def square(tmp_path: Path) -> Path:
    """A square of about 500 m."""
    ring = [[9.9, 53.6], [9.9075, 53.6], [9.9075, 53.6045], [9.9, 53.6045], [9.9, 53.6]]
    feature = {"type": "Feature", "properties": {"name": "wheat"},
               "geometry": {"type": "Polygon", "coordinates": [ring]}}  # fmt: skip
    path = tmp_path / "farm.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    return path


def test_new_fits_the_map_to_a_machine(tmp_path: Path) -> None:
    folder = tmp_path / "farm"
    said = CliRunner().invoke(app, ["new", str(folder), "--map", str(square(tmp_path)), *MACHINE])
    assert said.exit_code == 0, said.output
    assert "the boom covers 3 cells; a step is 2.4 s" in said.stdout
    assert "250 litres per hectare are 4.8 a cell of the path" in said.stdout
    spec = load(folder).world_spec
    assert spec.units.cell == pytest.approx(8.0, rel=1e-4)
    assert spec.vehicle.max_speed == pytest.approx(1.0, rel=1e-4)
    assert spec.vehicle.dose_limits[1] == pytest.approx(4.8, rel=1e-4)
    assert spec.areas == pytest.approx([24.87], rel=0.01)
    assert [rule.text for rule in load(folder).rules.rules] == ["dose(wheat) >= 125"]


def test_new_on_plain_coordinates_takes_metres(tmp_path: Path) -> None:
    ring = [[0, 0], [240, 0], [240, 120], [0, 120], [0, 0]]
    feature = {"type": "Feature", "properties": {"name": "wheat"},
               "geometry": {"type": "Polygon", "coordinates": [ring]}}  # fmt: skip
    path = tmp_path / "plain.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    options = ["new", str(tmp_path / "farm"), "--map", str(path), "--coordinates", "plain"]
    assert CliRunner().invoke(app, [*options, *MACHINE]).exit_code == 0
    spec = load(tmp_path / "farm").world_spec
    assert spec.regions.shape == (15, 30)
    assert spec.areas == pytest.approx([2.88])


def test_new_writes_rules_on_doses_that_leave_room(tmp_path: Path) -> None:
    """A condition at the very bound of another rule would ask for exactly one amount."""
    np.save(tmp_path / "map.npy", np.array([[1, 1, 2, 2]] * 4))
    folder = tmp_path / "farm"
    start_problem(folder, tmp_path / "map.npy", Machine(24.0, 12.0, (0.0, 90.0), (0.0, 250.0)))
    assert [rule.text for rule in load(folder).rules.rules] == [
        "dose(S1) >= 125",
        "if dose(S1) > 137.5 then dose(S2) >= 125",
    ]


def test_new_gives_quantities_of_a_wrong_machine_as_they_are_written(tmp_path: Path) -> None:
    np.save(tmp_path / "map.npy", np.ones((6, 9), int))
    wrong = ["--boom", "24", "--speed", "12", "--flow", "90", "45"]
    ran = CliRunner().invoke(
        app, ["new", str(tmp_path / "farm"), "--map", str(tmp_path / "map.npy"), *wrong]
    )
    assert ran.exit_code == 2
    assert "from flow = ['90 litres/min', '45 litres/min']" in ran.output


def test_a_machine_has_a_boom_and_a_speed(tmp_path: Path) -> None:
    for options, message in [
        (["--boom", "24"], "a machine has a boom and a speed"),
        (["--boom", "24", "--speed", "12", "--dose", "0", "9"], "a dose needs a flow"),
        (["--boom", "0", "--speed", "12"], "are above 0"),
    ]:
        said = CliRunner().invoke(app, ["new", str(tmp_path / "farm"), *options])
        assert said.exit_code != 0
        assert message in f"{said.output}{said.exception}"
