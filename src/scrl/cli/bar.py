"""A bar on a terminal, or a line now and then elsewhere, for work whose end is known."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

STOPPING = "stopping after this round (Ctrl-C again: at once, without saving it)"
LINE_EVERY_S = 10.0
"""Where there is no terminal a line now and then takes the place of what moves."""


class Bar:
    """Shows how far something has come, in words and as a share."""

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

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bar.stop()

    def stopping(self) -> None:
        """Say that Ctrl-C was heard: a round may take a while."""
        self.out.print(STOPPING)

    def say(self, text: str) -> None:
        """A line of its own."""
        self.out.print(text, markup=False, soft_wrap=True)

    def show(self, done: float, text: str, left: str, *, is_due: bool = False) -> None:
        """Move the bar; elsewhere print a line, if it is due or the last was long ago."""
        self.bar.update(self.task, completed=done, description=text, left=left)
        if not self.out.is_terminal and (is_due or time.monotonic() - self.told > LINE_EVERY_S):
            self.told = time.monotonic()
            self.out.print(f"{done:.0%} {text} {left}".rstrip(), soft_wrap=True)
