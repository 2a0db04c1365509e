"""Rule sets and their arrays, worked by hand."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from scrl.errors import RuleError, TooLargeError
from scrl.rules import AtomTable, Conventions, Or, Rule, RuleSet, d, parse

REGIONS = ("S1", "S2", "S3", "S4")
TEXTS = {
    "adequacy": "S1 >= 300 and S3 >= 300",
    "equity": "if not (S1 >= 300) then S1 + S4 == S3 within 6",
}


def test_clauses_keep_the_rule_they_come_from():
    rules = RuleSet.from_texts(TEXTS, REGIONS)
    shown = [(clause.rule, [atom.show() for atom in clause.atoms]) for clause in rules.clauses]
    assert shown == [
        (0, ["S1 >= 300"]),
        (0, ["S3 >= 300"]),
        (1, ["S1 >= 300", "S1 + S4 - S3 <= 6"]),
        (1, ["S1 >= 300", "S3 - S1 - S4 <= 6"]),
    ]
    assert rules.clauses[2].atoms[1].origin.rule == "equity"
    assert rules.clauses[2].atoms[1].origin.text == "S1 + S4 == S3 within 6"


def test_equal_clauses_of_two_rules_are_both_kept():
    rules = RuleSet.of(["S1 <= 3", "S1 <= 3"], REGIONS)
    assert [clause.rule for clause in rules.clauses] == [0, 1]
    assert AtomTable.of(rules).members.tolist() == [[True], [True]]


def test_the_table_by_hand():
    table = AtomTable.of(RuleSet.from_texts(TEXTS, REGIONS))
    assert table.regions == REGIONS
    assert table.rules == ("adequacy", "equity")
    assert table.coefficients.tolist() == [
        [-1, 0, 0, 0],
        [0, 0, -1, 0],
        [1, 0, -1, 1],
        [-1, 0, 1, -1],
    ]
    assert table.bounds.tolist() == [-300, -300, 6, 6]
    assert table.members.astype(int).tolist() == [
        [1, 0, 0, 0],
        [0, 1, 0, 0],
        [1, 0, 1, 0],
        [1, 0, 0, 1],
    ]
    assert table.clause_rule.tolist() == [0, 0, 1, 1]
    with pytest.raises(ValueError, match="read-only"):
        table.bounds[0] = 1


def test_an_empty_rule_set_has_empty_arrays_and_always_holds():
    rules = RuleSet((), REGIONS)
    table = AtomTable.of(rules)
    assert table.coefficients.shape == (0, 4)
    assert table.members.shape == (0, 0)
    assert table.bounds.shape == table.clause_rule.shape == (0,)
    assert table.coefficients.dtype == table.bounds.dtype == np.float64
    assert table.clause_rule.dtype == np.int64
    assert rules.clauses == ()
    assert rules.branches == ((),), "one way to keep no rules: doing nothing"
    assert rules.holds({})


def test_many_ways_to_give_rules():
    text, formula = "S1 <= 3", d["S1"] <= 3
    one = RuleSet.of(text, REGIONS)
    assert one.rules == (Rule("rule-1", text, formula),)
    assert RuleSet.of(formula, REGIONS) == one
    assert RuleSet.of([text], REGIONS) == RuleSet.of((formula,), list(REGIONS)) == one
    assert RuleSet.of({"rule-1": formula}, REGIONS) == one
    assert RuleSet.from_texts({"rule-1": text}, REGIONS) == one


def test_a_text_may_hold_several_rules():
    text = 'S1 <= 3; if S2 > 1 then S3 >= 2 # a; b\n; ;"a; b" >= 1;'
    rules = RuleSet.of(text, (*REGIONS, "a; b")).rules
    assert [rule.name for rule in rules] == ["rule-1", "rule-2", "rule-3"]
    assert rules[1].text == "if S2 > 1 then S3 >= 2 # a; b"
    assert rules[2].formula == parse('"a; b" >= 1')
    several = RuleSet.of(["S1 <= 3; S2 <= 3", d["S3"] <= 3], REGIONS).rules
    assert [rule.text for rule in several] == ["S1 <= 3", "S2 <= 3", "S3 <= 3"]
    for nothing in ("", " ; # S1"):
        with pytest.raises(RuleError, match="rule 'rule-1': the text is empty"):
            RuleSet.of(nothing, REGIONS)


def test_branches_are_the_ways_to_keep_all_rules():
    rules = RuleSet.of(["S1 <= 1 or S2 <= 2", "S3 <= 3"], REGIONS)
    shown = [[atom.show() for atom in branch] for branch in rules.branches]
    assert shown == [["S1 <= 1", "S3 <= 3"], ["S2 <= 2", "S3 <= 3"]]
    many = RuleSet.of([f"S1 <= {i} or S2 <= {i}" for i in range(40)], REGIONS)
    with pytest.raises(TooLargeError, match=r"the rule set would have about 1.1e\+12 branches"):
        _ = many.branches


def test_the_cap_on_clauses_is_one_for_all_rules():
    """Each of these has 2^12 clauses of 12 atoms, which is allowed; ten of them are not."""
    halves = [f"(S1 <= {i} and S2 <= {i})" for i in range(12)]
    rules = RuleSet.of([" or ".join(halves)] * 10, REGIONS)
    with pytest.raises(TooLargeError) as caught:
        _ = rules.clauses
    assert str(caught.value).startswith(
        "the rule set would have 40,960 clauses with 491,520 atoms in all, and the caps are 10,000 "
    )
    alone = RuleSet.of([" or ".join(halves * 2)], REGIONS)
    with pytest.raises(TooLargeError, match=r"rule 'rule-1' would have 16,777,216 clauses"):
        _ = alone.clauses


def test_the_table_of_a_rule_set_is_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 clauses of 20 atoms of their own would make a table of 2 billion entries."""
    monkeypatch.setattr("scrl.rules.atoms.MOST_MEMBERS", 1_000)
    rules = [Or(tuple(d["S1"] <= 4 * row + place for place in range(4))) for row in range(20)]
    with pytest.raises(TooLargeError, match="20 clauses over 80 different comparisons"):
        AtomTable.of(RuleSet.of(rules, REGIONS))


def test_atoms_are_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fractions are slow to hash, and large normal forms hold each atom thousands of times."""
    rules = RuleSet.of(" or ".join(f"(S1 <= {i} and S2 <= {i})" for i in range(8)), REGIONS)
    _ = rules.positive
    counted = []
    plain = Fraction.__hash__
    monkeypatch.setattr(Fraction, "__hash__", lambda self: counted.append(self) or plain(self))
    table = AtomTable.of(rules)
    assert table.members.sum() == 8 * 2**8
    assert len(counted) <= 10 * 16


def test_holds_follows_the_conventions():
    rules = RuleSet.from_texts({"a": "S1 > 3", "b": "S2 == 1"}, REGIONS, Conventions(1, 2))
    assert rules.holds({"S1": 4, "S2": 3})
    assert not rules.holds({"S1": 3.5, "S2": 3})
    assert not rules.holds({"S1": 4, "S2": 3.5})


def test_an_equality_without_a_band_is_warned_about():
    texts = {"a": "S1 <= 3 and\n S1 == S2 ", "b": "S1 == S3 within 0"}
    by_operator = RuleSet.of(d["S1"] == d["S2"], REGIONS)
    message = (
        "'S1 == S2' is an equality without a band, so it must be hit exactly: "
        "add 'within 6' (in units), or set equality_band"
    )
    warnings = RuleSet.from_texts(texts, REGIONS).warnings()
    assert warnings == (f"rule 'a', line 2, column 2: {message}",)
    assert by_operator.warnings() == (f"rule 'rule-1': {message}",)
    assert RuleSet.from_texts(texts, REGIONS, Conventions(equality_band=1)).warnings() == ()


MISTAKES = {
    "rule 'a', line 1, column 1: unknown region 'S9'": lambda: RuleSet.of(
        {"a": "S9 <= 1"}, REGIONS
    ),
    "rule 'rule-1': unknown region 'S9'": lambda: RuleSet.of(d["S9"] <= 1, REGIONS),
    "rule 'a': a rule is text, not int": lambda: RuleSet.of(
        {"a": 3},  # pyright: ignore[reportArgumentType]
        REGIONS,
    ),
    "the region 'S1' occurs twice": lambda: RuleSet((), ("S1", "S1")),
    "the rule 'a' occurs twice": lambda: RuleSet(
        (Rule("a", "S1 <= 1", parse("S1 <= 1")),) * 2, REGIONS
    ),
    "a region's name is empty": lambda: RuleSet((), ("",)),
}


@pytest.mark.parametrize(("message", "build"), MISTAKES.items())
def test_clean_errors(message: str, build: Callable[[], object]) -> None:
    with pytest.raises(RuleError, match=message):
        build()


def test_importing_the_rules_is_light():
    code = "import sys, scrl.rules; print({'jax', 'scipy', 'matplotlib'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"


def test_rules_say_how_surely_they_must_hold():
    rules = RuleSet.of(["S1 >= 3 in 95 %", "S2 >= 3", "S3 >= 3 surely"], REGIONS)
    assert [rule.share for rule in rules.rules] == [Fraction(95, 100), None, Fraction(1)]
    assert rules.shares == (Fraction(95, 100), None, Fraction(1))
    assert rules.largest_share == 1
    assert rules.rules[0].text == "S1 >= 3 in 95 %"
    assert rules.clauses[0].atoms[0].origin.text == "S1 >= 3"
    assert AtomTable.of(rules).shares == rules.shares
    calm = rules.on_average()
    assert (calm.shares, calm.largest_share) == ((None, None, None), None)
    assert calm.clauses == rules.clauses


def test_a_confidence_is_asked_of_all_rules_and_a_rule_may_ask_for_more():
    rules = RuleSet.of(["S1 >= 3 in 99 %", "S2 >= 3", "S3 >= 3 in 50 %"], REGIONS, confidence=0.95)
    assert rules.shares == (Fraction(99, 100), Fraction(95, 100), Fraction(95, 100))
    assert rules.confidence == AtomTable.of(rules).confidence == Fraction(95, 100)
    assert rules.on_average().confidence is None
    with pytest.raises(RuleError, match=r"rule 'cost' says 'on average', and confidence = 0.95"):
        RuleSet.of({"cost": "S1 <= 3 on average"}, REGIONS, confidence=0.95)


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.5, float("nan"), True, "0.95"])
def test_a_confidence_that_is_none(confidence: Any) -> None:
    with pytest.raises(RuleError, match=r"between 0 and 1|not a finite number|is not a number"):
        RuleSet.of("S1 >= 3", REGIONS, confidence=confidence)


def test_a_share_that_is_probably_a_slip_is_warned_of():
    (warning,) = RuleSet.of("S1 >= 3 in 0.95 %", REGIONS).warnings()
    assert warning == ("rule 'rule-1' must hold in 0.95 % of single runs only: is 'in 95 %' meant?")
    assert not RuleSet.of("S1 >= 3 in 5 %", REGIONS).warnings()


def test_runs_may_keep_an_or_by_different_disjuncts():
    # The mean (2, 2) keeps neither disjunct, and every run keeps one.
    runs = [{"S1": 4, "S2": 0}, {"S1": 0, "S2": 4}]
    text = "S1 >= 3 or S2 >= 3"
    assert not RuleSet.of(text, ("S1", "S2")).holds_in_runs(runs)
    assert RuleSet.of(f"{text} surely", ("S1", "S2")).holds_in_runs(runs)
    # And the other way round: the mean (2, 2) is right, and no run is.
    text = "S1 == S2 within 1"
    assert RuleSet.of(text, ("S1", "S2")).holds_in_runs(runs)
    assert not RuleSet.of(f"{text} in 1 %", ("S1", "S2")).holds_in_runs(runs)
