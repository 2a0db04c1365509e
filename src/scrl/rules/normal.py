"""Negation normal form: negations are pushed into the atoms, and only `all` and `any` remain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeAlias, assert_never

from scrl.rules.conventions import DEFAULT, Conventions
from scrl.rules.exact import Number, bounded, exact, show_number
from scrl.rules.linear import Linear, combine
from scrl.rules.show import show, show_sum
from scrl.rules.syntax import And, Compare, Formula, Implies, Not, Or, Span


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an atom comes from: the rule's name, the place in its text, and the text there."""

    rule: str | None
    span: Span | None
    text: str


@dataclass(frozen=True, slots=True)
class Atom:
    """sum of coefficient * density[region] <= bound; coefficients are sorted by region."""

    coefficients: tuple[tuple[str, Fraction], ...]
    bound: Fraction
    origin: Origin = field(compare=False)
    _hash: int = field(init=False, repr=False, compare=False)
    """Computed once: fractions are slow to hash, and normal forms hold an atom many times."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.coefficients, self.bound)))

    def __hash__(self) -> int:
        return self._hash

    def loosened(self, by: Number) -> Atom:
        """The same atom with its bound moved by so many units."""
        return replace(self, bound=self.bound + exact(by))

    @property
    def is_at_least(self) -> bool:
        """Whether it reads better the other way round: S3 >= 800 rather than -S3 <= -800."""
        return all(coefficient < 0 for _, coefficient in self.coefficients)

    def show(self) -> str:
        """Readable text of the rule language: S3 >= 800 rather than -S3 <= -800."""
        if self.is_at_least:
            flipped = [(name, -coefficient) for name, coefficient in self.coefficients]
            return f"{show_sum(flipped)} >= {show_number(-self.bound)}"
        positive_first = sorted(self.coefficients, key=lambda term: term[1] < 0)
        return f"{show_sum(positive_first)} <= {show_number(self.bound)}"


@dataclass(frozen=True, slots=True)
class AllOf:
    """All parts hold."""

    parts: tuple[Positive, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part holds."""

    parts: tuple[Positive, ...]


Positive: TypeAlias = Atom | AllOf | AnyOf
"""A formula without negation."""


@dataclass(frozen=True, slots=True)
class _Context:
    """What an atom needs to know about the rule around it."""

    conventions: Conventions
    rule: str | None
    text: str | None


def negation_normal(
    formula: Formula,
    conventions: Conventions = DEFAULT,
    *,
    rule: str | None = None,
    text: str | None = None,
) -> Positive:
    """The same meaning without negation; `rule` and `text` are remembered in every atom."""
    return _positive(formula, _Context(conventions, rule, text), True)


def _positive(formula: Formula, context: _Context, positive: bool) -> Positive:
    match formula:
        case Compare():
            return _atoms(formula, context, positive)
        case Not(part):
            return _positive(part, context, not positive)
        case And(parts):
            return _join(parts, context, positive, is_all=positive)
        case Or(parts):
            return _join(parts, context, positive, is_all=not positive)
        case Implies(premise, conclusion):
            both = (
                _positive(premise, context, not positive),
                _positive(conclusion, context, positive),
            )
            return AnyOf(both) if positive else AllOf(both)
        case _:
            assert_never(formula)


def _join(parts: Iterable[Formula], context: _Context, positive: bool, *, is_all: bool) -> Positive:
    lowered = tuple(_positive(part, context, positive) for part in parts)
    return AllOf(lowered) if is_all else AnyOf(lowered)


def _atoms(compare: Compare, context: _Context, positive: bool) -> Positive:
    """x <= b is x - b <= 0, negated b - x <= -margin; x > b is not (x <= b)."""
    one, margin = Fraction(1), context.conventions.margin
    below = combine([(one, compare.left), (-one, compare.right)])
    above = combine([(-one, below)])
    origin = _origin(compare, context)
    match compare.relation:
        case "<=":
            return _atom(below, Fraction(0), origin) if positive else _atom(above, -margin, origin)
        case ">=":
            return _atom(above, Fraction(0), origin) if positive else _atom(below, -margin, origin)
        case ">":
            return _atom(above, -margin, origin) if positive else _atom(below, Fraction(0), origin)
        case "<":
            return _atom(below, -margin, origin) if positive else _atom(above, Fraction(0), origin)
        case "==":
            band = context.conventions.equality_band if compare.band is None else compare.band
            slack = band if positive else -(band + margin)
            both = (_atom(below, slack, origin), _atom(above, slack, origin))
            return AllOf(both) if positive else AnyOf(both)
        case _:
            assert_never(compare.relation)


def _atom(difference: Linear, slack: Fraction, origin: Origin) -> Atom:
    """difference <= slack, with the constant moved to the right."""
    return Atom(tuple(sorted(difference.terms)), bounded(slack - difference.constant), origin)


def _origin(compare: Compare, context: _Context) -> Origin:
    snippet = ""
    if compare.span is not None and context.text is not None:
        snippet = context.text[compare.span.start : compare.span.end]
    if not snippet or "\n" in snippet:  # a piece over several lines may hold a comment
        snippet = show(compare)
    return Origin(context.rule, compare.span, snippet)
