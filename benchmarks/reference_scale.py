"""How the reference grows: many clauses, and a large map with overlapping regions.

`python -m benchmarks.reference_scale` prints a Markdown table. Everything is drawn from seeds.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np

import scrl
from benchmarks.machine import matmul_gflops
from scrl.problems import Problem, builtin_names
from scrl.reference.solve import fluid_reference
from scrl.worlds.sweep.regions import RegionMap, from_masks
from scrl.worlds.sweep.spec import SweepRoute, SweepSpec


def many_clauses(clauses: int = 200, seed: int = 0) -> Problem:
    """Rules `if A > x then B >= y or C >= z or D >= w` over twenty overlapping regions.

    x is 0.9 to 3 times what full speed gives, y, z and w are 1 to 2 times that.
    """
    rng = np.random.default_rng(seed)
    spec = SweepSpec(overlapping_map(100, 20, seed), route=SweepRoute(horizon_steps=50_000))
    names = spec.regions.names
    received = spec.path.service.sum(axis=0) * spec.vehicle.rate / spec.vehicle.max_speed
    rules = []
    for _ in range(clauses):
        a, *rest = rng.choice(len(names), size=4, replace=False)
        ways = [f"{names[i]} >= {received[i] * rng.uniform(1.0, 2.0):.1f}" for i in rest]
        premise = f"{names[a]} > {received[a] * rng.uniform(0.9, 3.0):.1f}"
        rules.append(f"if {premise} then {' or '.join(ways)}")
    return Problem.create(spec, rules)


def overlapping_map(side: int, regions: int, seed: int) -> RegionMap:
    """Discs of random size at random places, overlapping each other."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:side, :side] / side
    masks = []
    for _ in range(regions):
        row, column = rng.random(2)
        radius = rng.uniform(0.08, 0.2)
        masks.append((rows - row) ** 2 + (columns - column) ** 2 < radius**2)
    return from_masks(np.array(masks))


def large_map(side: int = 1000, regions: int = 50, seed: int = 0) -> Problem:
    """A large map where every region is asked for half as much again as full speed gives."""
    spec = SweepSpec(
        overlapping_map(side, regions, seed), route=SweepRoute(horizon_steps=3_000_000)
    )
    names = spec.regions.names
    received = spec.path.service.sum(axis=0) * spec.vehicle.rate / spec.vehicle.max_speed
    rules = [
        f"{name} >= {1.5 * amount:.1f} or {other} >= {1.8 * amount:.1f}"
        for name, other, amount in zip(names, names[1:] + names[:1], received, strict=True)
    ]
    return Problem.create(spec, rules)


def measure(name: str, build: Callable[[], Problem]) -> None:
    """One row: seconds to build the problem, seconds to solve it, what came out."""
    started = time.perf_counter()
    problem = build()
    built = time.perf_counter() - started
    started = time.perf_counter()
    found = fluid_reference(problem)
    seconds = time.perf_counter() - started
    value = "" if found.fluid is None else f"{found.fluid:,.2f}"
    print(
        f"| {name} | {built:.1f} | {seconds:.2f} | {found.fluid_status.value} | {value} |",
        flush=True,
    )


def command_seconds(name: str) -> float:
    """Wall time of the whole command, drives in the true world and start-up included."""
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "scrl", "solve", name, "--json"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - started


def main() -> None:
    """Two tables: the command on the built-in problems, then growth."""
    print("| `scrl solve`, whole command | s, median of 5 |")
    print("|---|---|")
    for name in builtin_names():
        print(f"| {name} | {median(command_seconds(name) for _ in range(5)):.2f} |", flush=True)
    print()
    print("| problem | build, s | solve, s | status of the fluid | its return |")
    print("|---|---|---|---|---|")
    for name in builtin_names():
        measure(name, lambda name=name: scrl.load(name))
    for seed in range(3):
        measure(f"200 clauses of 4 atoms, seed {seed}", lambda seed=seed: many_clauses(seed=seed))
    for seed in range(2):
        measure(
            f"1000 x 1000 map, 50 overlapping regions, seed {seed}",
            lambda seed=seed: large_map(seed=seed),
        )
    print(f"\nA plain matrix product on this machine: {matmul_gflops():,.0f} GFLOP/s.")


if __name__ == "__main__":
    main()
