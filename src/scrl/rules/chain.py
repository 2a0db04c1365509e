"""From the sides of a comparison to formulas: chains, bands, and max or min on one side."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from scrl.errors import RuleError
from scrl.rules.linear import Linear
from scrl.rules.syntax import And, Compare, Formula, Or, Relation, Span

_MIRROR: dict[Relation, Relation] = {"<=": ">=", ">=": "<=", "<": ">", ">": "<", "==": "=="}


class Extremum(NamedTuple):
    """max(...) or min(...), before the comparison around it is known."""

    name: str
    parts: tuple[Linear, ...]


class Side(NamedTuple):
    """One side of a comparison, and where it stands in the text."""

    value: Linear | Extremum
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
        case Linear() as low, Linear() as high:
            return Compare(low, relation, high, own_band[0] if own_band else None, span)
        case Extremum(name, parts), Linear() as high:
            compares = [Compare(part, relation, high, None, span) for part in parts]
            return _extreme(name, relation, compares)
        case Linear() as low, Extremum(name, parts):
            compares = [Compare(low, relation, part, None, span) for part in parts]
            return _extreme(name, _MIRROR[relation], compares)
        case _:
            raise RuleError("max(...) or min(...) on both sides: write the comparisons one by one")


def _extreme(name: str, relation: Relation, compares: list[Compare]) -> Formula:
    """max <= b means all parts are, max >= b that one is; min the other way round."""
    if relation == "==":
        raise RuleError(f"{name}(...) in an equality is not allowed: use <=, >=, < or >")
    if len(compares) == 1:
        return compares[0]
    is_all = (name == "max") == (relation in ("<=", "<"))
    return And(tuple(compares)) if is_all else Or(tuple(compares))
