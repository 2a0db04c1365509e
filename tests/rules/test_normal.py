"""Meaning and normal forms, worked by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from scrl.errors import RuleError, TooLargeError
from scrl.rules import (
    AllOf,
    AnyOf,
    Atom,
    Conventions,
    Positive,
    branches,
    branches_size,
    clauses,
    clauses_size,
    formula_of,
    holds,
    negation_normal,
    parse,
)
from scrl.rules.normal import readable

# text, margin, S1, holds: the edge of each comparison and of its closed negation.
EDGES = [
    ("S1 <= 300", 0, 300, True),
    ("S1 <= 300", 5, 300.1, False),
    ("not (S1 <= 300)", 0, 300, True),
    ("not (S1 <= 300)", 0, 299.9, False),
    ("not (S1 <= 300)", 5, 304.9, False),
    ("not (S1 <= 300)", 5, 305, True),
    ("S1 > 300", 0, 300, True),
    ("S1 > 300", 5, 304.9, False),
    ("S1 > 300", 5, 305, True),
    ("not (S1 > 300)", 5, 300, True),
    ("not (S1 > 300)", 5, 300.1, False),
    ("not (S1 >= 300)", 5, 295, True),
    ("not (S1 >= 300)", 5, 295.1, False),
    ("S1 < 300", 5, 295, True),
    ("S1 < 300", 5, 296, False),
    ("not (S1 < 300)", 5, 300, True),
    ("not (S1 < 300)", 5, 299, False),
    ("S1 == 300 within 6", 5, 306, True),
    ("S1 == 300 within 6", 5, 306.1, False),
    ("S1 == 300", 5, 302, True),  # the equality band of 2
    ("S1 == 300", 5, 297.9, False),
    ("not (S1 == 300 within 6)", 5, 310.9, False),
    ("not (S1 == 300 within 6)", 5, 311, True),
    ("not (S1 == 300 within 6)", 5, 289, True),
    ("if S1 > 300 then S1 >= 800", 0, 300, True),
    ("if S1 > 300 then S1 >= 800", 0, 300.5, False),
    ("if S1 > 300 then S1 >= 800", 0, 800, True),
    ("0.1*S1 + 0.2*S1 <= 0.3", 0, 1, True),  # in floats 0.1 + 0.2 > 0.3
]


@pytest.mark.parametrize(("text", "margin", "density", "expected"), EDGES)
def test_edges(text: str, margin: int, density: float, expected: bool) -> None:
    agreed = Conventions(margin, equality_band=2)
    formula = formula_of(parse(text))
    assert holds(formula, {"S1": density}, agreed) is expected
    value = Fraction(str(density))
    groups = clauses(negation_normal(formula, agreed))
    kept = [any(a.coefficients[0][1] * value <= a.bound for a in group) for group in groups]
    assert all(kept) is expected


def test_densities_may_be_any_finite_number():
    formula = formula_of(parse("S1 <= 0.5"))
    for density in (np.float32(0.5), np.float64(0.5), np.array(0.5), Fraction(1, 2), 0):
        assert holds(formula, {"S1": density})
    with pytest.raises(RuleError, match="nan is not a finite number"):
        holds(formula, {"S1": float("nan")})
    with pytest.raises(RuleError, match="no density for region 'S1': did you mean 'S12'"):
        holds(formula, {"S12": 1})


def lowered(text: str, **agreed: float) -> object:
    """The normal form as nested lists of texts: ('all', ...) or ('any', ...)."""

    def names(node: Positive) -> object:
        if isinstance(node, Atom):
            return node.show()
        return ("all" if isinstance(node, AllOf) else "any", *map(names, node.parts))

    return names(negation_normal(formula_of(parse(text)), Conventions(**agreed)))


def test_negations_are_pushed_into_the_atoms():
    assert lowered("if S2 > 300 then S3 >= 800") == ("any", "S2 <= 300", "S3 >= 800")
    assert lowered("not (if S2 > 300 then S3 >= 800)") == ("all", "S2 >= 300", "S3 <= 800")
    assert lowered("not (S1 <= 1 and S2 <= 2)", margin=1) == ("any", "S1 >= 2", "S2 >= 3")
    assert lowered("not (S1 <= 1 or not (S2 <= 2))") == ("all", "S1 >= 1", "S2 <= 2")
    equal = ("all", "S1 + S4 - S3 <= 6", "S3 - S1 - S4 <= 6")
    assert lowered("S1 + S4 == S3 within 6") == equal
    apart = ("any", "S1 - S3 <= -7", "S3 - S1 <= -7")
    assert lowered("not (S1 == S3 within 6)", margin=1) == apart


def test_an_atom_is_shown_as_a_person_would_write_it():
    texts = ("S3 >= 800", "S1 + S4 - S3 <= 6", "2*S1 + S2 >= 1/3", "S2 - S1 <= 0")
    for text in texts:
        assert lowered(text) == text
    assert lowered("-S1 + 3 <= S2 - 4") == "S1 + S2 >= 7"


def test_an_atom_remembers_its_rule_and_place():
    text = "if not (S1 >= 300) then\n S1 + S4 == S3 # why\n within 6"
    node = negation_normal(formula_of(parse(text)), rule="equity", text=text)
    assert isinstance(node, AnyOf)
    premise, conclusion = node.parts
    assert isinstance(premise, Atom)
    assert isinstance(conclusion, AllOf)
    low, _ = conclusion.parts
    assert isinstance(low, Atom)
    assert (premise.origin.rule, premise.origin.text) == ("equity", "S1 >= 300")
    span = premise.origin.span
    assert span is not None
    assert text[span.start : span.end] == "S1 >= 300"
    assert low.origin.text == "S1 + S4 == S3 within 6", "several lines: the canonical text"
    assert premise == negation_normal(formula_of(parse("S1 >= 300"))), (
        "the origin is no part of the meaning"
    )


def test_clauses_and_branches_by_hand():
    node = negation_normal(formula_of(parse("(S1 <= 1 and S2 <= 2) or S3 <= 3")))
    shown = [[a.show() for a in group] for group in clauses(node)]
    assert shown == [["S1 <= 1", "S3 <= 3"], ["S2 <= 2", "S3 <= 3"]]
    shown = [[a.show() for a in group] for group in branches(node)]
    assert shown == [["S1 <= 1", "S2 <= 2"], ["S3 <= 3"]]
    assert clauses_size(node) == (2, 4)
    assert branches_size(node) == (2, 3)


def test_repeats_are_dropped_and_the_first_stays():
    node = negation_normal(
        formula_of(parse("(S1 <= 1 or S2 <= 2 or S1 <= 1) and (S2 <= 2 or S1 <= 1)"))
    )
    shown = [[a.show() for a in group] for group in clauses(node)]
    assert shown == [["S1 <= 1", "S2 <= 2"]]


def test_a_form_too_large_is_refused_before_it_is_built():
    text = " or ".join(f"(S1 <= {i} and S2 <= {i} and S3 <= {i} and S4 <= {i})" for i in range(200))
    node = negation_normal(formula_of(parse(text)))
    assert clauses_size(node).groups == 4**200  # about 2.58e+120
    assert len(branches(node)) == 200
    with pytest.raises(TooLargeError) as caught:
        clauses(node, of="rule 'wide'")
    assert str(caught.value) == (
        "rule 'wide' would have about 2.6e+120 clauses with about 5.2e+122 atoms in all, and the "
        "caps are 10,000 clauses and 200,000 atoms: use fewer 'and' inside 'or', "
        "or fewer rules at once"
    )
    with pytest.raises(TooLargeError, match="would have 200 branches with 800 atoms"):
        branches(node, cap=199)
    with pytest.raises(TooLargeError, match="would have 200 branches with 800 atoms"):
        branches(node, atom_cap=799)
    assert len(branches(node, cap=200, atom_cap=800)) == 200


def test_large_counts_are_readable():
    assert readable(12_345) == "12,345"
    assert readable(10**9) == "about 1.0e+9"
    assert readable(999_999_999_999) == "about 1.0e+12"
    assert readable(2**100_000) == "about 1.0e+30103"


def test_numbers_that_grow_too_large_in_a_normal_form_are_a_clean_error():
    formula = formula_of(parse(f"S1/{2**300} <= S1/{3**250}"))
    with pytest.raises(RuleError, match="too large or too precise"):
        negation_normal(formula)
