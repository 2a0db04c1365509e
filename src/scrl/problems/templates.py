"""`scrl new`: a commented problem file to start from, for any map."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

from scrl.errors import ProblemError
from scrl.files import replacing
from scrl.problems.load import BUILTIN_FOLDER, load_file, with_long_horizon
from scrl.problems.problem import Problem, ProblemOptions
from scrl.problems.save import changed_fields, copy, value_text
from scrl.rules.show import show_region
from scrl.settings import Setting, settings_of
from scrl.worlds.sweep.maps import MapOptions, load_map
from scrl.worlds.sweep.spec import SweepRoute, SweepSpec
from scrl.worlds.sweep.vehicle import Units, Vehicle, Wind

SAMPLE_MAP = BUILTIN_FOLDER / "agri.geojson"
SAMPLE_OPTIONS = MapOptions(coordinates="plain", extent=(0.0, 0.0, 50.0, 50.0))


def start_problem(folder: Path, map_path: Path | None = None, **options: Any) -> Problem:
    """Copy the map into a new folder, write `problem.toml` beside it, and read it back.

    Without a map of the user's own, a copy of the Agri map is taken; options are `MapOptions`.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ProblemError(f"{folder} exists already and is not an empty folder; name a new one")
    source = map_path or SAMPLE_MAP
    chosen = dataclasses.replace(MapOptions() if map_path else SAMPLE_OPTIONS, **options)
    spec = with_long_horizon(SweepSpec(load_map(source, chosen)))
    text = problem_text(folder.name, source.name, spec, chosen)
    path = folder / "problem.toml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        copy(source, folder / source.name)
        with replacing(path) as file:
            file.write(text.encode())
    except OSError:  # so that the same command can be run again
        shutil.rmtree(folder, ignore_errors=True)
        raise
    problem = load_file(path)
    # A grid that was chosen is given in the file; the warning about the choice is kept.
    regions = dataclasses.replace(problem.world_spec.regions, warnings=spec.regions.warnings)
    world_spec = dataclasses.replace(problem.world_spec, regions=regions)
    return dataclasses.replace(problem, world_spec=world_spec)


def problem_text(name: str, map_name: str, spec: SweepSpec, options: MapOptions) -> str:
    """The commented file: every setting with its meaning, its unit and its default."""
    blocks = [
        "# A problem for scrl. Lines that are commented out show the defaults.\n"
        "# Check it with `scrl check problem.toml`, try it with "
        "`scrl eval problem.toml --policy full-speed`.",
        _table("problem", ProblemOptions(name=name), shown={"name"}),
        _world_table(map_name, spec, options),
        _table("vehicle", Vehicle()),
        _table("wind", Wind()),
        _KEEP_OUT,
        _rules_table(spec),
    ]
    return "\n\n".join(blocks) + "\n"


def _table(name: str, values: Any, shown: frozenset[str] | set[str] = frozenset()) -> str:
    return "\n".join([f"[{name}]", *_lines(values, shown)])


def _lines(values: Any, shown: frozenset[str] | set[str] = frozenset()) -> list[str]:
    """One commented line per setting; those in `shown` are not commented out."""
    lines = []
    for field, known in settings_of(values):
        value = getattr(values, field.name)
        text = _PLACEHOLDERS[field.name] if value is None else value_text(value)
        head = "" if field.name in shown else "# "
        lines.append(f"{head}{field.name} = {text}  # {_comment(known)}")
    return lines


def _comment(known: Setting) -> str:
    extra = "; ".join(part for part in (known.unit, " | ".join(known.choices)) if part)
    return f"{known.sentence}{f' [{extra}]' if extra else ''}"


_PLACEHOLDERS = {
    "cell": "10.0", "step": "1.0", "confidence": "0.95", "flow": "[0.0, 2.25]",
    "dose": "[0.0, 1.5]",
}  # fmt: skip


def _world_table(map_name: str, spec: SweepSpec, options: MapOptions) -> str:
    changed = changed_fields(dataclasses.replace(options, grid=spec.regions.shape), MapOptions())
    lines = [
        "[world]",
        'kind = "sweep"',
        f"map = {value_text(map_name)}  # in this folder: GeoJSON, PNG, TIFF, or .npy",
        *(f"{key} = {value_text(value)}{_MAP_COMMENTS.get(key, '')}" for key, value in changed),
        *(f"# {line}" for line in _MAP_HINTS if line.split(" =")[0] not in dict(changed)),
        *_lines(
            spec.route,
            shown={"service", *(key for key, _ in changed_fields(spec.route, SweepRoute()))},
        ),
        *_lines(Units()),
    ]
    return "\n".join(lines)


_KEEP_OUT = """\
# Nothing may be given in these regions, nor so near to them (metres); it needs a flow from 0 on.
# [keep_out]
# distance = 12.0
# around = ["river"]"""
_MAP_COMMENTS = {"grid": "  # rows, columns"}
_MAP_HINTS = (
    'coordinates = "geographic"  # or "plain": GeoJSON coordinates that are not degrees',
    'crs = "EPSG:27700"  # coordinate system of a GeoJSON map that is not in degrees',
    'region_property = "name"  # GeoJSON property that names a region',
    'field = "boundary"  # shape that outlines the field; "*": nothing outside the regions',
    'forbidden = ["pond"]  # shapes that must not be entered',
    "strict = true  # refuse a GeoJSON map with faults; otherwise it is repaired, with warnings",
)


def _rules_table(spec: SweepSpec) -> str:
    """Example rules with bounds a little above the amounts at full speed, for the user to edit."""
    names = [show_region(name) for name in spec.regions.names]
    per_cell = spec.vehicle.rate / spec.vehicle.max_speed
    received = [float(f"{length * per_cell:.3g}") for length in spec.service.lengths.tolist()]
    about = [
        f"#   {name}: {size} cells, about {amount:g} at full speed"
        for name, size, amount in zip(names, spec.regions.sizes, received, strict=True)
    ]
    more = float(f"{received[0] * 1.2:.3g}")
    lines = [
        "[rules]",
        "# One rule a line: a name of your own, and what must hold. The regions of this map:",
        *about,
        f"adequacy = {value_text(f'{names[0]} >= {more:g}')}",
    ]
    if len(names) > 1:
        high = float(f"{received[1] * 1.2:.3g}")
        text = f"if {names[0]} > {more * 1.1:g} then {names[1]} >= {high:g}"
        lines.append(f"situational = {value_text(text)}")
    return "\n".join(lines)
