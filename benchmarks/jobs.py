"""Measurements side by side in processes, each on one core, that can be stopped and resumed.

A task is a frozen dataclass of plain values, and what was measured of it is a dict. Every result is
appended to a file at once, as one line of JSON with the fields of its task, so the same call goes
on with what is missing there.
"""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

Measure = Callable[[Any], dict[str, Any]]


def read(out: Path) -> list[dict[str, Any]]:
    """The results in a file; a last line that was cut off is none."""
    if not out.exists():
        return []
    whole = out.read_text(encoding="utf-8").rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


def append(out: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write results to the end of a file, in one piece."""
    with out.open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))


def run(
    groups: Sequence[Sequence[Any]],
    measure: Measure,
    *,
    out: Path,
    jobs: int,
    time_limit_s: float,
) -> list[Any]:
    """Measure the tasks that the file lacks; those of a group by one process, one after the other.

    Returns what was not reached in time.
    """
    started, context = time.monotonic(), multiprocessing.get_context("spawn")
    left = [missing for group in groups if (missing := _missing(group, out))]
    cores = context.SimpleQueue()
    for index in range(jobs):
        every = sorted(os.sched_getaffinity(0))
        cores.put(every[index % len(every)])
    with context.Pool(min(jobs, max(len(left), 1)), _on_one_core, (cores,)) as pool:
        running = pool.imap_unordered(partial(_measure_all, measure=measure, out=out), left)
        try:
            for _ in left:
                running.next(max(started + time_limit_s - time.monotonic(), 0.0))
        except multiprocessing.TimeoutError:
            pass  # leaving the pool ends its processes
    return [task for group in groups for task in _missing(group, out)]


def _missing(tasks: Sequence[Any], out: Path) -> list[Any]:
    """The tasks without a result in the file."""
    rows = read(out)
    return [
        task
        for task in tasks
        if not any(row.items() >= dataclasses.asdict(task).items() for row in rows)
    ]


def _on_one_core(cores: Any) -> None:
    """Before anything is computed: later, thread pools would have been made for all cores."""
    os.sched_setaffinity(0, {cores.get()})


def _measure_all(tasks: Sequence[Any], *, measure: Measure, out: Path) -> None:
    for task in tasks:
        row = dataclasses.asdict(task) | measure(task)
        append(out, [row])
