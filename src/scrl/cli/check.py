"""`scrl check`: read a problem, say what was understood."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape

from scrl.cli.output import (
    JsonFlag,
    ProblemArgument,
    StrictFlag,
    console,
    print_json,
    table,
    warn,
)
from scrl.errors import ScrlError

if TYPE_CHECKING:
    from scrl.problems import Problem


def check(problem: ProblemArgument, strict: StrictFlag = False, as_json: JsonFlag = False) -> None:
    """Read a problem; print regions, rules, clauses and atoms."""
    from scrl.problems import find_world, load
    from scrl.worlds.maps import is_map_name

    read = find_world if is_map_name(problem) else load
    loaded = read(problem, strict=strict)
    warnings = [*loaded.warnings(), *_impossible(loaded)]
    if as_json:
        print_json({**_document(loaded), "warnings": warnings})
    else:
        _print(loaded)
    warn(warnings)


def _impossible(problem: Problem) -> list[str]:
    """A warning where no policy can keep the rules; nothing where the reference cannot tell."""
    from scrl.reference.question import Question

    try:
        is_possible = Question.of(problem).is_possible()
    except ScrlError:
        return []
    text = "no policy can keep these rules: `scrl solve` says which of them conflict"
    return [] if is_possible else [text]


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
        "unit": spec.units.unit,
    }


def heading(problem: Problem) -> str:
    """The name, and what the problem is about where that is known."""
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
        out.print(shown)
