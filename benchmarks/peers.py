"""Seconds until the first policy that keeps the rule of agri-situational, ours and others'.

`python -m benchmarks.peers [--python sbx=PATH]` prints Markdown. Every contestant runs as a process
of its own, from its start (imports and compiling included) until it has a policy that keeps the
rule within 10 % of the reference, or until the limit. Policies are measured in whole episodes
without noise. PATH is a Python that has `scrl` and the contestant's package.

Why 10 %: an untrained policy that happens to crawl keeps this rule at once, at several times the
cost. Both times are told.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from typing import NamedTuple

from benchmarks.contestants import CONTESTANTS, PROBLEM
from benchmarks.machine import matmul_gflops

GOOD_GAP = 0.10
TOLERANCE = 1e-6


class Race(NamedTuple):
    """When a contestant had what; none: not within the limit."""

    kept_s: float | None
    good_s: float | None
    steps: int
    best: float | None
    note: str


def race(name: str, python: str, limit_s: float, good: float, cache: str) -> Race:
    """Run a contestant until it is good, or the limit."""
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen(
            [python, "-W", "ignore", "-m", "benchmarks.peers", "--run", name],
            stdout=subprocess.PIPE, stderr=said, text=True,
            env={**os.environ, "JAX_COMPILATION_CACHE_DIR": cache, "OMP_NUM_THREADS": "1",
                 "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1"},
        )  # fmt: skip
        limit = threading.Timer(limit_s, child.kill)
        limit.start()
        found = _watched(child.stdout or (), began, good)
        limit.cancel()
        child.kill()
        child.wait()
        said.seek(0)
        last = (said.read().strip().splitlines() or ["told nothing"])[-1][-200:]
    return found if found.steps or found.kept_s else found._replace(note=last)


def _watched(lines: Iterable[str], began: float, good: float) -> Race:
    """What is told, up to the first good policy."""
    found = Race(None, None, 0, None, "")
    for line in lines:
        seconds = time.perf_counter() - began
        if not line.startswith('{"return"'):
            continue  # some libraries chat
        seen = json.loads(line)
        found = found._replace(steps=seen["steps"])
        if not seen["whole"] or seen["violation"] > TOLERANCE:
            continue
        best = seen["return"] if found.best is None else max(found.best, seen["return"])
        found = found._replace(kept_s=found.kept_s or seconds, best=best)
        if seen["return"] >= good:
            return found._replace(good_s=seconds)
    return found


def main() -> None:
    """Race and print."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--run", choices=CONTESTANTS)
    asked.add_argument("--limit", type=float, default=180.0, help="seconds for each")
    asked.add_argument("--python", action="append", default=[], metavar="NAME=PATH")
    asked.add_argument("--only", nargs="*", default=list(CONTESTANTS))
    given = asked.parse_args()
    if given.run:
        CONTESTANTS[given.run][1]()
        return
    import scrl

    reference = scrl.solve(scrl.load(PROBLEM)).return_ or 0.0
    good = reference - GOOD_GAP * abs(reference)
    pythons = dict(each.split("=", 1) for each in given.python)
    print(f"| {PROBLEM} | first kept, s | within 10 %, s | steps | best return |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as cold, tempfile.TemporaryDirectory() as warm:
        for name in given.only:
            cache = warm if name in ("scrl", "again") else cold
            python = pythons.get(name, sys.executable)
            found = race(name, python, given.limit, good, cache)
            times = [f"{each:.1f}" if each else "-" for each in (found.kept_s, found.good_s)]
            best = f"{found.best:.2f}" if found.best is not None else found.note or "-"
            row = [CONTESTANTS[name][0], *times, f"{found.steps:,}", best]
            print(f"| {' | '.join(row)} |", flush=True)
    print(
        f"\nThe reference is {reference:.2f}, 10 % from it {good:.2f}; limit {given.limit:.0f} s. "
        f"A plain matrix product: {matmul_gflops():,.0f} GFLOP/s."
    )


if __name__ == "__main__":
    main()
