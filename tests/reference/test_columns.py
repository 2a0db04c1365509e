"""Column generation with worlds small enough to be solved by hand."""

from __future__ import annotations

import numpy as np
import pytest

from scrl.reference.columns import ColumnGeneration, Mixture, best_mixture
from scrl.worlds.contract import Column, Response

MUST = np.full(1, np.inf)


def test_the_master_by_hand() -> None:
    # Columns give 0 and 1; the second is 3 over, the first 1 under: w = 1/4. Price 1 / 4.
    mixed = best_mixture(np.array([0.0, 1]), np.array([[-1.0], [3]]), MUST)
    assert mixed.weights == pytest.approx([0.75, 0.25])
    assert mixed.value == pytest.approx(0.25)
    assert mixed.multipliers == pytest.approx([0.25])
    assert mixed.excess == pytest.approx([0.0])


def test_phase_one_by_hand() -> None:
    # Two atoms, columns (2, -1) and (-1, 2): evenly mixed both are 1/2 over, so 1 in all is missed.
    mixed = best_mixture(np.zeros(2), np.array([[2.0, -1], [-1, 2]]), np.ones(2))
    assert mixed.value == pytest.approx(-1)
    assert mixed.excess.sum() == pytest.approx(1)
    assert mixed.multipliers == pytest.approx([1, 1])


def test_what_costs_less_than_its_price_is_exceeded() -> None:
    # The second column is worth 1 more and 3 over. At 1/5 a unit that pays, at 1/2 it does not.
    returns, over = np.array([0.0, 1]), np.array([[-1.0], [3]])
    cheap, dear = (best_mixture(returns, over, np.array([price])) for price in (0.2, 0.5))
    assert (cheap.value, cheap.return_) == pytest.approx((0.4, 1.0))
    assert (cheap.excess, cheap.multipliers) == (pytest.approx([3.0]), pytest.approx([0.2]))
    assert (dear.value, dear.return_) == pytest.approx((0.25, 0.25))
    assert dear.excess == pytest.approx([0.0])


def test_each_group_has_a_distribution_of_its_own() -> None:
    # Columns 0 and 2 are free; 1 and 3 cost 1 and 2 and take 4 off what is 2 over in all.
    returns, over = np.array([0.0, -1, 0, -2]), np.array([[1.0], [-3], [1], [-3]])
    mixed = best_mixture(returns, over, MUST, np.array([0, 0, 1, 1]))
    assert mixed.weights == pytest.approx([0.5, 0.5, 1.0, 0.0])
    assert mixed.return_ == pytest.approx(-0.5)


class Parabola:
    """Policies t in [0, 2] return -t^2 and give t: at a price p the best is t = p / 2."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, prices: np.ndarray) -> list[Response[float]]:
        self.asked += len(prices)
        return [self.respond(float(price)) for price in prices[:, 0]]

    def respond(self, price: float) -> Response[float]:
        best = float(np.clip(price / 2, 0.0, 2.0))
        return Response(Column(best, -(best**2), np.array([best])), price * best - best**2)


def generated(world: Parabola, least: float) -> tuple[ColumnGeneration[float], Mixture]:
    """The best mixture that gives at least so much, from the policies 0 and 2."""
    search = ColumnGeneration(world, np.array([[-1.0]]), np.array([-least]), MUST)
    search.columns += search.price(np.array([[0.0], [4.0]]))

    def propose(mixture: Mixture, _: int) -> list[list[Column[float]]]:
        return [search.price(mixture.multipliers[None])]

    return search, search.run(propose, rounds=100, tolerance=1e-6)


def test_a_mixture_meets_its_bound() -> None:
    # To give 1 at the least cost is to play t = 1: -1, where one unit more costs 2.
    search, mixture = generated(Parabola(), 1.0)
    assert mixture.return_ == pytest.approx(-1.0, abs=1e-5)
    assert mixture.multipliers == pytest.approx([2.0], abs=1e-2)
    assert search.bound == pytest.approx(-1.0, abs=1e-5)
    assert search.bound >= mixture.value - 1e-9


def test_it_ends_when_no_column_has_a_reduced_cost() -> None:
    # Nobody gives less than 0: the first mixture is the best, and one question tells.
    world = Parabola()
    search, mixture = generated(world, 0.0)
    assert mixture.return_ == pytest.approx(0.0)
    assert world.asked == 3
    assert len(search.columns) == 3


def test_policies_that_do_not_end_are_no_columns() -> None:
    search = ColumnGeneration(
        lambda prices: [Response[None](None, 5.0) for _ in prices],
        np.array([[1.0]]),
        np.array([2.0]),
        MUST,
    )
    assert search.price(np.array([[1.0]])) == []
    assert search.bound == 7.0


def test_a_round_in_which_no_policy_ends_adds_nothing() -> None:
    search = ColumnGeneration(
        Parabola(), np.array([[-1.0], [1.0]]), np.array([-1.0, 3.0]), np.full(2, 9.0)
    )
    search.columns += search.price(np.array([[4.0, 0.0]]))
    mixture = search.run(lambda _mixture, _round: [[]], rounds=3, tolerance=-np.inf)
    assert mixture.return_ == pytest.approx(-4.0)
    assert len(search.columns) == 1
