"""Which branch an answer rests on: without a reference, and where the best one cannot be driven."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from scrl.evaluation import evaluate
from scrl.planning import planner
from scrl.planning.branch_search import _Branches, _other_branch
from scrl.problems import Problem, find_world, load
from scrl.reference.priced import price_rules, price_without
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle, Wind


def test_a_discounted_problem_is_answered_without_a_reference() -> None:
    problem = load("agri-joint")
    options = dataclasses.replace(problem.options, discount=0.9995)
    discounted = dataclasses.replace(problem, options=options)
    answer = planner().ask(discounted, ["if S2 > 200 then S3 >= 400"])
    plain = evaluate(problem.with_rules(["S1 >= 1"]), answer.plans[0].policy)
    assert answer.status == "satisfied"
    assert answer.gap is None
    assert answer.evaluation.density["S3"] < plain.density["S3"]
    assert [way.taken for way in answer.branch] == ["S3 >= 400"]


@pytest.fixture(scope="module")
def choice() -> Problem:
    return find_world("agri").with_rules(["S5 <= 220 or S1 >= 500", "S3 >= 500"])


def numbers(problem: Problem, start: str) -> list[int]:
    """The atoms that begin like this."""
    return [i for i, atom in enumerate(problem.atoms.atoms) if atom.show().startswith(start)]


def test_without_an_atom_the_next_best_branch_is_priced(choice: Problem) -> None:
    best = price_rules(choice)
    other = price_without(choice, best, numbers(choice, "S5 <="))
    assert other is not None
    assert [each.taken for each in best.taken] == ["S5 <= 220", "S3 >= 500"]
    assert [each.taken for each in other.taken] == ["S1 >= 500", "S3 >= 500"]
    assert [way.is_taken for way in best.disjuncts] == [True, False]
    assert [way.is_taken for way in other.disjuncts] == [False, True]
    assert other.reference is best.reference
    assert price_without(choice, best, numbers(choice, "S")) is None


def test_a_broken_atom_without_an_alternative_blames_those_that_have_one(choice: Problem) -> None:
    """S3 >= 500 has none, so what is given up is S5 <= 220; after that nothing is left to give."""
    best = price_rules(choice)
    broken = np.array(numbers(choice, "S3 >="))
    avoided, other = _other_branch(choice, best, frozenset(), broken)
    assert avoided == set(numbers(choice, "S5 <="))
    assert other is not None
    assert _other_branch(choice, other, avoided, broken)[1] is None


def test_where_nothing_is_broken_branches_follow_best_first() -> None:
    """A mixture keeps the best branch, but no single plan does: one atom at a time is given up."""
    problem = find_world("agri").with_rules(["S5 <= 220 or S1 >= 500", "S3 >= 500 or S4 >= 900"])
    branches, kept = _Branches(problem), np.zeros(0, int)
    best = branches.first(price_rules(problem))
    branches.around(best)
    taken = []
    now = branches.after(best, kept)
    while now is not None:
        branches.around(now)
        taken.append([each.taken for each in now.taken])
        now = branches.after(now, kept)
    assert [each.taken for each in best.taken] == ["S5 <= 220", "S3 >= 500"]
    assert taken == [["S1 >= 500", "S3 >= 500"], ["S5 <= 220", "S4 >= 900"],
                     ["S1 >= 500", "S4 >= 900"]]  # fmt: skip


@pytest.mark.parametrize(
    ("exact", "other"),
    [
        ("S1 >= 300; if S1 > 300 then S2 >= 450", "S2 >= 450"),
        ("S1 >= S2; if S1 > S2 then S3 >= 450", "S3 >= 450"),
    ],
)
def test_a_branch_that_asks_for_exactly_one_amount_comes_last(exact: str, other: str) -> None:
    agri = find_world("agri")
    vehicle = Vehicle(flow=(0.0, 2.25), product_cost=0.002)
    route = dataclasses.replace(agri.world_spec.route, service="poured")
    spec = dataclasses.replace(agri.world_spec, vehicle=vehicle, route=route)
    problem = dataclasses.replace(agri, world_spec=spec).with_rules(exact.split("; "))
    branches, best = _Branches(problem), price_rules(problem)
    first = branches.first(best)
    assert branches.is_exact(best)
    assert not branches.is_exact(first)
    assert first.taken[-1].taken == other
    branches.around(first)
    last = branches.after(first, np.zeros(0, int))
    assert last is not None
    assert [each.taken for each in last.taken] == [each.taken for each in best.taken]
    assert _Branches(problem, may_mix=True).first(best) is best


def test_nothing_is_no_exact_amount_for_a_pump_that_closes() -> None:
    agri = find_world("agri")
    route = dataclasses.replace(agri.world_spec.route, service="poured")
    spec = dataclasses.replace(agri.world_spec, vehicle=Vehicle(flow=(0.0, 2.25)), route=route)
    problem = dataclasses.replace(agri, world_spec=spec).with_rules(["0 <= S1 <= 0 or S2 >= 300"])
    best = price_rules(problem)
    assert _Branches(problem).first(best) is best


def test_a_plan_is_found_beside_a_branch_that_asks_for_exactly_one_amount() -> None:
    labels = np.repeat([[1] * 12 + [0] * 4 + [2] * 12], 9, axis=0)
    vehicle = Vehicle(max_speed=1.0, flow=(0.0, 1.0), product_cost=1.0)
    spec = SweepSpec(from_labels(labels), vehicle=vehicle)
    problem = Problem.create(spec, ["S1 >= 54", "if S1 > 54 then S2 >= 54"])
    answer = planner().ask(problem, time_limit_s=10.0)
    assert answer.status == "satisfied"
    assert answer.evaluation.density["S2"] >= 54.0


def test_a_branch_that_costs_the_same_is_not_searched_again() -> None:
    """Full speed keeps either bound by far, so a plan for one is a plan for the other."""
    world = find_world("agri")
    spec = dataclasses.replace(world.world_spec, wind=Wind(strength=0.1))
    rules = ["S1 >= 10 or S3 >= 10"]
    problem = dataclasses.replace(world, world_spec=spec).with_rules(rules).with_confidence(0.95)
    branches = _Branches(problem)
    now = branches.first(price_rules(problem))
    (other,) = branches.around(now)
    assert now.branch is not None
    assert other.return_ == pytest.approx(now.branch.return_)
    assert branches.after(now, np.zeros(0, int)) is None
