"""The nodes of a formula: comparisons of linear expressions, joined by not, and, or, implies.

A rule is a formula, or a `Requirement`: a formula and how surely it must hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Literal, NoReturn, TypeAlias, assert_never, cast, get_args

from scrl.errors import RuleError
from scrl.rules.linear import LinearExpression, Number, bounded, combine, exact, region

Relation: TypeAlias = Literal["<=", ">=", "<", ">", "=="]

MAX_DEPTH = 100
"""Formulas nested deeper than this are refused, so that every later pass may recurse."""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a rule's text: from offset `start` up to, not including, `end`."""

    start: int
    end: int


class _Operators:
    """`&`, `|` and `~` between formulas, and how surely a formula must hold."""

    __slots__ = ()

    def __and__(self, other: Formula) -> And:
        return And((_formula(self), other)) if isinstance(other, _Operators) else NotImplemented

    def __or__(self, other: Formula) -> Or:
        return Or((_formula(self), other)) if isinstance(other, _Operators) else NotImplemented

    def __invert__(self) -> Not:
        return Not(_formula(self))

    def __bool__(self) -> bool:
        _refuse_truth()

    def in_share(self, share: Number) -> Requirement:
        """The rule that the formula holds in this share of single runs, as 0.95."""
        return Requirement(_formula(self), checked_share(share))

    def surely(self) -> Requirement:
        """The rule that the formula holds in every single run."""
        return Requirement(_formula(self), SURELY)

    def on_average(self) -> Requirement:
        """The rule that the formula holds for the mean amounts; the same without any word."""
        return Requirement(_formula(self), None)


def _refuse_truth() -> NoReturn:
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

SURELY = Fraction(1)
"""The share of a rule that must hold in every single run."""
ONCE = "how surely a rule must hold stands once, at the end of the whole rule"


@dataclass(frozen=True, slots=True, init=False)
class Requirement:
    """A whole rule: a formula and how surely it must hold. It is no part of other formulas.

    With a share p: P(the formula holds for the amounts of one run) >= p. Without one the formula
    holds for the mean amounts.
    """

    formula: Formula
    share: Fraction | None
    """Above 0 and at most 1 (`surely`); none: on average."""

    def __init__(self, formula: Formula, share: Fraction | None) -> None:
        if not isinstance(formula, Formula):
            raise RuleError(_not_a_formula(formula))
        if share is not None and share != SURELY:
            checked_share(share)
        object.__setattr__(self, "formula", formula)
        object.__setattr__(self, "share", share)

    def __bool__(self) -> bool:
        _refuse_truth()

    def _joined(self, *_: object) -> NoReturn:
        """Refuses `&`, `|`, `~` and a second share."""
        raise RuleError(f"{ONCE}: join formulas first, as in ((a) & (b)).in_share(0.95)")

    __and__ = __rand__ = __or__ = __ror__ = __invert__ = _joined
    in_share = surely = on_average = _joined


Statement: TypeAlias = Formula | Requirement
"""What a rule says: a formula alone must hold on average."""


def formula_of(statement: Statement) -> Formula:
    """The formula of a rule, without how surely it must hold."""
    return statement.formula if isinstance(statement, Requirement) else statement


def share_of(statement: Statement) -> Fraction | None:
    """The share of single runs in which a rule must hold; none: it must hold on average."""
    return statement.share if isinstance(statement, Requirement) else None


def checked_share(share: Number) -> Fraction:
    """The exact share; raises unless it lies between 0 and 1."""
    number = exact(share)
    if number == 1:
        raise RuleError("a share of 1 would be every run: write surely() for that")
    if not 0 < number < 1:
        raise RuleError(f"the share {share} must lie between 0 and 1, as in in_share(0.95)")
    bounded(100 * number)
    return number


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


def with_values(statement: Statement, values: Mapping[str, LinearExpression]) -> Statement:
    """The same with what some amounts are in their place: a number, or a share of another amount.

    Raises where nothing is left to compare. A comparison of doses is multiplied by the smallest of
    their areas, so that its two sides are amounts.
    """
    if values.keys().isdisjoint(regions_of(formula_of(statement))):
        return statement
    match statement:
        case Requirement(formula=formula, share=share):
            return Requirement(formula_of(with_values(formula, values)), share)
        case Compare():
            return _compare_with(statement, values)
        case Not(part):
            return Not(formula_of(with_values(part, values)))
        case And(parts):
            return And(tuple(formula_of(with_values(part, values)) for part in parts))
        case Or(parts):
            return Or(tuple(formula_of(with_values(part, values)) for part in parts))
        case Implies(premise, conclusion):
            return Implies(
                *(formula_of(with_values(part, values)) for part in (premise, conclusion))
            )
        case _:
            assert_never(statement)


def _compare_with(compare: Compare, values: Mapping[str, LinearExpression]) -> Compare:
    named = {name: values[name] for name in regions_of(compare) if name in values}
    scale = min((1 / each for value in named.values() for _, each in value.terms),
                default=Fraction(1))  # fmt: skip

    def replaced(linear: LinearExpression) -> LinearExpression:
        parts = [(scale * factor, named.get(name) or region(name)) for name, factor in linear.terms]
        return combine([*parts, (scale, LinearExpression((), linear.constant))])

    left, right = replaced(compare.left), replaced(compare.right)
    if dict(left.terms) == dict(right.terms):
        told = " and ".join(
            f"{name} is always {float(value.constant):g} here" for name, value in named.items()
            if value.is_constant
        )  # fmt: skip
        told = told or "both sides are the same but for a number"
        raise RuleError(f"{told}, so nothing is left to choose: leave this comparison out")
    band = None if compare.band is None else scale * compare.band
    return Compare(left, compare.relation, right, band, compare.span)


def _formula(node: object) -> Formula:
    return cast("Formula", node)


def _not_a_formula(part: object) -> str:
    if isinstance(part, Requirement):
        return f"{ONCE}, not in a part of it"
    return f"{part!r} is not a formula"


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
            raise RuleError(_not_a_formula(part))
        deepest = max(deepest, part.depth)
    if deepest >= MAX_DEPTH:
        raise RuleError(f"the formula is nested deeper than {MAX_DEPTH} levels")
    object.__setattr__(node, "depth", deepest + 1)
