"""The settings of a problem as tables of a problem file."""

from __future__ import annotations

import dataclasses
from typing import Any

from scrl.errors import ScrlError
from scrl.problems import Problem, ProblemOptions
from scrl.problems.quantities import KINDS, toml_value
from scrl.problems.save import changed_fields
from scrl.settings import settings_of
from scrl.studio.document import Settings
from scrl.studio.errors import StudioError
from scrl.worlds.sweep.spec import SweepRoute, cell_on_map
from scrl.worlds.sweep.vehicle import Units, Vehicle, Wind

TABLES: dict[str, tuple[type[Any], ...]] = {
    "problem": (ProblemOptions,),
    "world": (SweepRoute, Units),
    "vehicle": (Vehicle,),
    "wind": (Wind,),
}
"""The settings classes behind the tables of a problem file."""


def field_names(part: Any) -> list[str]:
    """The keys of a settings class."""
    return [each.name for each in dataclasses.fields(part)]


def keys_of(table: str) -> list[str]:
    """The keys of a table."""
    return [name for part in TABLES[table] for name in field_names(part)]


def settings_of_problem(problem: Problem) -> dict[str, dict[str, Any]]:
    """The settings of a problem that differ from their defaults, and its service."""
    spec = problem.world_spec
    units = spec.units
    if units.cell == cell_on_map(spec.regions, spec.route):
        units = dataclasses.replace(units, cell=None)
    world = {
        "service": spec.route.service,
        **dict(changed_fields(spec.route, SweepRoute())),
        **dict(changed_fields(units, Units())),
    }
    return {
        "problem": dict(changed_fields(problem.options, ProblemOptions())),
        "world": world,
        "vehicle": dict(changed_fields(spec.vehicle, Vehicle())),
        "wind": dict(changed_fields(spec.wind, Wind())),
    }


def settings_in_file(tables: dict[str, Any], vehicle: Vehicle) -> dict[str, dict[str, Any]]:
    """The settings that a problem file gives, without those of its map.

    Quantities with units are those of the vehicle, in cells and steps.
    """
    found = {}
    for table in TABLES:
        values = tables.get(table, {})
        found[table] = {key: values[key] for key in keys_of(table) if key in values}
    quantities = {
        key: toml_value(getattr(vehicle, key)) for key in found["vehicle"] if key in KINDS
    }
    found["vehicle"].update(quantities)
    return found


def read_settings(part: type[Any], settings: Settings, table: str) -> Any:
    """A settings class with the values of a table."""
    values = settings.get(table, {})
    try:
        return part(**{key: values[key] for key in field_names(part) if key in values})
    except ScrlError as error:
        raise StudioError(f"[{table}] {error}") from None


def forms_of(settings: Settings) -> list[dict[str, Any]]:
    """The settings as fields of forms: value, default, sentence, unit and range."""
    return [
        {
            "table": table, "key": each.name, "type": str(each.type),
            "value": settings.get(table, {}).get(each.name), "default": each.default,
            "sentence": known.sentence, "unit": known.unit, "choices": list(known.choices),
            "range": known.range_text(),
        }
        for table, parts in TABLES.items()
        for part in parts
        for each, known in settings_of(part)
    ]  # fmt: skip
