"""`make bench`: every measurement into its place in docs/, then every training run.

`python -m benchmarks NAME ...` takes only these measurements, and trains nothing.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.machine import described
from benchmarks.marks import write
from benchmarks.results import COMMANDS

DOCS = Path(__file__).parents[1] / "docs"
ON_A_CPU: dict[str, str] = {
    "world_speed": "measurements.md",
    "reference_scale": "measurements.md",
    "reference_finite": "measurements.md",
    "training_time": "measurements.md",
    "startup": "measurements.md",
    "studio": "measurements.md",
    "training_growth": "measurements.md",
    "against_sb3": "peers.md",
    "peers": "peers.md",
}
"""Modules that print Markdown, and the pages with a place for it."""
ON_A_GPU: dict[str, str] = {"seeds_speed": "measurements.md"}
"""The same, only when asked for by name."""


def main() -> None:
    """Run each module on its own and put what it prints in its place."""
    pages, asked = ON_A_CPU | ON_A_GPU, sys.argv[1:]
    if unknown := set(asked) - set(pages):
        raise SystemExit(f"no measurements: {', '.join(sorted(unknown))}; there are {[*pages]}")
    for name in asked or ON_A_CPU:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        told = f"`python -m benchmarks.{name}`. {described()}\n\n{done.stdout.strip()}"
        write(DOCS / pages[name], {name: told})
    if asked:
        return
    # Ten seeds of every method and problem: days on two cores, an hour on a large GPU.
    for arguments in COMMANDS.values():
        subprocess.run([sys.executable, "-m", "scrl", "bench", *arguments.split()], check=True)
    subprocess.run([sys.executable, "-m", "benchmarks.results"], check=True)


if __name__ == "__main__":
    main()
