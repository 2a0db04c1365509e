"""Readings: the rules as methods receive them that cannot take all of them."""

from __future__ import annotations

import numpy as np
import pytest

from scrl.errors import RuleError
from scrl.problems import builtin_names, load
from scrl.rules import AtomTable, RuleSet, reading_of

REGIONS = ("A", "B", "C")


def atoms_of(reading: str, *rules: str) -> list[str]:
    return [atom.show() for atom in reading_of(RuleSet.of(list(rules), REGIONS), reading).atoms]


@pytest.mark.parametrize("name", builtin_names())
def test_all_is_the_rules_themselves_and_nothing_is_nothing(name: str) -> None:
    rules = load(name).rules
    whole, table = reading_of(rules, "all"), AtomTable.of(rules)
    assert whole.atoms == table.atoms
    assert np.array_equal(whole.members, table.members)
    nothing = reading_of(rules, "nothing")
    assert nothing.coefficients.shape == (0, 5)
    assert nothing.members.shape == (0, 0)


def test_the_disjuncts_of_an_implication_are_the_negated_premise_and_the_conclusion() -> None:
    rule = "if A > 3 then B >= 8"
    assert atoms_of("disjunct-1", rule) == ["A <= 3"]
    assert atoms_of("disjunct-2", rule) == ["B >= 8"]


def test_a_disjunct_may_be_a_conjunction() -> None:
    rule = "if not (A >= 1 and B >= 2) then A == C within 4"
    assert atoms_of("disjunct-1", rule) == ["A >= 1", "B >= 2"]
    assert atoms_of("disjunct-2", rule) == ["A - C <= 4", "C - A <= 4"]


def test_disjuncts_are_counted_as_written() -> None:
    rule = "A <= 1 or (B <= 2 or C <= 3) or A >= 9"
    assert [atoms_of(f"disjunct-{k}", rule) for k in (1, 2, 3, 4)] == [
        ["A <= 1"], ["B <= 2"], ["C <= 3"], ["A >= 9"],
    ]  # fmt: skip
    # A premise that is a conjunction is kept by breaking any of its parts.
    assert atoms_of("disjunct-2", "if A > 1 and B > 2 then C >= 3") == ["B <= 2"]


def test_rules_without_a_choice_are_heard_whole() -> None:
    assert atoms_of("disjunct-2", "A >= 1 and B >= 2", "if A > 5 then C >= 3") == [
        "A >= 1", "B >= 2", "C >= 3",
    ]  # fmt: skip
    assert atoms_of("disjunct-1", "A >= 1 and B >= 2") == ["A >= 1", "B >= 2"]


@pytest.mark.parametrize(
    ("reading", "rule", "message"),
    [
        ("disjunct-3", "A <= 1 or B <= 2", "rule 'rule-1' has 2 disjuncts: there is no 3"),
        ("disjunct-2", "A <= 1", "no rule leaves a choice: there is only disjunct 1, and no 2"),
        ("disjunct-1", "(A <= 1 and (B <= 2 or C <= 3)) or B >= 9", "leaves a choice of its own"),
        ("disjunct-0", "A <= 1", "unknown reading 'disjunct-0'"),
        ("some", "A <= 1", "unknown reading 'some'"),
    ],
)
def test_readings_that_do_not_exist(reading: str, rule: str, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        atoms_of(reading, rule)


def test_the_cost_of_one_atom_is_that_atom() -> None:
    rules = RuleSet.of("2*A - 3*B <= 4", REGIONS)
    assert reading_of(rules, "cost").atoms == AtomTable.of(rules).atoms


def test_the_cost_is_the_mean_in_a_clause_and_the_sum_over_clauses() -> None:
    # (A <= 3 or B >= 8): half of A - B <= 3 - 8; and C >= 4 as it is.
    assert atoms_of("cost", "if A > 3 then B >= 8") == ["0.5*A - 0.5*B <= -2.5"]
    assert atoms_of("cost", "if A > 3 then B >= 8", "C >= 4") == ["0.5*A - 0.5*B - C <= -6.5"]


def test_an_equality_is_two_costs() -> None:
    """A - B <= 6 and B - A <= 6 would add up to 0 <= 12."""
    both = ["A - B <= 6", "B - A <= 6"]
    assert atoms_of("cost", "A == B within 6") == both
    assert atoms_of("cost", "A == B within 6", "C >= 4") == ["C >= 4", *both]
    assert atoms_of("cost", "C >= 4 or A == B within 6") == ["C >= 4", *both]


def test_every_atom_makes_each_or_an_and() -> None:
    rules = RuleSet.of(["A <= 1 or B >= 2", "C >= 3 or B >= 2"], REGIONS)
    table = reading_of(rules, "every-atom")
    assert [atom.show() for atom in table.atoms] == ["A <= 1", "B >= 2", "C >= 3"]
    assert table.listed.tolist() == [[0], [1], [2]]
