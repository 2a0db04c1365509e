"""Settings with a unit, a description and a range each, checked when they are built.

A frozen dataclass whose fields are made by `setting` serves as the Python API, the table of a
problem file, the comments that `scrl new` writes, and the reference page in the docs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from scrl.errors import ProblemError, ScrlError, check_text, did_you_mean


@dataclasses.dataclass(frozen=True)
class Setting:
    """The metadata of one field: its description, its unit, and its allowed values."""

    sentence: str
    unit: str = ""
    low: float = -math.inf
    high: float = math.inf
    is_low_open: bool = False
    is_high_open: bool = False
    choices: tuple[str, ...] = ()
    may_break: bool = False
    """Whether a text may have several lines."""

    def range_text(self) -> str:
        """The allowed range as text, for messages."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        low = f"{'above' if self.is_low_open else 'at least'} {self.low:g}"
        high = f"{'below' if self.is_high_open else 'at most'} {self.high:g}"
        parts = [low] if math.isfinite(self.low) else []
        parts += [high] if math.isfinite(self.high) else []
        return " and ".join(parts) or "a finite number"

    def is_allowed(self, value: float) -> bool:
        """Whether a number lies in the range."""
        above = value > self.low if self.is_low_open else value >= self.low
        below = value < self.high if self.is_high_open else value <= self.high
        return math.isfinite(value) and above and below


def setting(default: Any, sentence: str, **limits: Any) -> Any:
    """A dataclass field with its description and its limits."""
    return dataclasses.field(default=default, metadata={"setting": Setting(sentence, **limits)})


def settings_of(table: Any) -> list[tuple[dataclasses.Field[Any], Setting]]:
    """The fields of a settings class with their metadata, in order."""
    return [
        (field, field.metadata["setting"])
        for field in dataclasses.fields(table)
        if "setting" in field.metadata
    ]


def check_settings(table: Any, *, error: type[ScrlError] = ProblemError) -> None:
    """Raise an error for the first field whose value is of the wrong type or out of range."""
    for field, known in settings_of(table):
        value = getattr(table, field.name)
        checked = _checked(value, field, known, error)
        if checked is not value:
            object.__setattr__(table, field.name, checked)


def _checked(
    value: Any, field: dataclasses.Field[Any], known: Setting, error: type[ScrlError]
) -> Any:
    name = field.name
    if value is None and field.default is None:
        return value
    if isinstance(value, tuple | list) and "tuple" in _plain_type(field):
        return value  # checked by its class
    if known.choices:
        if value not in known.choices:
            hint = did_you_mean(str(value), known.choices)
            raise error(f"{name} = {value!r:.60} is not {known.range_text()}{hint}")
        return value
    check: Callable[[Any], Any] | None = _CHECKS.get(_plain_type(field))
    if check is None:
        return value
    number = check(value)
    if number is None:
        raise error(f"{name} = {value!r:.60} must be {_ARTICLES[_plain_type(field)]}")
    if isinstance(number, str):
        return check_text(number, name, may_break=known.may_break, error=error)
    if not known.is_allowed(number):
        raise error(f"{name} = {value!r:.60} must be {known.range_text()}")
    return number


def _plain_type(field: dataclasses.Field[Any]) -> str:
    """The field's type without `| None` (annotations are text here)."""
    return str(field.type).replace(" | None", "")


def _as_float(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e300 else None


def _as_int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _as_str(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _as_bool(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "float": _as_float,
    "int": _as_int,
    "str": _as_str,
    "bool": _as_bool,
}
_ARTICLES = {
    "float": "a finite number",
    "int": "a whole number",
    "str": "a text",
    "bool": "true or false",
}
