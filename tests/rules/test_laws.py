"""Laws that hold for every formula: each pass keeps the meaning that the slow referee gives."""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from scrl.errors import RuleError
from scrl.rules import (
    AllOf,
    And,
    Atom,
    AtomTable,
    Compare,
    Conventions,
    Expression,
    Formula,
    Implies,
    LinearExpression,
    Not,
    Or,
    RuleSet,
    branches,
    branches_size,
    clauses,
    clauses_size,
    comparisons,
    d,
    holds,
    negation_normal,
    parse,
    regions_of,
    show,
)
from scrl.rules.normal import AnyOf, Positive, _expand

from .strategies import (
    REGIONS,
    Case,
    atoms_of,
    boundary,
    cases,
    coefficients,
    compares,
    linears,
    plain,
    value,
    wild,
)

busy = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
many = settings(max_examples=200, **busy)
LARGEST = 500


def is_true(node: Positive, density: dict[str, Fraction]) -> bool:
    if isinstance(node, Atom):
        return value(node, density) <= node.bound
    return (all if isinstance(node, AllOf) else any)(is_true(p, density) for p in node.parts)


@many
@given(wild)
def test_show_then_parse_is_the_identity(formula: Formula) -> None:
    again = parse(show(formula), regions=regions_of(formula))
    assert again == formula
    assert hash(again) == hash(formula)
    assert show(again) == show(formula)


@many
@given(cases())
def test_negation_normal_form_keeps_the_meaning(case: Case) -> None:
    formula, agreed, density = case
    expected = holds(formula, density, agreed)
    assert is_true(negation_normal(formula, agreed), density) == expected


@many
@given(cases())
def test_clauses_and_branches_keep_the_meaning(case: Case) -> None:
    formula, agreed, density = case
    node = negation_normal(formula, agreed)
    assume(clauses_size(node).groups <= LARGEST and branches_size(node).groups <= LARGEST)
    expected = holds(formula, density, agreed)
    true = {atom: is_true(atom, density) for atom in atoms_of(node)}
    assert all(any(true[atom] for atom in clause) for clause in clauses(node)) == expected
    assert any(all(true[atom] for atom in branch) for branch in branches(node)) == expected


@many
@given(plain)
def test_the_predicted_size_is_the_size_before_repeats_are_dropped(formula: Formula) -> None:
    node = negation_normal(formula)
    for predicted, joined, build in (
        (clauses_size(node), AllOf, clauses),
        (branches_size(node), AnyOf, branches),
    ):
        assume(predicted.groups <= LARGEST)
        expanded = _expand(node, joined)
        assert predicted == (len(expanded), sum(map(len, expanded)))
        built = build(node)
        assert len(built) == len({frozenset(group) for group in expanded})
        assert all(len(set(group)) == len(group) for group in built)


@many
@given(cases())
def test_negation_is_closed(case: Case) -> None:
    formula, agreed, density = case
    both = holds(formula, density, agreed), holds(~formula, density, agreed)
    assert holds(~~formula, density, agreed) == both[0]
    if agreed.margin == 0:
        assert any(both), "without a margin one of the two always holds, and both may"
    else:
        assert not all(both), "with a margin the two never meet"


@many
@given(compares(linears(st.sampled_from(REGIONS), coefficients)), st.data())
def test_on_its_boundary_a_comparison_holds_and_so_does_its_negation(
    compare: Compare, data: st.DataObject
) -> None:
    density = boundary(data.draw, compare, Conventions(), dict.fromkeys(REGIONS, Fraction(3)))
    assert holds(compare, density)
    assert holds(~compare, density)


@many
@given(cases(), st.integers(-20, 20))
def test_away_from_boundaries_the_meaning_is_the_classical_one(case: Case, shift: int) -> None:
    formula, agreed, density = case
    # No combination of these with small binary coefficients is a binary fraction.
    generic = {r: density[r] + shift + Fraction(1, 101**k) for k, r in enumerate(REGIONS, start=1)}
    without_margin = Conventions(0, agreed.equality_band)
    expected = _classical(formula, generic, agreed.equality_band)
    assert holds(formula, generic, without_margin) == expected
    assert holds(~formula, generic, without_margin) == (not expected)


def _classical(formula: Formula, density: dict[str, Fraction], band: Fraction) -> bool:
    match formula:
        case Compare(left, "==", right, own):
            width = band if own is None else own
            return abs(_at(left, density) - _at(right, density)) <= width
        case Compare(left, relation, right):
            compare = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
            return compare[relation](_at(left, density), _at(right, density))
        case Not(part):
            return not _classical(part, density, band)
        case And(parts):
            return all(_classical(part, density, band) for part in parts)
        case Or(parts):
            return any(_classical(part, density, band) for part in parts)
        case Implies(premise, conclusion):
            premise_holds = _classical(premise, density, band)
            return not premise_holds or _classical(conclusion, density, band)


def _at(linear: LinearExpression, density: dict[str, Fraction]) -> Fraction:
    return linear.constant + sum(c * density[name] for name, c in linear.terms)


@many
@given(cases(), plain)
def test_the_table_agrees_with_the_meaning_and_cons_vio_is_zero_iff_all_holds(
    case: Case, other: Formula
) -> None:
    formula, agreed, density = case
    for each in (formula, other):
        assume(clauses_size(negation_normal(each, agreed)).groups <= LARGEST)
    # Eighths and small numbers, so that float64 is exact.
    binary = {name: Fraction(round(value * 8), 8) for name, value in density.items()}
    rules = RuleSet.of([formula, other], REGIONS, agreed)
    table = AtomTable.of(rules)
    excess = table.coefficients @ np.array([float(binary[r]) for r in REGIONS]) - table.bounds
    for atom, over in zip(table.atoms, excess, strict=True):
        assert Fraction(over) == value(atom, binary) - atom.bound
    smallest = np.where(table.members, np.maximum(excess, 0.0), np.inf).min(axis=1, initial=np.inf)
    for index, rule in enumerate((formula, other)):
        own = smallest[table.clause_rule == index].sum()
        assert (own == 0) == holds(rule, binary, agreed)
    assert (smallest.sum() == 0) == rules.holds(binary)


@many
@given(cases())
def test_every_atom_can_be_raised_to_text_again(case: Case) -> None:
    formula, agreed, _ = case
    for atom in atoms_of(negation_normal(formula, agreed)):
        assert negation_normal(parse(atom.show())) == atom
        assert atom.origin.text in {show(each) for each in comparisons(formula)}


# The same tree written twice: as text, and as Python.
numbers = st.integers(0, 4).map(Fraction)
leaves = st.sampled_from(REGIONS) | numbers
sums = st.recursive(
    leaves, lambda part: st.tuples(st.sampled_from("+-*/n"), part, part), max_leaves=6
)
conditions = st.recursive(
    st.tuples(st.sampled_from(["<=", ">=", "<", ">", "=="]), sums, sums),
    lambda part: st.tuples(st.sampled_from(["and", "or", "not", "implies"]), part, part),
    max_leaves=4,
)
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
COMPARE = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
}


Tree: TypeAlias = "str | Fraction | tuple[str, Tree, Tree]"


def as_text(tree: Tree) -> str:
    match tree:
        case str() | Fraction():
            return str(tree)
        case ("n", part, _):
            return f"-({as_text(part)})"
        case ("not", part, _):
            return f"not ({as_text(part)})"
        case (sign, left, right) if sign in COMPARE:
            return f"{as_text(left)} {sign} {as_text(right)}"
        case (sign, left, right):
            return f"({as_text(left)} {sign} {as_text(right)})"


def as_expression(tree: Tree) -> Expression:
    match tree:
        case str():
            return d[tree]
        case Fraction():
            # Two plain numbers would be Python's business; a wrapped one is ours.
            return Expression(LinearExpression((), tree))
        case ("n", part, _):
            return -as_expression(part)
        case (sign, left, right):
            return ARITHMETIC[sign](as_expression(left), as_expression(right))


def as_formula(tree: Tree) -> Formula:
    match tree:
        case str() | Fraction():
            raise AssertionError(f"{tree!r} is not a condition")
        case ("not", part, _):
            return ~as_formula(part)
        case ("and", left, right):
            return as_formula(left) & as_formula(right)
        case ("or", left, right):
            return as_formula(left) | as_formula(right)
        case ("implies", left, right):
            return Implies(as_formula(left), as_formula(right))
        case (sign, left, right):
            return COMPARE[sign](as_expression(left), as_expression(right))


@settings(max_examples=300, **busy)
@given(conditions)
def test_python_operators_build_what_the_text_means(tree: Tree) -> None:
    try:
        built = as_formula(tree)
    except RuleError:
        built = None
    try:
        read = parse(as_text(tree))
    except RuleError:
        read = None
    assert read == built
