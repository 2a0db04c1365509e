"""`scrl report`: one self-contained HTML page about runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from scrl.cli.output import JsonFlag, console, print_json, working

PAGE = "report.html"


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, finished or not.")],
    out: Annotated[
        Path | None,
        typer.Option(help="The page (default: report.html, in the run folder if there is one)."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Write a page with map, plan, rules and learning curves."""
    from scrl.report.reading import read_runs

    views = read_runs(runs)
    path = out or (runs[0] / PAGE if len(runs) == 1 else Path(PAGE))
    with working("driving and drawing ..."):
        from scrl.report.page import write_page

        write_page(views, path)
    if as_json:
        print_json(
            {
                "page": str(path),
                "bytes": path.stat().st_size,
                "runs": [
                    {
                        "run": str(view.folder.path),
                        "label": view.label,
                        "problem": view.problem.name,
                        "finished": view.result is not None,
                    }
                    for view in views
                ],
            }
        )
        return
    console().print(f"page: {escape(str(path))}", soft_wrap=True)
