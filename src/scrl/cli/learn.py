"""`scrl learn`: train a price policy, the general one or one for some worlds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from scrl.cli.output import JsonFlag, command_line, console, messages, print_json
from scrl.cli.train import ending_well
from scrl.errors import ScrlError

if TYPE_CHECKING:
    pass


def learn(
    worlds: Annotated[
        list[str] | None,
        typer.Argument(
            help="agri, med, problems, problem files or maps (none: the general policy)."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed.")] = 0,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, key=value; may be repeated.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run (default: a new one in runs/).")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Resume the run in this folder.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Train a price policy for `scrl ask --policy`.

    Without worlds it is trained as the shipped one was.
    """
    if resume is not None and (worlds or settings or out):
        raise ScrlError("a run that is resumed keeps its worlds, settings and folder")
    from scrl.training.config import parse_settings
    from scrl.training.learn import LearningProgressBar, resume_learning
    from scrl.training.learn import learn as train_policy

    with ending_well("scrl learn --resume {run}"), LearningProgressBar(messages()) as watching:
        if resume is not None:
            learned = resume_learning(resume, watch=watching)
        else:
            learned = train_policy(
                worlds or [], seed=seed, settings=parse_settings(settings or []), out=out,
                watch=watching,
            )  # fmt: skip
    run = str(watching.run or resume)
    if as_json:
        print_json({"run": run, "ranges": learned.ranges.to_json(), **learned.made})
    else:
        console().print(f"run folder: {escape(run)}", soft_wrap=True)
        asking = command_line("ask", "WORLD", "RULES", "--policy", run)
        console().print(f"ask with it: {asking}", soft_wrap=True, markup=False)
