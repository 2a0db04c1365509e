"""`scrl solve`: a proven bound and the best plan found, or which rules conflict."""

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
    below_bound,
    console,
    explain_return,
    file_stem,
    print_json,
    warn,
    working,
)
from scrl.terminal import table

if TYPE_CHECKING:
    from scrl.problems import Problem
    from scrl.reference import Reference, Trade


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
    as_json: JsonFlag = False,
) -> None:
    """Find a proven bound and the best plan without learning, or the rules in conflict.

    Exit code 1: infeasible or unknown.
    """
    from scrl.planning.solve import solve as find
    from scrl.problems import load

    loaded = load(problem)
    warn(loaded.world_spec.regions.warnings)
    if sweep is not None:
        _sweep(loaded, sweep, points, span, plot, as_json)
        return
    with working("solving ...") as say:
        found = find(
            loaded, time_limit_s=time_limit, watch=lambda text: say(f"solving: {text} ...")
        )
    if as_json:
        print_json({**found.to_json(), "warnings": list(loaded.world_spec.regions.warnings)})
    else:
        print_answer(loaded, found, console())
        if found.return_ is not None:
            explain_return(loaded, console())
    if found.status not in ("optimal", "feasible"):
        raise typer.Exit(1)


def print_answer(problem: Problem, found: Reference, out: Console) -> None:
    """Print the plan and the bound, or the conflict."""
    if found.conflict:
        print_conflict(found, out)
    if not found.is_impossible:
        print_reference(problem, found, out)


def print_reference(problem: Problem, found: Reference, out: Console) -> None:
    """Print the amounts, the disjuncts taken, the price list, and the three numbers."""
    units = problem.world_spec.units
    if found.fluid_density or found.density:
        received = table(
            "region", f">{units.unit}, plan", f">{units.unit}, fluid estimate", title="Received"
        )
        for name in found.density or found.fluid_density:
            amounts = (found.density.get(name), found.fluid_density.get(name))
            texts = ["" if each is None else f"{each:,.2f}" for each in amounts]
            received.add_row(escape(name), *texts)
        out.print(received)
    branch = table("rule", "rests on", "instead of", title="Disjuncts taken")
    for each in found.branch:
        branch.add_row(escape(each.rule), escape(each.taken), escape(", ".join(each.others)))
    if branch.row_count:
        out.print(branch)
    prices = table("rule", "bound", ">return for one unit less", title="Price list of the fluid")
    for each in found.duals:
        if each.dual > 1e-9:
            prices.add_row(escape(each.rule), escape(each.atom), f"{each.dual:+.5f}")
    if prices.row_count:
        out.print(prices)
    _print_numbers(problem, found, out)


def _print_numbers(problem: Problem, found: Reference, out: Console) -> None:
    """Print the bound, the plan's return and the fluid estimate."""
    from scrl.reference.answer import gap_to

    if found.bound is not None:
        share = problem.rules.largest_share
        lots = "" if share is None or share == 1 else ", unless it draws lots"
        out.print(
            "proven bound: no policy that keeps the rules returns more than "
            f"{found.bound:.3f}{lots}"
        )
    elif found.bound_reason:
        out.print(f"no proven bound: {found.bound_reason}")
    if found.plan is None:
        out.print("[bold]unknown[/bold]: no plan found, none excluded")
    else:
        gap = gap_to(found.bound, found.plan.return_)
        below = "" if gap is None else f", {below_bound(gap)}"
        time = problem.world_spec.units.duration(found.plan.steps, problem.transit_steps)
        out.print(
            f"[bold]{found.status}: the best plan found returns {found.plan.return_:.3f}[/bold]"
            f"{below}, in {time}"
        )
    if found.mixture is not None:
        out.print(
            f"a mixture of {len(found.mixture.weights)} plans returns {found.mixture.return_:.3f}; "
            "it keeps the rules on average, not in each episode"
        )
    if found.fluid is not None:
        out.print(f"fluid estimate (no whole steps, no inertia): {found.fluid:.3f}")


def print_conflict(found: Reference, out: Console) -> None:
    """Print the rules in conflict and the least loosening."""
    one = "this rule cannot hold"
    which = one if len(found.conflict) == 1 else "these rules cannot hold together"
    if found.is_impossible:
        out.print(f"[bold red]impossible[/bold red] (proven): {which}")
    else:
        out.print(f"probably {which}")
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
    if found.conflict_rests_on:
        out.print(f"conflict and loosening rest on {found.conflict_rests_on}", soft_wrap=True)


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
        ">fluid estimate",
    )
    out.print(f"[bold]{escape(trade.rule)}[/bold]: {escape(trade.text)}", soft_wrap=True)
    for index, (shift, value) in enumerate(zip(trade.shift, trade.return_, strict=True)):
        cells = [] if bounds is None else [f"{bounds[index]:,.1f}"]
        shown.add_row(f"{shift:+,.1f}", *cells, "none" if math.isnan(value) else f"{value:.3f}")
    out.print(shown)
