"""`scrl studio`: a page in the browser on which rules are changed and plans are seen."""

from __future__ import annotations

import os
import sys
import webbrowser
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from scrl.cli.output import JsonFlag, messages, print_json

if TYPE_CHECKING:
    from scrl.studio.serving import Running


def studio(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[PROBLEM]",
            help="A built-in problem, a problem file or folder, or a map "
            "(default: this folder, or an example).",
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any free port.")] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Do not open a browser, print the address only.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Change rules on a page in the browser and watch the plan change. Ctrl-C ends it."""
    from scrl.studio.serving import serve

    def ready(running: Running) -> None:
        if as_json:
            print_json({"address": running.address, "port": running.port})
        else:
            print(running.address, flush=True)
        sys.stdout.flush()
        messages().print("studio: open this address on this machine; Ctrl-C ends it", markup=False)
        if not no_browser:
            # Some browsers keep the caller waiting.
            Thread(target=webbrowser.open, args=(running.address,), daemon=True).start()

    session = serve(target, port, ready)
    place = session.place.file or session.place.folder
    kept = f"; unsaved changes are kept: `scrl studio {place}` shows them again"
    messages().print(
        f"\nstudio ended{kept if session.is_unsaved and session.journal else ''}",
        markup=False, soft_wrap=True,
    )  # fmt: skip
    # Compiled code may still be running in a thread, and is not waited for.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
