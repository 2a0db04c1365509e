"""How the reference grows: many clauses, and a large map with overlapping regions.

`python -m benchmarks.reference_scale` prints a Markdown table. Everything is drawn from seeds.
"""

from __future__ import annotations

import time

import numpy as np

import scrl
from benchmarks.machine import matmul_gflops
from scrl.problems import Problem, builtin_names
from scrl.worlds.regions import RegionMap, from_masks
from scrl.worlds.spec import Route, SweepSpec


def many_clauses(clauses: int = 200, atoms: int = 4, seed: int = 0) -> Problem:
    """Random clauses over twenty regions, each atom about a third to keep at a random speed."""
    rng = np.random.default_rng(seed)
    spec = SweepSpec(overlapping_map(100, 20, seed), route=Route(horizon_steps=50_000))
    names = spec.regions.names
    typical = spec.path.service.sum(axis=0) * spec.vehicle.rate * 0.6
    rules = []
    for _ in range(clauses):
        parts = []
        for _ in range(atoms):
            chosen = rng.choice(len(names), size=rng.integers(1, 4), replace=False)
            bound = float(typical[chosen].sum() * rng.uniform(0.6, 1.6))
            sign = ">=" if rng.random() < 0.7 else "<="
            parts.append(f"{' + '.join(names[index] for index in chosen)} {sign} {bound:.1f}")
        rules.append(" or ".join(parts))
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
    spec = SweepSpec(overlapping_map(side, regions, seed), route=Route(horizon_steps=3_000_000))
    received = spec.path.service.sum(axis=0) * spec.vehicle.rate / spec.vehicle.max_speed
    rules = [
        f"{name} >= {1.5 * amount:.1f} or {other} >= {1.8 * amount:.1f}"
        for name, other, amount in zip(
            spec.regions.names, spec.regions.names[1:] + spec.regions.names[:1], received, strict=True
        )
    ]
    return Problem.create(spec, rules)


def measure(name: str, build) -> None:  # noqa: ANN001
    """One row: seconds to build the problem, seconds to solve it, what came out."""
    started = time.perf_counter()
    problem = build()
    built = time.perf_counter() - started
    started = time.perf_counter()
    found = scrl.solve(problem, drives=0)
    seconds = time.perf_counter() - started
    value = "" if found.return_ is None else f"{found.return_:,.2f}"
    print(f"| {name} | {built:.1f} | {seconds:.2f} | {found.status.value} | {value} |", flush=True)


def main() -> None:
    """The table."""
    print("| problem | build, s | solve, s | status | return |")
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
