"""`scrl audit`: a log of what was done, against the rules."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape

from scrl.cli.output import JsonFlag, ProblemArgument, console, print_json, warn, working
from scrl.errors import ScrlError
from scrl.terminal import table

if TYPE_CHECKING:
    from scrl.audit import Audit

COLOURS = {"held": "green", "broken": "red", "unknown": "yellow"}
MOST_GAPS = 10


def audit(
    problem: ProblemArgument,
    log: Annotated[
        Path,
        typer.Argument(
            metavar="LOG", help="CSV or GeoJSON: time, place, and flow, amount or pump."
        ),
    ],
    column: Annotated[
        list[str] | None,
        typer.Option(
            help="ROLE=NAME, such as flow=Q1: the column for time, date, x, y, total, amount, "
            "flow or pump (default: by its name)."
        ),
    ] = None,
    flow_per: Annotated[
        str | None, typer.Option(help="Time unit of the flow: second, minute or hour.")
    ] = None,
    gap: Annotated[
        float | None,
        typer.Option(help="Longest trusted interval between two points, in seconds."),
    ] = None,
    max_speed: Annotated[
        float | None, typer.Option(help="Highest plausible speed, in metres per second.")
    ] = None,
    crs: Annotated[
        str | None,
        typer.Option(help="Coordinate system of a log that is not in degrees: EPSG:27700."),
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Also write an HTML page.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Count what each region received, and judge it by the rules.

    Exit code 1: a rule was broken, or gaps leave it unknown. Exit code 2: the log is unreadable.
    """
    from scrl.audit import AuditOptions
    from scrl.audit import audit as judge
    from scrl.problems import load

    options = AuditOptions(
        columns=_columns(column or []), flow_per=_flow_per(flow_per), gap_seconds=gap,
        max_speed=max_speed,
        crs=crs,
    )  # fmt: skip
    if page is not None and page.suffix.lower() not in (".html", ".htm"):
        raise ScrlError(f"{page}: a page's name ends in .html")
    loaded = load(problem)
    warn(loaded.world_spec.regions.warnings)
    with working("counting ..."):
        result = judge(loaded, log, options)
        if page is not None:
            from scrl.report.page.audit import write_audit_page

            write_audit_page(result, page)
    if as_json:
        more = {"page": None if page is None else str(page)}
        print_json(
            {**result.to_json(), **more, "warnings": list(loaded.world_spec.regions.warnings)}
        )
    else:
        _print(result, console())
        if page is not None:
            console().print(f"page: {escape(str(page))}", soft_wrap=True)
    if result.status != "held":
        raise typer.Exit(1)


def _columns(texts: list[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        role, sign, name = text.partition("=")
        if not sign or not role or not name:
            raise ScrlError(f"--column {text}: write ROLE=NAME, as in --column flow=Q1")
        found[role] = name
    return found


def _flow_per(text: str | None) -> Literal["second", "minute", "hour"] | None:
    from scrl.errors import did_you_mean

    match text:
        case None | "second" | "minute" | "hour":
            return text
        case _:
            known = did_you_mean(text, ("second", "minute", "hour"))
            raise ScrlError(f"--flow-per {text}{known}")


def _print(result: Audit, out: Console) -> None:
    """Print tables of amounts, rules, gaps and findings."""
    from scrl.report.audits import limit_text, margin_text, outcome_text

    unit = escape(result.unit)
    out.print(
        f"{escape(str(result.log))}: {result.points:,} points from {result.begin} to {result.end}, "
        f"{result.length:,.0f} {result.length_unit}",
        soft_wrap=True,
    )
    out.print(f"counted from {escape(result.counted_from)}", soft_wrap=True)
    regions = table(
        "region", f">{unit} received", ">at most", ">cells", ">without any", "around",
        title="Received",
    )  # fmt: skip
    for each in result.regions:
        place = "" if each.missed_at is None else "{:.8g}, {:.8g}".format(*each.missed_at)
        regions.add_row(
            escape(each.name), f"{each.received:,.2f}", limit_text(each.received, each.at_most),
            f"{each.cells:,}", f"{each.missed_cells:,}" if each.missed_cells else "", place,
        )  # fmt: skip
    out.print(regions)
    share = 100.0 * result.outside / result.given_out if result.given_out else 0.0
    out.print(
        f"given out: {result.given_out:,.2f} {unit}, {result.outside:,.2f} of them ({share:.1f} %) "
        "outside all regions",
        soft_wrap=True,
    )
    if result.rules:
        rules = table("rule", "", f">margin, {unit}", "outcome", title="Rules")
        for rule in result.rules:
            state = f"[{COLOURS[rule.status]}]{rule.status}[/]"
            outcome = escape(outcome_text(result, rule))
            rules.add_row(escape(rule.name), state, margin_text(rule), outcome)
        out.print(rules)
    if result.gaps:
        gaps = table("gap begins", ">s", ">after row", f">{unit}, at most", title="Gaps")
        for gap in result.gaps[:MOST_GAPS]:
            seconds = "?" if gap.seconds is None else f"{gap.seconds:,.1f}"
            limit = "no limit" if math.isinf(gap.at_most) else f"{gap.at_most:,.2f}"
            gaps.add_row(gap.begin, seconds, f"{gap.after_row:,}", limit)
        out.print(gaps)
        if (more := result.gap_count - MOST_GAPS) > 0:
            out.print(f"and {more:,} more")
    for each in result.findings:
        out.print(f"note: {each.text}", markup=False, soft_wrap=True)
    out.print(f"[{COLOURS[result.status]}]{result.status}[/]: {result.summary}", soft_wrap=True)
