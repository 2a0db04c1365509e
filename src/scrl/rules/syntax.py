"""The nodes of a formula: comparisons of linear expressions, joined by not, and, or, implies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Literal, TypeAlias, assert_never, cast, get_args

from scrl.errors import RuleError
from scrl.rules.linear import LinearExpression, Number, exact

Relation: TypeAlias = Literal["<=", ">=", "<", ">", "=="]

MAX_DEPTH = 100
"""Formulas nested deeper than this are refused, so that every later pass may recurse."""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a rule's text: from offset `start` up to, not including, `end`."""

    start: int
    end: int


class _Operators:
    """`&`, `|` and `~` between formulas."""

    __slots__ = ()

    def __and__(self, other: Formula) -> And:
        return And((_formula(self), other)) if isinstance(other, _Operators) else NotImplemented

    def __or__(self, other: Formula) -> Or:
        return Or((_formula(self), other)) if isinstance(other, _Operators) else NotImplemented

    def __invert__(self) -> Not:
        return Not(_formula(self))

    def __bool__(self) -> bool:
        raise TypeError(
            "a formula is neither true nor false before densities are known: "
            "use & | ~ instead of and, or, not, and write the chain a <= x <= b "
            "as (a <= x) & (x <= b)"
        )


@dataclass(frozen=True, slots=True, init=False)
class Compare(_Operators):
    """left relation right; an equality may carry a band: |left - right| <= band."""

    left: LinearExpression
    relation: Relation
    right: LinearExpression
    band: Fraction | None
    span: Span | None = field(compare=False)

    depth: ClassVar[int] = 1

    def __init__(
        self,
        left: LinearExpression,
        relation: Relation,
        right: LinearExpression,
        band: Number | None = None,
        span: Span | None = None,
    ) -> None:
        if relation not in get_args(Relation):
            raise RuleError(f"unknown comparison {relation!r}: known are <=, >=, <, >, ==")
        if dict(left.terms) == dict(right.terms):
            raise RuleError("a comparison without a region: only numbers are left")
        object.__setattr__(self, "left", left)
        object.__setattr__(self, "relation", relation)
        object.__setattr__(self, "right", right)
        object.__setattr__(self, "band", None if band is None else _checked_band(band, relation))
        object.__setattr__(self, "span", span)

    def within(self, band: Number) -> Compare:
        """The same equality with a band: |left - right| <= band."""
        return Compare(self.left, self.relation, self.right, band, self.span)


@dataclass(frozen=True, slots=True)
class Not(_Operators):
    """The closed negation of a formula."""

    part: Formula
    depth: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        _set_depth(self, (self.part,))


@dataclass(frozen=True, slots=True)
class And(_Operators):
    """All parts hold; an And among the parts is dissolved into its own parts."""

    parts: tuple[Formula, ...]
    depth: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _flat(And, self.parts))
        _set_depth(self, self.parts)


@dataclass(frozen=True, slots=True)
class Or(_Operators):
    """At least one part holds; an Or among the parts is dissolved into its own parts."""

    parts: tuple[Formula, ...]
    depth: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _flat(Or, self.parts))
        _set_depth(self, self.parts)


@dataclass(frozen=True, slots=True)
class Implies(_Operators):
    """If the premise holds, so does the conclusion: (not premise) or conclusion."""

    premise: Formula
    conclusion: Formula
    depth: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        _set_depth(self, (self.premise, self.conclusion))


Formula: TypeAlias = Compare | Not | And | Or | Implies


def comparisons(formula: Formula) -> Iterator[Compare]:
    """Every comparison in the formula, from left to right."""
    match formula:
        case Compare():
            yield formula
        case Not(part):
            yield from comparisons(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from comparisons(part)
        case Implies(premise, conclusion):
            yield from comparisons(premise)
            yield from comparisons(conclusion)
        case _:
            assert_never(formula)


def regions_of(formula: Formula) -> tuple[str, ...]:
    """The regions in the formula, in order of first appearance."""
    found: dict[str, None] = {}
    for compare in comparisons(formula):
        found.update((name, None) for name, _ in compare.left.terms + compare.right.terms)
    return tuple(found)


def _formula(node: object) -> Formula:
    return cast("Formula", node)


def _checked_band(band: Number, relation: Relation) -> Fraction:
    if relation != "==":
        raise RuleError(f"a band (within) belongs to an equality, not to {relation}")
    width = exact(band)
    if width < 0:
        raise RuleError("the band after 'within' is negative")
    return width


def _flat(kind: type[And] | type[Or], parts: Iterable[Formula]) -> tuple[Formula, ...]:
    flat: list[Formula] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, kind) else (part,))
    if len(flat) < 2:
        raise RuleError(f"'{kind.__name__.lower()}' joins at least two formulas, got {len(flat)}")
    return tuple(flat)


def _set_depth(node: Formula, parts: Iterable[Formula]) -> None:
    deepest = 0
    for part in parts:
        if not isinstance(part, _Operators):
            raise RuleError(f"{part!r} is not a formula")
        deepest = max(deepest, part.depth)
    if deepest >= MAX_DEPTH:
        raise RuleError(f"the formula is nested deeper than {MAX_DEPTH} levels")
    object.__setattr__(node, "depth", deepest + 1)
