"""Ctrl-C is heard wherever it finds the program, and ends it with one line."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

EXIT_INTERRUPTED = 130
SOON_S = 0.05
"""Long enough for the callback that swallowed the first one to be over."""


def leave(text: str = "interrupted") -> NoReturn:
    """End the program at once, with this line.

    Compiled code may still be running in other threads: what it works on is not torn down.
    """
    with suppress(OSError, RuntimeError, ValueError):  # it may be closed, or just being written
        sys.stdout.flush()
    with suppress(OSError):
        os.write(2, f"\nscrl: {text}\n".encode())
    os._exit(EXIT_INTERRUPTED)


def leave_on_interrupt() -> None:
    """Have Ctrl-C end the program where it stands: nothing has begun that must be ended well.

    A KeyboardInterrupt would come up in the middle of imports, some of which swallow it. A shell
    has what it runs in the background ignore Ctrl-C, and that stays so.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: leave())


@contextmanager
def interrupts_raised() -> Iterator[None]:
    """Have Ctrl-C raise KeyboardInterrupt for a while, so that a command can end well."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def hear_every_interrupt() -> None:
    """Repeat an interrupt that came up where nothing can be raised.

    Python reports what is raised in a callback of its garbage collector, and goes on. JAX has such
    a callback, which runs all the while it traces: one Ctrl-C in eight was lost there.
    """
    import threading

    report = sys.unraisablehook

    def repeat(ignored: Any) -> None:
        if not issubclass(ignored.exc_type, KeyboardInterrupt):
            report(ignored)
            return
        again = threading.Timer(SOON_S, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()

    sys.unraisablehook = repeat
