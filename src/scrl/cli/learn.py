"""`scrl learn`: one policy for any rules in a registered environment; and asking it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from scrl.cli.evaluate import print_evaluation
from scrl.cli.output import (
    JsonFlag,
    command_line,
    console,
    explain_return,
    messages,
    print_json,
    working,
)
from scrl.cli.train import ending_well
from scrl.errors import ScrlError
from scrl.terminal import table

if TYPE_CHECKING:
    from scrl.environments.asking import EnvironmentAnswer


def learn(
    worlds: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORLD", help="A map: none is needed, as plans are computed."),
    ] = None,
    env: Annotated[
        str | None, typer.Option(help="The id of an environment, or MODULE:ID to import it first.")
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option(
            "--label", help="A key of `info`, or NAME=KEY: what steps give; may be repeated."
        ),
    ] = None,
    horizon: Annotated[
        int | None, typer.Option(min=1, help="Steps of an episode (default: its own limit).")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Environment steps, all counted.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed.")] = 0,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, key=value; may be repeated.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder (default: a new one).")] = None,
    resume: Annotated[Path | None, typer.Option(help="Resume the run in this folder.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Train one policy that answers any rules in an environment (`scrl ask FOLDER RULES`)."""
    if worlds:
        raise ScrlError(
            f"{worlds[0]}: nothing is learned for maps, whose plans are computed: "
            f"{command_line('ask', worlds[0])} RULES. Name an environment with --env"
        )
    if (env is None) == (resume is None):
        raise ScrlError("say with --env where to learn, or which run to --resume, and not both")
    if resume is not None and (labels or horizon or steps or settings or out):
        raise ScrlError("a run that is resumed keeps its environment, settings and folder")
    if env is not None and not labels:
        raise ScrlError("say with --label which keys of `info` rules may name")
    from scrl import api
    from scrl.training.config import parse_settings
    from scrl.training.progress import TrainingProgressBar

    with ending_well("scrl learn --resume {run}"), TrainingProgressBar(messages()) as watching:
        if resume is not None:
            api.resume(resume, watch=watching)
            learned = api.learned(resume)
        else:
            learned = api.learn(
                env, labels=label_source(labels or []), horizon_steps=horizon, steps=steps,
                seed=seed, settings=parse_settings(settings or []), out=out, watch=watching,
            )  # fmt: skip
    if as_json:
        regions = list(learned.problem.regions)
        print_json({"run": str(learned.path), "env": learned.problem.name, "regions": regions})
        return
    console().print(f"run folder: {escape(str(learned.path))}", soft_wrap=True)
    asking = command_line("ask", learned.path, f"{learned.problem.regions[0]} <= 10")
    console().print(f"ask with it: {asking}", soft_wrap=True, markup=False)


def label_source(texts: list[str]) -> str | dict[str, str]:
    """One key stands for all that it holds; several are a number each, by name."""
    if len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    parts = [text.partition("=") for text in texts]
    return {name.strip(): (key or name).strip() for name, _, key in parts}


def ask_learned(
    folder: str,
    sets: list[list[str]],
    *,
    mix: bool,
    seed: int,
    time_limit: float,
    out: Path | None,
    as_json: bool,
) -> None:
    """Answer rule sets with what `scrl learn` has trained in a folder."""
    from scrl import api

    if not sets:
        raise ScrlError(f'{folder} has no rules of its own: write some, as in "S1 >= 300"')
    if mix and out is not None:
        raise ScrlError("--out keeps a single policy: leave out --mix")
    with working("asking ...") as say:
        learned = api.learned(folder)
        answers = [
            learned.ask(each, mix=mix, seed=seed, time_limit_s=time_limit, watch=say)
            for each in sets
        ]
    for number, answer in enumerate(answers, start=1):
        if out is not None:
            path = learned.keep(answer, out if len(answers) == 1 else out / str(number), seed=seed)
            messages().print(f"kept in {path}: {command_line('report', path)}", markup=False)
    if as_json:
        print_json([answer.to_json() for answer in answers])
    else:
        for answer in answers:
            print_answer(answer, console())
        explain_return(learned.problem, console())
    if not all(answer.is_satisfied for answer in answers):
        raise typer.Exit(1)


def print_answer(answer: EnvironmentAnswer, out: Console) -> None:
    """Print amounts, rules and prices."""
    print_evaluation(answer.problem, answer.evaluation, out)
    titles = [f">policy {number}" for number in range(1, len(answer.policies) + 1)]
    prices = table("region", *titles, title="Prices of a unit")
    for name in answer.problem.regions:
        prices.add_row(escape(name), *(f"{each.prices[name]:+.4g}" for each in answer.policies))
    if len(answer.policies) > 1:
        prices.add_row("share of episodes", *(f"{each.weight:.1%}" for each in answer.policies))
    out.print(prices)
    colour = "green" if answer.is_satisfied else "red"
    out.print(f"[bold {colour}]{answer.status}[/]; found in {answer.wall_s:.2f} s")
