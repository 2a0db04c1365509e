"""Converts the parse tree to a formula, bottom-up and without recursion."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from fractions import Fraction
from functools import wraps
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, cast

from lark import Token, Transformer

from scrl.errors import RuleError, did_you_mean
from scrl.rules.errors import Misplaced, no_area, printable
from scrl.rules.linear import LinearExpression, bounded, combine, read_number, reciprocal, region
from scrl.rules.show import KEYWORDS, dose_name, read_quoted, region_name, show_name
from scrl.rules.syntax import (
    And,
    Compare,
    Formula,
    Implies,
    Not,
    Or,
    Relation,
    Requirement,
    Span,
    Statement,
)

_MIRROR: dict[Relation, Relation] = {"<=": ">=", ">=": "<=", "<": ">", ">": "<", "==": "=="}


class Extremum(NamedTuple):
    """max(...) or min(...), before the comparison around it is known."""

    name: str
    parts: tuple[LinearExpression, ...]


class Side(NamedTuple):
    """One side of a comparison, and where it stands in the text."""

    value: LinearExpression | Extremum
    span: Span


def chain(
    sides: Sequence[Side], relations: Sequence[Relation], band: tuple[Fraction, Span] | None
) -> Formula:
    """a <= b <= c is a <= b and b <= c; the band goes to every equality of the chain."""
    if band is not None and "==" not in relations:
        raise RuleError("a band (within) belongs to an equality, and there is no == here")
    links = [
        _link(left, relation, right, band)
        for (left, right), relation in zip(pairwise(sides), relations, strict=True)
    ]
    return links[0] if len(links) == 1 else And(tuple(links))


def _link(
    left: Side, relation: Relation, right: Side, band: tuple[Fraction, Span] | None
) -> Formula:
    own_band = band if relation == "==" else None
    span = Span(left.span.start, own_band[1].end if own_band else right.span.end)
    match left.value, right.value:
        case LinearExpression() as low, LinearExpression() as high:
            return Compare(low, relation, high, own_band[0] if own_band else None, span)
        case Extremum(name, parts), LinearExpression() as high:
            compares = [Compare(part, relation, high, None, span) for part in parts]
            return _extreme(name, relation, compares)
        case LinearExpression() as low, Extremum(name, parts):
            compares = [Compare(low, relation, part, None, span) for part in parts]
            return _extreme(name, _MIRROR[relation], compares)
        case _:
            raise RuleError("max(...) or min(...) on both sides: write the comparisons one by one")


def _extreme(name: str, relation: Relation, compares: list[Compare]) -> Formula:
    """max <= b: all parts are <= b; max >= b: one part is; for min the reverse holds."""
    if relation == "==":
        raise RuleError(f"{name}(...) in an equality is not allowed: use <=, >=, < or >")
    if len(compares) == 1:
        return compares[0]
    is_all = (name == "max") == (relation in ("<=", "<"))
    return And(tuple(compares)) if is_all else Or(tuple(compares))


class Known(NamedTuple):
    """The names that a rule may use."""

    regions: Collection[str]
    totals: Collection[str]
    """Amounts of a whole episode."""


known_names: ContextVar[Known | None] = ContextVar("known_names", default=None)
"""The names that the rule may use, or None for any; threads share the parser."""

_RELATIONS: dict[str, Relation] = {
    "<=": "<=",
    "≤": "<=",
    ">=": ">=",
    "≥": ">=",
    "<": "<",
    ">": ">",
    "==": "==",
    "=": "==",
}


class Piece(NamedTuple):
    """A value that was read, and where it stands."""

    value: LinearExpression | Extremum | Statement
    span: Span


Child: TypeAlias = Piece | Token


def _span(child: Child) -> Span:
    if isinstance(child, Token):
        return Span(cast("int", child.start_pos), cast("int", child.end_pos))
    return child.span


def _placed(action: Callable[[Any, list[Child]], Any]) -> Callable[[Any, list[Child]], Piece]:
    """Attach the place in the text to the action's value, and to an error raised inside it."""

    @wraps(action)
    def with_place(self: object, children: list[Child]) -> Piece:
        span = Span(_span(children[0]).start, _span(children[-1]).end)
        try:
            return Piece(action(self, children), span)
        except RuleError as error:
            raise Misplaced(str(error), span) from error

    return with_place


def _placed_token(action: Callable[[Any, str], LinearExpression]) -> Callable[[Any, Token], Piece]:
    """Attach the place in the text to the value of a single token."""
    on_children = _placed(lambda self, children: action(self, cast("str", children[0])))
    return lambda self, token: on_children(self, [token])


class FormulaTransformer(Transformer[Token, Piece]):
    """One method for each alternative and valued token of grammar.lark; it has no state."""

    @_placed_token
    def NUMBER(self, literal: str) -> LinearExpression:  # noqa: N802 - lark finds it by the token's name
        return LinearExpression((), read_number(literal))

    @_placed_token
    def NAME(self, name: str) -> LinearExpression:  # noqa: N802
        _check_not_region(name, "an amount of the whole drive")
        return _known(str(name))

    @_placed_token
    def QUOTED(self, quoted: str) -> LinearExpression:  # noqa: N802
        return _known(region_name(read_quoted(quoted)))

    @_placed
    def group(self, children: list[Child]) -> LinearExpression | Extremum | Statement:
        return cast("Piece", children[1]).value

    @_placed
    def call(self, children: list[Child]) -> LinearExpression | Extremum:
        name, parts = str(children[0]), [_linear(part) for part in children[2::2]]
        if name in ("max", "min"):
            return Extremum(name, tuple(parts))
        weight = Fraction(1, len(parts) if name == "average" else 1)
        return combine((weight, part) for part in parts)

    @_placed
    def dose(self, children: list[Child]) -> LinearExpression:
        ((name, _),) = _linear(children[2]).terms
        amount = dose_name(name)
        _check_not_region(amount, "an amount per area")
        known = known_names.get()
        if known is not None and name not in known.regions:
            raise RuleError(f"dose(...) takes a region, and '{name}' is an amount of the drive")
        if known is not None and amount not in known.totals:
            raise RuleError(no_area(amount))
        return region(amount)

    @_placed
    def region(self, children: list[Child]) -> LinearExpression:
        found = _linear(children[2])
        ((name, _),) = found.terms
        known = known_names.get()
        if known is not None and name not in known.regions:
            raise RuleError(f"region(...) takes a region, and '{name}' is an amount of the drive")
        return found

    @_placed
    def sign(self, children: list[Child]) -> LinearExpression:
        is_negative = sum(child == "-" for child in children[:-1]) % 2 == 1
        return combine([(Fraction(-1 if is_negative else 1), _linear(children[-1]))])

    @_placed
    def product(self, children: list[Child]) -> LinearExpression:
        factor, linear = Fraction(1), None
        for operator, child in zip(("*", *children[1::2]), children[::2], strict=True):
            value = _linear(child)
            if operator == "*" and not value.is_constant:
                linear = _only_region(linear, value, child)
            else:
                factor *= value.constant if operator == "*" else _reciprocal(value, child)
            bounded(factor)
        return combine([(factor, linear or LinearExpression((), 1))])

    @_placed
    def sum(self, children: list[Child]) -> LinearExpression:
        operators = ("+", *children[1::2])
        return combine(
            (Fraction(-1 if operator == "-" else 1), _linear(child))
            for operator, child in zip(operators, children[::2], strict=True)
        )

    @_placed
    def comparison(self, children: list[Child]) -> Formula:
        band = None
        if getattr(children[-2], "type", "") == "WITHIN":
            band = _band(children[-1]), _span(children[-1])
            children = children[:-2]
        sides = [Side(_side(child), _span(child)) for child in children[::2]]
        return chain(sides, [_RELATIONS[str(child)] for child in children[1::2]], band)

    @_placed
    def denial(self, children: list[Child]) -> Formula:
        return Not(_formula(children[1]))

    @_placed
    def conjunction(self, children: list[Child]) -> Formula:
        return And(tuple(_formula(child) for child in children[::2]))

    @_placed
    def disjunction(self, children: list[Child]) -> Formula:
        return Or(tuple(_formula(child) for child in children[::2]))

    @_placed
    def implication(self, children: list[Child]) -> Formula:
        return Implies(_formula(children[0]), _formula(children[2]))

    @_placed
    def conditional(self, children: list[Child]) -> Formula:
        return Implies(_formula(children[1]), _formula(children[3]))

    @_placed
    def in_share(self, children: list[Child]) -> Requirement:
        return _formula(children[0]).in_share(_share(children[2]))

    @_placed
    def surely(self, children: list[Child]) -> Requirement:
        return _formula(children[0]).surely()

    @_placed
    def on_average(self, children: list[Child]) -> Requirement:
        return _formula(children[0]).on_average()


def _check_not_region(name: str, other: str) -> None:
    """Raise where a region has the name of another amount that rules may name."""
    known = known_names.get()
    if known is not None and name in known.totals and name in known.regions:
        raise RuleError(
            f"'{name}' is a region of this map and {other}: write "
            f'region("{name}") or "{name}", in quotes, for the region; for the other, rename it'
        )


def _known(name: str) -> LinearExpression:
    """An amount that the world knows; a region comes before a total of its name."""
    linear = region(name)
    known = known_names.get()
    if known is None or name in known.regions or name in known.totals:
        return linear
    if name.lower() in KEYWORDS:
        raise RuleError(f"unknown region '{name}': did you mean '{name.lower()}'?")
    names = [*map(show_name, known.regions), *(each for each in known.totals if each.isalpha())]
    raise RuleError(f"unknown region '{printable(name)}'{did_you_mean(name, names)}")


def _side(child: Child) -> LinearExpression | Extremum:
    return cast("LinearExpression | Extremum", cast("Piece", child).value)


def _formula(child: Child) -> Formula:
    return cast("Formula", cast("Piece", child).value)


def _linear(child: Child) -> LinearExpression:
    value = _side(child)
    if isinstance(value, Extremum):
        message = f"{value.name}(...) must stand alone on one side of a comparison"
        raise Misplaced(message, _span(child))
    return value


def _only_region(
    found: LinearExpression | None, factor: LinearExpression, child: Child
) -> LinearExpression:
    if found is not None:
        raise Misplaced("not linear: a product of two regions", _span(child))
    return factor


def _reciprocal(divisor: LinearExpression, child: Child) -> Fraction:
    try:
        return reciprocal(divisor)
    except RuleError as error:
        raise Misplaced(str(error), _span(child)) from error


def _share(child: Child) -> Fraction:
    """The share before `%`."""
    percent = _linear(child).constant
    if percent == 100:
        raise Misplaced("100 % of single runs are all of them: write 'surely'", _span(child))
    if not 0 < percent < 100:
        raise Misplaced("a share lies between 0 % and 100 %, as in 'in 95 %'", _span(child))
    return percent / 100


def _band(child: Child) -> Fraction:
    """The width after `within`."""
    width = _linear(child)
    if not width.is_constant:
        raise Misplaced("the band after 'within' is a number, not a region", _span(child))
    if width.constant < 0:
        raise Misplaced("the band after 'within' is negative", _span(child))
    return width.constant
