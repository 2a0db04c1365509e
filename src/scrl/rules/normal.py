"""Normal forms: negations in atoms only, then clauses (and of ors) and branches (or of ands)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain, product
from typing import NamedTuple, TypeAlias, assert_never

from scrl.errors import TooLargeError
from scrl.rules.conventions import DEFAULT, Conventions
from scrl.rules.linear import LinearExpression, Number, bounded, combine, exact, show_number
from scrl.rules.show import dose_name, show, show_sum
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
        """The atom with its bound moved by this many units."""
        return replace(self, bound=self.bound + exact(by))

    def in_doses(self, totals: Mapping[str, LinearExpression | None]) -> Atom:
        """The same of a region's dose, where the rule is about that; `totals` know its area."""
        ((name, factor), *others) = self.coefficients
        dose = dose_name(name)
        if others or dose not in self.origin.text or (known := totals.get(dose)) is None:
            return self
        ((_, per_unit),) = known.terms
        sign = Fraction(1 if factor > 0 else -1)
        return Atom(((dose, sign),), bounded(self.bound * per_unit / abs(factor)), self.origin)

    @property
    def is_at_least(self) -> bool:
        """Whether it is shown as a lower bound: S3 >= 800 rather than -S3 <= -800."""
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
    """The rule that an atom belongs to, and the conventions it is read by."""

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
    """The formula without negation; every atom stores `rule` and its place in `text`."""
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


def _atom(difference: LinearExpression, slack: Fraction, origin: Origin) -> Atom:
    """difference <= slack, with the constant moved to the right."""
    return Atom(tuple(sorted(difference.terms)), bounded(slack - difference.constant), origin)


def _origin(compare: Compare, context: _Context) -> Origin:
    snippet = ""
    if compare.span is not None and context.text is not None:
        snippet = context.text[compare.span.start : compare.span.end]
    if not snippet or "\n" in snippet:  # a piece over several lines may hold a comment
        snippet = show(compare)
    return Origin(context.rule, compare.span, snippet)


MAX_GROUPS = 10_000
"""A normal form has at most this many clauses or branches."""
MAX_ATOMS = 200_000
"""All clauses or branches of a normal form together hold at most this many atoms."""


Groups: TypeAlias = tuple[tuple[Atom, ...], ...]
"""Clauses (each a disjunction) or branches (each a conjunction)."""


class Size(NamedTuple):
    """How large a normal form is before equal atoms and groups are dropped."""

    groups: int
    atoms: int


def clauses(
    node: Positive, *, cap: int = MAX_GROUPS, atom_cap: int = MAX_ATOMS, of: str = "the formula"
) -> Groups:
    """Conjunctive normal form: all clauses hold, each by at least one of its atoms."""
    check_size(clauses_size(node), "clauses", of, cap, atom_cap)
    return _without_repeats(_expand(node, AllOf))


def branches(
    node: Positive, *, cap: int = MAX_GROUPS, atom_cap: int = MAX_ATOMS, of: str = "the formula"
) -> Groups:
    """Disjunctive normal form: one of the branches holds, with all of its atoms."""
    check_size(branches_size(node), "branches", of, cap, atom_cap)
    return _without_repeats(_expand(node, AnyOf))


def clauses_size(node: Positive) -> Size:
    """How large `clauses` will be, before repeats are dropped."""
    return _size(node, AllOf)


def branches_size(node: Positive) -> Size:
    """How large `branches` will be, before repeats are dropped."""
    return _size(node, AnyOf)


def _size(node: Positive, joined: type[AllOf] | type[AnyOf]) -> Size:
    """Groups add up under the node type `joined`, and multiply under the other."""
    if isinstance(node, Atom):
        return Size(1, 1)
    sizes = [_size(part, joined) for part in node.parts]
    if isinstance(node, joined):
        return Size(sum(size.groups for size in sizes), sum(size.atoms for size in sizes))
    groups, atoms = 1, 0
    for size in sizes:
        groups, atoms = groups * size.groups, atoms * size.groups + size.atoms * groups
    return Size(groups, atoms)


def _expand(node: Positive, joined: type[AllOf] | type[AnyOf]) -> list[tuple[Atom, ...]]:
    if isinstance(node, Atom):
        return [(node,)]
    parts = [_expand(part, joined) for part in node.parts]
    if isinstance(node, joined):
        return [group for part in parts for group in part]
    return [tuple(chain.from_iterable(choice)) for choice in product(*parts)]


def _without_repeats(groups: Iterable[tuple[Atom, ...]]) -> Groups:
    """Each atom once in a group, each set of atoms once; the first stays."""
    unique_groups: dict[frozenset[Atom], tuple[Atom, ...]] = {}
    for group in groups:
        unique = tuple(dict.fromkeys(group))
        unique_groups.setdefault(frozenset(unique), unique)
    return tuple(unique_groups.values())


def check_size(
    size: Size, noun: str, of: str, cap: int = MAX_GROUPS, atom_cap: int = MAX_ATOMS
) -> None:
    """Raise where a normal form would be larger than its caps."""
    if size.groups <= cap and size.atoms <= atom_cap:
        return
    advice = "'and' inside 'or'" if noun == "clauses" else "alternatives ('or', 'if', not ==)"
    raise TooLargeError(
        f"{of} would have {readable(size.groups)} {noun} with {readable(size.atoms)} atoms "
        f"in all, and the caps are {cap:,} {noun} and {atom_cap:,} atoms: "
        f"use fewer {advice}, or fewer rules at once"
    )


def readable(count: int) -> str:
    """A count as text: 12,345, or about 2.6e+120 for a very large one."""
    if count < 10**9:
        return f"{count:,}"
    exponent = math.floor(math.log10(count))
    mantissa = 10 ** (math.log10(count) - exponent)
    if mantissa >= 9.95:
        mantissa, exponent = 1.0, exponent + 1
    return f"about {mantissa:.1f}e+{exponent}"
