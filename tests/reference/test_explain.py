"""Impossible rules: the smallest conflict, the least loosening, and hints that really help."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scrl
from scrl.problems import Problem
from scrl.reference import Status
from scrl.reference.conflict import smallest_conflict
from scrl.reference.solve import fluid_reference
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepRoute, SweepSpec

LANDING = scrl.load("agri-joint")
POURED = SweepRoute(service="poured")
IN_CELLS = dataclasses.replace(LANDING.world_spec.regions, outlines=None)
AGRI = Problem.create(dataclasses.replace(LANDING.world_spec, regions=IN_CELLS, route=POURED))
"""With poured service, where the fluid proves what no policy can do; cells count as a whole."""


@given(
    st.integers(1, 6).flatmap(
        lambda rules: st.tuples(
            st.just(rules),
            st.lists(st.sets(st.integers(0, rules - 1), min_size=1), min_size=0, max_size=4),
        )
    )
)
@settings(max_examples=200)
def test_the_smallest_conflict_is_the_smallest(case: tuple[int, list[set[int]]]) -> None:
    """Invent the conflicts; then the smallest of them must come back."""
    rules, conflicts = case

    def is_possible(subset: Iterable[int]) -> bool:
        return not any(conflict <= set(subset) for conflict in conflicts)

    found = smallest_conflict(rules, is_possible)
    if not conflicts:
        assert found is None
    else:
        assert found is not None
        assert not is_possible(found)
        assert len(found) == min(len(conflict) for conflict in conflicts)


def test_two_rules_that_exclude_each_other() -> None:
    rules = {
        "fine": "S5 >= 100",
        "much": "S1 >= 400",
        "little": "S1 + S2 <= 700",
        "also fine": "S3 >= 500 or S4 >= 9",
    }
    found = scrl.solve(AGRI.with_rules(rules))
    # S2 receives at least 351, so S1 <= 349 once 'little' holds: 51 short of 400.
    assert found.status == "infeasible"
    assert {name for name, _ in found.conflict} == {"much", "little"}
    assert sum(each.by for each in found.relax) == pytest.approx(51.0, abs=0.02)
    assert {way[0].rule for way in found.alternatives} == {"much", "little"}


def test_a_rule_that_is_impossible_alone() -> None:
    found = scrl.solve(AGRI.with_rules({"fine": "S1 >= 300", "too little": "S2 <= 300"}))
    assert found.conflict == (("too little", "S2 <= 300"),)
    assert [str(each) for each in found.relax] == [
        "'too little': S2 <= 300 becomes S2 <= 351 (by 51.00)"
    ]
    assert "impossible; cannot hold: 'too little'" in str(found)


def test_the_loosening_of_a_dose_is_told_as_a_dose() -> None:
    found = scrl.solve(AGRI.with_rules("S1 >= 300; dose(S2) <= 0.5"))
    # At least 351 units on 468 cells.
    assert [str(each) for each in found.relax] == [
        "'rule-2': dose(S2) <= 0.5 becomes dose(S2) <= 0.75 (by 0.25)"
    ]


def test_the_loosened_rules_can_be_kept() -> None:
    rules = {"a": "S2 <= 300", "b": "S1 >= 300", "c": "S1 + S2 <= 500"}
    found = scrl.solve(AGRI.with_rules(rules))
    for each in found.relax:
        rules[each.rule] = rules[each.rule].replace(each.atom, each.to)
    assert fluid_reference(AGRI.with_rules(rules)).fluid_status is Status.OPTIMAL


def test_a_higher_speed_limit_is_suggested_and_helps() -> None:
    problem = AGRI.with_rules("S2 <= 300")
    (hint,) = scrl.solve(problem).vehicle_hints
    # 468 cells times 2.25 units over v steps: 300 at v = 3.51.
    speed = float(re.findall(r"to ([\d.]+) cells", hint)[0])
    assert speed == pytest.approx(3.51, abs=0.01)
    spec = problem.world_spec
    vehicle = dataclasses.replace(spec.vehicle, max_speed=speed + 0.005)
    faster = Problem.create(dataclasses.replace(spec, vehicle=vehicle), "S2 <= 300")
    assert fluid_reference(faster).fluid_status is Status.OPTIMAL


def test_a_longer_horizon_is_suggested() -> None:
    found = scrl.solve(AGRI.with_rules("S2 >= 15000"))
    assert any("horizon_steps" in hint for hint in found.vehicle_hints)


def test_no_way_out_is_said_plainly(strip: SweepSpec) -> None:
    found = scrl.solve(Problem.create(strip, {"both": "S1 >= 8 and S1 <= 7"}))
    assert found.conflict[0][0] == "both"
    assert sum(each.by for each in found.relax) == pytest.approx(1.0, abs=0.02)
    assert found.vehicle_hints == ()


def test_every_subset_of_a_conflict_is_possible() -> None:
    rules = {"a": "S1 >= 400", "b": "S2 <= 360", "c": "S1 + S2 <= 700", "d": "S5 >= 210"}
    found = scrl.solve(AGRI.with_rules(rules))
    names = [name for name, _ in found.conflict]
    assert names == ["a", "c"]
    for subset in itertools.combinations(names, len(names) - 1):
        kept = AGRI.with_rules({name: rules[name] for name in subset})
        assert fluid_reference(kept).fluid_status is Status.OPTIMAL


@pytest.mark.parametrize("miss", [0.01, 0.001, 0.0001])
def test_rules_that_miss_each_other_by_a_hair(miss: float) -> None:
    found = scrl.solve(AGRI.with_rules({"a": f"S1 >= {300 + miss}", "b": "S1 <= 300"}))
    assert found.status == "infeasible"
    assert {name for name, _ in found.conflict} == {"a", "b"}
    assert found.relax


def test_the_speed_that_is_suggested_is_enough() -> None:
    for bound in (197.0, 210.5, 233.3, 251.7, 290.1):
        problem = AGRI.with_rules(f"S2 <= {bound}")
        (hint,) = scrl.solve(problem).vehicle_hints
        speed = float(re.findall(r"to ([\d.]+) cells", hint)[0])
        spec = problem.world_spec
        vehicle = dataclasses.replace(spec.vehicle, max_speed=speed)
        faster = Problem.create(dataclasses.replace(spec, vehicle=vehicle), f"S2 <= {bound}")
        assert fluid_reference(faster).fluid_status is Status.OPTIMAL


def test_a_knapsack_of_rules_is_proven_impossible_in_time() -> None:
    """Each rule can be kept, all together would outlast the horizon."""
    count, rng = 10, np.random.default_rng(0)
    labels = np.repeat(np.arange(1, 2 * count + 1), 4).reshape(2 * count, 4)
    wanted = rng.integers(50, 100, count)
    rules = [f"S{2 * i + 1} >= {w} or S{2 * i + 2} >= {w + 2}" for i, w in enumerate(wanted)]
    horizon = int(8 * count / 3 + 0.98 * sum(wanted / 2.25 - 4 / 3))
    spec = SweepSpec(from_labels(labels), route=SweepRoute(horizon_steps=horizon))
    found = scrl.solve(Problem.create(spec, rules), time_limit_s=2)
    assert found.status == "infeasible"
    assert len(found.conflict) == count
