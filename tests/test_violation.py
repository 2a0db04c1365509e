"""Violations by hand, and the same in numpy and JAX; laws of shares, by slow referees."""

from __future__ import annotations

from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from scrl.rules import (
    AtomTable,
    Conventions,
    RuleSet,
    Statement,
    clauses_size,
    formula_of,
    holds,
    negation_normal,
)
from scrl.violation import (
    cons_vio,
    required_violation,
    rule_margins,
    rule_violation,
    share_quantile,
    signed_violation,
)

from .rules.strategies import REGIONS, conventions, plain, small_shares, statements

many = settings(suppress_health_check=[HealthCheck.too_slow])

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


@many
@given(
    st.lists(st.integers(0, 3).map(float), min_size=1, max_size=40),
    st.fractions(0, 1, max_denominator=50).filter(bool) | small_shares,
    st.sampled_from([0.0, 0.5, 1.0]),
)
def test_the_quantile_is_at_most_a_tolerance_iff_that_share_of_the_sample_is(
    sample: list[float], share: Fraction, tolerance: float
) -> None:
    quantile = float(share_quantile(np.array(sample), share))
    at_most = sum(value <= tolerance for value in sample)
    assert (quantile <= tolerance) == (Fraction(at_most, len(sample)) >= share)
    reached = [v for v in sample if sum(x <= v for x in sample) >= share * len(sample)]
    assert quantile == min(reached) == float(share_quantile(jnp.array(sample), share))


def test_the_quantile_by_hand() -> None:
    sample = np.array([5.0, 0.0, 3.0, 0.0])
    # Sorted 0 0 3 5: half of them are 0, and 3 of 4 are at most 3.
    for share, expected in ((0.25, 0.0), (0.5, 0.0), (0.51, 3.0), (0.75, 3.0), (0.76, 5.0)):
        assert share_quantile(sample, Fraction(str(share))) == expected
    assert share_quantile(sample, Fraction(1)) == 5.0, "surely: the worst"
    # In floating point 0.07 * 100 is above 7.
    assert share_quantile(np.arange(100.0), Fraction("0.07")) == 6.0
    assert np.array_equal(
        share_quantile(np.array([[1.0, 9.0], [3.0, 7.0]]), Fraction(1, 2), axis=0), [1.0, 7.0]
    )


def test_the_violation_of_each_rule_by_hand() -> None:
    densities = np.array([[5.0, 4.0], [3.0, 8.0], [2.0, 1.0]])
    assert rule_violation(TABLE, densities).tolist() == [[2.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    assert np.allclose(rule_margins(TABLE, densities, 2), [[-2.0, 1.0], [0.0, -1.0], [1.0, 7.0]])
    assert np.array_equal(rule_violation(TABLE, jnp.array(densities)), [[2, 0], [0, 1], [0, 0]])


def test_required_violations_by_hand() -> None:
    # Runs of A: 0, 2, 4, 6; the mean is 3. A >= 4 misses by 4, 2, 0, 0; A <= 5 by 0, 0, 0, 1.
    runs = np.array([[0.0], [2.0], [4.0], [6.0]])

    def found(*texts: str, confidence: float | None = None) -> tuple[list[float], float]:
        table = AtomTable.of(RuleSet.of(texts, ("A",), confidence=confidence))
        required = required_violation(table, runs)
        in_jax = required_violation(table, jnp.array(runs))
        assert np.array_equal(required.by_rule, in_jax.by_rule)
        assert required.total == in_jax.total
        return required.by_rule.tolist(), float(required.total)

    assert found("A >= 4", "A <= 5") == ([1.0, 0.0], 1.0)
    assert found("A >= 4 in 50 %", "A <= 5") == ([0.0, 0.0], 0.0)
    assert found("A >= 4 in 60 %", "A <= 5 surely") == ([2.0, 1.0], 3.0)
    assert found("A >= 4 surely", "A <= 5 in 75 %") == ([4.0, 0.0], 4.0)
    # Together they miss by 4, 2, 0, 1: one run of four keeps both.
    assert found("A >= 4", "A <= 5", confidence=0.25) == ([0.0, 0.0], 0.0)
    assert found("A >= 4", "A <= 5", confidence=0.5) == ([0.0, 0.0], 1.0)
    assert found("A >= 4", "A <= 5", confidence=0.75) == ([2.0, 0.0], 2.0)
    # A rule may ask for more than all together.
    assert found("A >= 4 surely", "A <= 5", confidence=0.25) == ([4.0, 0.0], 4.0)
    assert found(confidence=0.9) == ([], 0.0)


runs_of = st.sampled_from([1, 2, 4, 8]).flatmap(
    lambda count: st.lists(
        st.lists(st.integers(-32, 32).map(lambda n: n / 8), min_size=3, max_size=3),
        min_size=count,
        max_size=count,
    )
)
"""Eighths, as many as a power of two, so that their mean is exact."""


@many
@given(
    st.lists(statements(plain), max_size=3),
    conventions,
    st.none() | small_shares.filter(lambda share: share < 1),
    runs_of,
)
def test_the_required_violation_is_zero_iff_the_rules_hold_in_the_runs(
    rules: list[Statement],
    agreed: Conventions,
    confidence: Fraction | None,
    runs: list[list[float]],
) -> None:
    if confidence is not None:
        rules = [formula_of(each) if not _share(each) else each for each in rules]
    for each in rules:
        assume(clauses_size(negation_normal(formula_of(each), agreed)).groups <= 500)
    rule_set = RuleSet.of(rules, REGIONS, agreed, confidence)
    table, amounts = AtomTable.of(rule_set), np.array(runs)
    required = required_violation(table, amounts)
    exact: list[dict[str, Fraction]] = [
        dict(zip(REGIONS, map(Fraction, run), strict=True)) for run in runs
    ]
    assert (required.total == 0.0) == rule_set.holds_in_runs(exact)
    for rule, own in zip(RuleSet.of(rules, REGIONS, agreed).rules, required.by_rule, strict=True):
        if confidence is None:
            alone = RuleSet((rule,), REGIONS, agreed)
            assert (own == 0.0) == alone.holds_in_runs(exact)
        else:
            kept = sum(holds(rule.formula, run, agreed) for run in exact)
            asked = max(rule.share or confidence, confidence)
            assert (own == 0.0) == (Fraction(kept, len(exact)) >= asked)
    # Where runs cannot differ, the number is that of the average, whatever is asked.
    same = np.repeat(amounts[:1], 3, axis=0)
    assert np.isclose(required_violation(table, same).total, cons_vio(table, amounts[0]))
    # Batches of samples.
    both = required_violation(table, np.stack([amounts, amounts[::-1]]))
    assert np.array_equal(both.total, [required.total] * 2)


def _share(rule: Statement) -> Fraction | None:
    return RuleSet.of([rule], REGIONS).rules[0].share
