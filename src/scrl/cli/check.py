"""`scrl check`: reads and validates a problem, and prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape

from scrl.cli.output import JsonFlag, ProblemArgument, StrictFlag, console, print_json, warn
from scrl.errors import ScrlError
from scrl.terminal import table

if TYPE_CHECKING:
    from scrl.problems import Problem
    from scrl.worlds.sweep.regions import RegionMap
    from scrl.worlds.sweep.spec import SweepSpec


def check(problem: ProblemArgument, strict: StrictFlag = False, as_json: JsonFlag = False) -> None:
    """Read a problem; print regions, rules, clauses and atoms."""
    from scrl.problems import find_world, load
    from scrl.worlds.sweep.maps import is_map_name

    read = find_world if is_map_name(problem) else load
    loaded = read(problem, strict=strict)
    warnings = [*loaded.warnings(), *_impossible(loaded)]
    if as_json:
        print_json({**_document(loaded), "warnings": warnings})
    else:
        _print(loaded)
    warn(warnings)


def _impossible(problem: Problem) -> list[str]:
    """A warning if no fluid can keep the rules, which is a proof where service is poured."""
    from scrl.reference.answer import Question

    try:
        is_possible = Question.of(problem).is_possible()
    except ScrlError:
        return []
    if is_possible:
        return []
    which = "this rule" if len(problem.rules.rules) == 1 else "these rules"
    spec = problem.world_spec
    if spec.is_poured and not spec.is_random:
        return [f"no policy can keep {which}: `scrl solve` says what would have to change"]
    return [f"probably no policy can keep {which}: `scrl solve` looks for a plan and for a proof"]


def _document(problem: Problem) -> dict[str, Any]:
    from scrl.rules import show

    spec, atoms = problem.world_spec, problem.atoms
    index = {atom: number for number, atom in enumerate(atoms.atoms)}
    rules = problem.rules.rules
    return {
        "problem": problem.name,
        "regions": [
            {"name": name, "cells": int(cells)}
            for name, cells in zip(spec.regions.names, spec.regions.sizes, strict=True)
        ],
        "rules": [{"name": rule.name, "text": show(rule.formula)} for rule in rules],
        "clauses": [
            {"rule": rules[clause.rule].name, "atoms": [index[atom] for atom in clause.atoms]}
            for clause in problem.rules.clauses
        ],
        "atoms": [
            {"text": atom.show(), "rule": atom.origin.rule, "source": atom.origin.text}
            for atom in atoms.atoms
        ],
        "path_cells": len(spec.path.cells),
        "legs": len(spec.path.legs),
        "place": _place(spec.regions),
        "outside_share": spec.service.outside_share,
        "given_out_at_full_speed": _at_full_speed(spec),
        "unit": spec.units.unit,
    }


def _place(regions: RegionMap) -> dict[str, Any] | None:
    """Position and size of the map, to reveal wrong coordinates."""
    georeference = regions.georeference
    if georeference is None:
        return None
    rows, columns = regions.shape
    left, bottom, right, top = georeference.extent
    east, north = georeference.cell_size_metres() or (None, None)
    area = None if east is None or north is None else int(regions.enterable.sum()) * east * north
    return {
        "coordinates": georeference.kind,
        "extent": [left, bottom, right, top],
        "centre": [(left + right) / 2, (bottom + top) / 2],
        "width_m": None if east is None else columns * east,
        "height_m": None if north is None else rows * north,
        "field_m2": area,
    }


def _place_text(problem: Problem) -> str:
    legs = len(problem.world_spec.path.legs)
    path = f"path in {legs} leg{'s' if legs > 1 else ''}"
    place = _place(problem.world_spec.regions)
    if place is None:
        return path
    x, y = place["centre"]
    if place["coordinates"] == "plain":
        left, bottom, right, top = place["extent"]
        return f"x from {left:g} to {right:g}, y from {bottom:g} to {top:g}; {path}"
    return (
        f"centre at latitude {y:.5f}, longitude {x:.5f}; {place['width_m']:,.0f} m from west to "
        f"east, {place['height_m']:,.0f} m from south to north; field of "
        f"{place['field_m2'] / 10_000:,.2f} ha; {path}"
    )


def _at_full_speed(spec: SweepSpec) -> float:
    """The amount given out at top speed, about the least possible."""
    return len(spec.path.cells) / spec.vehicle.max_speed * spec.vehicle.rate


def heading(problem: Problem) -> str:
    """The name of the problem, with its description if it has one."""
    about = problem.options.description
    return f"[bold]{escape(problem.name)}[/bold]" + (f": {escape(about)}" if about else "")


def _print(problem: Problem) -> None:
    from scrl.rules import show

    spec, units = problem.world_spec, problem.world_spec.units
    out = console()
    rows, columns = spec.regions.shape
    out.print(heading(problem))
    out.print(
        f"map {rows} x {columns} cells; path {units.length(len(spec.path.cells))}; top speed "
        f"{units.speed(spec.vehicle.max_speed)}; {spec.vehicle.rate:g} {escape(units.unit)} a step"
    )
    out.print(_place_text(problem), soft_wrap=True)
    if (outside := spec.service.outside_share) > 0.0:
        given = _at_full_speed(spec)
        out.print(
            f"{100.0 * outside:.1f} % of the path lies outside all regions; at full speed that is "
            f"about {outside * given:,.1f} of {given:,.1f} {escape(units.unit)} given out"
        )
    regions = table("region", ">cells", title="Regions")
    for name, cells in zip(spec.regions.names, spec.regions.sizes, strict=True):
        regions.add_row(escape(name), str(cells))
    rules = table("rule", "as understood", title="Rules")
    for rule in problem.rules.rules:
        rules.add_row(escape(rule.name), escape(show(rule.formula)))
    clauses = table("rule", "one of these must hold", title="Clauses")
    for clause in problem.rules.clauses:
        texts = " or ".join(atom.show() for atom in clause.atoms)
        clauses.add_row(escape(problem.rules.rules[clause.rule].name), escape(texts))
    for shown in (regions, rules, clauses):
        if shown.row_count:
            out.print(shown)
