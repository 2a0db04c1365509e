"""Work in threads, one for each core, which ends soon after Ctrl-C."""

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
    """What `work(part, is_stopped)` makes of each part, in their order.

    After Ctrl-C, or where one fails, the rest is not begun, and those under way are to ask
    `is_stopped` now and then: nobody waits for what they make.
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
