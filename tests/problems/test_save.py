"""Saved problems read back to themselves; new problems start commented and valid."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import jax
import numpy as np
import pytest

import scrl
from scrl.errors import ProblemError
from scrl.problems import Problem, ProblemOptions, builtin_names, load, start_problem
from scrl.problems.templates import Machine
from scrl.worlds.sweep.regions import RegionMap
from scrl.worlds.sweep.spec import Service, SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Units, Vehicle, Wind


def same(one: Problem, two: Problem) -> bool:
    """Everything that decides what a problem means."""
    parts = ("vehicle", "wind", "route", "units")
    ours, theirs = one.world_spec, two.world_spec
    return (
        all(getattr(ours, part) == getattr(theirs, part) for part in parts)
        and ours.regions.names == theirs.regions.names
        and np.array_equal(
            ours.regions.masks & ours.regions.enterable,
            theirs.regions.masks & theirs.regions.enterable,
        )
        and np.array_equal(ours.regions.enterable, theirs.regions.enterable)
        and one.rules == two.rules
        and one.options == two.options
    )


@pytest.mark.parametrize("service", ["poured", "landing"])
def test_a_saved_problem_says_its_service(
    tmp_path: Path, strip: SweepSpec, service: Service
) -> None:
    """The default too: it may be another one day."""
    spec = dataclasses.replace(strip, route=SweepRoute(service=service))
    path = scrl.save(Problem.create(spec), tmp_path / "problem.toml")
    assert f'service = "{service}"' in path.read_text()
    assert load(path).world_spec.route.service == service


@pytest.mark.parametrize("name", builtin_names())
def test_builtin_problems_survive_a_round_trip(tmp_path: Path, name: str) -> None:
    problem = load(name)
    again = load(scrl.save(problem, tmp_path / "copy.toml"))
    assert same(problem, again)


def test_a_problem_made_in_python_survives_a_round_trip(tmp_path: Path) -> None:
    masks = np.zeros((2, 3, 4), bool)
    masks[0, :, :2] = masks[1, :, 1:3] = True
    field = np.ones((3, 4), bool)
    field[0, 3] = False
    forbidden = np.zeros((3, 4), bool)
    forbidden[2, 0] = True
    spec = SweepSpec(
        RegionMap(("north field", "S2"), masks, field, forbidden),
        vehicle=Vehicle(rate=1.0, start_noise=0.5),
        wind=Wind(strength=0.1),
        route=SweepRoute(direction="columns", start="bottom-right", swath=1, horizon_steps=77),
        units=Units(cell=2.0, step=0.5, unit='"litres"'),
    )
    rule = scrl.implies(scrl.d["north field"] > 3, scrl.d["S2"] >= 2)
    options = ProblemOptions(name="made", margin=0.5, confidence=0.9)
    rules = {"if it is": rule, "often": (scrl.d["S2"] >= 1).in_share(0.975), "two": "S2 >= 1 in 5%"}
    problem = Problem.create(spec, rules, options)
    assert same(problem, load(scrl.save(problem, tmp_path / "new" / "made.toml")))


def test_outlines_survive_without_their_file(tmp_path: Path) -> None:
    """They say what share of a cell is in a region; masks alone would be another world."""
    spec = load("agri-joint").world_spec
    problem = Problem.create(spec, "S1 >= 300")
    again = load(scrl.save(problem, tmp_path / "new" / "made.toml"))
    assert again.world_spec.regions.outlines is not None
    assert again.world_spec.regions == dataclasses.replace(
        spec.regions, georeference=again.world_spec.regions.georeference
    )
    worlds = jax.tree.leaves(problem.world), jax.tree.leaves(again.world)
    assert all(np.array_equal(one, two) for one, two in zip(*worlds, strict=True))


def test_a_map_that_only_its_file_tells_is_not_saved_as_another(tmp_path: Path) -> None:
    spec = load("agri-joint").world_spec
    field = np.ones(spec.regions.shape, bool)
    field[0] = False
    cut = dataclasses.replace(spec, regions=dataclasses.replace(spec.regions, field=field))
    with pytest.raises(ProblemError, match="with_rules"):
        scrl.save(Problem.create(cut, "S1 >= 300"), tmp_path / "made.toml")
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    problem = load("agri-joint")
    scrl.save(problem, tmp_path / "copy.toml")
    with pytest.raises(ProblemError, match="exists already"):
        scrl.save(problem, tmp_path / "copy.toml")


def test_a_new_problem_is_commented_and_valid(tmp_path: Path) -> None:
    problem = start_problem(tmp_path / "my-field")
    text = (tmp_path / "my-field" / "problem.toml").read_text()
    assert problem.rules.rules
    for key in ("max_speed", "persistence", "horizon_steps", "tolerance", "unit", "forbidden"):
        assert f"# {key} = " in text
    assert '\nservice = "poured"' in text


def test_every_commented_setting_can_be_switched_on(tmp_path: Path) -> None:
    start_problem(tmp_path / "my-field")
    path = tmp_path / "my-field" / "problem.toml"
    lines = path.read_text().splitlines()
    settings = [
        line for line in lines if line.startswith("# ") and " = " in line and "#" in line[2:]
    ]
    assert len(settings) > 15
    for line in settings:
        if line.startswith(("# field", "# forbidden", "# coordinates", "# crs", "# unit_cost")):
            continue  # these name things that this map does not have, or need the name of a unit
        needed = {"# dose": "# flow =", "# hour_cost": "# step ="}.get(line.split(" =")[0], line)
        on = [line, *(each for each in settings if each.startswith(needed))]
        path.write_text("\n".join(each[2:] if each in on else each for each in lines))
        load(path)


def test_a_new_problem_from_an_own_map(tmp_path: Path) -> None:
    np.save(tmp_path / "map.npy", np.array([[1, 1], [0, 7]]))
    problem = start_problem(tmp_path / "own", tmp_path / "map.npy")
    assert problem.world_spec.regions.names == ("S1", "S7")


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(ProblemError, match="not an empty folder"):
        start_problem(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_bad_map_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "bad.npy").write_bytes(b"no")
    with pytest.raises(scrl.ScrlError):
        start_problem(tmp_path / "own", tmp_path / "bad.npy")
    assert not (tmp_path / "own").exists()


def test_other_rules_on_the_same_world() -> None:
    problem = load("agri-joint")
    changed = problem.with_rules("S1 >= 1")
    assert changed.world_spec is problem.world_spec
    with pytest.raises(ProblemError, match="other regions"):
        dataclasses.replace(problem, rules=scrl.load("agri-joint").rules.of("A >= 1", ["A"]))


def test_options_change_the_sample_map_and_keep_the_rest(tmp_path: Path) -> None:
    problem = start_problem(tmp_path / "fine", grid=(100, 100))
    assert problem.world_spec.regions.shape == (100, 100)
    assert problem.world_spec.units.cell is None  # still plain coordinates, not degrees


def test_a_large_map_gets_a_horizon_that_fits(tmp_path: Path) -> None:
    problem = start_problem(tmp_path / "large", grid=(200, 200))
    assert problem.world_spec.route.horizon_steps == 80_000
    assert not any("horizon" in warning for warning in problem.warnings())


def test_problems_over_one_map_share_its_file_and_keep_their_source(tmp_path: Path) -> None:
    problem = load("agri-joint")
    scrl.save(problem, tmp_path / "one.toml")
    scrl.save(problem.with_rules("S1 >= 1"), tmp_path / "two.toml")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "agri.geojson",
        "one.toml",
        "two.toml",
    ]


def test_equal_problems_are_equal() -> None:
    assert load("agri-joint") == load("agri-joint")
    assert load("agri-joint") != load("agri-multi")
    assert len(repr(load("agri-joint").world_spec)) < 600


def test_quantities_keep_their_units_where_they_are_the_same(tmp_path: Path) -> None:
    machine = Machine(boom=24.0, speed=12.0, flow=(0.0, 90.0), dose=(0.0, 250.0))
    problem = start_problem(tmp_path / "farm", machine=machine)
    again = scrl.save(problem, tmp_path / "copy" / "problem.toml")
    assert same(problem, load(again))
    for written in ('"12 km/h"', '["0 litres/min", "90 litres/min"]', '"250 litres/ha"'):
        assert written in again.read_text()
    # Twice as fast: the speed is another, and what the pump gives is not.
    spec = problem.world_spec
    vehicle = dataclasses.replace(spec.vehicle, max_speed=2.0)
    faster = dataclasses.replace(problem, world_spec=dataclasses.replace(spec, vehicle=vehicle))
    text = scrl.save(faster, tmp_path / "faster" / "problem.toml").read_text()
    assert "max_speed = 2.0" in text
    assert '["0 litres/min", "90 litres/min"]' in text
