"""What commands say in words: amounts in all, what a return is, rules on average."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from scrl.cli.app import app

WIND = "[vehicle]\nstart_noise = 2\n[wind]\nstrength = 0.3\n"


def problem(folder: Path, tables: str = "", rule: str = "S1 >= 3") -> Path:
    """One row of twelve cells: four of S1, four of none, four of S2."""
    np.save(folder / "map.npy", np.array([[1] * 4 + [0] * 4 + [2] * 4]))
    path = folder / "strip.toml"
    path.write_text(
        f'[world]\nmap = "map.npy"\nunit = "litres"\n{tables}[rules]\nleast = "{rule}"\n'
    )
    return path


def shell(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    assert done.exit_code in (0, 1), done.stderr
    return done.stdout


def test_eval_says_what_was_given_out_in_all_and_outside(tmp_path: Path) -> None:
    """Full speed lands in cells 1 and 3 in S1, 5 outside, 8 and 10 in S2, then at the end; on the
    way it spends 1.59 steps outside, and 5.40 before the end. What is shown adds up: 5.34 + 3.23 +
    3.59."""
    path = problem(tmp_path)
    said = shell("eval", path, "--policy", "full-speed")
    assert "given out: 12.16 litres, 3.59 of them (29.5 %) outside all regions\n" in said
    path.write_text(path.read_text().replace("[world]\n", '[world]\nservice = "landing"\n'))
    said = shell("eval", path, "--policy", "full-speed")
    assert "given out: 11.25 litres, 2.25 of them (20.0 %) outside all regions\n" in said


def test_check_says_how_much_of_the_path_is_outside(tmp_path: Path) -> None:
    path = problem(tmp_path)
    told = "33.3 % of the path lies outside all regions; at full speed that is about "
    assert f"{told}3.0 of 9.0 litres given out\n" in shell("check", path)
    document = json.loads(shell("check", path, "--json"))
    assert document["outside_share"] == pytest.approx(1 / 3)
    assert document["given_out_at_full_speed"] == pytest.approx(12 / 3 * 2.25)
    np.save(tmp_path / "map.npy", np.array([[1, 1, 2]]))
    assert "outside" not in shell("check", path)


@pytest.mark.parametrize("command", ["eval", "solve", "train"])
def test_a_return_is_explained_once_where_it_is_printed(command: str, tmp_path: Path) -> None:
    tiny = (
        "worlds=2",
        "rollout_steps=32",
        "iterations=1",
        "settle=0",
        "width=8",
        "depth=0",
        "epochs=1",
    )
    more = {
        "eval": ["--policy", "full-speed"],
        "solve": ["--time-limit", "1"],
        "train": ["--out", tmp_path / "run", *(each for one in tiny for each in ("--set", one))],
    }
    said = shell(command, problem(tmp_path), *more[command])
    # A step at the top speed of 3 costs 0.1 / 4.
    made_of = "return: the sum over all steps of -0.1 / (1 + speed in cells per step); "
    assert said.count(f"{made_of}1 more saves what 40 steps at top speed cost\n") == 1


def test_rules_that_hold_on_average_are_said_to_with_the_share_of_single_episodes(
    tmp_path: Path,
) -> None:
    path = problem(tmp_path, WIND, "S1 >= 8")
    arguments = ("eval", path, "--policy", "constant:1", "--episodes", "50")
    found = json.loads(shell(*arguments, "--json"))
    kept = found["episodes_satisfied"]
    assert found["satisfied"]
    assert 0 < kept < 50
    said = shell(*arguments)
    share = f"{kept} of 50 single episodes ({2 * kept:.1f} %) keep every rule"
    others = f"the others break them by {found['broken_violation']:.2f} on average"
    assert f"every rule holds on average; {share}, {others}\n" in said
    assert "per step), on average over episodes; 1 more" in said


def test_check_eval_and_the_page_tell_how_surely_rules_must_hold(tmp_path: Path) -> None:
    path = problem(tmp_path, WIND, "S1 >= 3 in 95%")
    assert "least  S1 >= 3 in 95 %" in shell("check", path)
    said = shell("eval", path, "--policy", "full-speed")
    assert re.search(r"rule +margin, litres +must hold +single episodes +text", said)
    assert re.search(r"least +\w+ +[-+]\d.* in 95 % +\d+\.\d % \(\d+\.\d to \d+\.\d\) ", said)
    path.write_text("[problem]\nconfidence = 0.9\n" + path.read_text())
    assert "all rules together must hold in 90 % of single runs" in shell("check", path)
    assert json.loads(shell("check", path, "--json"))["confidence"] == 0.9
    assert ", 90 % asked) keep every rule" in shell("eval", path, "--policy", "full-speed")
    calm = problem(tmp_path, "", "S1 >= 3 surely")
    assert "nothing is left to chance here" in shell("check", calm)
    assert "single episodes" not in shell("eval", calm, "--policy", "full-speed")
    bound = shell("solve", problem(tmp_path, "", "S1 >= 3 in 95 %"), "--time-limit", "1")
    assert re.search(r"returns more than -\d+\.\d+, unless it draws lots", bound)
    assert "mixture" not in bound


@pytest.mark.parametrize(
    ("rule", "arguments", "message"),
    [
        ("S1 >= 3 surely", ("check",), "gusts of wind have no largest strength; write 'in 99 %'"),
        ("S1 >= 3 in 99.999 %", ("check",), "at most 100,000 are made; ask for less"),
        (
            "S1 >= 3 in 99.99 %",
            ("eval", "--policy", "full-speed", "--episodes", "1000"),
            "episodes = 1,000 cannot show that rules hold in 99.99 % of single episodes",
        ),
    ],
)
def test_what_nobody_can_show_is_refused(
    tmp_path: Path, rule: str, arguments: tuple[str, ...], message: str
) -> None:
    path = problem(tmp_path, WIND, rule)
    done = CliRunner().invoke(app, [arguments[0], str(path), *arguments[1:]])
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())
