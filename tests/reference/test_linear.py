"""One branch as a linear program: optimum, multipliers, and what happens when there is none."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy import sparse

from scrl.reference.linear import NumericalTroubleError, OutOfTimeError, best_point
from scrl.reference.model import LinearModel


def box(reward: ArrayLike, upper: ArrayLike, **rows: Any) -> LinearModel:
    """Variables between 0 and `upper`; each is the density of its own region."""
    rewards = np.array(reward, float)
    count = len(rewards)
    return LinearModel(
        reward=rewards,
        density=sparse.csr_array(np.eye(count)),
        lower=np.zeros(count),
        upper=np.array(upper, float),
        **rows,
    )


def test_multipliers_by_hand():
    # max 3x + 2y, x, y <= 10, x + y <= 4 (lambda), x <= 3 (mu): x = 3, y = 1, return 11.
    # One unit more of x + y buys a y: lambda = 2. One more of x turns a y into an x: mu = 1.
    optimum = best_point(box([3, 2], [10, 10]), np.array([[1.0, 1], [1, 0]]), np.array([4.0, 3]))
    assert optimum is not None
    assert optimum.point == pytest.approx([3, 1])
    assert optimum.return_ == pytest.approx(11)
    assert optimum.density == pytest.approx([3, 1])
    assert optimum.of_atom == pytest.approx([2, 1])


def test_rows_of_the_model_keep_their_own_multipliers():
    # The same, with x + y <= 4 as a row of the model and x = 3 as an equality.
    model = replace(
        box([3, 2], [10, 10]),
        equal=sparse.csr_array([[1.0, 0]]),
        equal_to=np.array([3.0]),
        below=sparse.csr_array([[1.0, 1]]),
        below_at=np.array([4.0]),
    )
    optimum = best_point(model, np.zeros((0, 2)), np.zeros(0))
    assert optimum is not None
    assert optimum.of_below == pytest.approx([2])
    assert optimum.of_equal == pytest.approx([1])
    assert optimum.of_atom.shape == (0,)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_units_do_not_matter(scale: float) -> None:
    # Rewards and units in other scales: x + y <= 4 stays sharp, its multiplier scales.
    model = box([3 * scale, 2 * scale], [10, 10])
    optimum = best_point(model, np.array([[scale, scale]]), np.array([4 * scale]))
    assert optimum is not None
    assert optimum.point == pytest.approx([4, 0])
    assert optimum.of_atom == pytest.approx([3])


def test_no_point_is_none():
    model = box([1], [10])
    assert best_point(model, np.array([[-1.0]]), np.array([-11.0])) is None
    assert best_point(model, np.array([[0.0]]), np.array([-1.0])) is None
    assert best_point(model, np.array([[0.0]]), np.array([1.0])) is not None


def test_no_end_is_an_error():
    with pytest.raises(NumericalTroubleError, match="was not solved"):
        best_point(box([1], [np.inf]), np.zeros((0, 1)), np.zeros(0))


def test_no_time_is_an_error():
    random = np.random.default_rng(0)
    model = box(random.random(400), np.full(400, 10.0))
    with pytest.raises(OutOfTimeError, match="more than 1e-06 s"):
        best_point(model, random.random((300, 400)), np.full(300, 10.0), time_limit_s=1e-6)


def test_inequalities_of_the_model():
    rows = sparse.csr_array([[1.0, 0], [0, 1.0]])
    model = box([1, 1], [10, 10], below=rows, below_at=np.array([2.0, 3.0]))
    optimum = best_point(model, np.zeros((0, 2)), np.zeros(0))
    assert optimum is not None
    assert optimum.return_ == pytest.approx(5)
    assert optimum.of_below == pytest.approx([1, 1])
