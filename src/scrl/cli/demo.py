"""`scrl demo`: the whole story on a built-in problem."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from scrl.cli.check import heading
from scrl.cli.output import JsonFlag, console, file_stem, print_json, warn, working
from scrl.errors import ScrlError

if TYPE_CHECKING:
    from scrl.problems import Problem

DEMO_PROBLEM = "agri-joint"


def demo(
    problem: Annotated[str, typer.Argument(help="The problem to show.")] = DEMO_PROBLEM,
    out_dir: Annotated[Path, typer.Option("--out", help="Folder for the picture.")] = Path(
        "runs/demo"
    ),
    as_json: JsonFlag = False,
) -> None:
    """Show a problem: its map, its rules, full speed against them, and the best possible."""
    from scrl.problems import load

    loaded = load(problem)
    with working("driving at full speed, and solving ..."):
        from scrl.evaluation import evaluate
        from scrl.reference import solve
        from scrl.report.figures import overview, save_figure

        result = evaluate(loaded, "full-speed")
        best, missing = None, []
        try:
            best = solve(loaded)
        except ScrlError as error:  # the demo goes on without it
            missing = [f"no reference: {error}"]
        picture = save_figure(overview(loaded, result), out_dir / f"{file_stem(loaded.name)}.png")
    if as_json:
        warn(missing)
        document = {"reference": best.to_json() if best else None, "picture": str(picture)}
        print_json({**result.to_json(), **document})
        return
    _tell(loaded)
    from scrl.cli.evaluate import print_evaluation
    from scrl.cli.solve import print_answer

    out = console()
    out.print("\n[bold]At full speed[/bold]")
    print_evaluation(loaded, result, out)
    warn(missing)
    if best is not None:
        out.print("\n[bold]The best possible[/bold], computed without learning")
        print_answer(loaded, best, out)
    out.print(f"picture: {escape(str(picture))}", soft_wrap=True)
    out.print("next: scrl list, scrl new my-field, scrl check my-field/problem.toml")


def _tell(problem: Problem) -> None:
    from scrl.report.terminal import map_lines

    out = console()
    out.print(heading(problem))
    for line in map_lines(problem.world_spec.regions, is_coloured=sys.stdout.isatty()):
        out.print(line)
    line = problem.world_spec.route.direction.removesuffix("s")
    out.print(
        f"The vehicle sweeps the map {line} by {line} and chooses its speed; slow gives more."
    )
