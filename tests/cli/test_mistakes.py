"""What the commands say to input that is nearly right; run in this process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from scrl.cli.app import app
from scrl.files import replacing

FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000)); "
"""A limit on the size of files stands for a full disk; the message differs, the path does not."""


def scrl(*arguments: str | Path) -> Any:
    """A command: its `exit_code`, `stdout` and `stderr`."""
    return CliRunner().invoke(app, [str(each) for each in arguments])


def map_file(path: Path, west: float, south: float, size: float) -> Path:
    """One square region."""
    east, north = west + size, south + size
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    shape = {"type": "Polygon", "coordinates": [ring]}
    feature = {"type": "Feature", "properties": {"name": "wheat north"}, "geometry": shape}
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    return path


@pytest.fixture
def degrees(tmp_path: Path) -> Path:
    """A square of a hundredth of a degree, south of Berlin."""
    return map_file(tmp_path / "farm.geojson", 13.0, 52.0, 0.01)


@pytest.fixture
def metres(tmp_path: Path) -> Path:
    return map_file(tmp_path / "my metres.geojson", 4000.0, 1000.0, 500.0)


def test_every_command_takes_a_map_as_ask_does(degrees: Path) -> None:
    checked = json.loads(scrl("check", degrees, "--json").stdout)
    assert checked["problem"] == "farm"
    assert checked["rules"] == []
    evaluated = scrl("eval", degrees, "--policy", "full-speed", "--json")
    assert json.loads(evaluated.stdout)["problem"] == "farm"
    assert (
        json.loads(scrl("solve", degrees, "--time-limit", "1", "--json").stdout)["problem"]
        == "farm"
    )
    assert scrl("check", "agri").exit_code == 0


def test_check_shows_where_the_map_lies(degrees: Path) -> None:
    done = scrl("check", degrees)
    # At 52 degrees a hundredth is 1,113 m to the north, and cos(52) = 0.6157 of that to the east.
    assert (
        "centre at latitude 52.00500, longitude 13.00500; longitude from 13.00000 to 13.01000, "
        "latitude from 52.00000 to 52.01000; 687 m from west to east, 1,113 m from south to north; "
        "field of 76.41 ha; path in 1 leg with 49 turns"
    ) in done.stdout
    place = json.loads(scrl("check", degrees, "--json").stdout)["place"]
    assert place["centre"] == pytest.approx([13.005, 52.005])
    assert place["field_m2"] == pytest.approx(687 * 1113, rel=1e-3)


def test_coordinates_that_are_not_degrees_are_set_where_the_map_was_named(
    metres: Path, tmp_path: Path
) -> None:
    new = scrl("new", tmp_path / "new", "--map", metres)
    assert ": add --coordinates plain for a map in metres" in new.stderr
    for command in ("check", "ask"):
        done = scrl(command, metres)
        assert f"with `scrl new DIR --map '{metres}' --coordinates plain` for a map" in done.stderr
    problem = tmp_path / "problem.toml"
    problem.write_text(f'[world]\nmap = "{metres.name}"\n')
    assert ': set coordinates = "plain" for a map in metres' in scrl("check", problem).stderr


def test_latitudes_before_longitudes_are_suspected(tmp_path: Path) -> None:
    done = scrl("check", map_file(tmp_path / "auckland.geojson", -36.9, 174.7, 0.1))
    assert "if they are degrees, longitude comes first" in done.stderr


@pytest.mark.parametrize("grid", [("6", "9"), ("6,9",), ("6x9",), ("6 9",), ("6, 9",)])
def test_rows_and_columns_are_written_in_any_way(
    degrees: Path, tmp_path: Path, grid: tuple[str, ...]
) -> None:
    done = scrl("new", "--grid", *grid, tmp_path / "new", "--map", degrees)
    assert done.exit_code == 0, done.stderr
    assert "grid = [6, 9]" in (tmp_path / "new" / "problem.toml").read_text()


@pytest.mark.parametrize("grid", ["6", "6x", "six,nine", "1.5,2"])
def test_a_wrong_grid_gets_examples(tmp_path: Path, grid: str) -> None:
    done = scrl("new", tmp_path / "new", "--grid", grid)
    assert done.exit_code == 2
    assert (
        f"--grid {grid}: it takes two whole numbers, rows and columns: --grid 67 92" in done.stderr
    )


def test_one_rule_cannot_hold_and_several_cannot_hold_together(tmp_path: Path) -> None:
    problem = tmp_path / "new" / "problem.toml"
    scrl("new", tmp_path / "new")
    text = problem.read_text().partition("[rules]")[0]
    problem.write_text(f'{text}[rules]\nlittle = "S2 <= 300"\n')
    assert "impossible (proven): this rule cannot hold\n" in scrl("solve", problem).stdout
    assert "no policy can keep this rule" in scrl("check", problem).stderr
    problem.write_text(f'{text}[rules]\nmuch = "S1 >= 400"\nlittle = "S1 + S2 <= 700"\n')
    assert (
        "impossible (proven): these rules cannot hold together\n" in scrl("solve", problem).stdout
    )
    assert "no policy can keep these rules" in scrl("check", problem).stderr


@pytest.mark.parametrize("name", ["my field", "plain"])
def test_a_next_step_can_be_copied(tmp_path: Path, name: str) -> None:
    done = scrl("new", tmp_path / name)
    path = str(tmp_path / name / "problem.toml")
    shown = f"'{path}'" if " " in name else path
    assert done.stdout.splitlines()[-1].endswith(f"then  scrl check {shown}")


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (("new", "my field"), "my field/problem.toml"),
        (("list", "--json"), "standard output"),
    ],
)  # fmt: skip
def test_a_full_disk_is_named_with_its_file(
    tmp_path: Path, arguments: tuple[str, ...], path: str
) -> None:
    program = f"{FULL}from scrl.cli import main; main()"
    with (tmp_path / "out").open("w") as out:
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            stdout=out, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        )  # fmt: skip
    assert done.returncode == 1
    (message,) = done.stderr.splitlines()
    assert message.startswith(f"scrl: {path}: File too large. The file was not written")
    assert not (tmp_path / "my field").exists()


def test_a_file_that_was_not_written_whole_is_named(tmp_path: Path) -> None:
    path = tmp_path / "state.eqx"
    full = pytest.raises(OSError, match="perhaps because the disk is full")
    with full as caught, replacing(path):
        raise OSError("6144 requested and 4096 written")
    assert caught.value.filename == str(path)
    assert list(tmp_path.iterdir()) == []
