"""`scrl learn`: train a price policy, the general one or one for some worlds."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from scrl.cli.output import JsonFlag, console, messages, print_json
from scrl.cli.train import ending_well
from scrl.cli.watching import LINE_EVERY_S, STOPPING
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
    """Train a price policy for `scrl ask --policy`; the shipped one is this without worlds."""
    if resume is not None and (worlds or settings or out):
        raise ScrlError("a run that is resumed keeps its worlds, settings and folder")
    from scrl import prices
    from scrl.methods import parse_settings

    folder: list[Path] = [] if resume is None else [resume]
    how = "scrl learn --resume FOLDER"
    with ending_well(how), _Watching(messages(), folder) as watching:
        if resume is not None:
            learned = prices.resume_learning(resume, watch=watching)
        else:
            learned = prices.learn(
                worlds or [], seed=seed, settings=parse_settings(settings or []), out=out,
                watch=watching,
            )  # fmt: skip
    run = str(folder[0]) if folder else ""
    if as_json:
        print_json({"run": run, "ranges": learned.ranges.to_json(), **learned.made})
    else:
        console().print(f"run folder: {escape(run)}", soft_wrap=True)
        console().print(f"ask with it: scrl ask WORLD RULES --policy {escape(run)}", soft_wrap=True)


class _Watching:
    """A bar on a terminal, or a line now and then elsewhere."""

    def __init__(self, out: Console, folder: list[Path]) -> None:
        self.out, self.folder = out, folder
        self.told = time.monotonic()
        self.bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(),
            TextColumn("{task.fields[left]}"), console=out, disable=not out.is_terminal,
        )  # fmt: skip
        self.task = self.bar.add_task("compiling", total=1.0, left="")

    def __enter__(self) -> _Watching:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def stopping(self) -> None:
        """Say that Ctrl-C was heard."""
        self.out.print(STOPPING)

    def __call__(self, now: LearningProgress) -> None:
        self.folder[:] = [now.run]
        share = now.updates / now.updates_in_all
        left = timedelta(seconds=round(now.wall_s / share * (1.0 - share)))
        text = f"{now.updates:,} of {now.updates_in_all:,} updates, error {now.error:.4f}"
        self.bar.update(self.task, completed=share, description=text, left=f"{left} left")
        if not self.out.is_terminal and time.monotonic() - self.told > LINE_EVERY_S:
            self.told = time.monotonic()
            self.out.print(f"{text}, {left} left", soft_wrap=True)
