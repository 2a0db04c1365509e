"""Clauses (and of ors) and branches (or of ands), each with its size known before it is built."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain, product
from typing import NamedTuple, TypeAlias

from scrl.errors import TooLargeError
from scrl.rules.normal import AllOf, AnyOf, Atom, Positive

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
    kept: dict[frozenset[Atom], tuple[Atom, ...]] = {}
    for group in groups:
        unique = tuple(dict.fromkeys(group))
        kept.setdefault(frozenset(unique), unique)
    return tuple(kept.values())


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
    """12,345, or about 2.6e+120 where the digits say nothing."""
    if count < 10**9:
        return f"{count:,}"
    exponent = math.floor(math.log10(count))
    mantissa = 10 ** (math.log10(count) - exponent)
    if mantissa >= 9.95:
        mantissa, exponent = 1.0, exponent + 1
    return f"about {mantissa:.1f}e+{exponent}"
