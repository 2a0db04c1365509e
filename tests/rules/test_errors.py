"""Golden messages: an error names the place, what was expected, and what was probably meant."""

from __future__ import annotations

from typing import Any

import pytest

from scrl.errors import RuleError
from scrl.rules import parse

REGIONS = ("S1", "S2", "S3", "S4", "north field")

GOLDEN = {
    "if S22 > 300 then S3 >= 800": """\
rule 'equity', line 1, column 4: unknown region 'S22': did you mean 'S2'?
  if S22 > 300 then S3 >= 800
     ^^^""",
    '"north feild" <= 3': """\
rule 'equity', line 1, column 1: unknown region 'north feild': did you mean '"north field"'?
  "north feild" <= 3
  ^^^^^^^^^^^^^""",
    "clinic <= 3": """\
rule 'equity', line 1, column 1: unknown region 'clinic': known are S1, S2, S3, S4, "north field"
  clinic <= 3
  ^^^^^^""",
    "IF S1 <= 3 then S2 <= 3": """\
rule 'equity', line 1, column 1: unknown region 'IF': did you mean 'if'?
  IF S1 <= 3 then S2 <= 3
  ^^""",
    "S1 <= 3 AND S2 <= 4": """\
rule 'equity', line 1, column 9: unexpected 'AND': did you mean 'and'?
  S1 <= 3 AND S2 <= 4
          ^^^""",
    "if S1 <= 3 than S2 <= 4": """\
rule 'equity', line 1, column 12: unexpected 'than': did you mean 'then'?
  if S1 <= 3 than S2 <= 4
             ^^^^""",
    "S1 >= 100 liters": """\
rule 'equity', line 1, column 11: unexpected 'liters': write the number without a unit (then \
follows 'and', 'or', '->' or the end of the rule)
  S1 >= 100 liters
            ^^^^^^""",
    "if S1 > 3 then north field >= 300": """\
rule 'equity', line 1, column 16: a name with spaces or signs is quoted: write "north field"
  if S1 > 3 then north field >= 300
                 ^^^^^^^^^^^""",
    "S1 + north feild >= 300": """\
rule 'equity', line 1, column 6: unknown region 'north feild': did you mean '"north field"'?
  S1 + north feild >= 300
       ^^^^^^^^^^^""",
    "S1 S2 <= 3": """\
rule 'equity', line 1, column 4: unexpected 'S2': expected a comparison such as <= or >=
  S1 S2 <= 3
     ^^""",
    "S1 <= 3 S2": """\
rule 'equity', line 1, column 9: unexpected 'S2': expected 'and', 'or', '->' or the end of the rule
  S1 <= 3 S2
          ^^""",
    "S1 + 2": """\
rule 'equity', line 1, column 7: the rule ends too early: expected a comparison such as <= or >=
  S1 + 2
        ^""",
    "S1 <= 3 or\n  (S2 >= 99 or or S3 <= 3)": """\
rule 'equity', line 2, column 16: unexpected 'or': expected a region, a number, 'not' or '('
    (S2 >= 99 or or S3 <= 3)
                 ^^""",
    "S1 <= * 3": """\
rule 'equity', line 1, column 7: unexpected '*': expected a region, a number or '('
  S1 <= * 3
        ^""",
    "(S1 + S2": """\
rule 'equity', line 1, column 9: the rule ends too early: expected ')' or a comparison such as <= \
or >=
  (S1 + S2
          ^""",
    "S1 <= 3)": """\
rule 'equity', line 1, column 8: unexpected ')': there is no '(' before it
  S1 <= 3)
         ^""",
    "max(S1 <= 3": """\
rule 'equity', line 1, column 8: unexpected '<=': expected ',' or ')'
  max(S1 <= 3
         ^^""",
    "2S1 <= 3": """\
rule 'equity', line 1, column 2: unexpected 'S1': between a number and a region write '*', \
as in 2*S4
  2S1 <= 3
   ^^""",
    "S1 => 3": """\
rule 'equity', line 1, column 5: unexpected '>': write '->' for implies, or '>='
  S1 => 3
      ^""",
    "S1 <= 3 & S2 <= 3": """\
rule 'equity', line 1, column 9: unexpected character '&': write 'and'
  S1 <= 3 & S2 <= 3
          ^""",
    "2*S1*S2 <= 3": """\
rule 'equity', line 1, column 6: not linear: a product of two regions
  2*S1*S2 <= 3
       ^^""",
    "1/(S1 + S2) <= 3": """\
rule 'equity', line 1, column 3: not linear: a division by a region
  1/(S1 + S2) <= 3
    ^^^^^^^^^""",
    "S1/(2 - 2) <= 3": """\
rule 'equity', line 1, column 4: division by zero
  S1/(2 - 2) <= 3
     ^^^^^^^""",
    "S2 >= 1 and S1 + 2 <= S1 + 3": """\
rule 'equity', line 1, column 13: a comparison without a region: only numbers are left
  S2 >= 1 and S1 + 2 <= S1 + 3
              ^^^^^^^^^^^^^^^^""",
    "1 <= S1 <= 3 within 6": """\
rule 'equity', line 1, column 1: a band (within) belongs to an equality, and there is no == here
  1 <= S1 <= 3 within 6
  ^^^^^^^^^^^^^^^^^^^^^""",
    "S1 == S2 within -6": """\
rule 'equity', line 1, column 17: the band after 'within' is negative
  S1 == S2 within -6
                  ^^""",
    "max(S1, S2) == 3": """\
rule 'equity', line 1, column 1: max(...) in an equality is not allowed: use <=, >=, < or >
  max(S1, S2) == 3
  ^^^^^^^^^^^^^^^^""",
    "1 + max(S1, S2) <= 3": """\
rule 'equity', line 1, column 5: max(...) must stand alone on one side of a comparison
  1 + max(S1, S2) <= 3
      ^^^^^^^^^^^""",
    "max(S1, S2) <= min(S3, S4)": """\
rule 'equity', line 1, column 1: max(...) or min(...) on both sides: write the comparisons \
one by one
  max(S1, S2) <= min(S3, S4)
  ^^^^^^^^^^^^^^^^^^^^^^^^^^""",
    "S1 <= 1e999": """\
rule 'equity', line 1, column 7: the exponent is outside -200 to 200
  S1 <= 1e999
        ^^^^^""",
    "S1 >= 1 and " * 20 + "S22 <= 3" + " and S1 >= 1" * 20: """\
rule 'equity', line 1, column 241: unknown region 'S22': did you mean 'S2'?
  ...1 and S1 >= 1 and S1 >= 1 and S22 <= 3 and S1 >= 1 and S1 >= 1 and S1 >= 1 and...
                                   ^^^""",
    "(S1 >= 3 in 95 %) or S2 <= 3": """\
rule 'equity', line 1, column 10: unexpected 'in': how surely a rule must hold stands once, at \
the end of the whole rule
  (S1 >= 3 in 95 %) or S2 <= 3
           ^^""",
    "not (S1 >= 3 surely)": """\
rule 'equity', line 1, column 14: unexpected 'surely': how surely a rule must hold stands once, \
at the end of the whole rule
  not (S1 >= 3 surely)
               ^^^^^^""",
    "if S1 > 3 on average then S2 >= 3": """\
rule 'equity', line 1, column 11: unexpected 'on': how surely a rule must hold stands once, at \
the end of the whole rule
  if S1 > 3 on average then S2 >= 3
            ^^""",
    "S1 >= 3 in 95 % and S2 >= 3 in 95 %": """\
rule 'equity', line 1, column 17: unexpected 'and': how surely a rule must hold stands once, at \
the end of the whole rule; write several rules, or (... and ...) in 95 %
  S1 >= 3 in 95 % and S2 >= 3 in 95 %
                  ^^^""",
    "S1 >= 3 in 95 % surely": """\
rule 'equity', line 1, column 17: unexpected 'surely': how surely a rule must hold stands once, \
at the end of the whole rule; write several rules, or (... and ...) in 95 %
  S1 >= 3 in 95 % surely
                  ^^^^^^""",
    "S1 >= 3 in 100 %": """\
rule 'equity', line 1, column 12: 100 % of single runs are all of them: write 'surely'
  S1 >= 3 in 100 %
             ^^^""",
    "S1 >= 3 in 0.0 %": """\
rule 'equity', line 1, column 12: a share lies between 0 % and 100 %, as in 'in 95 %'
  S1 >= 3 in 0.0 %
             ^^^""",
    "S1 >= 3 in 950/3 %": """\
rule 'equity', line 1, column 12: a share lies between 0 % and 100 %, as in 'in 95 %'
  S1 >= 3 in 950/3 %
             ^^^^^""",
    "S1 >= 3 in 0.95": """\
rule 'equity', line 1, column 16: the rule ends too early: expected '%', as in 'in 95 %'
  S1 >= 3 in 0.95
                 ^""",
    "S1 >= 3 in 95 percent": """\
rule 'equity', line 1, column 15: unexpected 'percent': expected '%', as in 'in 95 %'
  S1 >= 3 in 95 percent
                ^^^^^^^""",
    "S1 >= 3 in -5 %": """\
rule 'equity', line 1, column 12: unexpected '-': expected a number
  S1 >= 3 in -5 %
             ^""",
    "S1 >= 3 in S2 %": """\
rule 'equity', line 1, column 12: unexpected 'S2': expected a number
  S1 >= 3 in S2 %
             ^^""",
    "S1 >= 3 in95 %": """\
rule 'equity', line 1, column 9: unexpected 'in95': did you mean 'in'?
  S1 >= 3 in95 %
          ^^^^""",
    "S1 >= 3 Surely": """\
rule 'equity', line 1, column 9: unexpected 'Surely': did you mean 'surely'?
  S1 >= 3 Surely
          ^^^^^^""",
    "S1 >= 3 on averige": """\
rule 'equity', line 1, column 12: unexpected 'averige': did you mean 'average'?
  S1 >= 3 on averige
             ^^^^^^^""",
    "S1 >= 95 %": """\
rule 'equity', line 1, column 10: unexpected '%': a share of single runs is written 'in 95 %'
  S1 >= 95 %
           ^""",
    "S1 in 95 %": """\
rule 'equity', line 1, column 4: unexpected 'in': expected a comparison such as <= or >=
  S1 in 95 %
     ^^""",
    "S1 >= 3 tons": """\
rule 'equity', line 1, column 9: unexpected 'tons': write the number without a unit (then \
follows 'and', 'or', '->' or the end of the rule)
  S1 >= 3 tons
          ^^^^""",
    "": "rule 'equity': the text is empty: write a rule such as S1 <= 300",
    "# only a comment": "rule 'equity': the text is empty: write a rule such as S1 <= 300",
}


@pytest.mark.parametrize(("text", "message"), GOLDEN.items())
def test_the_message(text: str, message: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse(text, regions=REGIONS, rule="equity")
    assert str(caught.value) == message


def test_without_names_the_message_is_shorter():
    with pytest.raises(RuleError) as caught:
        parse("NOT S1 <= 3")
    assert str(caught.value) == (
        "line 1, column 1: unexpected 'NOT': did you mean 'not'?\n  NOT S1 <= 3\n  ^^^"
    )


def test_two_names_in_a_row_are_probably_one_that_needs_quotes():
    with pytest.raises(RuleError, match='in double quotes, as in "wheat north"'):
        parse("wheat north >= 300")


def test_carets_stand_under_wide_and_odd_characters():
    with pytest.raises(RuleError) as caught:
        parse('"東京"\t<= S9', regions=["東京"])
    assert str(caught.value).splitlines()[1:] == ['  "東京" <= S9', "            ^^"]


@pytest.mark.parametrize("text", [None, 3, b"S1 <= 3", ["S1 <= 3"]])
def test_a_rule_is_text(text: Any) -> None:
    with pytest.raises(RuleError, match="a rule is text, not"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("2 S4 >= 3", "between a number and a region write '*', as in 2*S4"),
        ("S1 + 2 S4 >= 3", "between a number and a region write '*', as in 2*S4"),
        ("S1 >= 1_000", "write a number without separators, as in 1000"),
        ("S1 >= 1,000", "write a number without separators, as in 1000"),
        ("S1 != 4", "write 'not (... == ...)'"),
        ("North fields <= 3", "unknown region 'North fields': did you mean '\"north field\"'?"),
        ("North wing <= 3", "unknown region 'North': known are"),
        ("s1 <= 3", "did you mean 'S1'?"),
        ('"NORTH FIELD" <= 3', "did you mean '\"north field\"'?"),
    ],
)
def test_likely_slips_get_a_hint(text: str, hint: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse(text, regions=["S1", "S4", "north field"])
    assert hint in str(caught.value)
