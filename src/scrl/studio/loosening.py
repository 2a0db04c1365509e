"""Writes a loosening into the texts of rules: the number that bounds an atom is changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from scrl.errors import ScrlError
from scrl.rules import Span
from scrl.rules.linear import show_number
from scrl.studio.document import RuleText
from scrl.studio.errors import StudioError

if TYPE_CHECKING:
    from scrl.problems import Problem
    from scrl.reference import Loosened

NUMBER = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|#[^\n]*|[^\W\d]\w*'
    r"|(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
)
"""Matches names and comments too, so that no number inside them is found."""


def numbers_in(text: str) -> list[Span]:
    """The places of the numbers in a rule's text, as the page marks them."""
    return [Span(*each.span()) for each in NUMBER.finditer(text) if each["number"]]


def with_number(text: str, span: Span, value: Fraction | float) -> str:
    """The text with another number at a place."""
    shown = show_number(Fraction(value).limit_denominator(10**6))
    return text[: span.start] + shown + text[span.end :]


def loosen(
    rules: Sequence[RuleText], loosening: Sequence[Loosened], world: Problem
) -> tuple[RuleText, ...]:
    """The rules with every bound of a loosening changed in their texts."""
    found = list(rules)
    for each in loosening:
        index = next((at for at, rule in enumerate(found) if rule.name == each.rule), None)
        if index is None:
            raise StudioError(f"there is no rule '{each.rule}' any more: ask again")
        found[index] = _loosened(found[index], each, world)
    return tuple(found)


def _loosened(rule: RuleText, wanted: Loosened, world: Problem) -> RuleText:
    for text in _candidates(rule.text, wanted):
        atoms = _atoms(rule.name, text, world)
        if wanted.to in atoms and wanted.atom not in atoms:
            return replace(rule, text=text)
    raise StudioError(
        f"rule '{rule.name}' has no single number to change: write by hand that "
        f"{wanted.atom} becomes {wanted.to}"
    )


def _candidates(text: str, wanted: Loosened) -> Iterator[str]:
    """Texts with one number moved up or down; then with the comparison itself replaced."""
    by = Fraction(str(wanted.by))
    for span in reversed(numbers_in(text)):
        value = Fraction(text[span.start : span.end])
        yield with_number(text, span, value + by)
        yield with_number(text, span, max(value - by, Fraction(0)))
    for shown in (wanted.atom, wanted.atom.replace(" ", "")):
        if text.count(shown) == 1:
            yield text.replace(shown, wanted.to)


def _atoms(name: str, text: str, world: Problem) -> frozenset[str]:
    """The atoms of a rule as text; none where it cannot be read."""
    try:
        atoms = world.with_rules({name: text}).atoms.atoms
        totals = world.world_spec.known_totals
        return frozenset(atom.in_doses(totals).show() for atom in atoms)
    except ScrlError:
        return frozenset()
