"""Violations by hand, and the same in numpy and JAX."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from scrl.rules import AtomTable, RuleSet
from scrl.violation import cons_vio, rule_margins, signed_violation

RULES = RuleSet.from_texts(
    {"situational": "if A > 3 then B >= 8", "cap": "A + B <= 10"}, ("A", "B")
)
TABLE = AtomTable.of(RULES)


@pytest.mark.parametrize(
    ("density", "violation", "margins"),
    [
        # A 5 > 3 and B 4 < 8: min(5 - 3, 8 - 4) = 2; 9 <= 10.
        ((5.0, 4.0), 2.0, (-2.0, 1.0)),
        # A 3 is not above 3; 3 + 8 = 11 is one over.
        ((3.0, 8.0), 1.0, (0.0, -1.0)),
        ((2.0, 1.0), 0.0, (1.0, 7.0)),
        # B 9 keeps the first rule by 1; 13 is three over.
        ((4.0, 9.0), 3.0, (1.0, -3.0)),
    ],
)
def test_violation_and_margins_by_hand(
    density: tuple[float, float], violation: float, margins: tuple[float, float]
) -> None:
    assert cons_vio(TABLE, np.array(density)) == pytest.approx(violation)
    assert np.allclose(rule_margins(TABLE, np.array(density), 2), margins)
    assert float(cons_vio(TABLE, jnp.array(density))) == pytest.approx(violation)


def test_batches_of_densities() -> None:
    densities = np.array([[5.0, 4.0], [2.0, 1.0]])
    assert np.allclose(cons_vio(TABLE, densities), [2.0, 0.0])


def test_no_rules_no_violation() -> None:
    table = AtomTable.of(RuleSet((), ("A", "B")))
    assert cons_vio(table, np.zeros(2)) == 0.0
    assert rule_margins(table, np.zeros(2), 0).shape == (0,)


def test_the_sign_of_a_violation() -> None:
    table = AtomTable.of(RuleSet.from_texts({"least": "A >= 300"}, ("A",)))
    assert signed_violation(table.coefficients, table.bounds, np.array([243.0])) == [57.0]
    assert signed_violation(table.coefficients, table.bounds, np.array([301.0])) == [-1.0]
