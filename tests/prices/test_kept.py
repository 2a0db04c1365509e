"""Answers kept as run folders: judged again, drawn and exported like trained runs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from scrl.driver import run_driver, run_policy
from scrl.errors import PolicyError, ScrlError
from scrl.evaluation import evaluate
from scrl.prices import planner
from scrl.prices.kept import PLAN, holds_plan
from scrl.problems import Problem, load
from scrl.runs import RunFolder
from scrl.trained import read_result


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    asking = planner()
    answer = asking.ask(load("agri-priority"))
    return asking.keep(answer, tmp_path_factory.mktemp("kept") / "run", seed=3)


def test_a_kept_plan_does_what_it_did(kept: Path) -> None:
    result = read_result(RunFolder.open(kept))
    assert result is not None
    again = evaluate(load("agri-priority"), run_policy(kept))
    assert holds_plan(kept)
    assert result.is_satisfied
    assert result.best.seed == 3
    assert again.density == result.best.evaluation.density
    assert run_driver(kept).route.totals == pytest.approx(again.density)


def test_a_plan_has_no_seeds_to_choose_from(kept: Path) -> None:
    with pytest.raises(PolicyError, match="no seeds to choose from"):
        run_policy(kept, 4)


@pytest.mark.parametrize(
    "plans", [[], [{"weight": 1.0}], [{"weight": 1.0, "throttles": [0.5, 7.0]}], ["no"]]
)
def test_a_damaged_plan_is_one_message(kept: Path, tmp_path: Path, plans: list[object]) -> None:
    for file in kept.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    document = json.loads((kept / PLAN).read_text(encoding="utf-8"))
    (tmp_path / PLAN).write_text(json.dumps(document | {"plans": plans}), encoding="utf-8")
    with pytest.raises(ScrlError, match=r"plan\.json: damaged"):
        run_policy(tmp_path)


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
    again = evaluate(problem, run_policy(path), episodes=50, seed=9)
    before = evaluate(problem, answer.plans[0].policy, episodes=50, seed=9)
    assert np.allclose(list(again.density.values()), list(before.density.values()))
