"""`scrl compare`: whether the difference between runs is significant."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from scrl.cli.output import JsonFlag, console, print_json, working
from scrl.terminal import table

if TYPE_CHECKING:
    from scrl.report.compare import Comparison
    from scrl.statistics import Mean


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Finished runs of one problem; the others are compared with the first."
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Draw it, as .png, .svg or .pdf.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare the first run with each of the others."""
    from scrl.report.compare import compare as compare_runs
    from scrl.report.reading import read_runs

    with working("comparing ..."):
        found = compare_runs(read_runs(runs))
        picture = None if out is None else _draw(found, out)
    if as_json:
        print_json({**found.to_json(), "picture": None if picture is None else str(picture)})
        return
    _print(found)
    if picture is not None:
        console().print(f"picture: {escape(str(picture))}", soft_wrap=True)


def _draw(found: Comparison, path: Path) -> Path:
    from scrl.report.figures import contrast_figure, save_figure

    return save_figure(contrast_figure(found), path)


def _print(found: Comparison) -> None:
    out = console()
    shown = table(
        "run", ">rules kept", ">return", ">violated by", title=f"{found.problem}, mean (95 %)"
    )
    for run in found.runs:
        shown.add_row(
            escape(run.label),
            f"{run.satisfied} of {len(run.seeds)}",
            _mean(run.means["return"]),
            _mean(run.means["violation"]),
        )
    out.print(shown)
    for pair in found.pairs:
        out.print()
        for each in pair.contrasts:
            out.print(each.sentence, markup=False, soft_wrap=True)
        if not pair.is_paired:
            out.print("(the runs have different seeds, so the seeds are not paired)")
        if pair.too_few:
            out.print(pair.too_few, style="yellow", markup=False, soft_wrap=True)
    if len(found.pairs) > 1:
        out.print(f"\neach p is corrected for {len(found.pairs)} comparisons (Holm)")


def _mean(mean: Mean) -> str:
    return f"{mean.mean:,.2f} ({mean.low:,.2f} to {mean.high:,.2f})"
