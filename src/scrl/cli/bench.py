"""`scrl bench`: regenerates the tables of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from scrl.cli.output import JsonFlag, console, messages, print_json, working
from scrl.cli.train import ending_well
from scrl.terminal import table

if TYPE_CHECKING:
    from scrl.bench import BenchResult

DEFAULT_OUT = Path("runs/bench")


def bench(
    name: Annotated[str, typer.Argument(help="table1 to table4 of the paper; or all, ablation.")],
    seeds: Annotated[int, typer.Option(min=1, max=10_000, help="Seeds of every method.")] = 10,
    methods: Annotated[
        str | None, typer.Option(help="Only these methods, with commas between them.")
    ] = None,
    tasks: Annotated[
        str | None, typer.Option(help="Only these tasks, with commas between them.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="Settings of all methods: default, or paper.")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Environment steps of each seed and method (default: 3,700,000)."),
    ] = None,
    wind: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Strength of gusts in all tasks.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, key=value; may be repeated.")
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(help="Values of a setting, key=value,value,...; a row for each combination."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A few rounds only: shows that it runs, learns nothing.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Where runs and tables go (default: runs/bench, or runs/bench-quick)."),
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Who trains: local (this process), or ray (a cluster).")
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="ray: runs at once (default: as fit)."),
    ] = None,
    worker_cores: Annotated[
        int, typer.Option(min=1, max=10_000, help="ray: cores set aside for each worker.")
    ] = 1,
    ray_address: Annotated[
        str | None,
        typer.Option(
            help="ray: a cluster that is there (default: RAY_ADDRESS, or a new one here)."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Run a table's methods on its tasks.

    The same command resumes an interrupted bench.
    """
    from scrl.bench import Terms, Workers, cells_of, find_table, run_bench
    from scrl.bench.progress import BenchProgressBar
    from scrl.training.config import parse_settings, parse_sweep

    chosen = find_table(name)
    cells = cells_of(
        chosen, methods=_names(methods), problems=_names(tasks), sweep=parse_sweep(sweep or []),
        terms=Terms(preset, wind, steps),
    )  # fmt: skip
    folder = out or (DEFAULT_OUT.with_name("bench-quick") if quick else DEFAULT_OUT)
    with ending_well("the same command again"), BenchProgressBar(messages()) as watching:
        result = run_bench(
            chosen, cells, folder, seeds=seeds, settings=parse_settings(settings or []),
            is_quick=quick, engine=engine, workers=Workers(workers, worker_cores, ray_address),
            watch=watching,
        )  # fmt: skip
    pictures = _draw(result)
    if as_json:
        print_json({**document(result), "pictures": pictures})
    else:
        print_table(result)
        for picture in pictures:
            console().print(f"picture: {escape(picture)}", soft_wrap=True)


def _draw(result: BenchResult) -> list[str]:
    from scrl.report.figures import save_figure
    from scrl.report.paper import paper_figures

    with working("drawing ..."):
        folder = result.out / "figures"
        return [
            str(save_figure(figure, folder / f"{name}.png"))
            for name, figure in paper_figures(result)
        ]


def _names(text: str | None) -> list[str]:
    return [each.strip() for each in (text or "").split(",") if each.strip()]


def document(result: BenchResult) -> dict[str, Any]:
    """The rows of a table, in the paper's scale."""
    return {
        "table": result.table.name,
        "out": str(result.out),
        "note": result.note,
        "rows": [
            {
                "problem": row.cell.problem,
                "method": row.cell.method,
                "variant": row.cell.name,
                "preset": row.cell.terms.preset,
                "wind": row.cell.terms.wind,
                "swept": dict(row.cell.swept),
                "told": row.told,
                "budget": row.budget,
                "seeds": row.seeds,
                "satisfied": row.satisfied,
                "cons_vio": row.violation._asdict(),
                "return": row.return_._asdict(),
                "steps": row.steps._asdict(),
                "equity": row.split[0]._asdict(),
                "adequacy": row.split[1]._asdict(),
                "bound": row.bound,
                "last_satisfied": row.last_satisfied,
                "last_cons_vio": row.last_violation._asdict() if row.last_violation else None,
                "last_return": row.last_return._asdict() if row.last_return else None,
                "published": row.published._asdict() if row.published else None,
            }
            for row in result.rows
        ],
    }


def print_table(result: BenchResult) -> None:
    """Print the rows with the paper's numbers beside them."""
    shown = table(
        "task", "method", ">satisfied", ">Cons.Vio", ">return", ">bound", ">steps", ">last: kept",
        ">paper: vio", ">return", title=f"{result.table.title} (amounts divided by ten)",
    )  # fmt: skip
    for row in result.rows:
        paper = row.published
        shown.add_row(
            row.cell.problem,
            row.cell.label,
            f"{row.satisfied} of {row.seeds}",
            f"{row.violation.mean:.2f} ± {row.violation.std:.2f}",
            f"{row.return_.mean:.2f} ± {row.return_.std:.2f}",
            "" if row.bound is None else f"{row.bound:.2f}",
            f"{row.steps.mean:,.0f}",
            "" if row.last_satisfied is None else str(row.last_satisfied),
            "" if paper is None else f"{paper.violation:g}",
            "" if paper is None else f"{paper.return_:g}",
        )
    out = console()
    out.print(shown)
    if result.note:
        out.print(result.note, style="yellow", markup=False, soft_wrap=True)
    files = ", ".join(f"{result.table.name}.{ending}" for ending in ("md", "csv", "tex"))
    out.print(f"written: {files} and the run folders, in {escape(str(result.out))}", soft_wrap=True)
