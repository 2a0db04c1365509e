"""Handling of Ctrl-C: it ends the program with one line, wherever it arrives."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

EXIT_INTERRUPTED = 130
SOON_S = 0.05
"""Seconds after which the callback that swallowed the first signal has ended."""


def leave(text: str = "interrupted") -> NoReturn:
    """End the program immediately with this line.

    Memory is not freed, since compiled code may still be running in other threads.
    """
    with suppress(OSError, RuntimeError, ValueError):  # the stream may be closed or in use
        sys.stdout.flush()
    with suppress(OSError):
        os.write(2, f"\nscrl: {text}\n".encode())
    os._exit(EXIT_INTERRUPTED)


def leave_on_interrupt() -> None:
    """Have Ctrl-C end the program immediately, before any work has begun.

    A KeyboardInterrupt would be raised during imports, some of which swallow it. A process that
    ignores Ctrl-C, as in the background of a shell, keeps ignoring it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: leave())


@contextmanager
def interrupts_raised() -> Iterator[None]:
    """Have Ctrl-C raise KeyboardInterrupt for a while, so that a command can clean up."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def hear_every_interrupt() -> None:
    """Repeat an interrupt that arrived where no exception can be raised.

    Python only reports an exception in a callback of its garbage collector. JAX has such a
    callback, which often runs while it traces: one Ctrl-C in eight was lost there.
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
