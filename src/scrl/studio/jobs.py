"""Long computations, one at a time in a thread; a newer one of the same kind replaces the older."""

from __future__ import annotations

import ctypes
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Condition, Thread

IsStale = Callable[[], bool]
Work = Callable[[IsStale], None]


class DroppedError(Exception):
    """A computation that nobody waits for any more."""


@dataclass(frozen=True, eq=False)
class BackgroundJob:
    """Work under a key; the keys decide what replaces what."""

    key: str
    work: Work


class Jobs:
    """A thread that does the pending jobs, those that were submitted first coming first."""

    def __init__(self, name: str = "studio") -> None:
        self._changed = Condition()
        self._pending: dict[str, BackgroundJob] = {}
        self._running: BackgroundJob | None = None
        self._is_dropped = False
        self._is_closed = False
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, key: str, work: Work) -> None:
        """Do this work; pending and running work under the same key is dropped."""
        with self._changed:
            self.drop(key)
            self._pending[key] = BackgroundJob(key, work)
            self._changed.notify_all()

    def drop(self, key: str) -> None:
        """Forget the pending work of a key, and have the running one end soon."""
        with self._changed:
            self._pending.pop(key, None)
            if self._running is not None and self._running.key == key:
                self._is_dropped = True

    def close(self) -> None:
        """Take no more work; running work ends at its next look."""
        with self._changed:
            self._pending.clear()
            self._is_dropped = self._is_closed = True
            self._changed.notify_all()

    def join(self, timeout_s: float) -> None:
        """Wait until the thread has ended, after `close`."""
        self._thread.join(timeout_s)

    def _is_stale(self) -> bool:
        with self._changed:
            return self._is_dropped

    def _next(self) -> BackgroundJob | None:
        with self._changed:
            while not self._pending and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                return None
            key = next(iter(self._pending))
            self._running, self._is_dropped = self._pending.pop(key), False
            return self._running

    def _run(self) -> None:
        while (job := self._next()) is not None:
            try:
                job.work(self._is_stale)
            except DroppedError:
                pass
            except Exception:
                traceback.print_exc()
            give_memory_back()
            with self._changed:
                self._running = None


def give_memory_back() -> None:
    """Return freed memory to the system, where the C library is glibc.

    It keeps what threads have freed: a fifth more after a thousand plans.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
