"""The three numbers of `solve`, gaps, and what `ask` may call satisfied, impossible or unknown."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable

import numpy as np
import pytest

import scrl
from scrl.errors import InternalError, ScrlError
from scrl.planning import Answer
from scrl.planning.planner import Planner, planner
from scrl.problems import Problem, ProblemOptions
from scrl.reference import Reference
from scrl.reference.answer import BestDriven, gap_to
from scrl.reference.linear import Status
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import Service, SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle, Wind


def strip_problem(
    rules: str, service: Service = "poured", vehicle: Vehicle | None = None, discount: float = 1.0
) -> Problem:
    """One row of sixty cells: twenty of S1, twenty of none, twenty of S2."""
    labels = np.array([[1] * 20 + [0] * 20 + [2] * 20])
    spec = SweepSpec(from_labels(labels), vehicle or Vehicle(), route=SweepRoute(service=service))
    return Problem.create(spec, rules, ProblemOptions(name="strip", discount=discount))


@pytest.fixture(scope="module")
def asking() -> Planner:
    return planner()


@pytest.fixture(scope="module")
def poured() -> Reference:
    return scrl.solve(strip_problem("S1 >= 40 or S2 >= 50"), time_limit_s=5.0)


def test_a_gap_is_relative_to_the_best() -> None:
    assert gap_to(-10.0, -12.0) == pytest.approx(0.2)
    assert gap_to(None, -12.0) is None
    assert gap_to(-10.0, -8.0, is_bound=False) == pytest.approx(-0.2)


def test_a_return_above_a_proven_bound_is_an_error_of_the_program() -> None:
    assert gap_to(-10.0, -10.0 + 9e-6) == pytest.approx(-9e-7)  # not clamped
    with pytest.raises(InternalError, match=r"-9.99998 exceeds the proven bound -10.0"):
        gap_to(-10.0, -10.0 + 2e-5)


def test_solve_gives_bound_plan_and_fluid(poured: Reference) -> None:
    assert poured.bound is not None
    assert poured.return_ is not None
    assert poured.fluid is not None
    assert poured.return_ <= poured.bound < poured.fluid + 1e-4
    assert poured.status in ("optimal", "feasible")
    assert poured.density["S1"] >= 40 - 1e-6
    if poured.mixture is not None:
        assert poured.return_ < poured.mixture.return_ <= poured.bound


def test_the_plan_of_solve_can_be_driven_again(poured: Reference) -> None:
    assert poured.plan is not None
    policy = scrl.policies.Schedule.of(poured.plan.throttles[0])
    again = scrl.evaluate(strip_problem("S1 >= 40 or S2 >= 50"), policy)
    assert again.return_ == pytest.approx(poured.plan.return_)
    assert again.density == pytest.approx(poured.plan.density)
    assert again.is_satisfied


def test_json_has_the_fields_of_the_contract(poured: Reference) -> None:
    document = poured.to_json()
    assert document["return"] == poured.return_
    assert document["gap"] == gap_to(poured.bound, poured.return_ or 0.0)
    assert {"status", "density", "mixture", "bound", "bound_reason", "fluid", "branch", "duals",
            "conflict", "relax", "conflict_rests_on"} <= document.keys()  # fmt: skip


def test_rules_that_a_plan_keeps_are_in_no_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fluid gives S2 at least 20 / 3 * 2.25 = 15; a drive may land there six times: 13.5.

    As on a slow machine, the share of the time that is for plans ends with the first round.
    """
    monkeypatch.setattr(importlib.import_module("scrl.planning.solve"), "SHARE_OF_PLANS", 0.0)
    found = scrl.solve(strip_problem("S2 <= 14", "landing"), time_limit_s=60.0)
    assert found.density["S2"] == pytest.approx(13.5)
    assert found.fluid is None
    assert found == found.without_conflict()
    assert found.conflict_rests_on is None


@pytest.mark.parametrize(
    ("bound", "return_", "status"),
    [
        (-10.0, -10.04, "optimal"),
        (-10.0, -10.06, "feasible"),
        (None, -10.0, "feasible"),
        (-10.0, None, "unknown"),
        (None, None, "unknown"),
    ],
)
def test_the_status_follows_from_plan_and_bound(
    bound: float | None, return_: float | None, status: str
) -> None:
    plan = None if return_ is None else BestDriven(return_, {}, 1.0, (np.ones(1),))
    found = Reference("made", Status.OPTIMAL, bound=bound, plan=plan)
    assert found.status == status
    assert dataclasses.replace(found, is_impossible=True).status == "infeasible"


def windy(problem: Problem) -> Problem:
    return dataclasses.replace(
        problem, world_spec=dataclasses.replace(problem.world_spec, wind=Wind(strength=0.1))
    )


def noisy(problem: Problem) -> Problem:
    vehicle = dataclasses.replace(problem.world_spec.vehicle, start_noise=2.0)
    return dataclasses.replace(
        problem, world_spec=dataclasses.replace(problem.world_spec, vehicle=vehicle)
    )


@pytest.mark.parametrize("service", ["poured", "landing"])
@pytest.mark.parametrize(("change", "word"), [(windy, "wind"), (noisy, "start")])
def test_where_chance_plays_a_part_there_is_no_bound_and_the_reason_is_said(
    change: Callable[[Problem], Problem], word: str, service: Service
) -> None:
    found = scrl.solve(change(strip_problem("S1 >= 40", service)))
    assert found.bound is None
    assert word in (found.bound_reason or "")
    assert found.status == "unknown"
    impossible = scrl.solve(change(strip_problem("S1 <= 2", service)))
    assert impossible.conflict
    assert impossible.status == "unknown"


def test_a_discounted_problem_has_no_reference_and_its_answer_no_gap(asking: Planner) -> None:
    problem = strip_problem("S1 >= 20", discount=0.999)
    with pytest.raises(ScrlError, match="needs discount = 1"):
        scrl.solve(problem)
    answer = asking.ask(problem)
    assert answer.reference.bound is None
    assert "discount" in (answer.reference.bound_reason or "")
    assert answer.gap is None


@pytest.fixture(scope="module")
def answer(asking: Planner) -> Answer:
    return asking.ask(strip_problem("S1 >= 40"))


def test_the_gap_of_an_answer_is_to_the_bound(answer: Answer) -> None:
    assert answer.status == "satisfied"
    assert answer.gap is not None
    assert answer.gap == gap_to(answer.reference.bound, answer.evaluation.return_)
    assert 0 <= answer.gap < 0.1
    assert answer.gap_to_best == 0.0
    assert f"{answer.gap:.1%} below the proven bound" in answer.summary


def test_there_is_no_gap_without_a_bound_for_broken_rules_or_by_chance(answer: Answer) -> None:
    unbounded = dataclasses.replace(answer.reference, bound=None)
    assert dataclasses.replace(answer, reference=unbounded).gap is None
    broken = dataclasses.replace(answer.evaluation, is_satisfied=False, cons_vio=1.0)
    by_chance = windy(answer.problem)
    for changed in (
        dataclasses.replace(answer, evaluation=broken),
        dataclasses.replace(answer, problem=by_chance),
    ):
        assert changed.gap is None
        assert changed.gap_to_best is None


def test_a_return_above_the_bound_is_not_hidden(answer: Answer) -> None:
    lower = dataclasses.replace(answer.reference, bound=1.01 * answer.evaluation.return_)
    with pytest.raises(InternalError):
        _ = dataclasses.replace(answer, reference=lower).gap


def test_rules_that_are_not_kept_are_impossible_with_a_proof_and_else_unknown(
    answer: Answer,
) -> None:
    broken = dataclasses.replace(answer.evaluation, is_satisfied=False, cons_vio=1.0)
    unknown = dataclasses.replace(answer, evaluation=broken)
    assert unknown.status == "unknown"
    proven = dataclasses.replace(answer.reference, is_impossible=True)
    assert dataclasses.replace(unknown, reference=proven).status == "impossible"
    assert dataclasses.replace(unknown, problem=windy(answer.problem)).status == "violated"


@pytest.mark.parametrize("service", ["poured", "landing"])
def test_what_no_policy_can_do_is_proven_impossible(asking: Planner, service: Service) -> None:
    """Full speed over twenty cells gives at least five landings, and 15 units when poured."""
    answer = asking.ask(strip_problem("S1 <= 8", service))
    assert answer.status == "impossible"
    assert answer.reference.is_impossible
    assert answer.reference.bound is None


@pytest.mark.optimised
def test_agri_s2_at_most_340_gets_a_plan(asking: Planner) -> None:
    """The fluid gives at least 351; a drive leaps over edges."""
    answer = asking.ask("agri", "S2 <= 340")
    assert answer.status == "satisfied"
    assert answer.evaluation.density["S2"] <= 340 + 1e-6
    assert len(answer.plans) == 1
    assert answer.gap is not None
    assert answer.gap >= 0
    assert not answer.reference.conflict  # a plan keeps the rule, so it is in no conflict
    assert answer.reference.conflict_rests_on is None


@pytest.mark.optimised
def test_agri_s2_at_most_300_is_never_satisfied(asking: Planner) -> None:
    answer = asking.ask("agri", "S2 <= 300", time_limit_s=1.0)
    assert answer.status in ("impossible", "unknown")
    assert answer.gap is None
    assert answer.reference.conflict_rests_on is not None
    assert "estimate" in answer.reference.conflict_rests_on


def test_where_chance_plays_a_part_there_is_no_plan_and_no_bound() -> None:
    spec = scrl.load("agri-joint").world_spec
    noisy = dataclasses.replace(spec, vehicle=dataclasses.replace(spec.vehicle, start_noise=50.0))
    found = scrl.solve(Problem.create(noisy, "S1 >= 300"))
    assert found.status == "unknown"
    assert found.plan is None
    assert found.bound is None
    assert found.fluid is not None
