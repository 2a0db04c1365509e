"""Amounts of the whole episode in rules."""

from __future__ import annotations

from fractions import Fraction

import pytest

from scrl.errors import RuleError
from scrl.rules import LinearExpression, RuleSet, d, dose, parse, show

TOTALS = {
    "time": None, "distance": LinearExpression((), 800), "used": None,
    "dose(S1)": LinearExpression((("S1", Fraction(1, 4)),)),
    "dose(S2)": LinearExpression((("S2", Fraction(1, 10)),)),
}  # fmt: skip


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


def test_a_total_that_is_misspelt_is_recognised():
    with pytest.raises(RuleError, match=r"unknown region 'usd': did you mean 'used'\?"):
        read("usd <= 3")


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
    assert show(rules.rules[1].statement) == '"distance" <= 4'
    same = read('region("time") <= 3', 'region("distance") <= 4', "used <= 5", regions=regions)
    assert [rule.statement for rule in same.rules] == [rule.statement for rule in rules.rules]
    with pytest.raises(RuleError, match=r"region\(...\) takes a region, and 'used' is an amount"):
        read('region("used") <= 3', regions=regions)
    with pytest.raises(RuleError, match="expected a region"):
        read("region(3) <= 3", regions=regions)
    # The word is reserved only before a parenthesis.
    assert read("region <= 3", regions=("region",)).regions == ("region",)
    with pytest.raises(RuleError) as caught:
        read("S1 >= 2 and time <= 3", regions=regions)
    assert str(caught.value) == (
        "rule 'rule-1', line 1, column 13: 'time' is a region of this map and an amount of the "
        'whole drive: write region("time") or "time", in quotes, for the region; for the other, '
        "rename it\n"
        "  S1 >= 2 and time <= 3\n"
        "              ^^^^"
    )


def test_a_dose_is_an_amount_per_area():
    rules = read(
        "dose(S1) >= 22", "dose(S1) == dose(S2) within 3", "if dose(S2) > 5 then used + 1 <= S1",
        "10 <= 2*dose(S2) in 95 %",
    )  # fmt: skip
    # Areas of 4 and 10: each comparison is multiplied by the smallest area in it.
    assert [show(rule.statement) for rule in rules.rules] == [
        "S1 >= 88", "S1 == 0.4*S2 within 12", "if S2 > 50 then used + 1 <= S1",
        "100 <= 2*S2 in 95 %",
    ]  # fmt: skip
    built = RuleSet.of(dose("S1") >= 22, ("S1", "S2"), totals=TOTALS)
    assert built.clauses == read("dose(S1) >= 22").clauses
    assert built.rules[0].text == "dose(S1) >= 22"


def test_a_dose_reads_back():
    for text in ("dose(S1) >= 22", 'dose("north field") >= 2*dose("dose")'):
        assert show(parse(text)) == text
    assert parse("dose(S1) >= 22") == (dose("S1") >= 22)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dose(S9) >= 3", "rule 'rule-1', line 1, column 6: unknown region 'S9'"),
        ("dose() >= 3", "rule 'rule-1', line 1, column 6: unexpected ')': expected a region"),
        ("dose >= 3", "rule 'rule-1', line 1, column 6: unexpected '>=': expected '('"),
        ("dose(time) >= 3", "dose(...) takes a region, and 'time' is an amount of the drive"),
        ("dose(S3) >= 3", "dose(S3): the region has no known area here, and a dose is an amount"),
        ("dose(S1) >= S1/4 + 3", "both sides are the same but for a number, so nothing is left"),
    ],
)
def test_errors_of_doses(text: str, message: str):
    with pytest.raises(RuleError) as caught:
        read(text, regions=("S1", "S2", "S3"))
    assert message in str(caught.value)


def test_a_region_called_dose_is_quoted():
    assert show(read('"dose" >= 3', regions=("dose",)).rules[0].statement) == '"dose" >= 3'
    with pytest.raises(RuleError, match='is quoted: write "dose"'):
        read("dose >= 3", regions=("dose",))
