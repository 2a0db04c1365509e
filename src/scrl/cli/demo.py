"""`scrl demo`: check, solve, ask, train and report on a built-in problem."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from scrl.cli.check import heading
from scrl.cli.output import (
    JsonFlag,
    command_line,
    console,
    explain_return,
    print_json,
    warn,
    working,
)
from scrl.errors import ScrlError
from scrl.terminal import table

if TYPE_CHECKING:
    from scrl.evaluation import Evaluation
    from scrl.planning import Answer
    from scrl.problems import Problem
    from scrl.reference import Reference
    from scrl.training.result import TrainingResult

DEMO_PROBLEM = "agri-joint"


SOLVE_TIME_S = 10.0


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
    """Show a problem, a bound and the best plan, and what is learned."""
    from scrl.problems import load

    loaded = load(problem)
    if out_dir is not None:  # fail before the work if the folder cannot be used
        from scrl.runs.folder import check_free

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
    picture, page = _draw(loaded, result)
    answers, unanswered = ask_untrained(loaded)
    if as_json:
        details = {
            "full_speed": fast.to_json(),
            "reference": best.to_json() if best else None,
            "picture": str(picture),
            "page": str(page),
            "asked": [answer.to_json() for answer in answers],
        }
        print_json({**result.to_json(), **details})
    else:
        _tell_after(loaded, result, picture, page)
        _tell_asked(answers)
    warn(unanswered)


def _reference(problem: Problem) -> tuple[Reference | None, list[str]]:
    from scrl.planning.solve import solve

    try:
        with working("solving ..."):
            return solve(problem, time_limit_s=SOLVE_TIME_S), []
    except ScrlError as error:  # the demo goes on without it
        return None, [f"no reference: {error}"]


def _train(problem: Problem, steps: int | None, out_dir: Path | None) -> TrainingResult:
    from scrl.api import train
    from scrl.cli.output import messages
    from scrl.cli.train import ending_well
    from scrl.training.progress import TrainingProgressBar

    with ending_well(), TrainingProgressBar(messages()) as watching:
        return train(problem, steps=steps, out=out_dir, watch=watching)


def ask_untrained(problem: Problem) -> tuple[list[Answer], list[str]]:
    """Plans without training for the rules and for one rule more, and error messages."""
    from scrl.planning import planner
    from scrl.rules.show import show_name

    answers: list[Answer] = []
    with working("asking without training ..."):
        try:
            asking = planner()
            answers.append(asking.ask(problem))
            received = answers[0].evaluation.density
            region, amount = min(received.items(), key=lambda each: each[1])
            rules = {rule.name: rule.text for rule in problem.rules.rules}
            more = {**rules, "one-more": f"{show_name(region)} >= {1.2 * amount:.0f}"}
            answers.append(asking.ask(problem, more))
        except ScrlError as error:  # the demo goes on without it
            return answers, [f"not asked without training: {error}"]
    return answers, []


def _tell_asked(answers: Sequence[Answer]) -> None:
    """Print one line for each answer."""
    if not answers:
        return
    out = console()
    out.print("\n[bold]Without training[/bold]; then with one rule more")
    shown = table("rules", "", ">return", ">gap", ">seconds")
    for answer in answers:
        texts = "; ".join(rule.text for rule in answer.evaluation.rules)
        gap = "" if answer.gap is None else f"{answer.gap:+.1%}"
        shown.add_row(
            escape(texts), answer.status, f"{answer.evaluation.return_:.2f}", gap,
            f"{answer.wall_s:.1f}",
        )  # fmt: skip
    out.print(shown)
    out.print('ask for anything: scrl ask agri "if S2 > 300 then S3 >= 800"')


def _draw(problem: Problem, result: TrainingResult) -> tuple[Path, Path]:
    """Write the pictures and the page."""
    from scrl.cli.report import PAGE
    from scrl.report.figures import overview, plot, save_figure
    from scrl.report.page import write_page
    from scrl.report.reading import read_runs

    with working("drawing ..."):
        save_figure(plot(result), result.run / "curves.png")
        picture = overview(problem, result.best.evaluation)
        page = write_page(read_runs([result.run]), result.run / PAGE)
    return save_figure(picture, result.run / "overview.png"), page


def _tell(problem: Problem) -> None:
    from scrl.report.terminal import map_lines

    out = console()
    out.print(heading(problem))
    is_coloured = out.color_system is not None and not out.no_color
    for line in map_lines(problem.world_spec.regions, is_coloured=is_coloured):
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
    explain_return(problem, out)
    if best is not None:
        out.print("\n[bold]Bound and best plan[/bold], computed without learning")
        print_answer(problem, best, out)


def _tell_after(problem: Problem, result: TrainingResult, picture: Path, page: Path) -> None:
    from scrl.cli.evaluate import print_evaluation
    from scrl.cli.train import print_result

    out = console()
    out.print("\n[bold]What was learned[/bold], without a look at that plan")
    print_evaluation(problem, result.best.evaluation, out)
    print_result(result, out)
    out.print(f"pictures: {escape(str(picture))}, and curves.png beside it", soft_wrap=True)
    out.print(f"page: {escape(str(page))}", soft_wrap=True)
    out.print("next: scrl list, scrl new my-field, scrl train my-field")
    out.print(f"or change its rules in the browser: {command_line('studio', problem.name)}")
