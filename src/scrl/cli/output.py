"""Output of commands: tables on a terminal, plain text in a pipe, JSON with `--json`."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

if TYPE_CHECKING:
    from scrl.problems import BaseProblem

EXIT_UNFINISHED = 1
EXIT_WRONG_INPUT = 2

JsonFlag = Annotated[
    bool, typer.Option("--json", help="One JSON document on standard output, nothing else there.")
]
StrictFlag = Annotated[
    bool, typer.Option("--strict", help="Refuse a map with faults, instead of repairing it.")
]
CrsOption = Annotated[
    str | None,
    typer.Option(help="Coordinate system of a GeoJSON map that is not in degrees: EPSG:27700."),
]
ProblemArgument = Annotated[
    str,
    typer.Argument(
        help="A built-in problem (see `scrl list`), a problem file or folder, or a map."
    ),
]


def console() -> Console:
    """Standard output: colours on a terminal (not with NO_COLOR), wide plain text in a pipe."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 200)


def messages() -> Console:
    """Standard error: progress and warnings, so that standard output stays clean."""
    return Console(stderr=True, highlight=False)


@contextmanager
def working(text: str) -> Iterator[Callable[[str], None]]:
    """A spinner on the terminal during long work; its text may be changed."""
    with messages().status(text) as status:
        yield status.update


def warn(texts: Sequence[str]) -> None:
    """Print warnings on standard error."""
    for text in texts:
        messages().print("warning: " + text, style="yellow", markup=False, soft_wrap=True)


def below_bound(gap: float, digits: int = 2) -> str:
    """The gap as text."""
    return f"{abs(gap):.{digits}%} below the proven bound"


def command_line(*words: str | Path) -> str:
    """A command as typed in a shell, with quoted names."""
    return shlex.join(["scrl", *map(str, words)])


def explain_return(problem: BaseProblem, out: Console) -> None:
    """Print what the return sums up, once per command."""
    out.print(f"return: {problem.return_text}", markup=False, soft_wrap=True)


def print_json(document: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def file_stem(text: str) -> str:
    """A name as a safe part of a file name, without separators."""
    return re.sub(r"[^\w-]+", "-", text).strip("-") or "problem"


def verdict(is_satisfied: bool, held: str = "holds") -> str:
    """'holds' or 'broken', coloured."""
    return f"[green]{held}[/green]" if is_satisfied else "[red]broken[/red]"
