"""Parallel work in threads, one for each core, that stops soon after Ctrl-C."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TypeVar

Part = TypeVar("Part")
Done = TypeVar("Done")
IsStopped = Callable[[], bool]


def in_threads(work: Callable[[Part, IsStopped], Done], parts: Iterable[Part]) -> list[Done]:
    """The results of `work(part, is_stopped)` for all parts, in order.

    After Ctrl-C or an error the remaining parts are not started. Running ones should poll
    `is_stopped`; their results are discarded.
    """
    stopped = Event()
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        try:
            running = [threads.submit(work, part, stopped.is_set) for part in parts]
            return [each.result() for each in running]
        except BaseException:
            stopped.set()
            threads.shutdown(wait=False, cancel_futures=True)
            raise
