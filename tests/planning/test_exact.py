"""The reference's drives as plans: they keep what no price policy was trained for."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from scrl.evaluation import evaluate_mixture
from scrl.planning.exact import exact_drives
from scrl.policies import Schedule
from scrl.problems import Problem, ProblemOptions
from scrl.reference.priced import price_rules
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec


@pytest.fixture(scope="module")
def lonely() -> Problem:
    """A is two single cells in the midst of B, and must receive as much as half of B does."""
    labels = np.full((2, 30), 2)
    labels[0, 12], labels[1, 20] = 1, 1
    spec = SweepSpec(from_labels(labels, names=["A", "B"]))
    rules = ["A >= 25", "B <= 60"]
    return Problem.create(spec, rules, ProblemOptions(name="lonely"))


def test_exact_drives_keep_what_asks_for_a_stop(lonely: Problem) -> None:
    found = exact_drives(lonely, price_rules(lonely).branch)
    assert found is not None
    policies = [Schedule.of(each) for each in found.throttles]
    judged = evaluate_mixture(lonely, policies, found.weights, episodes=1, name="exact")
    assert judged.is_satisfied
    # Eleven steps and more in two cells of sixty, where full speed spends less than one.
    assert judged.density["A"] >= 25.0


def test_there_are_none_where_chance_or_a_discount_plays_a_part(lonely: Problem) -> None:
    branch = price_rules(lonely).branch
    wind = dataclasses.replace(lonely.world_spec.wind, strength=0.1)
    windy = dataclasses.replace(
        lonely, world_spec=dataclasses.replace(lonely.world_spec, wind=wind)
    )
    options = dataclasses.replace(lonely.options, discount=0.99)
    assert exact_drives(windy, branch) is None
    assert exact_drives(dataclasses.replace(lonely, options=options), branch) is None
