"""Terminal output: progress bars, tables, warnings."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Literal, Self

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.segment import Segment
from rich.table import Table

Auto = Literal["auto"]
"""Progress on standard error, where that is a terminal or a notebook."""
STOPPING = "stopping after this round (Ctrl-C again: at once, without saving it)"
LINE_EVERY_S = 10.0
"""Without a terminal, a line is printed this often instead of moving the bar."""


class ProgressBar:
    """A progress bar with a text and a share."""

    def __init__(self, out: Console) -> None:
        self.out = out
        self.last_line_s = time.monotonic()
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
        """Show that Ctrl-C was received and the current round is being finished."""
        self.out.print(STOPPING)

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self.out.print(text, markup=False, soft_wrap=True)

    def show(self, done: float, text: str, left: str, *, is_due: bool = False) -> None:
        """Move the bar; without a terminal, print a line if one is due."""
        self.bar.update(self.task, completed=done, description=text, left=left)
        if not self.out.is_terminal and (
            is_due or time.monotonic() - self.last_line_s > LINE_EVERY_S
        ):
            self.last_line_s = time.monotonic()
            self.out.print(f"{done:.0%} {text} {left}".rstrip(), soft_wrap=True)


@contextmanager
def watching(watch: Any, bar: Callable[[Console], AbstractContextManager[Any]]) -> Iterator[Any]:
    """The given watcher; for "auto" a progress bar if standard error is a terminal or notebook."""
    if watch != "auto":
        yield watch
    elif not _is_looked_at():
        yield None
    else:
        out = Console(stderr=True, highlight=False, force_jupyter=False)
        with bar(out) as screen:
            yield screen


def _is_looked_at() -> bool:
    """Whether standard error is a terminal or the output of a notebook cell."""
    if sys.stderr is not None and sys.stderr.isatty():
        return True
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def tell(watch: Any, what: str, *details: Any) -> None:
    """Call a method of the watcher if it has one."""
    if (method := getattr(watch, what, None)) is not None:
        method(*details)


def warn(watch: Any, text: str | None) -> None:
    """Pass a warning to the watcher, or issue it as a Python warning."""
    if text is not None and hasattr(watch, "say"):
        watch.say(f"warning: {text}")
    elif text is not None:
        warnings.warn(text, stacklevel=2)


class _Ragged(Table):
    """A table without trailing spaces."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        drawn = super().__rich_console__(console, options)
        for line in Segment.split_lines(each for each in drawn if isinstance(each, Segment)):
            while line and not line[-1].text.strip(" "):
                line.pop()
            if line:
                line[-1] = Segment(line[-1].text.rstrip(" "), line[-1].style)
            yield from line
            yield Segment.line()


def table(*columns: str, title: str | None = None) -> Table:
    """A table in which no cell is cut off.

    Columns whose name starts with '>' are right-aligned. Those that start with '!' hold text to
    copy and are not wrapped; the other columns are wrapped first.
    """
    made = _Ragged(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD if sys.stdout.isatty() else None,
        pad_edge=False,
    )
    for column in columns:
        made.add_column(
            column.lstrip(">!"),
            justify="right" if column.startswith(">") else "left",
            no_wrap=column.startswith("!"),
            overflow="fold",
        )
    return made
