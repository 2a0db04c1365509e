"""Amounts of the whole episode in rules."""

from __future__ import annotations

from fractions import Fraction

import pytest

from scrl.errors import RuleError
from scrl.rules import RuleSet, d, show

TOTALS = {"time": None, "distance": Fraction(800), "used": None}


def read(*rules: str, regions: tuple[str, ...] = ("S1", "S2")) -> RuleSet:
    return RuleSet.of(list(rules), regions, totals=TOTALS)


def test_totals_follow_the_regions_where_rules_name_them():
    assert read("S1 >= 3").regions == ("S1", "S2")
    assert read("S1 >= 3", "used <= 9", "if S2 > 3 then time <= 4").regions == (
        "S1", "S2", "time", "used",
    )  # fmt: skip


def test_without_totals_a_name_is_unknown():
    with pytest.raises(RuleError, match="unknown region 'time': known are S1"):
        RuleSet.of("time <= 3", ("S1",))


def test_a_total_that_never_changes_is_a_number():
    rules = read("time <= 2*distance - 100", "not (used > distance / 4)", "time > distance in 95 %")
    assert [show(rule.statement) for rule in rules.rules] == [
        "time <= 1500", "not (used > 200)", "time > 800 in 95 %",
    ]  # fmt: skip
    assert rules.rules[0].text == "time <= 2*distance - 100"
    built = RuleSet.of((d["time"] <= d["distance"]) | (d["S1"] >= 3), ("S1",), totals=TOTALS)
    assert show(built.rules[0].statement) == "time <= 800 or S1 >= 3"


def test_a_comparison_that_never_changes_is_refused():
    with pytest.raises(RuleError) as caught:
        read("if S1 > 3 then distance <= 500")
    assert str(caught.value) == (
        "rule 'rule-1': distance is always 800 here, so nothing is left to choose: leave this "
        "comparison out"
    )


def test_a_region_of_the_name_of_a_total_is_quoted():
    regions = ("S1", "time", "distance")
    rules = read('"time" <= 3', '"distance" <= 4', "used <= 5", regions=regions)
    assert rules.regions == (*regions, "used")
    assert show(rules.rules[1].statement) == "distance <= 4"
    with pytest.raises(RuleError) as caught:
        read("S1 >= 2 and time <= 3", regions=regions)
    assert str(caught.value) == (
        "rule 'rule-1', line 1, column 13: 'time' is a region of this map and an amount of the "
        'whole drive: write "time", in quotes, for the region; for the other, rename the region\n'
        "  S1 >= 2 and time <= 3\n"
        "              ^^^^"
    )
