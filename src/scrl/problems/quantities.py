"""Quantities with units in problem files: "12 km/h", "60 l/min", "200 l/ha"."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from scrl.errors import ProblemError
from scrl.worlds.sweep.regions import RegionMap
from scrl.worlds.sweep.spec import HECTARE, SweepRoute, SweepSpec, cell_sides
from scrl.worlds.sweep.vehicle import UNNAMED, Units

_QUANTITY = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(\S.*?)\s*")
_SPEEDS = {"km/h": 1 / 3.6, "m/s": 1.0}
"""In metres per second."""
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}
_SYNONYMS = {"litre": "l", "liter": "l", "kilogram": "kg", "gallon": "gal", "tonne": "t"}
_SQUARE_METRES = {"ha": HECTARE, "m2": 1.0}
KINDS = {
    "max_speed": "speed", "transfer_speed": "speed", "turn_time": "time", "rate": "flow",
    "flow": "flow", "dose": "dose",
}  # fmt: skip
"""The keys of [vehicle] whose values may have a unit."""
_EXAMPLES = {"speed": "12 km/h or 3 m/s", "time": "10 s", "flow": "60 l/min", "dose": "200 l/ha"}


@dataclass(frozen=True)
class Scale:
    """What cells and steps are on the ground."""

    units: Units
    path_cell_m2: float
    """Square metres that a cell of the path covers with its swath."""

    def written(self, values: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
        """The values of [vehicle] as they were written before, where they still are the same."""

        def is_same(key: str) -> bool:
            return key in before and toml_value(self._plain(key, before[key])) == toml_value(
                values[key]
            )

        return {key: before[key] if is_same(key) else value for key, value in values.items()}

    def read(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of [vehicle] in cells and steps."""
        return {key: self._plain(key, value) for key, value in values.items()}

    def _plain(self, key: str, value: Any) -> Any:
        if isinstance(value, list):
            return [self._plain(key, each) for each in value]
        if key not in KINDS or not isinstance(value, str):
            return value
        found, kind = _QUANTITY.fullmatch(value), KINDS[key]
        size = None if found is None else self._size(kind, found[2], f"{key} = {value!r}")
        if found is None or size is None:
            raise ProblemError(f"{key} = {value!r:.60} is no {kind}: write {_EXAMPLES[kind]}")
        return float(found[1]) * size

    def _size(self, kind: str, unit: str, what: str) -> float | None:
        """One such unit in cells, steps and units of product; None where it is unknown."""
        step, cell = self.units.step, self.units.cell
        if kind == "speed" and unit in _SPEEDS:
            return _SPEEDS[unit] * _known(step, "step", what) / _known(cell, "cell", what)
        if kind == "time":
            length = _SECONDS.get(unit)
            return None if length is None else length / _known(step, "step", what)
        product, _, per = unit.partition("/")
        if not product.strip() or kind == "speed":
            return None
        self._check_product(product, what)
        if kind == "flow" and per in _SECONDS:
            return _known(step, "step", what) / _SECONDS[per]
        if kind == "dose" and per in _SQUARE_METRES:
            _known(cell, "cell", what)
            return self.path_cell_m2 / _SQUARE_METRES[per]
        return None

    def _check_product(self, product: str, what: str) -> None:
        """Raise where a quantity is of something else than what is given out."""
        unit = self.units.unit
        if unit != UNNAMED and _short(product) != _short(unit):
            raise ProblemError(f"{what}: what is given out is told in {unit} (unit in [world])")


def _short(unit: str) -> str:
    """A unit of product without its plural and spelling."""
    name = unit.strip().casefold()
    name = name.removesuffix("s") or name
    return _SYNONYMS.get(name, name)


@contextmanager
def told_as_written(values: Mapping[str, Any]) -> Iterator[None]:
    """Let messages about a vehicle, in cells and steps, say as well what was written."""
    try:
        yield
    except ProblemError as error:
        written = [
            f"{key} = {value!r:.80}"
            for key, value in values.items()
            if key in KINDS
            and any(
                isinstance(each, str) for each in (value if isinstance(value, list) else [value])
            )
            and re.search(rf"\b{key}\b", str(error))
        ]
        if not written:
            raise
        told = f"{error}; this is in cells and steps, from {', '.join(written)}"
        raise ProblemError(told) from None


def toml_value(value: Any) -> Any:
    """A value as TOML gives it back: with lists in place of tuples."""
    return [toml_value(each) for each in value] if isinstance(value, tuple) else value


def scale_of(regions: RegionMap, route: SweepRoute, units: Units) -> Scale:
    """What cells and steps of a map are on the ground."""
    sides = math.prod(cell_sides(regions, route))
    return Scale(units, route.swath * sides * (units.cell or 1.0) ** 2)


def as_written(
    spec: SweepSpec, values: Mapping[str, Any], before: Mapping[str, Any]
) -> dict[str, Any]:
    """The values of [vehicle] as a file has them, with their units, where they did not change."""
    try:
        return scale_of(spec.regions, spec.route, spec.units).written(values, before)
    except ProblemError:  # a length that the file's quantities need is not there any more
        return dict(values)


def _known(length: float | None, key: str, what: str) -> float:
    if length is None:
        unit = {"step": "seconds", "cell": "metres"}[key]
        raise ProblemError(f"{what} needs the length of a {key}: {key} = ... ({unit}) in [world]")
    return length
