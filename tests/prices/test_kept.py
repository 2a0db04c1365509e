"""Answers kept as run folders: judged again, drawn and exported like trained runs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from scrl.cli.app import app
from scrl.driver import run_driver, run_plans
from scrl.errors import PolicyError, ScrlError
from scrl.evaluation import evaluate, evaluate_mixture
from scrl.export import export
from scrl.prices import planner
from scrl.prices.kept import PLAN, holds_plan
from scrl.prices.school import resume_learning
from scrl.problems import Problem, ProblemOptions, load
from scrl.runs import RunFolder
from scrl.trained import read_result
from scrl.worlds.regions import from_labels
from scrl.worlds.spec import SweepSpec


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    asking = planner()
    answer = asking.ask(load("agri-priority"))
    return asking.keep(answer, tmp_path_factory.mktemp("kept") / "run", seed=3)


def test_a_kept_plan_does_what_it_did(kept: Path) -> None:
    result = read_result(RunFolder.open(kept))
    assert result is not None
    again = evaluate(load("agri-priority"), run_plans(kept)[0][1])
    assert holds_plan(kept)
    assert result.is_satisfied
    assert result.best.seed == 3
    assert again.density == result.best.evaluation.density
    assert run_driver(kept).route.totals == pytest.approx(again.density)


def test_a_policy_of_prices_knows_its_path(tmp_path: Path) -> None:
    problem = in_wind(load("agri-priority"))
    driver = planner()._driver(problem)
    policy = driver.policy(np.zeros((1, 5)))
    other = from_labels(np.ones((6, 6), int))
    small = Problem.create(SweepSpec(other), ("S1 >= 1",), ProblemOptions(name="small"))
    with pytest.raises(PolicyError, match="path of 2,500 cells, and that of small has 36"):
        evaluate(small, policy)


def test_a_plan_has_no_seeds_to_choose_from(kept: Path) -> None:
    with pytest.raises(PolicyError, match="no seeds to choose from"):
        run_plans(kept, 4)


@pytest.mark.parametrize(
    "plans", [[], [{"weight": 1.0}], [{"weight": 1.0, "throttles": [0.5, 7.0]}], ["no"]]
)
def test_a_damaged_plan_is_one_message(kept: Path, tmp_path: Path, plans: list[object]) -> None:
    for file in kept.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    document = json.loads((kept / PLAN).read_text(encoding="utf-8"))
    (tmp_path / PLAN).write_text(json.dumps(document | {"plans": plans}), encoding="utf-8")
    with pytest.raises(ScrlError, match=r"plan\.json: damaged"):
        run_plans(tmp_path)


def in_wind(problem: Problem) -> Problem:
    wind = dataclasses.replace(problem.world_spec.wind, strength=0.1)
    return dataclasses.replace(
        problem, world_spec=dataclasses.replace(problem.world_spec, wind=wind)
    )


def test_in_wind_the_policy_is_kept_with_its_prices(tmp_path: Path) -> None:
    problem = in_wind(load("agri-priority"))
    asking = planner()
    answer = asking.ask(problem)
    path = asking.keep(answer, tmp_path / "run")
    again = evaluate(problem, run_plans(path)[0][1], episodes=50, seed=9)
    before = evaluate(problem, answer.plans[0].policy, episodes=50, seed=9)
    assert np.allclose(list(again.density.values()), list(before.density.values()))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """No single plan gives S1 just that much: a step is worth 2.25."""
    asking = planner()
    answer = asking.ask("agri", ["S1 == 300.1 within 0.2"])
    assert answer.is_satisfied
    assert len(answer.plans) > 1
    return asking.keep(answer, tmp_path_factory.mktemp("mixed") / "run")


def test_a_mixture_is_judged_as_one_and_its_route_says_what_it_is(mixed: Path) -> None:
    driver = run_driver(mixed)
    assert driver.warning is not None
    assert "mixture of" in driver.warning
    written = export(driver, "regions", mixed / "regions.csv")
    assert driver.warning in written.warnings
    assert written.warnings[0].startswith("THIS PLAN BREAKS ITS RULE: 'rule-1' (S1 == 300.1 within")
    done = CliRunner().invoke(app, ["eval", str(mixed / "problem.toml"), "--policy", str(mixed)])
    assert done.exit_code == 0, done.output
    alone = evaluate(driver.problem, driver.policy)
    assert not alone.is_satisfied


def test_rules_that_cannot_hold_are_said_with_the_plan(tmp_path: Path) -> None:
    asking = planner()
    run = asking.keep(asking.ask("agri", ["S1 >= 310", "S1 <= 300"]), tmp_path / "run")
    done = CliRunner().invoke(app, ["export", str(run), "--format", "geojson", "--json"])
    assert done.exit_code == 0, done.output
    loud, why, *others = json.loads(done.stdout)["warnings"]
    assert loud.startswith("THIS PLAN BREAKS ")
    assert why == "`scrl ask` found that these rules cannot hold together: 'rule-1', 'rule-2'"
    assert f"warning: {loud}" in done.stderr
    written = json.loads((run / "route.geojson").read_text())
    assert written["warnings"] == [loud, why, *others]
    assert "the rules are kept" not in str(others)


def test_of_one_episode_sixty_per_cent_is_none(mixed: Path) -> None:
    (first, one), (second, other), *_ = run_plans(mixed)
    problem = RunFolder.open(mixed).problem()
    weights = np.array([first, second]) / (first + second)
    found = evaluate_mixture(problem, [one, other], weights, episodes=1, name="both")
    assert found.episodes_satisfied == 0


def test_learning_does_not_go_on_in_a_plans_folder(kept: Path) -> None:
    with pytest.raises(PolicyError, match="trains no price policy"):
        resume_learning(kept)
