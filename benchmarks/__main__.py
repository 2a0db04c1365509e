"""`make bench`: every measurement into docs/measurements.md, then every training run."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

from benchmarks.machine import matmul_gflops

PAGE = Path(__file__).parents[1] / "docs" / "measurements.md"
MEASUREMENTS = {
    "world_speed": "Steps per second of the world",
    "reference_scale": "The reference of a sweep",
    "reference_finite": "The reference of a finite MDP",
    "training_time": "Seconds of training",
}
TABLES = ("all", "wind", "preset")
"""Ten seeds of every method and problem: most of a day on two cores; minutes on a large GPU."""
INTRODUCTION = """# Measurements

Written by `make bench`. Ratios come from one run on one machine; seconds depend on it, so a plain
matrix product is measured beside them.
"""


def main() -> None:
    """Run each module on its own and collect what it prints."""
    sections = [INTRODUCTION, _machine()]
    for name, title in MEASUREMENTS.items():
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        sections.append(f"## {title}\n\n`python -m benchmarks.{name}`\n\n{done.stdout.strip()}\n")
    PAGE.write_text("\n".join(sections), encoding="utf-8")
    print(f"wrote {PAGE}", file=sys.stderr)
    for table in TABLES:
        subprocess.run([sys.executable, "-m", "scrl", "bench", table], check=True)
    subprocess.run([sys.executable, "-m", "benchmarks.results"], check=True)


def _machine() -> str:
    """What these figures were measured on, and from which commit."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    cores = os.cpu_count()
    return (
        f"Commit `{described.stdout.strip() or 'unknown'}`, {cores} cores ({platform.machine()}), "
        f"Python {platform.python_version()}, matrix product {matmul_gflops():,.0f} GFLOP/s.\n"
    )


if __name__ == "__main__":
    main()
