"""Random formulas, densities and conventions."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Protocol, TypeAlias, TypeVar

from hypothesis import strategies as st

from scrl.rules import (
    And,
    Atom,
    Compare,
    Conventions,
    Formula,
    Implies,
    LinearExpression,
    Not,
    Or,
    Positive,
    Requirement,
    Statement,
    negation_normal,
)
from scrl.rules.syntax import Relation

REGIONS = ("S1", "S2", "S3")

Drawn = TypeVar("Drawn")

Case: TypeAlias = tuple[Formula, Conventions, dict[str, Fraction]]
"""A formula, what was agreed on, and densities."""

# Powers of two: whatever is solved for stays a finite binary fraction, exact in float64.
coefficients = st.sampled_from([Fraction(n) for n in (1, -1, 2, -2, 4)] + [Fraction(1, 2)])
bounds = st.integers(-16, 16).map(lambda n: Fraction(n, 2))
bands = st.none() | st.integers(0, 6).map(lambda n: Fraction(n, 2))
conventions = st.builds(Conventions, st.sampled_from([0, 0, 1, 0.5]), st.sampled_from([0, 2, 0.25]))

wild_names = st.sampled_from(REGIONS) | st.text(
    st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=6
)
wild_names |= st.sampled_from(
    ["in", "on", "surely", "if", "max", "and", "été", "a b", 'a"b', "a\\", "1st", "#", "IF"]
)
wild_numbers = st.fractions(max_denominator=10**9) | st.integers(-(2**500), 2**500).map(Fraction)
wild_numbers |= st.floats(-1e30, 1e30, allow_subnormal=False).map(lambda x: Fraction(repr(x)))
wild_numbers = wild_numbers.filter(lambda x: x.denominator.bit_length() < 500)


def linears(
    names: st.SearchStrategy[str],
    numbers: st.SearchStrategy[Fraction],
    constants: st.SearchStrategy[Fraction] = bounds,
) -> st.SearchStrategy[LinearExpression]:
    """Linear expressions with up to three terms."""
    terms = st.lists(st.tuples(names, numbers), max_size=3, unique_by=lambda term: term[0])
    return st.builds(LinearExpression, terms.map(tuple), constants)


def compares(
    sides: st.SearchStrategy[LinearExpression],
    widths: st.SearchStrategy[Fraction | None] = bands,
) -> st.SearchStrategy[Compare]:
    """Comparisons in which a region is left."""

    def build(
        left: LinearExpression, relation: Relation, right: LinearExpression, band: Fraction | None
    ) -> Compare:
        return Compare(left, relation, right, band if relation == "==" else None)

    pairs = st.tuples(sides, sides).filter(lambda p: dict(p[0].terms) != dict(p[1].terms))
    relations: st.SearchStrategy[Relation] = st.sampled_from(["<=", ">=", "<", ">", "=="])
    return st.builds(lambda p, r, b: build(p[0], r, p[1], b), pairs, relations, widths)


def formulas(leaves: st.SearchStrategy[Compare], max_leaves: int = 6) -> st.SearchStrategy[Formula]:
    """Formulas of every shape over the leaves."""

    def extend(parts: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
        several = st.lists(parts, min_size=2, max_size=3).map(tuple)
        return (
            st.builds(Not, parts)
            | st.builds(And, several)
            | st.builds(Or, several)
            | st.builds(Implies, parts, parts)
        )

    return st.recursive(leaves, extend, max_leaves=max_leaves)


plain = formulas(compares(linears(st.sampled_from(REGIONS), coefficients)))
wild = formulas(
    compares(linears(wild_names, wild_numbers, wild_numbers), st.none() | wild_numbers.map(abs))
)


small_shares = st.integers(1, 8).map(lambda n: Fraction(n, 8))
"""Shares that small samples reach exactly; 1: surely."""
wild_shares = st.fractions(0, 1, max_denominator=10**9) | st.floats(
    0, 1, exclude_min=True, allow_subnormal=False, width=32
).map(lambda x: Fraction(repr(x)))
wild_shares = wild_shares.filter(lambda x: x > 0 and x.denominator.bit_length() < 500)


def statements(
    parts: st.SearchStrategy[Formula], shares: st.SearchStrategy[Fraction] = small_shares
) -> st.SearchStrategy[Statement]:
    """Rules of every kind: formulas, alone and with how surely they must hold."""
    return parts | st.builds(Requirement, parts, st.none() | shares)


def atoms_of(node: Positive) -> list[Atom]:
    """All atoms of a negation normal form."""
    return [node] if isinstance(node, Atom) else [a for part in node.parts for a in atoms_of(part)]


def value(atom: Atom, density: Mapping[str, Fraction]) -> Fraction:
    """a . density"""
    return sum((c * density[name] for name, c in atom.coefficients), start=Fraction(0))


class Draw(Protocol):
    """Draws from a strategy, in a composite one or in a test."""

    def __call__(self, strategy: st.SearchStrategy[Drawn]) -> Drawn: ...


def boundary(
    draw: Draw, formula: Formula, agreed: Conventions, density: dict[str, Fraction]
) -> dict[str, Fraction]:
    """The densities, moved exactly onto the boundary of one of the formula's atoms."""
    atom = draw(st.sampled_from(atoms_of(negation_normal(formula, agreed))))
    name, coefficient = draw(st.sampled_from(atom.coefficients))
    step = (atom.bound - value(atom, density)) / coefficient
    return density | {name: density[name] + step}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A formula, conventions, and densities: often exactly on the boundary of one of its atoms."""
    formula, agreed = draw(plain), draw(conventions)
    density = {name: draw(bounds) for name in REGIONS}
    if draw(st.integers(0, 3)):
        density = boundary(draw, formula if draw(st.booleans()) else ~formula, agreed, density)
    return formula, agreed, density
