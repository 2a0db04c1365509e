"""Seconds of whole commands, from pressing return to the prompt: the first time, and again.

`python -m benchmarks.startup [--times 5]` prints a table. Compiled code is kept on disk, here in an
empty folder: the first call of a command compiles, all others find it. Training is timed up to the
moment at which it begins to compile, and up to its first round.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.machine import matmul_gflops

RULE = "if S2 > 300 then S3 >= 800"
COMMANDS: dict[str, list[str]] = {
    "scrl --help": ["--help"],
    "scrl list": ["list"],
    "scrl check": ["check", "agri-situational"],
    "scrl solve": ["solve", "agri-situational"],
    "scrl ask": ["ask", "agri-situational", RULE, "--out", "{plan}"],
    "scrl eval": ["eval", "agri-situational", "--policy", "{plan}"],
    "scrl export": ["export", "{plan}", "--format", "geojson", "--out", "{folder}/route.geojson"],
    "scrl report": ["report", "{plan}", "--out", "{folder}/page.html"],
}
MARKS = {"scrl train, until it compiles": "compiling", "scrl train, first round": "round 1 of"}


class Place:
    """A folder for plans and compiled code."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plans = 0
        self.environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled")}

    def seconds(self, arguments: list[str]) -> float:
        """Of one command; a plan goes into a new folder, and is what later commands read."""
        self.plans += "ask" in arguments
        names = {"plan": str(self.folder / f"plan-{self.plans}"), "folder": str(self.folder)}
        command = [sys.executable, "-m", "scrl", *(each.format(**names) for each in arguments)]
        started = time.perf_counter()
        subprocess.run(command, env=self.environment, check=True, capture_output=True)
        return time.perf_counter() - started

    def training_seconds(self, mark: str) -> float:
        """Until training says something."""
        with tempfile.TemporaryDirectory() as run:
            command = [sys.executable, "-m", "scrl", "train", "agri-situational", "--out",
                       f"{run}/run"]  # fmt: skip
            started = time.perf_counter()
            with subprocess.Popen(
                command, env=self.environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                text=True,
            ) as training:  # fmt: skip
                lines = iter(training.stderr or ())
                next(line for line in lines if mark in line)
                seconds = time.perf_counter() - started
                training.kill()
        return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=5)
    times = parser.parse_args().times
    print("| command | first, s | again, s |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        for name, arguments in COMMANDS.items():
            first = place.seconds(arguments)
            again = median(place.seconds(arguments) for _ in range(times))
            print(f"| `{name}` | {first:.2f} | {again:.2f} |", flush=True)
        for name, mark in MARKS.items():
            first = place.training_seconds(mark)
            again = median(place.training_seconds(mark) for _ in range(times))
            print(f"| {name} | {first:.2f} | {again:.2f} |", flush=True)
    print(f"\nMedians of {times}. A plain matrix product: {matmul_gflops():,.0f} GFLOP/s.")


if __name__ == "__main__":
    main()
