"""The trade-off curve agrees with the price list."""

from __future__ import annotations

import numpy as np
import pytest

import scrl
from scrl.errors import RuleError
from scrl.reference import trade_off
from scrl.reference.solve import fluid_reference


def test_the_slope_of_the_curve_is_the_dual() -> None:
    problem = scrl.load("agri-joint").with_rules({"least": "S3 >= 800"})
    trade = trade_off(problem, "least", points=3, span=1.0)
    dual = fluid_reference(problem).duals[0].dual
    assert (trade.return_[2] - trade.return_[0]) / 2.0 == pytest.approx(dual, rel=1e-3)
    assert trade.bounds is not None
    assert trade.bounds.tolist() == [801.0, 800.0, 799.0]


def test_the_curve_rises_as_the_rule_gets_looser_and_ends_where_it_is_impossible() -> None:
    trade = trade_off(scrl.load("agri-joint").with_rules({"most": "S2 <= 400"}), "most", points=9)
    assert np.isnan(trade.return_[0])
    kept = trade.return_[~np.isnan(trade.return_)]
    assert np.all(np.diff(kept) >= -1e-6)
    assert trade.to_json()["return"][0] is None


def test_a_rule_of_several_atoms_moves_as_one() -> None:
    trade = trade_off(scrl.load("agri-joint"), "adequacy", points=3, span=10.0)
    assert trade.bounds is None
    assert trade.shift.tolist() == [-10.0, 0.0, 10.0]


def test_an_unknown_rule_names_the_nearest() -> None:
    with pytest.raises(RuleError, match="has no rule 'adequasy': did you mean 'adequacy'"):
        trade_off(scrl.load("agri-joint"), "adequasy")
