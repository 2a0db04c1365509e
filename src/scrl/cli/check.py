"""`scrl check`: reads and validates a problem, and prints it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from scrl.cli.output import (
    CrsOption,
    JsonFlag,
    ProblemArgument,
    StrictFlag,
    console,
    print_json,
    warn,
)
from scrl.errors import ScrlError
from scrl.terminal import table

if TYPE_CHECKING:
    from scrl.problems import Problem
    from scrl.reference.answer import Question
    from scrl.rules import LinearExpression
    from scrl.worlds.sweep.regions import RegionMap
    from scrl.worlds.sweep.spec import SweepSpec

SEARCH_TIME_S = 0.1
"""How long times that keep the rules are searched for before a solver is loaded."""


def check(
    problem: ProblemArgument,
    crs: CrsOption = None,
    strict: StrictFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Read a problem; print regions, rules, clauses and atoms."""
    from scrl.problems import load

    loaded = load(problem, strict=strict, crs=crs)
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
        question = Question.of(problem)
        is_possible = _has_times(question) or question.is_possible()
    except ScrlError:
        return []
    if is_possible:
        return []
    which = "this rule" if len(problem.rules.rules) == 1 else "these rules"
    spec = problem.world_spec
    if spec.is_poured and not spec.is_random:
        return [f"no policy can keep {which}: `scrl solve` says what would have to change"]
    return [f"probably no policy can keep {which}: `scrl solve` looks for a plan and for a proof"]


def _has_times(question: Question) -> bool:
    """Whether times that keep the rules are found at once, before a solver is loaded."""
    from scrl.reference.fluid_search import best_fluid
    from scrl.reference.linear import NumericalTroubleError

    try:
        found = best_fluid(question.fluid, question.atoms, time_limit_s=SEARCH_TIME_S)
    except NumericalTroubleError:
        return False
    return found.best is not None


def _document(problem: Problem) -> dict[str, Any]:
    from scrl.rules import show

    spec, atoms = problem.world_spec, problem.atoms
    index = {atom: number for number, atom in enumerate(atoms.atoms)}
    rules = problem.rules.rules
    return {
        "problem": problem.name,
        "regions": [
            {"name": name, "cells": int(cells), "area": float(area)}
            for name, cells, area in _sizes(spec)
        ],
        "area_unit": spec.area_unit,
        "totals": _totals(problem),
        "rules": [{"name": rule.name, "text": show(rule.statement)} for rule in rules],
        "confidence": problem.options.confidence,
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
        "turns": _turns(spec),
        "place": _place(spec.regions),
        "ways": _ways(spec),
        "outside_share": spec.service.outside_share,
        "given_out_at_full_speed": _at_full_speed(spec),
        "unit": spec.units.unit,
    }


def _sizes(spec: SweepSpec) -> Iterator[tuple[str, int, float]]:
    """Name, cells and covered area of each region."""
    return zip(spec.regions.names, spec.regions.sizes, spec.areas, strict=True)


def _totals(problem: Problem) -> list[dict[str, Any]]:
    """Totals and doses that rules name, their units, and what never changes."""
    from scrl.rules import parse
    from scrl.rules.syntax import formula_of, regions_of

    spec = problem.world_spec
    texts = [rule.text for rule in problem.rules.rules]
    named = {name for text in texts for name in regions_of(formula_of(parse(text)))}
    return [
        {"name": name, "unit": spec.unit_of_total(name), "always": _always(value)}
        for name, value in spec.known_totals.items()
        if name in named and name not in spec.regions.names
    ]


def _always(value: LinearExpression | None) -> float | None:
    """The number that an amount always is."""
    return float(value.constant) if value is not None and value.is_constant else None


def _turns(spec: SweepSpec) -> int:
    """How often the vehicle changes to another row or column, within a leg unless turns count."""
    import numpy as np

    if spec.vehicle.counts_turns:
        return len(spec.transits)
    moves = np.diff(spec.path.cells, axis=0)
    is_across = moves[:, 0 if spec.route.direction == "rows" else 1] != 0
    is_across[np.array(spec.path.legs[1:], int) - 1] = False
    return int(np.count_nonzero(is_across & ~np.append(False, is_across[:-1])))


def _place(regions: RegionMap) -> dict[str, Any] | None:
    """Position and size of the map, to reveal wrong coordinates."""
    from scrl.worlds.sweep.georeference import metres

    georeference = regions.georeference
    if georeference is None:
        return None
    left, bottom, right, top = georeference.bounds
    along, across = georeference.cell_size_metres() or (None, None)
    width = height = area = None
    if along is not None and across is not None:
        width, height = metres((bottom + top) / 2, right - left, top - bottom)
        area = int(regions.enterable.sum()) * along * across
    return {
        "coordinates": georeference.kind,
        "extent": [left, bottom, right, top],
        "centre": [(left + right) / 2, (bottom + top) / 2],
        "width_m": width,
        "height_m": height,
        "angle": 0.0 if georeference.turn is None else georeference.turn.angle,
        "field_m2": area,
    }


def _place_text(problem: Problem) -> str:
    legs, turns = len(problem.world_spec.path.legs), _turns(problem.world_spec)
    path = f"path in {legs} leg{'s' if legs > 1 else ''} with {turns:,} turn{'s' * (turns != 1)}"
    place = _place(problem.world_spec.regions)
    if place is None:
        return path
    if place["angle"]:
        path += f" at {place['angle']:g} degrees from east to north"
    x, y = place["centre"]
    left, bottom, right, top = place["extent"]
    if place["coordinates"] == "plain":
        return f"x from {left:g} to {right:g}, y from {bottom:g} to {top:g}; {path}"
    return (
        f"centre at latitude {y:.5f}, longitude {x:.5f}; longitude from {left:.5f} to {right:.5f}, "
        f"latitude from {bottom:.5f} to {top:.5f}; {place['width_m']:,.0f} m from west to "
        f"east, {place['height_m']:,.0f} m from south to north; field of "
        f"{place['field_m2'] / 10_000:,.2f} ha; {path}"
    )


def _ways(spec: SweepSpec) -> dict[str, float]:
    """Length and time of the ways without work, and of the whole drive at top speed."""
    cell, step = spec.units.cell or 1.0, spec.units.step or 1.0
    return {
        "length": spec.transit_length * cell,
        "time": spec.transit_steps * step,
        "least_driving_time": spec.fewest_steps * step,
    }


def _ways_lines(spec: SweepSpec) -> list[str]:
    """What the ways without work cost, where they count."""
    if not spec.vehicle.counts_turns:
        return []
    units = spec.units
    return [
        f"ways without work: {units.length(spec.transit_length)}, "
        f"{units.duration(spec.transit_steps)} with {_turns(spec):,} turns; the whole drive takes "
        f"at least {units.duration(spec.fewest_steps)}"
    ]


def _at_full_speed(spec: SweepSpec) -> float:
    """The amount given out at top speed, about the least possible."""
    return len(spec.path.cells) / spec.vehicle.max_speed * spec.vehicle.rate


def _given_text(spec: SweepSpec) -> str:
    """What the vehicle gives out, and what that costs."""
    vehicle, units, unit = spec.vehicle, spec.units, escape(spec.units.unit)
    text = f"{vehicle.rate:g} {unit} a step"
    if vehicle.flow is not None:
        text = f"{vehicle.flow[0]:g} to {text}"
        if units.step is not None:
            least, most = (each * 60.0 / units.step for each in vehicle.flow)
            text += f" ({least:g} to {most:g} a minute)"
        text += ", chosen in each step"
    if vehicle.dose is not None:
        text += f", {vehicle.dose[0]:g} to {vehicle.dose[1]:g} a cell of the path"
        if units.cell is not None:
            area = spec.cell_area * spec.route.swath
            least, most = (each / area for each in vehicle.dose)
            text += f" ({least:g} to {most:g} a hectare)"
    return text + (f"; one costs {vehicle.product_cost:g}" if vehicle.product_cost else "")


def heading(problem: Problem) -> str:
    """The name of the problem, with its description if it has one."""
    about = problem.options.description
    return f"[bold]{escape(problem.name)}[/bold]" + (f": {escape(about)}" if about else "")


def _total_lines(problem: Problem) -> Iterator[str]:
    """What the totals and doses are that rules name."""
    from scrl.rules.show import is_dose
    from scrl.worlds.sweep.spec import TIME

    spec = problem.world_spec
    for total in _totals(problem):
        always = "" if total["always"] is None else f", always {total['always']:,.10g} here"
        if total["name"] == TIME and spec.vehicle.counts_turns:
            always = f": working_time and {_ways(spec)['time']:,.2f} for ways and turns"
        of = "what is given to the region" if is_dose(total["name"]) else "of the whole drive"
        yield f"{total['name']}: {of}, in {total['unit']}{always}"


def _print(problem: Problem) -> None:
    from scrl.rules import show, show_share

    spec, units = problem.world_spec, problem.world_spec.units
    out = console()
    rows, columns = spec.regions.shape
    out.print(heading(problem))
    out.print(
        f"map {rows} x {columns} cells; path {units.length(len(spec.path.cells))}; top speed "
        f"{units.speed(spec.vehicle.max_speed)}; {_given_text(spec)}"
    )
    out.print("\n".join([_place_text(problem), *_ways_lines(spec)]), soft_wrap=True)
    if (outside := spec.service.outside_share) > 0.0:
        given = _at_full_speed(spec)
        out.print(
            f"{100.0 * outside:.1f} % of the path lies outside all regions; at full speed that is "
            f"about {outside * given:,.1f} of {given:,.1f} {escape(units.unit)} given out"
        )
    has_hectares = units.cell is not None
    regions = table("region", ">cells", *[">hectares"] * has_hectares, title="Regions")
    for name, cells, area in _sizes(spec):
        regions.add_row(escape(name), str(cells), *[f"{area:,.3f}"] * has_hectares)
    for line in _total_lines(problem):
        out.print(escape(line))
    rules = table("rule", "as understood", title="Rules")
    for rule in problem.rules.rules:
        rules.add_row(escape(rule.name), escape(show(rule.statement)))
    clauses = table("rule", "one of these must hold", title="Clauses")
    for clause in problem.rules.clauses:
        texts = " or ".join(atom.show() for atom in clause.atoms)
        clauses.add_row(escape(problem.rules.rules[clause.rule].name), escape(texts))
    for shown in (regions, rules, clauses):
        if shown.row_count:
            out.print(shown)
    if (confidence := problem.rules.confidence) is not None:
        out.print(f"all rules together must hold {show_share(confidence)} of single runs")
    if problem.rules.largest_share is not None and not problem.is_random:
        out.print("nothing is left to chance here: single runs are all alike, as is their average")
