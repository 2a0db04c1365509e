"""A bench as it happens: cells done, the one under way, and the time left."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from scrl.cli.watching import LINE_EVERY_S, STOPPING

if TYPE_CHECKING:
    from scrl.bench import BenchProgress


class BenchWatching:
    """A bar on a terminal, or a line now and then elsewhere."""

    def __init__(self, out: Console) -> None:
        self.out = out
        self.told = time.monotonic()
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[left]}"),
            console=out,
            disable=not out.is_terminal,
        )
        self.task = self.bar.add_task("starting", total=1.0, left="")

    def __enter__(self) -> BenchWatching:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def stopping(self) -> None:
        """Say that Ctrl-C was heard: a round may take a while."""
        self.out.print(STOPPING)

    def __call__(self, now: BenchProgress) -> None:
        done = (now.done + now.share * len(now.cells)) / now.in_all
        left = "" if now.left_s is None else f"{timedelta(seconds=round(now.left_s))} left"
        one, *others = now.cells
        names = f"{one.problem} {one.method}"
        if others:
            names += f" and {len(others)} more at once"
        text = f"{names} ({now.done} of {now.in_all} runs done)"
        self.bar.update(self.task, completed=done, description=text, left=left)
        is_due = now.run is None or time.monotonic() - self.told > LINE_EVERY_S
        if not self.out.is_terminal and is_due:
            self.told = time.monotonic()
            self.out.print(f"{done:.0%} {text} {left}".rstrip(), soft_wrap=True)
