"""The commands as a user's shell sees them: output, exit codes, nothing written on errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from scrl.cli.app import app
from scrl.cli.demo import DEMO_PROBLEM, ask_untrained
from scrl.errors import ScrlError
from scrl.problems import builtin_names, load

from .shell import SCRL, call, run


def test_a_map_with_faults_is_repaired_aloud_and_refused_when_strict(tmp_path: Path) -> None:
    """The repair stands on standard error and in the JSON."""
    ring = [[9.0, 53.0], [9.1, 53.1], [9.1, 53.0], [9.0, 53.1], [9.0, 53.0]]
    shape = {"type": "Polygon", "coordinates": [ring]}
    path = tmp_path / "bow.geojson"
    path.write_text(
        json.dumps({"type": "Feature", "properties": {"name": "bow"}, "geometry": shape})
    )
    made = ["new", str(tmp_path / "made"), "--map", str(path)]
    checked, asked = ["check", str(path)], ["ask", str(path), "bow > 0"]
    for command in (made, checked, asked):
        refused = CliRunner().invoke(app, [*command, "--strict"])
        assert refused.exit_code == 2
        assert "feature 1 ('bow'): the polygon is not simple" in refused.stderr
    for command in (made, checked, ["solve", str(path), "--time-limit", "1"]):
        done = CliRunner().invoke(app, [*command, "--json"])
        assert done.exit_code == 0, done.stderr
        assert "warning: bow.geojson: repaired 1 polygon: feature 1 ('bow')" in done.stderr
        warnings = json.loads(done.stdout)["warnings"]
        assert warnings[0].startswith("bow.geojson: repaired 1 polygon: ")


def test_version_and_help(tmp_path: Path) -> None:
    assert run("--version").stdout.startswith("scrl 0.")
    shown = call("--help", cwd=tmp_path).stdout
    assert "eval" in shown
    assert call("-h", cwd=tmp_path).stdout == shown
    assert "--policy" in call("eval", "-h", cwd=tmp_path).stdout


def test_bash_completes_subcommands_and_options(tmp_path: Path) -> None:
    command = tmp_path / "scrl"
    command.write_text(f"#!{sys.executable}\nfrom scrl.cli import main\nmain()\n")
    command.chmod(0o755)
    script = """
    eval "$(scrl --show-completion)"
    COMP_WORDS=(scrl e) COMP_CWORD=1; _scrl_completion scrl; echo "${COMPREPLY[*]}"
    COMP_WORDS=(scrl train --pre) COMP_CWORD=2; _scrl_completion scrl; echo "${COMPREPLY[*]}"
    """
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    assert done.stdout.splitlines() == ["eval export", "--preset"]


def test_eval_in_json_follows_the_contract(tmp_path: Path) -> None:
    done = call("eval", "agri-joint", "--policy", "full-speed", "--json", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert done.returncode == 1
    assert document["satisfied"] is False
    assert document["steps"] == 835
    assert document["return"] == pytest.approx(-20.92, abs=0.1)


def test_eval_ends_with_0_when_every_rule_holds(tmp_path: Path) -> None:
    np.save(tmp_path / "map.npy", np.array([[1, 1, 1, 1]]))
    path = tmp_path / "easy.toml"
    path.write_text('[world]\nmap = "map.npy"\n[rules]\nleast = "S1 >= 2"\n')
    done = call("eval", str(path), "--policy", "constant:1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "every rule holds" in done.stdout


def test_check_shows_what_was_understood(tmp_path: Path) -> None:
    document = json.loads(call("check", "agri-situational", "--json", cwd=tmp_path).stdout)
    assert document["regions"][0] == {"name": "S1", "cells": 324, "area": 324.0}
    assert document["rules"] == [{"name": "situational", "text": "if S2 > 300 then S3 >= 800"}]
    assert [atom["text"] for atom in document["atoms"]] == ["S2 <= 300", "S3 >= 800"]
    assert document["clauses"] == [{"rule": "situational", "atoms": [0, 1]}]


def test_check_warns_about_an_equality_without_a_band(tmp_path: Path) -> None:
    np.save(tmp_path / "map.npy", np.array([[1, 2]]))
    path = tmp_path / "exact.toml"
    path.write_text('[world]\nmap = "map.npy"\n[rules]\nsame = "S1 == S2"\n')
    done = call("check", str(path), cwd=tmp_path)
    assert done.returncode == 0
    assert "equality without a band" in done.stderr


def test_list_names_all_seven(tmp_path: Path) -> None:
    document = json.loads(call("list", "--json", cwd=tmp_path).stdout)
    assert len(document["problems"]) == 7


def test_new_then_check_then_eval(tmp_path: Path) -> None:
    made = call("new", "my field", cwd=tmp_path)
    assert made.returncode == 0
    assert "then  scrl check 'my field/problem.toml'" in made.stdout
    assert call("check", "my field/problem.toml", cwd=tmp_path).returncode == 0
    assert call("eval", "my field", "--policy", "full-speed", cwd=tmp_path).returncode == 1


def test_new_says_how_large_cells_are_and_which_grid_makes_them_square(tmp_path: Path) -> None:
    """Two degrees by one at the equator: a cell of the 50 x 50 grid is twice as wide as high."""
    shape = {"type": "Polygon", "coordinates": [[[0, -0.5], [2, -0.5], [2, 0.5], [0, -0.5]]]}
    (tmp_path / "isle.geojson").write_text(json.dumps(shape))
    done = call("new", "isle", "--map", "isle.geojson", "--field", "*", cwd=tmp_path)
    # 0.04 degrees of longitude, and 0.02 of latitude, which are shorter at the equator.
    assert "a cell is 4,452.8 m wide and 2,211.5 m high" in done.stdout
    assert "--grid 50 101" in done.stdout
    assert 'field = "*"' in (tmp_path / "isle/problem.toml").read_text()
    square = call("new", "b", "--map", "isle.geojson", "--grid", "50", "101", cwd=tmp_path)
    assert "--grid" not in square.stdout


def test_demo_tells_its_story_and_leaves_a_run_with_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert DEMO_PROBLEM in builtin_names()
    np.save(tmp_path / "map.npy", np.repeat([[1] * 4 + [2] * 4], 4, axis=0))
    (tmp_path / "field.toml").write_text(
        '[world]\nmap = "map.npy"\n[rules]\nadequacy = "S1 >= 18"\n'
    )
    monkeypatch.setattr("scrl.cli.demo.SOLVE_TIME_S", 1.0)
    done = call("demo", "field.toml", "--steps", "2000", "--out", "shown", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    parts = ("adequacy", "Bound and best plan", "What was learned", "Without training")
    for told in (*parts, "run folder: shown"):
        assert told in done.stdout
    assert (tmp_path / "shown/overview.png").stat().st_size > 10_000
    assert (tmp_path / "shown/result.json").exists()
    page = (tmp_path / "shown/report.html").read_text(encoding="utf-8")
    assert "<h1>field</h1>" in page
    assert "Route by speed" in page


def test_a_pipe_gets_plain_text_and_no_colour_is_obeyed() -> None:
    done = run("list")
    assert "agri-multi" in done.stdout
    assert "\x1b" not in done.stdout
    forced = run("list", FORCE_COLOR="1")
    assert "\x1b" in forced.stdout
    assert "\x1b[3" not in run("list", FORCE_COLOR="1", NO_COLOR="1").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("eval", "agri-join", "--policy", "full-speed"), "did you mean 'agri-joint'?"),
        (("eval", "agri-joint", "--policy", "fast"), "unknown policy 'fast'"),
        (("eval", "agri-joint", "--policy", "full-speed", "--episodes", "0"), "episodes"),
        (("check", "nowhere.toml"), "nowhere.toml"),
        (("new", "here", "--map", "nowhere.png"), "nowhere.png"),
        (("chek", "agri-joint"), "chek"),
        (("demo", "--out", "/proc/nowhere"), "/proc/nowhere"),
        (("solve", "agri-joint", "--sweep", "equity", "--plot", "p.xyz"), "ends in .png"),
        (("solve", "agri-joint", "--sweep", "equity", "--span", "inf"), "finite span"),
        (("eval", "agri-joint"), "--policy"),
    ],
)
def test_wrong_input_ends_with_2_one_message_and_nothing_written(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = call(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_broken_rule_shows_line_and_caret(tmp_path: Path) -> None:
    np.save(tmp_path / "map.npy", np.array([[1, 2]]))
    path = tmp_path / "broken.toml"
    path.write_text('[world]\nmap = "map.npy"\n[rules]\nbad = "S1 >= 3 annd S2 <= 4"\n')
    done = run("check", str(path))
    assert done.returncode == 2
    assert "broken.toml" in done.stderr
    assert "did you mean 'and'?" in done.stderr
    assert "^^^^" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_ends_with_130_and_no_traceback(tmp_path: Path) -> None:
    np.save(tmp_path / "map.npy", np.ones((1000, 1000), int))
    path = tmp_path / "long.toml"
    path.write_text(
        '[world]\nmap = "map.npy"\nhorizon_steps = 10000000\n[wind]\nstrength = 0.1\n'
        '[rules]\nleast = "S1 >= 2"\n'
    )
    arguments = [*SCRL, "eval", str(path), "--policy", "constant:0.03", "--episodes", "100"]
    users = os.environ.copy()
    del users["JAX_NUM_CPU_DEVICES"]  # which the command sets
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, env=users) as process:
        time.sleep(5)
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=30)
    assert process.returncode == 130, messages
    assert "interrupted" in messages
    assert "Traceback" not in messages


def test_a_demo_says_why_nothing_could_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ScrlError("the planner is damaged")

    monkeypatch.setattr("scrl.planning.planner", broken)
    answers, warnings = ask_untrained(load("agri-joint"))
    assert answers == []
    assert warnings == ["not asked without training: the planner is damaged"]


def test_a_reader_that_goes_away_is_no_error() -> None:
    with subprocess.Popen([*SCRL, "list", "--json"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=60) == 0


def test_help_needs_nothing_that_computes() -> None:
    """`scrl --help` is there at once: numbers, networks and pictures are imported when needed."""
    code = (
        "import sys, scrl.cli.app\n"
        "heavy = {'numpy', 'jax', 'scipy', 'matplotlib', 'shapely', 'gymnasium', 'ray', 'torch'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_check_loads_no_solver_where_rules_can_be_kept() -> None:
    code = (
        "import sys, scrl, scrl.cli.check\n"
        "scrl.cli.check.check('agri-joint', as_json=True)\n"
        "print({'jax', 'scipy.sparse', 'scipy.optimize'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "set()"
