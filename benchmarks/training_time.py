"""Seconds of training on this machine: agri-joint, one seed five times, then ten seeds at once.

`python -m benchmarks.training_time` runs the command as a user would, without any compiled code on
disk, and prints a Markdown table; a matrix product is read beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from statistics import median
from typing import Any, NamedTuple

from benchmarks.machine import matmul_gflops

PROBLEM = "agri-joint"
REPEATS = 5


class Timed(NamedTuple):
    """One command: its seconds as told by itself and by the clock, and what came of it."""

    training_s: float
    command_s: float
    result: dict[str, Any]


def train(seeds: int, first: int = 0) -> Timed:
    """`scrl train` in a fresh folder with a fresh cache."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "scrl", "train", PROBLEM, "--json",
             "--seeds", str(seeds), "--seed", str(first), "--out", f"{folder}/run"],
            stdout=subprocess.PIPE, check=True, text=True,
            env={**os.environ, "XDG_CACHE_HOME": folder},
        )  # fmt: skip
        seconds = time.perf_counter() - started
    result = json.loads(done.stdout)
    return Timed(result["wall_s"], seconds, result)


def main() -> None:
    """Measure and print."""
    single = [train(1, first) for first in range(REPEATS)]
    together = train(10)
    print("| agri-joint, default settings | training, s | whole command, s | satisfied |")
    print("|---|---|---|---|")
    kept = sum(each.result["satisfied"] for each in single)
    seconds = median(each.training_s for each in single)
    whole = median(each.command_s for each in single)
    print(f"| one seed, median of {REPEATS} | {seconds:.1f} | {whole:.1f} | {kept} of {REPEATS} |")
    kept = together.result["satisfied"]
    print(
        f"| ten seeds at once | {together.training_s:.1f} | {together.command_s:.1f} "
        f"| {kept} of 10 |"
    )
    print(f"\nCompiling included. A plain matrix product: {matmul_gflops():.0f} GFLOP/s.")


if __name__ == "__main__":
    main()
