"""Answers kept as run folders: judged again, drawn and exported like trained runs."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import scrl
from scrl.cli.app import app
from scrl.cli.ask import print_plan
from scrl.errors import PolicyError, ScrlError
from scrl.evaluation import evaluate, evaluate_mixture
from scrl.export import export
from scrl.opening import PlanRun, open_run
from scrl.planning import Answer, planner
from scrl.planning.feedback import Aims, FeedbackPolicy
from scrl.planning.plan_files import PLAN
from scrl.problems import Problem, ProblemOptions, load
from scrl.report.words import RuleDescriber
from scrl.rules import formula_of, holds, parse
from scrl.runs.folder import RunFolder
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec

from ..report.pages import page_of
from ..runs.small import rewrite

pytestmark = pytest.mark.optimised


@pytest.fixture(scope="module")
def answer() -> Answer:
    return planner().ask(load("agri-priority"))


@pytest.fixture(scope="module")
def kept(answer: Answer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planner().keep(answer, tmp_path_factory.mktemp("kept") / "run", seed=3)


def test_an_answer_is_drawn_and_shown_in_short(answer: Answer) -> None:
    assert repr(answer).startswith("<Answer agri-priority: return -")
    assert len(repr(answer)) < 120
    assert len(repr(answer.plans[0])) < 120
    assert "<table>" in answer._repr_html_()
    _, heat, received, *_ = scrl.plot(answer).axes
    assert heat.images
    assert len(received.patches) == 5
    problem = scrl.plot(answer.problem)
    assert [label.get_text() for label in problem.axes[1].get_yticklabels()] == [
        "S1", "S2", "S3", "S4", "S5"
    ]  # fmt: skip
    with pytest.raises(ScrlError, match=r"nothing to draw for 'agri': scrl.plot takes a problem"):
        scrl.plot("agri")


def opened(path: Path) -> PlanRun:
    run = open_run(path)
    assert isinstance(run, PlanRun)
    return run


def test_a_kept_plan_does_what_it_did(kept: Path) -> None:
    run = opened(kept)
    result = run.result
    assert result is not None
    again = evaluate(load("agri-priority"), run.policy())
    assert result.is_satisfied
    assert result.best.seed == 3
    assert again.density == result.best.evaluation.density
    assert run.route().totals == pytest.approx(again.density)


def test_a_plan_that_reacts_knows_its_path() -> None:
    problem = in_wind(load("agri-priority"))
    aims = Aims(np.ones((1, 5)), np.ones(1), np.zeros(1))
    policy = FeedbackPolicy.of(problem.world_spec, problem.world, aims)
    other = from_labels(np.ones((6, 6), int))
    small = Problem.create(SweepSpec(other), ("S1 >= 1",), ProblemOptions(name="small"))
    with pytest.raises(PolicyError, match="path of 2,500 cells, and that of small has 36"):
        evaluate(small, policy)


def test_a_plan_has_no_seeds_to_choose_from(kept: Path) -> None:
    with pytest.raises(PolicyError, match="no seeds to choose from"):
        opened(kept).policy(4)


@pytest.mark.parametrize(
    "plans", [[], [{"weight": 1.0}], [{"weight": 1.0, "throttles": [0.5, 7.0]}], ["no"]]
)
def test_a_damaged_plan_is_one_message(kept: Path, tmp_path: Path, plans: list[object]) -> None:
    run = shutil.copytree(kept, tmp_path / "run")
    rewrite(run / PLAN, plans=plans)
    with pytest.raises(ScrlError, match=r"plan\.json: "):
        opened(run).policy()


def in_wind(problem: Problem) -> Problem:
    wind = dataclasses.replace(problem.world_spec.wind, strength=0.1)
    return dataclasses.replace(
        problem, world_spec=dataclasses.replace(problem.world_spec, wind=wind)
    )


def test_in_wind_the_plan_that_reacts_is_kept(tmp_path: Path) -> None:
    problem = in_wind(load("agri-multi")).with_confidence(0.95)
    asking = planner()
    answer = asking.ask(problem)
    assert answer.plans[0].aims is not None
    assert len(answer.plans[0].aims.is_in) > 1
    path = asking.keep(answer, tmp_path / "run")
    again = evaluate(problem, opened(path).policy(), episodes=80, seed=9)
    before = evaluate(problem, answer.plans[0].policy, episodes=80, seed=9)
    assert np.allclose(list(again.density.values()), list(before.density.values()))
    for changes, word in (
        ({"reserve": -1.0}, "reserve"),
        ({"atoms": [{"coefficients": {"S9": 1.0}, "bound": 1.0, "inset": 0.0}]}, "no region 'S9'"),
        ({"atoms": [{"coefficients": {}, "bound": 1, "inset": 0, "branches": [9]}]}, "branches"),
    ):
        plans = json.loads((path / PLAN).read_text())["plans"]
        plans[0]["feedback"] |= changes
        damaged = shutil.copytree(path, tmp_path / word.split()[0] / "run")
        rewrite(damaged / PLAN, plans=plans)
        with pytest.raises(ScrlError, match=word):
            opened(damaged).policy()
    del plans[0]["feedback"]
    rewrite(damaged / PLAN, plans=plans)
    with pytest.raises(ScrlError, match="earlier version"):
        opened(damaged).policy()


def test_a_route_of_a_plan_that_reacts_is_one_drive_of_many(tmp_path: Path) -> None:
    asking = planner()
    run = opened(asking.keep(asking.ask(in_wind(load("agri-multi"))), tmp_path / "run"))
    written = export(run, "csv", tmp_path / "route.csv")
    assert any("one episode of many" in warning for warning in written.warnings)
    described = export(run, "onnx", tmp_path / "policy.onnx").paths[1]
    assert "given" in json.loads(described.read_text())["inputs"]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """No single plan gives S1 just that much: a step is worth 2.25."""
    asking = planner()
    answer = asking.ask("agri", ["S1 == 300.1 within 0.2"], mix=True)
    assert answer.is_satisfied
    assert len(answer.plans) > 1
    return asking.keep(answer, tmp_path_factory.mktemp("mixed") / "run")


def test_a_mixture_is_judged_as_one_and_its_route_says_what_it_is(mixed: Path) -> None:
    run = opened(mixed)
    assert run.warning is not None
    assert "mixture of" in run.warning
    written = export(run, "regions", mixed / "regions.csv")
    assert run.warning in written.warnings
    assert written.warnings[0].startswith("THIS PLAN BREAKS ITS RULE: 'rule-1' (S1 == 300.1 within")
    done = CliRunner().invoke(app, ["eval", str(mixed / "problem.toml"), "--policy", str(mixed)])
    assert done.exit_code == 0, done.output
    alone = evaluate(run.problem, run.policy())
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
    (first, one), (second, other), *_ = opened(mixed).plans
    problem = RunFolder.open(mixed).problem()
    weights = np.array([first, second]) / (first + second)
    found = evaluate_mixture(problem, [one, other], weights, episodes=1, name="both")
    assert found.episodes_satisfied == 0


@pytest.fixture(scope="module")
def impossible() -> Answer:
    """Rules of which two cannot hold together, and one that is easy."""
    return planner().ask("agri", ["S1 >= 400", "S1 + S2 <= 700", "S5 >= 1"])


def printed(answer: Answer) -> str:
    out = io.StringIO()
    print_plan(answer, Console(file=out, width=200))
    return out.getvalue()


def test_the_page_of_impossible_rules_says_what_ask_says(
    impossible: Answer, tmp_path: Path
) -> None:
    page = page_of(planner().keep(impossible, tmp_path / "run"))
    told = printed(impossible)
    assert impossible.status == "impossible"
    assert "Impossible: no plan keeps every rule. Shown is a plan for the least" in page.text
    assert "These rules cannot hold together" in page.text
    assert impossible.reference.conflict
    assert impossible.reference.relax
    for name, text in impossible.reference.conflict:
        assert f"{name}: {text}" in page.text
        assert f"{name}: {text}" in told
    for each in (*impossible.reference.relax, *impossible.reference.vehicle_hints):
        assert str(each) in page.text
        assert str(each) in told
    assert "so there is no return to compare with" in page.text


def test_no_rule_is_said_to_hold_beside_impossible(impossible: Answer) -> None:
    """A plan keeps some of the rules; that they hold is not said."""
    told = printed(impossible)
    assert "holds" not in told
    assert re.search(r"rule-3\s+kept", told)
    assert told.index("impossible") < told.index("Rules in this plan")


def test_an_answer_of_old_has_a_page_too(impossible: Answer, tmp_path: Path) -> None:
    """It holds neither other ways to loosen nor what was given out."""
    run = planner().keep(impossible, tmp_path / "run")
    for name in (PLAN, "result.json"):
        document = json.loads((run / name).read_text(encoding="utf-8"))
        found = document["answer"] if name == PLAN else document["result"]["seeds"][0]
        for key in ("alternatives", "vehicle_hints", "given_out", "outside"):
            found.pop(key, None)
        rewrite(run / name, **document)
    text = page_of(run).text
    assert "The least loosening that helps" in text
    assert "Given out:" not in text


def test_ask_and_the_page_have_one_wording_for_rules_that_leave_a_choice(kept: Path) -> None:
    answer = planner().ask(load("agri-priority"), seed=3)
    told, page = printed(answer), page_of(kept).text
    assert "taken" not in told
    teller = RuleDescriber.of(answer.problem, answer.evaluation.density)
    for rule in answer.problem.rules.rules:
        said = teller.say(rule.formula).text
        assert f"{rule.name}: {said}" in told
        assert said in page
    for way in answer.disjuncts:
        density = answer.evaluation.density
        is_met = all(
            any(holds(formula_of(parse(atom)), density) for atom in each) for each in way.clauses
        )
        assert answer.is_met(way) == is_met
    assert any(map(answer.is_met, answer.disjuncts))
