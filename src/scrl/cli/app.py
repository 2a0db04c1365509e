"""The `scrl` command: its subcommands, exit codes, and how errors and interrupts end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from scrl._version import __version__
from scrl.cli import (
    ask,
    bench,
    check,
    compare,
    demo,
    evaluate,
    export,
    learn,
    listing,
    new,
    report,
    solve,
    train,
)
from scrl.cli.interrupts import hear_every_interrupt
from scrl.cli.output import EXIT_INTERRUPTED, EXIT_WRONG_INPUT
from scrl.errors import ScrlError

app = typer.Typer(
    name="scrl",
    help="Write rules over a map, learn how to drive so that they hold, see how good it is.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _ends_cleanly(command: Callable[..., None]) -> Callable[..., None]:
    """Wrong input ends with one message and code 2, Ctrl-C with 130: never with a traceback."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except ScrlError as error:
            print(f"scrl: {error}", file=sys.stderr)
            raise typer.Exit(EXIT_WRONG_INPUT) from None
        except BrokenPipeError:
            # The reader went away (`scrl list | head`): nothing is wrong, nobody is left to tell.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except OSError as error:
            print(f"scrl: {error.filename or 'file'}: {error.strerror or error}", file=sys.stderr)
            raise typer.Exit(EXIT_WRONG_INPUT) from None
        except KeyboardInterrupt:
            print("\nscrl: interrupted", file=sys.stderr)
            sys.stdout.flush()
            sys.stderr.flush()
            # Compiled code may still be running in other threads: leave without tearing down
            # what it works on.
            os._exit(EXIT_INTERRUPTED)

    return run


for _name, _command in {
    "demo": demo.demo,
    "list": listing.list_all,
    "new": new.new,
    "check": check.check,
    "solve": solve.solve,
    "train": train.train,
    "eval": evaluate.evaluate,
    "ask": ask.ask,
    "learn": learn.learn,
    "bench": bench.bench,
    "report": report.report,
    "compare": compare.compare,
    "export": export.export,
}.items():
    app.command(_name)(_ends_cleanly(_command))


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"scrl {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    del version


def _prepare_jax() -> None:
    """Keep compiled code on disk, so that the next command starts at once; use every core."""
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(home) / "scrl" / "compiled"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
    # Each core as a device of its own: seeds are shared out among them.
    os.environ.setdefault("JAX_NUM_CPU_DEVICES", str(os.cpu_count() or 1))


def main() -> None:
    """Run a command."""
    _prepare_jax()
    hear_every_interrupt()
    app(prog_name="scrl")
