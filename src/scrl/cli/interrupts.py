"""Ctrl-C is heard wherever it finds the program."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

SOON_S = 0.05
"""Long enough for the callback that swallowed the first one to be over."""


def hear_every_interrupt() -> None:
    """Repeat an interrupt that came up where nothing can be raised.

    Python reports what is raised in a callback of its garbage collector, and goes on. JAX has such
    a callback, which runs all the while it traces: one Ctrl-C in eight was lost there.
    """
    report = sys.unraisablehook

    def repeat(ignored: Any) -> None:
        if not issubclass(ignored.exc_type, KeyboardInterrupt):
            report(ignored)
            return
        again = threading.Timer(SOON_S, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()

    sys.unraisablehook = repeat
