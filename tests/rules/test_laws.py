"""Laws that hold for every formula: each pass keeps the meaning that the slow referee gives."""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import pytest
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
    Requirement,
    Rule,
    RuleSet,
    Statement,
    branches,
    branches_size,
    clauses,
    clauses_size,
    comparisons,
    d,
    formula_of,
    holds,
    holds_in_runs,
    negation_normal,
    parse,
    regions_of,
    share_of,
    show,
)
from scrl.rules.linear import show_number
from scrl.rules.normal import AnyOf, Positive, _expand

from .strategies import (
    REGIONS,
    Case,
    atoms_of,
    boundary,
    bounds,
    cases,
    coefficients,
    compares,
    formulas,
    linears,
    plain,
    small_shares,
    statements,
    value,
    wild,
    wild_shares,
)

busy = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
many = settings(**busy)
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
@given(statements(wild, wild_shares))
def test_the_share_of_a_rule_survives_show_and_parse(rule: Statement) -> None:
    again = parse(show(rule), regions=regions_of(formula_of(rule)))
    assert again == rule
    assert hash(again) == hash(rule)
    assert (formula_of(again), share_of(again)) == (formula_of(rule), share_of(rule))
    assert Rule.read("rule", show(rule)).statement == Rule.read("rule", rule).statement == rule


@many
@given(plain, plain, small_shares.filter(lambda share: share < 1))
def test_a_share_has_the_lowest_precedence(one: Formula, other: Formula, share: Fraction) -> None:
    text = f"in {show_number(100 * share)} %"
    for joined, word in ((And((one, other)), "and"), (Or((one, other)), "or")):
        assert parse(f"({show(one)}) {word} ({show(other)}) {text}") == joined.in_share(share)
    whole = Implies(one, other).in_share(share)
    assert parse(f"if {show(one)} then {show(other)} {text}") == whole
    assert parse(f"({show(one)}) -> {show(other)} {text}") == whole
    for nested in (f"({show(one)} {text})", f"not ({show(one)} {text})"):
        with pytest.raises(RuleError, match="stands once, at the end"):
            parse(nested)


clashing = ("time", "used", "dose(S1)", "S1")


@many
@given(formulas(compares(linears(st.sampled_from(clashing), coefficients))))
def test_rules_on_regions_that_are_called_like_totals_read_back(formula: Formula) -> None:
    totals = {**dict.fromkeys(("time", "used", "distance")), "dose(S1)": d["S1"].linear}
    rule = Rule.read("rule", formula, clashing, totals)
    assert rule.formula == formula
    assert Rule.read("rule", rule.text, clashing, totals) == rule
    for atom in atoms_of(negation_normal(rule.formula)):
        again = Rule.read("rule", atom.show(), clashing, totals)
        assert negation_normal(again.formula) == atom


samples = st.lists(st.fixed_dictionaries(dict.fromkeys(REGIONS, bounds)), min_size=1, max_size=9)


@many
@given(cases(), samples, small_shares)
def test_a_share_asks_for_runs_and_an_average_for_their_mean(
    case: Case, runs: list[dict[str, Fraction]], share: Fraction
) -> None:
    formula, agreed, density = case
    runs = [density, *runs]
    kept = [holds(formula, run, agreed) for run in runs]
    required = Requirement(formula, share)
    assert holds_in_runs(required, runs, agreed) == (sum(kept) >= share * len(kept))
    assert holds_in_runs(formula.surely(), runs, agreed) == all(kept)
    mean = {name: sum(run[name] for run in runs) / len(runs) for name in REGIONS}
    for average in (formula, formula.on_average()):
        assert holds_in_runs(average, runs, agreed) == holds(formula, mean, agreed)
    # Where runs cannot differ, a share means the same as an average.
    assert holds_in_runs(required, [density] * 3, agreed) == kept[0]
    if not agreed.margin:
        # The closed negation: a run may keep both, and so at least one holds in half of them.
        half = Fraction(1, 2)
        either = (Requirement(part, half) for part in (formula, ~formula))
        assert any(holds_in_runs(each, runs, agreed) for each in either)


@many
@given(st.lists(statements(plain), min_size=1, max_size=3), samples, small_shares)
def test_a_confidence_asks_all_rules_of_the_same_runs(
    rules: list[Statement], runs: list[dict[str, Fraction]], share: Fraction
) -> None:
    assume(share < 1)
    bare = [each for each in rules if isinstance(each, Formula) or each.share is not None]
    assume(bare)
    rule_set = RuleSet.of(bare, REGIONS, confidence=share)
    kept = [all(holds(formula_of(each), run) for each in bare) for run in runs]
    own = all(holds_in_runs(each, runs) for each in bare if not isinstance(each, Formula))
    assert rule_set.holds_in_runs(runs) == (sum(kept) >= share * len(runs) and own)
    alone = RuleSet.of([Requirement(formula_of(each), share) for each in bare], REGIONS)
    assert alone.holds_in_runs(runs) or not rule_set.holds_in_runs(runs), "together is stricter"
    assert rule_set.on_average() == RuleSet.of([formula_of(each) for each in bare], REGIONS)
    assert all(asked is not None and asked >= share for asked in rule_set.shares)


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
        assert negation_normal(formula_of(parse(atom.show()))) == atom
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


@many
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
