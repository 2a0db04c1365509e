"""`scrl learn`: train a price policy, the general one or one for some worlds."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from scrl.cli.bar import Bar
from scrl.cli.output import JsonFlag, command_line, console, messages, print_json
from scrl.cli.train import ending_well
from scrl.errors import ScrlError

if TYPE_CHECKING:
    from scrl.prices import LearningProgress


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
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Train a price policy for `scrl ask --policy`.

    Without worlds it is trained as the shipped one was.
    """
    if resume is not None and (worlds or settings or out):
        raise ScrlError("a run that is resumed keeps its worlds, settings and folder")
    from scrl import prices
    from scrl.methods import parse_settings

    with ending_well("scrl learn --resume {run}"), LearnWatching(messages()) as watching:
        if resume is not None:
            learned = prices.resume_learning(resume, watch=watching)
        else:
            learned = prices.learn(
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


class LearnWatching(Bar):
    """How many updates are done, and how far off the last ones were."""

    run: Path | None = None

    def __call__(self, now: LearningProgress) -> None:
        self.run = now.run
        share = now.updates / now.updates_in_all
        left = timedelta(seconds=round(now.wall_s / share * (1.0 - share)))
        text = f"{now.updates:,} of {now.updates_in_all:,} updates, error {now.error:.4f}"
        self.show(share, text, f"{left} left")
