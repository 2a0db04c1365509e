"""Linear expressions over densities in exact fractions, without rounding."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import SupportsFloat, TypeAlias

from scrl.errors import RuleError, check_text

Number: TypeAlias = SupportsFloat

MAX_BITS = 512
"""Numerator and denominator of a number in a rule have at most this many bits."""
MAX_LITERAL = 200
"""A number in the text has at most this many characters; its exponent is within +- it."""
MAX_DECIMALS = 20
"""A number with more decimals than this is printed as a fraction."""

_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)$")


def fraction(value: Number) -> Fraction:
    """The exact value of a number; a float counts as its printed decimal: 0.1 is 1/10."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise RuleError(f"{value!r} is not a number")
    if isinstance(value, int | Integral):
        return Fraction(int(value))
    try:
        real = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise RuleError(f"{value!r} is not a number") from error
    if not math.isfinite(real):
        raise RuleError(f"{real} is not a finite number")
    return Fraction(repr(real))


def bounded(value: Fraction) -> Fraction:
    """The number itself; raises if it has more than MAX_BITS bits."""
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise RuleError(f"a number becomes too large or too precise (more than {MAX_BITS} bits)")
    return value


def exact(value: Number) -> Fraction:
    """The exact value of a number that stands in a rule."""
    return bounded(fraction(value))


def read_number(literal: str) -> Fraction:
    """The exact value of a number written in a rule's text."""
    if len(literal) > MAX_LITERAL:
        raise RuleError(f"the number is too long (more than {MAX_LITERAL} characters)")
    exponent = _EXPONENT.search(literal)
    if exponent and abs(int(exponent.group(1))) > MAX_LITERAL:
        raise RuleError(f"the exponent is outside -{MAX_LITERAL} to {MAX_LITERAL}")
    return bounded(Fraction(literal))


def show_number(value: Fraction) -> str:
    """The number as text: 300, 0.25, or 1/3 where no short decimal exists."""
    if value.denominator == 1:
        return str(value.numerator)
    scaled = value * 10**MAX_DECIMALS
    if scaled.denominator != 1:
        return f"{value.numerator}/{value.denominator}"
    digits = str(abs(scaled.numerator)).rjust(MAX_DECIMALS + 1, "0")
    whole, decimals = digits[:-MAX_DECIMALS], digits[-MAX_DECIMALS:].rstrip("0")
    return f"{'-' if value < 0 else ''}{whole}.{decimals}"


MAX_NAME = 200
"""A region's name has at most this many characters."""


def checked_name(name: object) -> str:
    """The name itself; raises if it cannot name a region."""
    if not isinstance(name, str):
        raise RuleError(f"a region's name is text, not {name!r}")
    if not name:
        raise RuleError("a region's name is empty")
    if len(name) > MAX_NAME:
        raise RuleError(f"a region's name is too long (more than {MAX_NAME} characters)")
    return check_text(name, f"the region's name {name!a}", error=RuleError)


@dataclass(frozen=True, slots=True, init=False)
class LinearExpression:
    """sum of coefficient * density[region] + constant; merged, in order of first appearance."""

    terms: tuple[tuple[str, Fraction], ...]
    constant: Fraction

    def __init__(self, terms: Iterable[tuple[str, Number]] = (), constant: Number = 0) -> None:
        merged: dict[str, Fraction] = {}
        for name, coefficient in terms:
            _add(merged, checked_name(name), exact(coefficient))
        _fill(self, merged, exact(constant))

    @property
    def is_constant(self) -> bool:
        """No region is left: the value is a plain number."""
        return not self.terms


def region(name: str) -> LinearExpression:
    """The density of one region."""
    return LinearExpression(((name, 1),))


def combine(parts: Iterable[tuple[Fraction, LinearExpression]]) -> LinearExpression:
    """The weighted sum of linear expressions."""
    merged: dict[str, Fraction] = {}
    constant = Fraction(0)
    for weight, part in parts:
        scaled = part if weight == 1 else _scaled(weight, part)
        if merged:
            for name, coefficient in scaled.terms:
                _add(merged, name, coefficient)
        else:
            merged.update(scaled.terms)
        constant = bounded(constant + scaled.constant)
    return _fill(object.__new__(LinearExpression), merged, constant)


def product(left: LinearExpression, right: LinearExpression) -> LinearExpression:
    """left * right, where at most one of them holds a region."""
    if left.is_constant:
        return combine([(left.constant, right)])
    if right.is_constant:
        return combine([(right.constant, left)])
    raise RuleError("not linear: a product of two regions")


def quotient(left: LinearExpression, right: LinearExpression) -> LinearExpression:
    """left / right, where right is a plain number."""
    return combine([(reciprocal(right), left)])


def reciprocal(divisor: LinearExpression) -> Fraction:
    """1 / divisor, where the divisor is a plain number."""
    if not divisor.is_constant:
        raise RuleError("not linear: a division by a region")
    if divisor.constant == 0:
        raise RuleError("division by zero")
    return 1 / divisor.constant


def _scaled(weight: Fraction, part: LinearExpression) -> LinearExpression:
    terms = {name: bounded(weight * coefficient) for name, coefficient in part.terms if weight}
    return _fill(object.__new__(LinearExpression), terms, bounded(weight * part.constant))


def _add(merged: dict[str, Fraction], name: str, coefficient: Fraction) -> None:
    """Adds one term; a coefficient that becomes zero disappears."""
    value = bounded(merged.get(name, Fraction(0)) + coefficient)
    if value:
        merged[name] = value
    else:
        merged.pop(name, None)


def _fill(
    linear: LinearExpression, merged: dict[str, Fraction], constant: Fraction
) -> LinearExpression:
    object.__setattr__(linear, "terms", tuple(merged.items()))
    object.__setattr__(linear, "constant", constant)
    return linear
