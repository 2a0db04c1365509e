"""Formulas by Python operators: `(d["S2"] <= 300) | (d["S3"] >= 800)`."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn, TypeAlias

from scrl.errors import RuleError
from scrl.rules.linear import LinearExpression, Number, combine, product, quotient, region
from scrl.rules.show import dose_name, show_linear
from scrl.rules.syntax import Compare, Formula, Implies, Relation


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A linear expression with Python's operators; a comparison of two gives a formula."""

    linear: LinearExpression

    # Without this, NumPy would make `np.float64(2) * d["S1"]` an array of objects.
    __array_ufunc__ = None
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __str__(self) -> str:
        return show_linear(self.linear)

    def __add__(self, other: Operand) -> Expression:
        return _weighted((1, self), (1, other))

    def __radd__(self, other: Operand) -> Expression:
        return _weighted((1, other), (1, self))

    def __sub__(self, other: Operand) -> Expression:
        return _weighted((1, self), (-1, other))

    def __rsub__(self, other: Operand) -> Expression:
        return _weighted((1, other), (-1, self))

    def __neg__(self) -> Expression:
        return _weighted((-1, self))

    def __pos__(self) -> Expression:
        return self

    def __mul__(self, other: Operand) -> Expression:
        return Expression(product(self.linear, _linear(other)))

    def __rmul__(self, other: Operand) -> Expression:
        return Expression(product(_linear(other), self.linear))

    def __truediv__(self, other: Operand) -> Expression:
        return Expression(quotient(self.linear, _linear(other)))

    def __rtruediv__(self, other: Operand) -> Expression:
        return Expression(quotient(_linear(other), self.linear))

    def __le__(self, other: Operand) -> Compare:
        return self._compare("<=", other)

    def __ge__(self, other: Operand) -> Compare:
        return self._compare(">=", other)

    def __lt__(self, other: Operand) -> Compare:
        return self._compare("<", other)

    def __gt__(self, other: Operand) -> Compare:
        return self._compare(">", other)

    def __eq__(self, other: Operand) -> Compare:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._compare("==", other)

    def __ne__(self, other: Operand) -> NoReturn:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise RuleError("there is no != : write ~(a == b).within(6), with the band you mean")

    def __and__(self, other: object) -> NoReturn:
        raise TypeError("put each comparison in parentheses: (a <= 1) & (b <= 2)")

    __rand__ = __and__

    def __or__(self, other: object) -> NoReturn:
        raise TypeError("put each comparison in parentheses: (a <= 1) | (b <= 2)")

    __ror__ = __or__

    def _compare(self, relation: Relation, other: Operand) -> Compare:
        return Compare(self.linear, relation, _linear(other))


Operand: TypeAlias = Expression | Number


@dataclass(frozen=True, slots=True)
class Densities:
    """`d["S2"]` is the density of region S2."""

    def __getitem__(self, name: str) -> Expression:
        return Expression(region(name))


d = Densities()
"""The densities of all regions: `d["S2"] <= 300`."""


def dose(region_name: str) -> Expression:
    """What a region receives per area: `dose("wheat") >= 22`."""
    return Expression(region(dose_name(region_name)))


def implies(premise: Formula, conclusion: Formula) -> Implies:
    """If the premise holds, so does the conclusion."""
    return Implies(premise, conclusion)


def total(*parts: Operand) -> Expression:
    """The sum of the parts."""
    return _average(parts, "total", 1)


def average(*parts: Operand) -> Expression:
    """The sum of the parts, divided by their number."""
    return _average(parts, "average", len(parts))


def _average(parts: tuple[Operand, ...], name: str, divisor: int) -> Expression:
    if not parts:
        raise RuleError(f"{name}() of nothing: give at least one region")
    weight = Fraction(1, divisor)
    return Expression(combine((weight, _linear(part)) for part in parts))


def _weighted(*parts: tuple[int, Operand]) -> Expression:
    return Expression(combine((Fraction(weight), _linear(part)) for weight, part in parts))


def _linear(operand: Operand) -> LinearExpression:
    return operand.linear if isinstance(operand, Expression) else LinearExpression((), operand)
