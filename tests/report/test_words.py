"""Rules in plain words: sentences by hand, and truth against the arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrl.report.words import RuleDescriber, Said
from scrl.rules import AtomTable, Conventions, RuleSet, formula_of, parse
from scrl.violation import rule_margins

REGIONS = ("S1", "S2", "S3", "S4")


def say_of(density: Mapping[str, float], text: str, unit: str = "units") -> Said:
    return RuleDescriber(density, Conventions(), 1e-6, lambda _: unit).say(formula_of(parse(text)))


def say(text: str, unit: str = "units", /, **density: float) -> Said:
    return say_of(density, text, unit)


@pytest.mark.parametrize(
    ("text", "density", "is_held", "words"),
    [
        ("S3 >= 800", {"S3": 801.0}, True, "S3 received 801, 1 more than needed"),
        ("S3 >= 800", {"S3": 751.25}, False, "S3 received 751.25, 48.75 less than needed"),
        ("S2 <= 300", {"S2": 298.0}, True, "S2 received 298, 2 below the limit"),
        ("S2 < 300", {"S2": 348.75}, False, "S2 received 348.75, 48.75 over the limit"),
        ("300 >= S2", {"S2": 298.0}, True, "S2 received 298, 2 below the limit"),
        ("not (S2 > 300)", {"S2": 298.0}, True, "S2 received 298, 2 below the limit"),
        ("S3 >= 800", {"S3": 800.0}, True, "S3 received 800, exactly the least that is allowed"),
        ("S3 >= 1200", {"S3": 1234.5}, True, "S3 received 1,234.5, 34.5 more than needed"),
        (
            "S1 + S4 == S3 within 6",
            {"S1": 301.5, "S4": 321.75, "S3": 618.75},
            True,
            "S1 and S4 together received 623.25 and S3 received 618.75: 4.5 apart, 6 allowed",
        ),
        (
            "S1 == 300 within 5",
            {"S1": 290.0},
            False,
            "S1 received 290 against 300: 10 apart, 5 allowed",
        ),
        ("S1 - 2*S3 <= 3", {"S1": 9.0, "S3": 2.0}, False, "S1 - 2*S3 comes to 5, 2 over the limit"),
        (
            "S1 >= S3",
            {"S1": 9.0, "S3": 2.0},
            True,
            "S1 received 9, S3 received 2: 7 more than needed",
        ),
    ],
)
def test_a_comparison_in_words(
    text: str, density: dict[str, float], is_held: bool, words: str
) -> None:
    said = say_of(density, text)
    assert (said.is_held, said.text) == (is_held, words)


def test_the_unit_is_named_where_it_has_a_name() -> None:
    assert say("S3 >= 800", "litres", S3=801.0).text == "S3 received 801 litres, 1 more than needed"


def test_every_label_has_its_own_unit() -> None:
    units = {"trips": "trips", "km": "kilometres"}

    def unit_of(names: Iterable[str]) -> str:
        found = {units[name] for name in names}
        return found.pop() if len(found) == 1 else "units"

    teller = RuleDescriber({"trips": 24.9, "km": 3.0}, Conventions(), 1e-6, unit_of)
    said = teller.say(formula_of(parse("trips >= 20 and km <= 5 and trips + km >= 20")))
    assert [part.text.split(",")[0] for part in said.parts] == [
        "trips received 24.9 trips",
        "km received 3 kilometres",
        "trips and km together received 27.9",
    ]


def test_a_condition_that_is_met() -> None:
    said = say("if S2 > 300 then S3 >= 800", S2=364.5, S3=801.0)
    assert (said.is_held, said.kind) == (True, "if")
    assert said.text == "The condition is met, and so is what it asks for."
    assert [part.text for part in said.parts] == [
        "S2 received 364.5, above 300",
        "S3 received 801, 1 more than needed",
    ]
    assert all(part.is_used for part in said.parts)


def test_a_condition_that_is_met_in_vain() -> None:
    said = say("if S2 > 300 then S3 >= 800", S2=364.5, S3=700.0)
    assert not said.is_held
    assert said.text == "The condition is met, but not what it asks for."


@pytest.mark.parametrize("amount", [298.0, 300.0])
def test_a_condition_that_is_not_met(amount: float) -> None:
    """At 300 the closed negation holds: nothing is asked there either."""
    said = say("if S2 > 300 then S3 >= 800", S2=amount, S3=700.0)
    assert said.is_held
    assert said.text == "The condition is not met, so nothing more is asked."
    condition, asked = said.parts
    assert condition.text == f"S2 received {amount:.0f}, not above 300"
    assert (asked.text, asked.is_used) == ("it would ask for S3 >= 800", False)


def test_a_rule_with_a_choice_rests_on_the_way_farthest_inside() -> None:
    said = say("S1 >= 300 or S3 >= 300 or S4 >= 300", S1=301.5, S3=218.75, S4=321.75)
    assert said.text == "One way is enough: 2 of the 3 are met."
    assert [(part.is_held, part.is_used) for part in said.parts] == [
        (True, False),
        (False, False),
        (True, True),
    ]
    one = say("S1 >= 300 or not (S2 <= 3)", S1=301.5, S2=1.0)
    assert one.text == "One way is enough: S1 >= 300 is met."
    broken = say("S1 >= 300 or S3 >= 300", S1=100.0, S3=218.75)
    assert broken.text == "None of the 2 ways is met; one is needed."
    assert [part.is_used for part in broken.parts] == [False, True]


def test_all_parts_are_counted() -> None:
    said = say("S1 >= 300 and S3 >= 300", S1=301.5, S3=218.75)
    assert (said.is_held, said.text) == (False, "1 of 2 are met; all are needed.")


def atoms() -> st.SearchStrategy[str]:
    name, number = st.sampled_from(REGIONS), st.integers(0, 20)
    compare = st.builds(
        "{} {} {}".format, name, st.sampled_from(["<=", ">=", "<", ">"]), st.one_of(name, number)
    )
    band = st.builds("{} == {} within {}".format, name, number, number)
    return st.one_of(compare, band).filter(lambda text: text.split()[0] != text.split()[2])


def formulas() -> st.SearchStrategy[str]:
    return st.recursive(
        atoms(),
        lambda inner: st.one_of(
            st.builds("({} and {})".format, inner, inner),
            st.builds("({} or {})".format, inner, inner),
            st.builds("(if {} then {})".format, inner, inner),
            st.builds("not ({})".format, inner),
        ),
        max_leaves=6,
    )


@given(formulas(), st.tuples(*[st.integers(0, 20)] * len(REGIONS)))
def test_what_is_said_is_what_the_arrays_say(text: str, amounts: tuple[int, ...]) -> None:
    """The margin of the words is that of the clauses, and so is the verdict."""
    rules = RuleSet.of(text, REGIONS)
    density: dict[str, float] = dict(zip(REGIONS, map(float, amounts), strict=True))
    teller = RuleDescriber(density, rules.conventions, 1e-6)
    formula = rules.rules[0].formula
    [margin] = rule_margins(AtomTable.of(rules), np.array(amounts), 1)
    assert teller.slack(formula) == pytest.approx(margin)
    assert teller.say(formula).is_held == (margin >= -1e-6)
