"""The dual of a branch: a bound everywhere, the optimum at its maximum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scrl
from scrl.reference.answer import Question
from scrl.reference.fluid import BranchDual

QUESTION = Question.of(scrl.load("med-joint"))
FLUID, ATOMS = QUESTION.fluid, QUESTION.atoms
DUAL = BranchDual(FLUID, ATOMS.coefficients @ FLUID.amount, ATOMS.bounds)
BEST = 34.678409


@given(st.lists(st.floats(0, 0.2), min_size=5, max_size=5))
def test_every_multiplier_proves_a_bound(multipliers: list[float]) -> None:
    assert DUAL.at(np.array(multipliers)).proven_cost <= BEST + 1e-5


@given(st.lists(st.floats(0, 0.2), min_size=5, max_size=5))
def test_the_maximum_is_found_from_any_start(multipliers: list[float]) -> None:
    point = DUAL.maximise(np.array(multipliers))
    assert point.proven_cost == pytest.approx(BEST, rel=1e-6)
    assert point.excess.max() <= 1e-4


@given(st.lists(st.floats(0.001, 0.1), min_size=5, max_size=5))
def test_the_gradient_is_the_excess(multipliers: list[float]) -> None:
    at, small = np.array(multipliers), 1e-7
    point = DUAL.at(at)
    for index in range(5):
        step = small * (np.arange(5) == index)
        change = (DUAL.at(at + step).proven_cost - DUAL.at(at - step).proven_cost) / (2 * small)
        assert change == pytest.approx(point.excess[index], rel=1e-3, abs=1e-2)


def test_best_times_solve_the_first_order_condition() -> None:
    price = np.linspace(-0.0999, 0.05, FLUID.groups)
    times = FLUID.best_times(price)
    inside = (times > FLUID.fastest) & (times < FLUID.slowest)
    assert inside.any()
    assert FLUID.slope(times)[inside] == pytest.approx(-price[inside], rel=1e-9)


def test_impossible_atoms_drive_the_dual_past_any_cost() -> None:
    rows = np.vstack([FLUID.weight, -FLUID.weight])
    dual = BranchDual(FLUID, rows, np.array([1000.0, -2000.0]))  # at most 1000 steps, at least 2000
    assert dual.maximise(np.zeros(2), enough_cost=1e6).proven_cost > 1e6
