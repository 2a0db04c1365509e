"""The fluid at its limits: units of any size, one speed, no rules, horizons that are too tight."""

from __future__ import annotations

import dataclasses
import tracemalloc

import numpy as np
import pytest

import scrl
from scrl.errors import ScrlError
from scrl.problems import Problem, ProblemOptions
from scrl.reference import Status
from scrl.reference.answer import Question
from scrl.reference.columns import best_mixture
from scrl.reference.priced import price_rules
from scrl.reference.solve import bounded, fluid_reference
from scrl.violation import rule_margins
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Vehicle


@pytest.mark.parametrize(
    ("vehicle", "rule"),
    [
        (Vehicle(), "1e12*S1 >= 9e12"),
        (Vehicle(), "1e-12*S1 >= 9e-12"),
        (Vehicle(), "S1 >= 9 and 1e6*S2 <= 1e9"),
        (Vehicle(effort=1e-9), "S1 >= 9"),
        (Vehicle(effort=1e9), "S1 >= 9"),
        (Vehicle(rate=2.25e-9), "S1 >= 9e-9"),
        (Vehicle(rate=2.25e6), "S1 >= 9e6"),
    ],
)
def test_units_of_any_size_give_the_same_plan(
    strip: SweepSpec, vehicle: Vehicle, rule: str
) -> None:
    """tau = 1 on the four cells of S1, in whatever units that is asked for."""
    asked = float(rule.split()[2])
    options = ProblemOptions(tolerance=1e-7 * asked)
    problem = Problem.create(dataclasses.replace(strip, vehicle=vehicle), rule, options)
    found = scrl.solve(problem, time_limit_s=10.0)
    assert found.fluid == pytest.approx(vehicle.effort * (-2.0 - 80 / 120), rel=1e-6)
    assert found.fluid_density["S1"] == pytest.approx(4 * vehicle.rate, rel=1e-6)
    assert found.density["S1"] >= 4 * vehicle.rate * (1 - 1e-6)
    assert found.bound is not None
    assert found.return_ is not None
    assert found.return_ <= found.bound


def test_a_bound_allows_for_the_tolerance_of_the_rules(strip: SweepSpec) -> None:
    """A rule that every drive keeps within the tolerance binds nobody, and nothing excludes it."""
    for rule in ("1e-12*S1 >= 9e-12", "1e-12*S1 <= 1e-12"):
        found = scrl.solve(Problem.create(strip, rule), time_limit_s=2.0)
        assert found.return_ is not None
        assert found.bound is not None
        assert found.return_ <= found.bound < -0.0999


def test_rounding_raises_a_bound_little_where_product_costs_much_more_than_time() -> None:
    """A drive has at most as many steps as the horizon, whatever its product costs."""
    labels = np.repeat([[1] * 30 + [0] * 20], 60, axis=0)
    vehicle = Vehicle(max_speed=1.0, flow=(0.0, 0.96), product_cost=4.7)
    problem = Problem.create(SweepSpec(from_labels(labels), vehicle=vehicle), "S1 >= 1000")
    question = Question.of(problem)
    found = bounded(question, fluid_reference(problem), time_limit_s=2.0)
    assert found.bound is not None
    assert found.fluid is not None
    assert found.fluid <= found.bound <= 0.998 * found.fluid


def test_no_rules_at_all(strip: SweepSpec) -> None:
    """The four cells of S1 take 2 + 0.88 / 2.352 steps from rest, the other eight a third each."""
    found = fluid_reference(Problem.create(strip))
    assert found.fluid_status is Status.OPTIMAL
    start = (2.0 + 0.88 / 2.352) / 4
    assert found.fluid == pytest.approx(-0.4 * start**2 / (1.0 + start) - 8 / 120)


def test_one_speed_only(strip: SweepSpec) -> None:
    fixed = dataclasses.replace(strip, vehicle=Vehicle(crawl=1.0, inertia=0.0))
    found = scrl.solve(Problem.create(fixed, "S1 >= 2"), time_limit_s=2.0)
    assert found.status == "optimal"
    assert found.return_ == pytest.approx(-0.1)
    assert found.bound == pytest.approx(-0.1, rel=1e-5)  # raised by what single precision allows
    assert scrl.solve(Problem.create(fixed, "S1 >= 4")).status == "infeasible"


def test_one_throttle_only_is_slower_at_the_start(strip: SweepSpec) -> None:
    """The only drive needs 2 + 0.88 / 2.352 steps for S1, from p = 1.2, 3.12, 5.472 and so on.

    The fluid knows of at most 4 / 3 + 1.5 steps.
    """
    fixed = dataclasses.replace(strip, vehicle=Vehicle(crawl=1.0))
    found = scrl.solve(Problem.create(fixed, "S1 >= 5.3"), time_limit_s=2.0)
    assert found.density["S1"] == pytest.approx(2.25 * (2.0 + 0.88 / 2.352))
    assert found.return_ is not None
    assert found.fluid is not None
    assert found.return_ <= found.fluid
    assert scrl.solve(Problem.create(fixed, "S1 >= 6.4")).status == "infeasible"


def test_a_horizon_that_the_fluid_alone_meets_is_proven_to_be_missed(strip: SweepSpec) -> None:
    """7 / 2.25 steps in S1 leave 2.89 for eight cells: enough at top speed, but not from there."""
    tight = dataclasses.replace(strip, route=SweepRoute(horizon_steps=6))
    found = scrl.solve(Problem.create(tight, "S1 >= 7"))
    assert found.status == "infeasible"
    tau = 7 / 2.25 / 4
    assert found.fluid == pytest.approx(-0.4 * tau**2 / (1.0 + tau) - 8 / 120)
    assert found.plan is None


def test_a_discounted_sweep_has_no_reference(strip: SweepSpec) -> None:
    problem = Problem.create(strip, "S1 >= 3", ProblemOptions(discount=0.9))
    with pytest.raises(ScrlError, match="needs discount = 1"):
        scrl.solve(problem)


def test_many_rules_take_memory_by_their_number_and_not_by_its_square(strip: SweepSpec) -> None:
    """A table of numbers with a row per clause and a column per atom would take 72 MB."""
    count = 3_000
    rules = {f"r{i}": scrl.d[f"S{1 + i % 2}"] >= i / 1_000 for i in range(count)}
    problem = Problem.create(strip, rules)
    assert problem.atoms.members.shape == (count, count)
    tracemalloc.start()
    try:
        priced = price_rules(problem)
        margins = rule_margins(problem.atoms, np.array([3.0, 1.0]), count)
        over = np.arange(4 * count, dtype=float).reshape(4, count)
        mixed = best_mixture(np.zeros(4), over, np.ones(count))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert priced.branch is not None
    assert len(priced.branch.atoms) == count
    assert margins[:4] == pytest.approx([3.0, 0.999, 2.998, 0.997])
    assert mixed.weights[0] == 1.0
    assert peak < 50e6
