"""What commands print: tables on a terminal, plain text in a pipe, one JSON document on demand."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

EXIT_WRONG_INPUT = 2
EXIT_INTERRUPTED = 130

JsonFlag = Annotated[
    bool, typer.Option("--json", help="One JSON document on standard output, nothing else there.")
]
ProblemArgument = Annotated[
    str, typer.Argument(help="A built-in problem (see `scrl list`) or the path of a problem file.")
]


def console() -> Console:
    """Standard output: colours on a terminal (not with NO_COLOR), wide plain text in a pipe."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 200)


def messages() -> Console:
    """Standard error: progress and warnings, so that standard output stays clean."""
    return Console(stderr=True, highlight=False)


@contextmanager
def working(text: str) -> Iterator[Callable[[str], None]]:
    """A moving sign on the terminal while something takes long; its text may be changed."""
    with messages().status(text) as status:
        yield status.update


def warn(texts: Sequence[str]) -> None:
    """Warnings on standard error."""
    for text in texts:
        messages().print("warning: " + text, style="yellow", markup=False, soft_wrap=True)


def distance_from_best(gap: float, digits: int = 2) -> str:
    """A drive in steps can be a little better than the fluid, which knows none."""
    if gap >= -0.5 * 10.0 ** -(digits + 2):
        return f"{abs(gap):.{digits}%} from the best possible"
    return f"{-gap:.{digits}%} better than the fluid reference"


def print_json(document: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def file_stem(text: str) -> str:
    """A name as part of a file name: it cannot lead to another folder."""
    return re.sub(r"[^\w-]+", "-", text).strip("-") or "problem"


def table(*columns: str, title: str | None = None) -> Table:
    """A table in the house style; columns whose name starts with '>' are set right."""
    made = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD if sys.stdout.isatty() else None,
        pad_edge=False,
    )
    for column in columns:
        made.add_column(
            column.removeprefix(">"), justify="right" if column.startswith(">") else "left"
        )
    return made


def verdict(is_satisfied: bool) -> str:
    """'holds' or 'broken', coloured."""
    return "[green]holds[/green]" if is_satisfied else "[red]broken[/red]"
