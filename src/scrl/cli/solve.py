"""`scrl solve`: the reference optimum, or which rules conflict."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from scrl.cli.output import (
    JsonFlag,
    ProblemArgument,
    console,
    explain_return,
    file_stem,
    print_json,
    warn,
    working,
)
from scrl.errors import ScrlError
from scrl.terminal import table

if TYPE_CHECKING:
    from scrl.problems import Problem
    from scrl.reference import Method, Reference, Trade


def solve(
    problem: ProblemArgument,
    sweep: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="Move this rule's bounds and show what that costs."),
    ] = None,
    points: Annotated[int, typer.Option(min=2, max=1001, help="Points of the sweep.")] = 21,
    span: Annotated[
        float | None, typer.Option(min=0.0, help="How far to move the bounds, in units.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Picture of the sweep (default: runs/PROBLEM-RULE.png).")
    ] = None,
    time_limit: Annotated[float, typer.Option(min=0.001, help="Seconds for the search.")] = 60.0,
    drives: Annotated[
        int | None,
        typer.Option(min=0, max=100, help="Rounds of drives in the true world (0: none)."),
    ] = None,
    method: Annotated[
        str, typer.Option(help="search (quick) or milp (slow, independent): the same answer.")
    ] = "search",
    as_json: JsonFlag = False,
) -> None:
    """Find the best possible return without learning, or the rules in conflict.

    Exit code 1: infeasible or unknown.
    """
    from scrl.problems import load
    from scrl.reference import solve as find
    from scrl.reference.solve import DEFAULT_DRIVES

    loaded = load(problem)
    warn(loaded.world_spec.regions.warnings)
    if sweep is not None:
        _sweep(loaded, sweep, points, span, plot, as_json)
        return
    with working("solving ..."):
        rounds = DEFAULT_DRIVES if drives is None else drives
        found = find(loaded, time_limit_s=time_limit, drives=rounds, method=_method(method))
    if as_json:
        print_json({**found.to_json(), "warnings": list(loaded.world_spec.regions.warnings)})
    else:
        print_answer(loaded, found, console())
        if found.return_ is not None:
            explain_return(loaded, console())
    if not found.is_optimal:
        raise typer.Exit(1)


def _method(name: str) -> Method:
    if name not in ("search", "milp"):
        raise ScrlError(f"unknown method '{name}': the methods are search and milp")
    return name


def print_answer(problem: Problem, found: Reference, out: Console) -> None:
    """Print the optimum or the conflict."""
    if found.status.value == "infeasible":
        print_conflict(found, out)
    else:
        print_reference(problem, found, out)


def print_reference(problem: Problem, found: Reference, out: Console) -> None:
    """Print the optimal amounts, the disjuncts taken, and the price list."""
    units = problem.world_spec.units
    if found.return_ is None:
        out.print(f"nothing found within the time limit; no return is above {found.bound:.3f}")
        return
    received = table("region", f">{units.unit}, best", f">{units.unit}, driven", title="Received")
    driven = found.stepwise.density if found.stepwise else {}
    for name, amount in found.density.items():
        second = f"{driven[name]:,.2f}" if name in driven else ""
        received.add_row(escape(name), f"{amount:,.2f}", second)
    out.print(received)
    branch = table("rule", "rests on", "instead of", title="Disjuncts taken")
    for each in found.branch:
        branch.add_row(escape(each.rule), escape(each.taken), escape(", ".join(each.others)))
    out.print(branch)
    prices = table("rule", "bound", ">return for one unit less", title="Price list")
    for each in found.duals:
        if each.dual > 1e-9:
            prices.add_row(escape(each.rule), escape(each.atom), f"{each.dual:+.5f}")
    out.print(prices)
    word = "best return" if found.is_optimal else "best found within the time limit"
    out.print(
        f"[bold]{word} {found.return_:.3f}[/bold] "
        f"(fluid; proven: no fluid above {found.bound:.3f}) in "
        f"{units.duration(found.steps or 0, problem.transit_steps)}"
    )
    if found.stepwise:
        drive = found.stepwise
        kept = "" if drive.violation == 0 else f", still {drive.violation:.1f} off its rules"
        out.print(
            f"driven in the true world: {drive.return_:.3f} by {drive.plans} mixed plans{kept}; "
            f"estimated limit {_number(drive.estimate_above)}"
        )


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"


def print_conflict(found: Reference, out: Console) -> None:
    """Print the rules in conflict and the least loosening."""
    one = "this rule cannot hold"
    which = one if len(found.conflict) == 1 else "these rules cannot hold together"
    out.print(f"[bold red]impossible[/bold red]: {which}")
    for name, text in found.conflict:
        out.print(f"  {escape(name)}: {escape(text)}")
    if found.relax:
        out.print("the least loosening that helps:")
    else:
        out.print("no loosening was found that helps: its numbers are too large to be weighed")
    for each in found.relax:
        out.print(f"  {escape(str(each))}")
    for way in found.alternatives:
        if way != found.relax:
            out.print("or: " + escape("; ".join(str(each) for each in way)))
    for hint in found.vehicle_hints:
        out.print(f"or: {hint}")


def _sweep(
    problem: Problem,
    rule: str,
    points: int,
    span: float | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    from scrl.reference import trade_off
    from scrl.report.figures import save_figure, trade_figure

    with working("solving along the sweep ..."):
        trade = trade_off(problem, rule, points=points, span=span)
        target = plot or Path("runs") / f"{file_stem(problem.name)}-{file_stem(rule)}.png"
        picture = save_figure(trade_figure(trade), target)
    if as_json:
        print_json({**trade.to_json(), "picture": str(picture)})
        return
    print_trade(trade, console())
    console().print(f"picture: {escape(str(picture))}", soft_wrap=True)


def print_trade(trade: Trade, out: Console) -> None:
    """Print the trade-off as a table."""
    bounds = trade.bounds
    shown = table(
        f">loosened by, {trade.unit}",
        *([] if bounds is None else [f">bound, {trade.unit}"]),
        ">best return",
    )
    out.print(f"[bold]{escape(trade.rule)}[/bold]: {escape(trade.text)}", soft_wrap=True)
    for index, (shift, value) in enumerate(zip(trade.shift, trade.return_, strict=True)):
        cells = [] if bounds is None else [f"{bounds[index]:,.1f}"]
        shown.add_row(
            f"{shift:+,.1f}", *cells, "impossible" if math.isnan(value) else f"{value:.3f}"
        )
    out.print(shown)
