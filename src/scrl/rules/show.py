"""The canonical text of a rule: parse(show(rule)) == rule."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import assert_never

from scrl.rules.linear import LinearExpression, show_number
from scrl.rules.syntax import (
    SURELY,
    And,
    Compare,
    Formula,
    Implies,
    Not,
    Or,
    Requirement,
    Statement,
)

KEYWORDS = (
    "if",
    "then",
    "implies",
    "and",
    "or",
    "not",
    "within",
    "in",
    "on",
    "surely",
    "total",
    "average",
    "max",
    "min",
    "dose",
)
"""Reserved words; a region with such a name is written in double quotes."""

_BARE_NAME = re.compile(r"[^\W\d]\w*")
_ESCAPED = re.compile(r"\\(.)")
_DOSE = re.compile(r'dose\(([^\W\d]\w*|"(?:[^"\\\n]|\\["\\])*")\)')


TOTALS = ("time", "distance", "used", "working_time")
"""Amounts of a whole drive; a region of such a name is quoted in rules."""


class Quoted(str):
    """A name that rules show in quotes, because without them it is that of another amount."""

    __slots__ = ()


def region_name(name: str) -> str:
    """The name of a region on a map, in quotes wherever it is shown if a total has it, too."""
    return Quoted(name) if name in TOTALS or is_dose(name) else name


def show_region(name: str) -> str:
    """A region's name as rules on its map write it."""
    return show_name(region_name(name))


def dose_name(region: str) -> str:
    """The name of the amount that a region receives per area."""
    return f"dose({show_region(region)})"


def is_dose(name: str) -> bool:
    """Whether an amount is that of a region per area."""
    found = _DOSE.fullmatch(name)
    return found is not None and dose_name(read_name(found[1])) == name


def show_name(name: str) -> str:
    """The name as the language writes it: bare where possible, else in double quotes."""
    is_bare = (_BARE_NAME.fullmatch(name) and name not in KEYWORDS) or is_dose(name)
    if is_bare and not isinstance(name, Quoted):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def read_quoted(quoted: str) -> str:
    """The name inside double quotes, with \\" and \\\\ resolved."""
    return _ESCAPED.sub(r"\1", quoted[1:-1])


def read_name(shown: str) -> str:
    """The name that the language writes in this way."""
    return read_quoted(shown) if shown.startswith('"') else shown


def show(rule: Statement) -> str:
    """The rule as text that reads back as the same rule."""
    if isinstance(rule, Requirement):
        return f"{_show(rule.formula)} {show_share(rule.share)}"
    return _show(rule)


def show_share(share: Fraction | None) -> str:
    """How surely a rule must hold, as text: in 95 %, surely, on average."""
    if share is None:
        return "on average"
    return "surely" if share == SURELY else f"in {show_number(100 * share)} %"


def _show(formula: Formula) -> str:
    match formula:
        case Compare(left, relation, right, band):
            suffix = "" if band is None else f" within {show_number(band)}"
            return f"{show_linear(left)} {relation} {show_linear(right)}{suffix}"
        case Not(part):
            return f"not ({_show(part)})"
        case And(parts):
            return " and ".join(map(_operand, parts))
        case Or(parts):
            return " or ".join(map(_operand, parts))
        case Implies(premise, conclusion):
            shown = _operand(premise) if isinstance(premise, Implies) else _show(premise)
            return f"if {shown} then {_show(conclusion)}"
        case _:
            assert_never(formula)


def show_linear(linear: LinearExpression) -> str:
    """The linear expression as text: S1 + 2*S4 - 1/3*S3 + 10."""
    constants = (linear.constant,) if linear.constant or not linear.terms else ()
    return show_sum(linear.terms, constants)


def show_sum(terms: Iterable[tuple[str, Fraction]], constants: Iterable[Fraction] = ()) -> str:
    """Terms, then constants, with a sign between each two."""
    pieces = [(coefficient < 0, _term(name, abs(coefficient))) for name, coefficient in terms]
    pieces += [(constant < 0, show_number(abs(constant))) for constant in constants]
    (is_negative, first), *rest = pieces
    shown = "".join(f" {'-' if negative else '+'} {piece}" for negative, piece in rest)
    return f"{'-' if is_negative else ''}{first}{shown}"


def _term(name: str, coefficient: Fraction) -> str:
    factor = "" if coefficient == 1 else f"{show_number(coefficient)}*"
    return factor + show_name(name)


def _operand(formula: Formula) -> str:
    """A part of `and` or `or`, in parentheses where precedence or readability needs them."""
    text = _show(formula)
    return text if isinstance(formula, Compare | Not) else f"({text})"
