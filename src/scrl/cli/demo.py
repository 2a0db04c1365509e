"""`scrl demo`: the whole story on a built-in problem."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from scrl.cli.check import heading
from scrl.cli.output import JsonFlag, console, print_json, warn, working
from scrl.errors import ScrlError

if TYPE_CHECKING:
    from scrl.evaluation import Evaluation
    from scrl.outcome import TrainingResult
    from scrl.problems import Problem
    from scrl.reference import Reference

DEMO_PROBLEM = "agri-joint"


def demo(
    problem: Annotated[str, typer.Argument(help="The problem to show.")] = DEMO_PROBLEM,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="The run folder (default: a new one in runs).")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Environment steps of training (default: enough).")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show a problem: its map and rules, full speed, the best possible, and what is learned."""
    from scrl.problems import load

    loaded = load(problem)
    if out_dir is not None:  # a story that cannot be kept is not begun
        from scrl.runs import check_free

        check_free(out_dir)
        out_dir.mkdir(parents=True, exist_ok=True)
    if not as_json:
        _tell(loaded)
    with working("driving at full speed, and solving ..."):
        from scrl.evaluation import evaluate

        fast = evaluate(loaded, "full-speed")
        best, missing = _reference(loaded)
    if not as_json:
        _tell_before(loaded, fast, best)
    warn(missing)
    result = _train(loaded, steps, out_dir)
    picture = _draw(loaded, result)
    if as_json:
        reference = best.to_json() if best else None
        told = {"full_speed": fast.to_json(), "reference": reference, "picture": str(picture)}
        print_json({**result.to_json(), **told})
        return
    _tell_after(loaded, result, picture)


def _reference(problem: Problem) -> tuple[Reference | None, list[str]]:
    from scrl.reference import solve

    try:
        return solve(problem), []
    except ScrlError as error:  # the demo goes on without it
        return None, [f"no reference: {error}"]


def _train(problem: Problem, steps: int | None, out_dir: Path | None) -> TrainingResult:
    from scrl.cli.output import messages
    from scrl.cli.train import ending_well
    from scrl.cli.watching import Watching
    from scrl.training import train

    with ending_well(), Watching(messages()) as watching:
        return train(problem, steps=steps, out=out_dir, watch=watching)


def _draw(problem: Problem, result: TrainingResult) -> Path:
    from scrl.report.curves import plot
    from scrl.report.figures import overview, save_figure

    save_figure(plot(result), result.run / "curves.png")
    picture = overview(problem, result.best.evaluation)
    return save_figure(picture, result.run / "overview.png")


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


def _tell_before(problem: Problem, fast: Evaluation, best: Reference | None) -> None:
    from scrl.cli.evaluate import print_evaluation
    from scrl.cli.solve import print_answer

    out = console()
    out.print("\n[bold]At full speed[/bold]")
    print_evaluation(problem, fast, out)
    if best is not None:
        out.print("\n[bold]The best possible[/bold], computed without learning")
        print_answer(problem, best, out)


def _tell_after(problem: Problem, result: TrainingResult, picture: Path) -> None:
    from scrl.cli.evaluate import print_evaluation
    from scrl.cli.train import print_result

    out = console()
    out.print("\n[bold]What was learned[/bold], without a look at the best possible")
    print_evaluation(problem, result.best.evaluation, out)
    print_result(result, out)
    out.print(f"pictures: {escape(str(picture))}, and curves.png beside it", soft_wrap=True)
    out.print("next: scrl list, scrl new my-field, scrl train my-field")
