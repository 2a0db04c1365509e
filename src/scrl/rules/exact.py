"""Exact numbers: every number in a rule is a fraction, so no boundary is a matter of rounding."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from numbers import Integral
from typing import SupportsFloat, TypeAlias

from scrl.errors import RuleError

Number: TypeAlias = SupportsFloat

MAX_BITS = 512
"""Numerator and denominator of a number in a rule have at most this many bits."""
MAX_LITERAL = 200
"""A number in the text has at most this many characters; its exponent is within +- it."""
MAX_DECIMALS = 20
"""A number with more decimals than this is printed as a fraction."""

_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)$")


def fraction(value: Number) -> Fraction:
    """The exact value of a number; a float is what it prints: 0.1 is 1/10."""
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
    """The same number, if it is small enough to stay fast."""
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
