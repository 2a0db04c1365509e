"""30,000 random and mutated rules: a formula or a clean error, never anything else, never slow.

Processor time is measured, so that a busy machine does not fail a test.
"""

from __future__ import annotations

import random
import time
from typing import get_args

import pytest

from scrl.errors import RuleError
from scrl.rules import Statement, parse

CHUNKS, PER_CHUNK = 10, 3_000
REGIONS = ("S1", "S2", "S3", "S4", "north field")
VALID = (
    "S2 <= 300",
    "S1 + 2*S4 - S3 >= 10",
    "S1 + S4 == S3 within 6",
    "if S2 > 300 then S3 >= 800",
    "100 <= S1 <= 300 # a comment",
    'not ("north field" >= 3 or S1/2 < 1e3) -> max(S1, S2) <= 2*(S3 + 1)',
    "if not (S1 >= 300) then S1 + S4 == S3 within 6",
    "total(S1, S2) >= 3 and average(S1, S3) = S4 and min(S1, S2) ≥ 0.5",
    "if S2 > 300 then S3 >= 800 in 95 %",
    "S1 <= 3 or S2 >= 4 surely",
    "S1 + S4 == S3 within 6 on average",
)
TOKENS = (
    *("if", "then", "and", "or", "not", "implies", "within", "max(", "min(", "total(", "average("),
    *("in", "on", "surely", "average", "%", "95 %", "in 95 %", "in 100 %", "on average"),
    *("S1", "S2", "S3", "S22", '"north field"', '"', "\\", "(", ")", ",", "+", "-", "*", "/"),
    *("<=", ">=", "<", ">", "==", "=", "->", "≤", "0", "1", "2.5", ".5", "1e9", "1e999", "9" * 60),
    *("\n", "#", "\t", "$", "é", "٣", "\ud800", "\x00"),
)


def byte_soup(rng: random.Random) -> str:
    return rng.randbytes(rng.randrange(60)).decode("latin-1")


def token_soup(rng: random.Random) -> str:
    return " ".join(rng.choices(TOKENS, k=rng.randrange(1, 25)))


def mutated(rng: random.Random) -> str:
    text = list(rng.choice(VALID))
    for _ in range(rng.randrange(1, 5)):
        place = rng.randrange(len(text) + 1)
        cut = place + rng.choice((0, 0, 1, 1, 4))
        text[place:cut] = rng.choice(("", "", *TOKENS, chr(rng.randrange(0x3000))))
    return "".join(text)


def joined(rng: random.Random) -> str:
    return rng.choice((" and ", " or ", " -> ", " ", "\n")).join(rng.choices(VALID, k=3))


def nested(rng: random.Random) -> str:
    size = rng.choice((3, 90, 150, 400))
    opening = rng.choice(("(", "not ", "not (", "if S1 <= 1 then ", "-", "max(", "2*("))
    return opening * size + "S1 <= 3" + ")" * rng.choice((0, size, size + 1))


def huge_numbers(rng: random.Random) -> str:
    digits = "".join(rng.choices("0123456789.eE-+", k=rng.choice((5, 40, 300))))
    return f"S1*{digits} <= {digits}*S2/{rng.randrange(10**40)}"


KINDS = (*(byte_soup,) * 8, *(token_soup,) * 12, *(mutated,) * 14, joined, huge_numbers)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_formula_or_a_clean_error(chunk: int) -> None:
    rng = random.Random(chunk)
    formulas, errors = 0, []
    for number in range(PER_CHUNK):
        kind = nested if number % 100 == 0 else rng.choice(KINDS)
        text = kind(rng)
        regions = REGIONS if number % 2 else None
        start = time.thread_time()
        try:
            formulas += isinstance(parse(text, regions=regions, rule="fuzz"), get_args(Statement))
        except RuleError as error:
            errors.append(str(error))
        assert time.thread_time() - start < 1.0, text[:200]
    assert len(errors) > PER_CHUNK // 50, "the fuzz must also reach rules that are wrong"
    assert all(error.startswith("rule 'fuzz'") for error in errors)
    assert all(error.replace("\n", "").isprintable() for error in errors)
    assert formulas > PER_CHUNK // 50, "the fuzz must also reach valid rules"


MANY = 10_000
LARGE = [
    ("(" * MANY + "S1 <= 3" + ")" * MANY, "parentheses nested deeper than 100 levels"),
    ("(" * MANY + "S1" + ")" * MANY + " <= 3", "parentheses nested deeper than 100 levels"),
    ("not (" * MANY + "S1 <= 3" + ")" * MANY, "parentheses nested deeper than 100 levels"),
    ("not " * MANY + "S1 <= 3", "the formula is nested deeper than 100 levels"),
    ("if S1 <= 1 then " * 3_000 + "S1 <= 3", "the formula is nested deeper than 100 levels"),
    ("S1 <= 1 -> " * 3_000 + "S1 <= 3", "the formula is nested deeper than 100 levels"),
    ("2*" * 9_000 + "S1 <= 3", "a number becomes too large or too precise"),
    ("+".join(["S1"] * 60_000) + " <= 3", "more than 20,000 words and signs"),
    ("0.5*(2*(" * 45 + "S1+" * 9_000 + "S1" + "))" * 45 + "<= 3", "so many nested parentheses"),
    ("S1 <= 3 and " * 20_000 + "S1 <= 3", "longer than 200,000 characters"),
    ('"' * 100_000, "more than 20,000 words and signs"),
    ('"' + "\\" * 100_001, "more than 20,000 words and signs"),
    ('"' + "S" * 100_000, "the quoted name does not end"),
    ("S" * 150_000 + " <= 3", "a region's name is too long"),
    ("S1 <= " + "9" * 150_000, "the number is too long"),
    (" " * 150_000 + "x", "unknown region 'x'"),
    ("S1 <= 3" + " in 95 %" * 4_000, "stands once, at the end of the whole rule"),
    ("S1 <= 3 in " + "9" * 150_000 + " %", "the number is too long"),
    ("S1 <= 3 in 1/" + "9" * 190 + " %", "too large or too precise"),
    ("S1 <= " + "-" * 15_000, "the rule ends too early"),
]


@pytest.mark.parametrize(("text", "message"), LARGE, ids=range(len(LARGE)))
def test_large_mistakes_are_clean_errors_in_under_a_second(text: str, message: str) -> None:
    start = time.thread_time()
    with pytest.raises(RuleError, match=message) as caught:
        parse(text, regions=REGIONS, rule="large")
    assert time.thread_time() - start < 1.0
    assert len(str(caught.value)) < 500


SLOW = {
    "1,000 atoms": " and ".join(f"S{i} + 2*S{i + 1} <= {i}" for i in range(1_000)),
    "a sum of 4,000 regions": "+".join(f"S{i}" for i in range(4_000)) + " <= 3",
    "minus signs before a sum": "-" * 9_000
    + "("
    + "+".join(f"S{i}" for i in range(4_000))
    + ")<=3",
    "a large maximum": "max(" + ",".join(f"S{i}" for i in range(2_000)) + ") <= "
    "(" + "+".join(f"T{i}" for i in range(2_000)) + ")",
    "nested sums": "(" * 90 + "+".join(f"S{i}" for i in range(1_000)) + ")+x" * 90 + " <= 3",
}


@pytest.mark.parametrize("text", SLOW.values(), ids=SLOW)
def test_large_rules_parse_in_under_a_second(text: str) -> None:
    parse("S1 <= 3")
    start = time.thread_time()
    parse(text)
    assert time.thread_time() - start < 1.0
