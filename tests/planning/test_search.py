"""Plans for rules: kept, near the best, mixed where one cannot, honest where none can."""

from __future__ import annotations

import dataclasses
import importlib

import numpy as np
import pytest

import scrl
from scrl.errors import ScrlError
from scrl.planning import Planner, planner
from scrl.planning.drives import PriceDriver
from scrl.planning.planner import BOUND_TIME_S
from scrl.problems import Problem, ProblemOptions, builtin_names, find_world, load
from scrl.reference import Reference
from scrl.reference.priced import price_rules
from scrl.worlds.sweep.regions import from_labels, from_masks
from scrl.worlds.sweep.spec import Service, SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle

pytestmark = pytest.mark.optimised


@pytest.fixture(scope="module")
def asking() -> Planner:
    return planner()


@pytest.fixture(scope="module")
def two_halves() -> Problem:
    """24 cells, half of them S1: at a crawl of 33.3 steps a cell S1 gets 12 * 33.3 * 2.25 = 900,
    and at most 0.6 / 0.4 steps more since the vehicle starts at rest: 903.375."""
    halves = from_labels(np.repeat([[1, 2]], 4, axis=0).repeat(3, axis=1))
    return Problem.create(SweepSpec(dataclasses.replace(halves, warnings=("closed 1 ring",))))


@pytest.mark.parametrize("name", builtin_names())
def test_every_built_in_problem_is_answered(asking: Planner, name: str) -> None:
    answer = asking.ask(name)
    assert answer.status == "satisfied"
    assert answer.gap_to_fluid is not None
    assert answer.gap_to_fluid <= 0.02
    assert answer.gap is not None
    assert 0.0 <= answer.gap <= 0.05
    assert answer.warnings == ()
    # What is said was driven: the plan does it again.
    (plan,) = answer.plans
    again = scrl.evaluate(answer.problem, plan.policy)
    assert again.is_satisfied
    assert again.return_ == pytest.approx(answer.evaluation.return_, rel=1e-5)


def test_a_changed_number_is_a_new_plan_at_once(asking: Planner) -> None:
    world = find_world("agri")
    low, high = asking.ask_all(world, ["S1 >= 300", "S1 >= 350"])
    assert low.is_satisfied
    assert high.is_satisfied
    assert 300 <= low.evaluation.density["S1"] < 350 <= high.evaluation.density["S1"]
    assert high.evaluation.return_ < low.evaluation.return_
    assert high.plans[0].prices["S1"] > low.plans[0].prices["S1"] > 0
    assert high.plans[0].prices["S5"] == 0


def test_the_disjuncts_are_priced_and_the_cheapest_is_taken() -> None:
    priced = price_rules(load("agri-multi"))
    found = {each.text: each for each in priced.disjuncts}
    assert [text for text, each in found.items() if each.is_taken] == ["S1 >= 329"]
    assert found["S2 <= 200"].return_ is None
    assert found["S3 >= 800"].return_ == pytest.approx(-29.93, abs=0.01)


@pytest.mark.parametrize(
    ("rule", "status"),
    [
        ("S1 >= 1e20", "impossible"),
        ("S1 <= 1e20", "satisfied"),
        ("S1 <= 1e150", "satisfied"),
        ("1e-150*S1 <= 1", "satisfied"),
        ("if S1 > 1e20 then S2 >= 1e30", "satisfied"),
    ],
)
def test_numbers_of_any_size_are_answered(
    asking: Planner, two_halves: Problem, rule: str, status: str
) -> None:
    assert asking.ask(two_halves, rule).status == status


@pytest.mark.parametrize("bound", [8600, 9500])
def test_rules_near_the_horizon_are_kept(asking: Planner, bound: int) -> None:
    """9,618 is the most that S1 can receive within the horizon; at prices that lead there, most
    drives do not come to the end of the path in time."""
    answer = asking.ask("agri", f"S1 >= {bound}")
    assert answer.status == "satisfied"
    assert answer.gap_to_fluid is not None
    assert answer.gap_to_fluid <= 0.02


def test_impossible_rules_are_answered_by_the_fluids_times(
    asking: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drive by the fluid's times for the least loosening is near enough: nothing is searched."""
    monkeypatch.setattr(PriceDriver, "drive", None)
    answer = asking.ask("agri", "S1 >= 1e20")
    assert answer.status == "impossible"
    assert answer.evaluation.density["S1"] >= 9_600


def test_a_plan_is_looked_for_before_a_long_proof(
    asking: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fluid cannot keep S2 <= 340, and a drive does."""
    limits: list[float] = []

    def bounded(*_: object, time_limit_s: float, **__: object) -> Reference:
        limits.append(time_limit_s)
        return actual(*_, time_limit_s=time_limit_s, **__)

    module = importlib.import_module("scrl.planning.planner")
    actual = module.bounded
    monkeypatch.setattr(module, "bounded", bounded)
    assert asking.ask("agri", "S2 <= 340").status == "satisfied"
    assert limits == [BOUND_TIME_S]


def test_rules_that_no_loosening_helps_are_named(
    asking: Planner, two_halves: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("conflict", "priced"):
        monkeypatch.setattr(f"scrl.reference.{module}.least_loosening", lambda *_, **__: None)
    with pytest.raises(ScrlError, match="the fluid cannot keep 'rule-1', and no loosening"):
        asking.ask(two_halves, "S1 >= 1e150")


def test_impossible_rules_get_the_conflict_and_the_least_violating_plan(asking: Planner) -> None:
    answer = asking.ask("agri", ["S1 >= 400", "S1 + S2 <= 700", "S5 >= 100"], time_limit_s=1.0)
    assert answer.status == "impossible"
    assert not answer.is_satisfied
    assert answer.gap is None
    assert {rule for rule, _ in answer.reference.conflict} == {"rule-1", "rule-2"}
    least = sum(each.by for each in answer.reference.relax)
    # Steps that leap over the edges of S2 may break less than the fluid says.
    assert answer.evaluation.cons_vio <= least + 10.0
    spec = answer.problem.world_spec
    poured = Problem.create(
        dataclasses.replace(
            spec,
            regions=dataclasses.replace(spec.regions, outlines=None),
            route=dataclasses.replace(spec.route, service="poured"),
        ),
        ["S1 >= 400", "S1 + S2 <= 700", "S5 >= 100"],
    )
    answer = asking.ask(poured, time_limit_s=1.0)
    least = sum(each.by for each in answer.reference.relax)
    assert answer.status == "impossible"
    assert {rule for rule, _ in answer.reference.conflict} == {"rule-1", "rule-2"}
    assert least - 1e-3 <= answer.evaluation.cons_vio <= least + 10.0


def test_where_nothing_is_proven_the_least_violating_plan_is_shown(asking: Planner) -> None:
    """A drive gives 335.25, and the fluid 351 at least; 335.2 is not proven to be too little."""
    answer = asking.ask("agri", "S2 <= 335.2")
    assert answer.status == "unknown"
    assert answer.evaluation.cons_vio <= 3.0


@pytest.mark.parametrize("bound", ["1e5", "1e9", "1e15", "1e20"])
def test_a_loosened_bound_does_not_depend_on_how_far_off_it_was(
    two_halves: Problem, bound: str
) -> None:
    """The plan is made for what the rule becomes, give or take a thousandth."""
    priced = price_rules(two_halves.with_rules([f"S1 >= {bound} or S2 >= 3e20"]))
    assert [each.to for each in priced.reference.relax] == ["S1 >= 903.37"]
    assert priced.branch is not None
    assert priced.branch.loosened == pytest.approx([-903.375], rel=2e-3)


def test_the_plan_of_a_rule_far_off_gives_what_the_loosened_rule_says(
    asking: Planner, two_halves: Problem
) -> None:
    """Steps and inertia cost a little at the edges of S1: 12 cells, entered four times."""
    answer = asking.ask(two_halves, "S1 >= 1e9")
    assert answer.status == "impossible"
    assert answer.evaluation.density["S1"] == pytest.approx(900, rel=0.05)
    assert answer.warnings[0] == "closed 1 ring"  # what was repaired in the map


def test_where_one_plan_cannot_a_mixture_does(asking: Planner) -> None:
    """A window narrower than one step of service, which no single plan can be sure to hit."""
    alone = asking.ask("agri", ["S1 == 300.1 within 0.2"], time_limit_s=1.0)
    assert (alone.status, len(alone.plans)) == ("unknown", 1)
    answer = asking.ask("agri", ["S1 == 300.1 within 0.2"], mix=True)
    assert answer.is_satisfied
    assert answer.gap is not None
    assert answer.gap_to_best is None
    assert len(answer.plans) > 1
    assert sum(plan.weight for plan in answer.plans) == pytest.approx(1.0)
    parts = [scrl.evaluate(answer.problem, plan.policy) for plan in answer.plans]
    mean = sum(p.weight * e.density["S1"] for p, e in zip(answer.plans, parts, strict=True))
    assert mean == pytest.approx(answer.evaluation.density["S1"], abs=1e-3)


def test_overlapping_regions_and_another_vehicle(asking: Planner) -> None:
    masks = np.zeros((2, 20, 20), bool)
    masks[0, 2:12, 2:12], masks[1, 8:18, 8:18] = True, True
    vehicle = Vehicle(max_speed=1.5, inertia=0.3, rate=10.0, effort=2.0)
    spec = SweepSpec(from_masks(masks, ["A", "B"]), vehicle)
    answer = asking.ask(Problem.create(spec, ["A >= 1000", "B <= 900"]))
    assert answer.is_satisfied
    assert answer.gap is not None
    assert answer.gap < 0.05


def test_in_wind_the_rules_hold_in_expectation(asking: Planner) -> None:
    problem = load("agri-situational")
    wind = dataclasses.replace(problem.world_spec.wind, strength=0.1)
    spec = dataclasses.replace(problem.world_spec, wind=wind)
    answer = asking.ask(dataclasses.replace(problem, world_spec=spec))
    assert answer.is_satisfied
    assert answer.evaluation.episodes == 1000
    assert answer.gap is None
    assert answer.gap_to_fluid is not None
    assert answer.gap_to_fluid < 0.03


@pytest.mark.parametrize("service", ["poured", "landing"])
def test_a_path_too_long_for_a_lattice_is_driven_by_the_fluid(
    asking: Planner, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = np.array([[1] * 200 + [2] * 200])
    spec = SweepSpec(from_labels(labels), route=SweepRoute(service=service))
    problem = Problem.create(spec, ["S1 >= 250", "if S2 > 100 then S2 >= 300"])
    monkeypatch.setattr(PriceDriver, "lattice", lambda *_, **__: None)
    answer = asking.ask(problem)
    assert answer.is_satisfied
    assert answer.gap_to_fluid is not None
    assert answer.gap_to_fluid < 0.02


def test_no_rules_full_speed(asking: Planner) -> None:
    world = Problem.create(load("med-joint").world_spec, (), ProblemOptions(name="free"))
    answer = asking.ask(world)
    assert answer.is_satisfied
    best = scrl.evaluate(world, "full-speed").return_
    assert answer.evaluation.return_ == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("how", ["in 95 %", "surely"])
def test_in_calm_air_a_share_is_answered_as_an_average(asking: Planner, how: str) -> None:
    with pytest.raises(ScrlError, match="only a single plan can be judged"):
        asking.ask("agri", f"S1 >= 300 {how}", mix=True)
    answer, average = (asking.ask("agri", f"S1 >= 300 {each}") for each in (how, "on average"))
    assert answer.status == "satisfied"
    assert answer.evaluation.return_ == average.evaluation.return_
    assert answer.gap == average.gap is not None


def test_the_same_question_has_the_same_answer(asking: Planner) -> None:
    one, other = (asking.ask("med-situational", seed=3) for _ in range(2))
    first, second = (each.to_json() for each in (one, other))
    del first["wall_s"], second["wall_s"]
    assert first == second


@pytest.mark.parametrize(
    ("inertia", "return_"), [(0.0, -22.04), (0.8, -22.07), (0.95, -22.31), (0.99, -26.74)]
)
def test_sluggish_vehicles_are_driven_too(asking: Planner, inertia: float, return_: float) -> None:
    spec = load("agri-joint").world_spec
    vehicle = dataclasses.replace(spec.vehicle, inertia=inertia)
    problem = Problem.create(dataclasses.replace(spec, vehicle=vehicle), "S1 >= 300")
    answer = asking.ask(problem)
    assert answer.is_satisfied
    assert answer.evaluation.return_ == pytest.approx(return_, rel=0.005)


def test_a_bound_that_can_never_matter(asking: Planner) -> None:
    assert asking.ask("agri", "S1 <= 1e100").is_satisfied
