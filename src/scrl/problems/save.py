"""Saves problems as files that `load` reads back to an equal problem."""

from __future__ import annotations

import dataclasses
import filecmp
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from scrl.errors import ProblemError
from scrl.files import replacing
from scrl.problems.problem import Problem, ProblemOptions
from scrl.problems.quantities import as_written
from scrl.worlds.sweep.keep_out import KeepOut
from scrl.worlds.sweep.maps import MapOptions, load_map
from scrl.worlds.sweep.regions import RegionMap
from scrl.worlds.sweep.scanline import Edges
from scrl.worlds.sweep.spec import SweepRoute
from scrl.worlds.sweep.vehicle import Units, Vehicle, Wind

_LITERAL = re.compile(r"[^'\\\x00-\x1f\x7f]*")
"""Matches texts that TOML can hold in single quotes without escapes."""
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def value_text(value: Any) -> str:
    """A text, number, truth value or list of them, as TOML writes it."""
    match value:
        case bool():
            return "true" if value else "false"
        case str() if '"' in value and _LITERAL.fullmatch(value):
            return f"'{value}'"
        case str():
            # JSON's escapes are TOML's, except that TOML also wants DEL escaped.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case int() | float():
            return repr(value)
        case list() | tuple():
            return "[" + ", ".join(value_text(item) for item in value) + "]"
        case _:
            raise TypeError(f"{type(value).__name__} has no TOML form here")


def key_text(key: str) -> str:
    """A key, quoted where it must be."""
    return key if _BARE_KEY.fullmatch(key) else value_text(key)


def save(problem: Problem, path: Path | str) -> Path:
    """Write the problem file and its map beside it; an existing file is never overwritten."""
    path = Path(path)
    if path.suffix != ".toml":
        raise ProblemError(f"{path}: a problem file's name ends in .toml")
    spec = problem.world_spec
    options = problem.source.options if problem.source else _options_of_map(spec.regions)
    quantities = problem.source.quantities if problem.source else {}
    map_path = path.parent / _map_name(problem, path)
    if path.exists() or (map_path.exists() and not _is_same_map(problem, map_path)):
        taken = path if path.exists() else map_path
        raise ProblemError(f"{taken} exists already; choose another name or folder")
    sections = {
        "problem": dict(changed_fields(problem.options, ProblemOptions())),
        "world": {
            "kind": "sweep",
            "service": spec.route.service,
            "map": map_path.name,
            **dict(changed_fields(options, MapOptions())),
            **dict(changed_fields(spec.route, SweepRoute())),
            **dict(changed_fields(spec.units, Units())),
        },
        "vehicle": as_written(spec, dict(changed_fields(spec.vehicle, Vehicle())), quantities),
        "wind": dict(changed_fields(spec.wind, Wind())),
        "keep_out": _keep_out(problem),
        "rules": {rule.name: rule.text for rule in problem.own_rules},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_map(problem, map_path)
    with replacing(path) as file:
        file.write(sections_text(sections).encode())
    return path


def _keep_out(problem: Problem) -> dict[str, Any]:
    """The keys of the keep-out area; that of a map built in Python is a region with a rule."""
    kept = problem.source.keep_out if problem.source else None
    if kept is None:
        return {}
    return {"distance": kept.distance, **dict(changed_fields(kept, KeepOut()))}


def copy(source: Path, target: Path) -> None:
    """Copy a file's content."""
    with source.open("rb") as read, replacing(target) as file:
        shutil.copyfileobj(read, file)


def sections_text(sections: dict[str, dict[str, Any]]) -> str:
    """The text of a TOML file with these tables; empty ones are left out."""
    blocks = []
    for name, values in sections.items():
        if values:
            lines = [f"{key_text(key)} = {value_text(value)}" for key, value in values.items()]
            blocks.append("\n".join([f"[{name}]", *lines]))
    return "\n\n".join(blocks) + "\n"


def changed_fields(part: Any, default: Any) -> list[tuple[str, Any]]:
    """The fields that differ from their default, in order."""
    pairs = ((field.name, getattr(part, field.name)) for field in dataclasses.fields(part))
    return [
        (name, value)
        for name, value in pairs
        if value is not None and value != getattr(default, name)
    ]


_FIELD_NAME, _FORBIDDEN_NAME = "(field)", "(forbidden)"


def _options_of_map(regions: RegionMap) -> MapOptions:
    """How to read back a map that was built in Python: from its outlines, or a stack of masks."""
    if regions.outlines is not None:
        rows, columns = regions.shape
        return MapOptions((rows, columns), (0.0, 0.0, columns, rows), coordinates="plain")
    names = list(regions.names)
    has_field, has_forbidden = not regions.field.all(), bool(regions.forbidden.any())
    names += [_FIELD_NAME] if has_field else []
    names += [_FORBIDDEN_NAME] if has_forbidden else []
    return MapOptions(
        regions=tuple(names),
        field=_FIELD_NAME if has_field else None,
        forbidden=(_FORBIDDEN_NAME,) if has_forbidden else (),
    )


def _map_name(problem: Problem, path: Path) -> str:
    if problem.source:
        return problem.source.path.name
    has_outlines = problem.world_spec.regions.outlines is not None
    return f"{path.stem}.geojson" if has_outlines else f"{path.stem}.npy"


def _is_same_map(problem: Problem, target: Path) -> bool:
    """Whether the file at a path already holds this map, so that problems can share it."""
    return problem.source is not None and filecmp.cmp(problem.source.path, target, shallow=False)


def _write_map(problem: Problem, target: Path) -> None:
    if target.exists():
        return
    if problem.source:
        copy(problem.source.path, target)
        return
    regions = problem.world_spec.regions
    if regions.outlines is not None:
        _write_outlines(regions, regions.outlines, target)
        return
    masks = list(regions.masks)
    masks += [] if regions.field.all() else [regions.field]
    masks += [regions.forbidden] if regions.forbidden.any() else []
    with replacing(target) as file:
        np.save(file, np.stack(masks), allow_pickle=False)


def _write_outlines(regions: RegionMap, outlines: Edges, target: Path) -> None:
    """Write the polygons of a map, which also say what share of a cell is in a region."""
    features = []
    for number, name in enumerate(regions.names):
        polygons = [
            [[*ring.tolist(), ring[0].tolist()] for ring in (outer, *holes)]
            for outer, holes in outlines.of_region(number).polygons()
        ]
        geometry = {"type": "MultiPolygon", "coordinates": polygons}
        features.append({"type": "Feature", "properties": {"name": name}, "geometry": geometry})
    with replacing(target) as file:
        file.write(json.dumps({"type": "FeatureCollection", "features": features}).encode())
    read = load_map(target, _options_of_map(regions))
    if dataclasses.replace(read, georeference=regions.georeference) != regions:
        target.unlink()
        raise ProblemError(
            "this map has polygons, and a field, forbidden cells or a keep-out area that only its "
            "file tells: keep the file with `load(FILE).with_rules(...)`, or "
            "`dataclasses.replace(load(FILE), world_spec=...)`, instead of `Problem.create`"
        )
