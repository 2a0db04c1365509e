"""`scrl ask` as a user's shell sees them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from scrl.cli.ask import rule_sets
from scrl.errors import ScrlError

from .shell import call


@pytest.mark.optimised
def test_each_rule_set_gets_a_plan_and_the_file_too(tmp_path: Path) -> None:
    (tmp_path / "sets.txt").write_text("# what the council wants\nS1 >= 300; S4 >= 350\n\n")
    done = call("ask", "agri", "S3 >= 500", "--file", "sets.txt", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)
    assert first["status"] == second["status"] == "satisfied"
    assert first["density"]["S3"] >= 500
    assert second["density"]["S1"] >= 300
    assert [rule["text"] for rule in second["rules"]] == ["S1 >= 300", "S4 >= 350"]
    assert 0 <= first["gap"] < 0.05
    assert first["prices"]["S3"] > 0 == first["prices"]["S1"]
    assert {
        "branch",
        "disjuncts",
        "plans",
        "bound",
        "fluid",
        "gap_to_best",
        "wall_s",
    } <= first.keys()


def test_quoted_names_and_comments_are_left_whole(tmp_path: Path) -> None:
    quoted = '"plot #1; north" >= 3; S2 <= 4  # first; second'
    assert rule_sets([quoted], None) == [['"plot #1; north" >= 3', "S2 <= 4  # first; second"]]
    (tmp_path / "sets.txt").write_text('# none; here\n"#1" >= 3 ; # a note\n')
    assert rule_sets([], tmp_path / "sets.txt") == [['"#1" >= 3']]
    (tmp_path / "sets.txt").write_text("# nothing\n")
    with pytest.raises(ScrlError, match="no rules in it"):
        rule_sets([], tmp_path / "sets.txt")


@pytest.mark.optimised
def test_the_problems_own_rules_are_added_when_asked_for(tmp_path: Path) -> None:
    done = call("ask", "agri-situational", "S1 >= 300", "--with-rules", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rules = json.loads(done.stdout)[0]["rules"]
    assert [rule["name"] for rule in rules] == ["situational", "rule-1"]
    assert rules[1]["text"] == "S1 >= 300"


@pytest.mark.optimised
def test_an_answer_is_readable(tmp_path: Path) -> None:
    done = call("ask", "agri-multi", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for text in ("S1 >= 329", "none", "not met", "Prices per step", "the proven bound"):
        assert text in done.stdout


@pytest.mark.optimised
def test_only_regions_with_a_price_are_listed(tmp_path: Path) -> None:
    done = call("ask", "agri", "S3 >= 500", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    _, prices = done.stdout.split("Prices per step")
    assert "S3" in prices
    assert "S1" not in prices
    assert "4 of 5 regions have no price" in prices


@pytest.mark.optimised
def test_impossible_rules_end_with_1_and_say_why(tmp_path: Path) -> None:
    done = call("ask", "agri", "S1 >= 400; S1 + S2 <= 700", "--time-limit", "1", cwd=tmp_path)
    assert done.returncode == 1
    assert "cannot hold together" in done.stdout
    assert "what follows is a plan for the least loosening" in done.stdout


def strip(folder: Path, more: str = "") -> str:
    """Sixty cells in a row, a third of them S1, each landing in which gives 2.25."""
    np.save(folder / "strip.npy", np.array([[1] * 20 + [0] * 20 + [2] * 20]))
    text = '[world]\nmap = "strip.npy"\nservice = "landing"\n'
    (folder / "strip.toml").write_text(f'{text}{more}[rules]\nband = "S1 == 21 within 0.2"\n')
    return "strip.toml"


def test_what_no_single_plan_keeps_is_unknown_and_ends_with_1(tmp_path: Path) -> None:
    """9 landings give 20.25 and 10 give 22.5: only a mixture gives 21."""
    asked = ("ask", strip(tmp_path), "--time-limit", "0.5", "--json")
    alone, mixed = call(*asked, cwd=tmp_path), call(*asked, "--mix", cwd=tmp_path)
    assert (alone.returncode, mixed.returncode) == (1, 0)
    [unknown], [satisfied] = json.loads(alone.stdout), json.loads(mixed.stdout)
    assert (unknown["status"], len(unknown["plans"])) == ("unknown", 1)
    assert unknown["gap"] is unknown["gap_to_best"] is None
    assert (satisfied["status"], len(satisfied["plans"])) == ("satisfied", 2)
    assert satisfied["gap"] >= 0
    told = call("ask", "strip.toml", "--time-limit", "0.5", cwd=tmp_path)
    assert told.returncode == 1
    assert "no plan found, none excluded" in told.stdout


def test_solve_ends_with_1_when_it_knows_no_plan(tmp_path: Path) -> None:
    windy = call("solve", strip(tmp_path, "[wind]\nstrength = 0.1\n"), "--json", cwd=tmp_path)
    found = json.loads(windy.stdout)
    assert (windy.returncode, found["status"]) == (1, "unknown")
    assert found["bound"] is found["return"] is None
    assert "wind" in found["bound_reason"]
    calm = call("solve", strip(tmp_path), "--time-limit", "0.5", cwd=tmp_path)
    assert calm.returncode == 1
    assert "unknown: no plan found, none excluded" in calm.stdout
    assert "proven bound: no policy that keeps the rules returns more than" in calm.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("argi", "S1 >= 3"), "did you mean 'agri'"),
        (("agri",), "agri has no rules of its own"),
        (("agri", "S9 >= 3"), "S9"),
        (("agri", ""), "rule set 1 is empty"),
        (("agri", "S1 >= 3", " ; # later"), "rule set 2 is empty"),
        (("agri", "S1 >= 3", "--with-rules"), "agri has no rules of its own"),
        (("agri", "S1 >= 3", "--policy", "."), "no policy is trained for them"),
        (("agri", "S1 >= 3", "--confidence", "0.95"), "write confidence = 0.95 below [problem]"),
        (("agri", "S1 >= 3 in 95 %", "--mix"), "only a single plan can be judged"),
        (("agri", "--file", "missing.txt"), "missing.txt"),
    ],
)
def test_wrong_input_is_one_message(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = call("ask", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
