"""Processes that step environments: they end with the process that trains, whatever they do.

A process is asked to close its environment, then told to by SIGTERM, then killed with all that it
has started. Those whose parent was killed do the same by themselves.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.vector import AsyncVectorEnv

PATIENCE_S = 1.0
"""For the step that an environment is in."""
CLOSING_S = 5.0
"""For `close`, once a process has been told to end."""


class Obedient(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment in a process of its own: its `close` is not disturbed."""

    def close(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        super().close()


def follow_parent() -> None:
    """This process, which steps an environment, closes it and ends when its parent says so or dies.

    Ctrl-C reaches all processes of a terminal; the one that trains decides what it means.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    if sys.platform == "linux":
        _ask_the_kernel()
    threading.Thread(target=_end_after_parent, daemon=True).start()


def _leave(number: int, frame: Any) -> None:
    """Leave the step that never returns: whoever called it closes the environment."""
    del frame
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _end_after_parent() -> None:
    """An idle process reads the end of its pipe and closes; one that hangs is told to and ended."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join()
    time.sleep(PATIENCE_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(CLOSING_S)
    kill_below(os.getpid())
    os._exit(1)


def _ask_the_kernel() -> None:
    """Let the parent's death end a process that no Python code can, for it never yields to any.

    The signal calls `alarm` with its own number: ten seconds later an alarm ends the process.
    """
    library, set_death_signal = ctypes.CDLL(None), 1
    library.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    library.signal.restype = ctypes.c_void_p
    library.signal(signal.SIGUSR1, ctypes.cast(library.alarm, ctypes.c_void_p))
    library.prctl(set_death_signal, signal.SIGUSR1, 0, 0, 0)


def end_all(vector: AsyncVectorEnv) -> None:
    """End the processes of a vector environment, each with its environment closed if it can be."""
    for pipe in vector.parent_pipes:
        with suppress(OSError):
            if pipe is not None:
                pipe.send(("close", None))
    end(vector.processes)
    for pipe in vector.parent_pipes:
        if pipe is not None:
            pipe.close()
    vector.closed = True


def end(processes: Iterable[BaseProcess]) -> None:
    """Wait for processes, then tell them to end, then kill them with all that they started."""
    left = _left(processes, PATIENCE_S)
    for process in left:
        process.terminate()
    for process in _left(left, CLOSING_S):
        kill_below(process.pid)
        process.kill()
        process.join()


def first_ended(processes: Sequence[BaseProcess]) -> int | None:
    """The place of the first process that has ended, or does so in a moment."""
    ended = connection.wait([process.sentinel for process in processes], timeout=PATIENCE_S)
    for at, process in enumerate(processes):
        if process.sentinel in ended:
            process.join()
            return at
    return None


def _left(processes: Iterable[BaseProcess], limit_s: float) -> list[BaseProcess]:
    """Those that still run after so many seconds."""
    end_s = time.monotonic() + limit_s
    each = list(processes)
    for process in each:
        process.join(max(0.0, end_s - time.monotonic()))
    return [process for process in each if process.is_alive()]


def kill_below(pid: int | None) -> None:
    """Kill all processes that one has started, and those have; none where there is no /proc."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = {pid}
    while more := {each for each, parent in parents.items() if parent in found} - found:
        found |= more
        for number in more:
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)
