"""What each piece of the rule language means, worked by hand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest

from scrl.errors import RuleError
from scrl.rules import (
    And,
    Compare,
    Implies,
    LinearExpression,
    Not,
    Or,
    PlacedRuleError,
    Requirement,
    Span,
    formula_of,
    parse,
    show,
)

S1, S2, S3, S4 = (LinearExpression(((f"S{i}", 1),)) for i in range(1, 5))


def number(value: int) -> LinearExpression:
    return LinearExpression((), value)


def test_a_comparison_keeps_both_sides_as_written():
    assert parse("S2 <= 300") == Compare(S2, "<=", number(300))
    left = LinearExpression((("S1", 1), ("S4", 2), ("S3", -1)))
    assert parse("S1 + 2*S4 - S3 >= 10") == Compare(left, ">=", number(10))
    assert parse("10 >= S1") == Compare(number(10), ">=", S1)
    assert parse("10 >= S1") != parse("S1 <= 10")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("S1+S1 <= 3", "2*S1 <= 3"),
        ("S1*2 + S4/2 < 1", "2*S1 + 0.5*S4 < 1"),
        ("2*(S1+S3) - -S4 > .5", "2*S1 + 2*S3 + S4 > 0.5"),
        ("-S1 + 3 <= S2 + 1e3 - 2.5", "-S1 + 3 <= S2 + 997.5"),
        ("--S1 - ---S2 + +S3 <= 0", "S1 + S2 + S3 <= 0"),
        ("S1/3 = 1/7", "1/3*S1 == 1/7"),
        ("S1 - S1 + S2 >= 0.10", "S2 >= 0.1"),
        ("S1 ≤ 3 and S2 ≥ 4", "S1 <= 3 and S2 >= 4"),
        ("100 <= S1 <= 300", "100 <= S1 and S1 <= 300"),
        ("S1 = S2 = S3 within 6", "S1 == S2 within 6 and S2 == S3 within 6"),
        ("1 <= S1 == S2 within 1/3", "1 <= S1 and S1 == S2 within 1/3"),
        ("total(S1, S2, 3) >= average(S1, S2)", "S1 + S2 + 3 >= 0.5*S1 + 0.5*S2"),
        ("max(S1, S2) <= 3", "S1 <= 3 and S2 <= 3"),
        ("max(S1, S2) >= 3", "S1 >= 3 or S2 >= 3"),
        ("min(S1, S2) > 3", "S1 > 3 and S2 > 3"),
        ("min(S1, S2) < 3", "S1 < 3 or S2 < 3"),
        ("3 >= max(S1, 2*S2)", "3 >= S1 and 3 >= 2*S2"),
        ("3 >= min(S1, S2)", "3 >= S1 or 3 >= S2"),
        ("max(S1) <= 3", "S1 <= 3"),
        ("if S2 > 300 then S3 >= 800", "if S2 > 300 then S3 >= 800"),
        ("S2 > 300 -> S3 >= 800", "if S2 > 300 then S3 >= 800"),
        ("S2 > 300 implies S3 >= 800", "if S2 > 300 then S3 >= 800"),
        ("S1<=1 -> S1<=2 -> S1<=3", "if S1 <= 1 then if S1 <= 2 then S1 <= 3"),
        ("(S1<=1 -> S1<=2) -> S1<=3", "if (if S1 <= 1 then S1 <= 2) then S1 <= 3"),
        ("S1<=1 or S1<=2 and not S1<=3", "S1 <= 1 or (S1 <= 2 and not (S1 <= 3))"),
        ("S1<=1 and (S1<=2 and S1<=3)", "S1 <= 1 and S1 <= 2 and S1 <= 3"),
        ("if S1<=1 or S2<=2 then S3<=3", "if S1 <= 1 or S2 <= 2 then S3 <= 3"),
        ("((S1)) <= ((3)) # why", "S1 <= 3"),
        ('"north \\"field\\" \\\\" <= 3', '"north \\"field\\" \\\\" <= 3'),
        ('"S1" <= "if"', 'S1 <= "if"'),
        ("Straße_2 <= été", "Straße_2 <= été"),
        ("S1 <= 3 # first\n  and # second\n\tS2 <= 4", "S1 <= 3 and S2 <= 4"),
        ("S1 >= 3 in 95%", "S1 >= 3 in 95 %"),
        ("S1 >= 3 or S2 <= 4 in 99.50 %", "S1 >= 3 or S2 <= 4 in 99.5 %"),
        ("S1 >= 3 -> S2 <= 4 in 2e1 %", "if S1 >= 3 then S2 <= 4 in 20 %"),
        ("not S1 >= 3 in 1/3 %", "not (S1 >= 3) in 1/3 %"),
        ("1 <= S1 <= 3 surely # why", "1 <= S1 and S1 <= 3 surely"),
        ("S1 == S2 within 6 on\naverage", "S1 == S2 within 6 on average"),
        ("average(S1, S2) >= 3 on average", "0.5*S1 + 0.5*S2 >= 3 on average"),
        ('"in" >= on_1 in 5 %', '"in" >= on_1 in 5 %'),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert show(parse(text)) == canonical
    assert parse(canonical) == parse(text)


def test_numbers_are_exact():
    compare = parse("0.1*S1 + 0.2*S1 == 1e-3 within 0.3")
    assert isinstance(compare, Compare)
    assert compare.left.terms == (("S1", Fraction(3, 10)),)
    assert compare.right.constant == Fraction(1, 1000)
    assert compare.band == Fraction(3, 10)


def test_and_or_are_flat_and_implies_nests_to_the_right():
    a, b, c = (formula_of(parse(f"S{i} <= 0")) for i in (1, 2, 3))
    assert parse("S1 <= 0 or S2 <= 0 or S3 <= 0") == Or((a, b, c)) == Or((Or((a, b)), c))
    assert And((a, And((b, c)))).parts == (a, b, c)
    assert parse("not S1 <= 0 -> S2 <= 0 -> S3 <= 0") == Implies(Not(a), Implies(b, c))


@pytest.mark.parametrize(
    "text", ["S1 <= 1 or S2 <= 2", "if S1 <= 1 then S2 <= 2", "S1 <= 1 -> S2 <= 2 -> S3 <= 3"]
)
def test_a_share_is_of_the_whole_rule(text: str) -> None:
    formula = formula_of(parse(text))
    assert parse(f"{text} in 95 %") == parse(f"({text}) in 95 %") == formula.in_share(0.95)
    assert parse(f"{text} surely") == formula.surely() == Requirement(formula, Fraction(1))
    assert parse(f"{text} on average") == formula.on_average() == Requirement(formula, None)
    assert parse(f"{text} in 95 %") != parse(f"{text} surely") != parse(text)


def test_a_comparison_knows_its_place():
    text = "if not (S1 >= 300) then S1 + S4 == S3 within 6"
    implies = parse(text)
    assert isinstance(implies, Implies)
    assert isinstance(implies.premise, Not)
    assert isinstance(implies.premise.part, Compare)
    assert implies.premise.part.span == Span(8, 17)
    assert isinstance(implies.conclusion, Compare)
    span = implies.conclusion.span
    assert span is not None
    assert text[span.start : span.end] == "S1 + S4 == S3 within 6"
    plain, indented = parse("S1 <= 3"), parse("  S1 <= 3")
    assert isinstance(plain, Compare)
    assert isinstance(indented, Compare)
    assert (plain.span, indented.span) == (Span(0, 7), Span(2, 9))
    assert plain == indented, "the place is no part of the meaning"
    assert len({plain, indented}) == 1


def test_errors_carry_line_and_column():
    with pytest.raises(PlacedRuleError) as caught:
        parse("S1 <= 3 and\n  S9 <= 4", regions=["S1"])
    assert (caught.value.line, caught.value.column) == (2, 3)
    assert isinstance(caught.value, RuleError)


def test_threads_do_not_share_the_known_regions():
    def read(name: str) -> str:
        return show(parse(f"{name} <= 1 and {name} >= 0", regions=[name]))

    names = [f"R{i}" for i in range(200)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(read, names)) == [f"{n} <= 1 and {n} >= 0" for n in names]
