"""The `scrl` command: its subcommands, exit codes, and the handling of errors and Ctrl-C."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from scrl._version import __version__
from scrl.cli import (
    ask,
    audit,
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
    studio,
    train,
)
from scrl.cli.interrupts import hear_every_interrupt, interrupts_raised, leave
from scrl.cli.output import EXIT_UNFINISHED, EXIT_WRONG_INPUT
from scrl.cli.streams import outlive_readers
from scrl.errors import STORAGE_TROUBLES, ScrlError, UnfinishedError

app = typer.Typer(
    name="scrl",
    help="Write rules over a map, learn how to drive so that they hold, see how good it is.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _ends_cleanly(command: Callable[..., None]) -> Callable[..., None]:
    """Wrong input ends with one message and code 2, a full disk with 1, Ctrl-C with 130.

    None of them shows a traceback.
    """

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            with interrupts_raised():
                command(*arguments, **options)
                sys.stdout.flush()
        except UnfinishedError as error:
            _end(str(error), EXIT_UNFINISHED)
        except ScrlError as error:
            _end(str(error), EXIT_WRONG_INPUT)
        except OSError as error:
            _end(*_system_error(error))
        except KeyboardInterrupt:
            leave()

    return run


def _end(message: str, code: int) -> NoReturn:
    print(f"scrl: {message}", file=sys.stderr)
    raise typer.Exit(code) from None


def _system_error(error: OSError) -> tuple[str, int]:
    """The message and exit code of an operating-system error: a wrong path, or a full disk."""
    path = error.filename2 or error.filename or "standard output"
    message = f"{path}: {error.strerror or error}"
    if error.errno not in STORAGE_TROUBLES:
        return message, EXIT_WRONG_INPUT
    return (
        f"{message}. The file was not written, and an earlier one is unchanged: "
        "free some space or choose another folder, and run the same command again"
    ), EXIT_UNFINISHED


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
    "audit": audit.audit,
    "studio": studio.studio,
}.items():
    app.command(_name, cls=new.GridCommand if _name == "new" else None)(_ends_cleanly(_command))


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
    """Cache compiled code on disk for later commands, and use every core."""
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(home) / "scrl" / "compiled"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
    # Each core is a device, over which the seeds are distributed.
    os.environ.setdefault("JAX_NUM_CPU_DEVICES", str(os.cpu_count() or 1))


def run() -> None:
    """Run the command that the command line names."""
    _prepare_jax()
    hear_every_interrupt()
    outlive_readers()
    app(prog_name="scrl")
