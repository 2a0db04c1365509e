"""Conventions of the rule language: the margin of a negation and the band of an equality."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from scrl.errors import RuleError
from scrl.rules.linear import Number, exact


@dataclass(frozen=True, slots=True, init=False)
class Conventions:
    """The meaning of negation and of an equality without `within`."""

    margin: Fraction
    """not (x <= b) means x >= b + margin, in units."""
    equality_band: Fraction
    """x == b without `within` means |x - b| <= equality_band, in units."""

    def __init__(self, margin: Number = 0, equality_band: Number = 0) -> None:
        for name, value in (("margin", margin), ("equality_band", equality_band)):
            number = exact(value)
            if number < 0:
                raise RuleError(f"{name} is {value}: it must be 0 or more")
            object.__setattr__(self, name, number)


DEFAULT = Conventions()
"""Margin and band are 0."""
