"""How the cost of a training step grows with regions, clauses, the map's size and seeds.

`python -m benchmarks.training_growth [--seeds 1] [--few]` times rounds of PPO with default
settings, prints a table for each, writes docs/results/training-growth-DEVICE.json and draws all
such files into docs/images/training-growth.png. Seeds: `python -m benchmarks.seeds_speed`.

Every step counts that is driven, priced and learned from. A round also measures the policy in one
episode, which is as long as the map; here it is cut at the same number of steps for every map.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure

from benchmarks.asking_growth import patchwork
from benchmarks.machine import matmul_gflops
from scrl.problems import Problem
from scrl.report.figures import save_figure
from scrl.training.config import configure
from scrl.training.devices import DeviceRounds, learn_round, task_of

DOCS = Path(__file__).parents[1] / "docs"
RESULTS, PICTURE = DOCS / "results", DOCS / "images" / "training-growth.png"
ROUNDS = 9
HORIZON = 1_000
"""Steps of the measured episode."""
FEW_REGIONS = 10
ATOMS_OF_A_CLAUSE = 4


def with_clauses(world: Problem, count: int) -> Problem:
    """Rules of four atoms each, none of them alike, with bounds above what full speed gives."""
    rng = np.random.default_rng(count)
    names = world.world_spec.regions.names
    rules = [
        " or ".join(
            f"{rng.choice(names)} >= {1000 + ATOMS_OF_A_CLAUSE * rule + place}"
            for place in range(ATOMS_OF_A_CLAUSE)
        )
        for rule in range(count)
    ]
    return world.with_rules(rules)


def of_regions(size: int) -> Problem:
    return with_clauses(patchwork(size, 200), 3)


def of_clauses(size: int) -> Problem:
    return with_clauses(patchwork(FEW_REGIONS, 50), size)


def of_side(size: int) -> Problem:
    return with_clauses(patchwork(FEW_REGIONS, size), 3)


GROWTH: dict[str, tuple[str, Callable[[int], Problem], tuple[int, ...]]] = {
    "regions": ("regions, on 200 x 200 cells", of_regions, (5, 10, 20, 50, 100, 200, 500)),
    "clauses": ("clauses of four atoms, 10 regions", of_clauses, (1, 5, 10, 20, 50, 100, 200)),
    "side": ("cells a side, 10 regions", of_side, (50, 100, 200, 500, 2_000)),
}


class Timed:
    """One compiled round and its state."""

    def __init__(self, problem: Problem, seeds: int) -> None:
        spec = problem.world_spec
        route = replace(spec.route, horizon_steps=HORIZON)
        problem = replace(problem, world_spec=replace(spec, route=route))
        config = configure()
        self.rounds = DeviceRounds([task_of(problem, config)], range(seeds))
        self.steps = seeds * config.loop.worlds * config.loop.rollout_steps
        self.state = self.rounds.begin()
        started = time.perf_counter()
        lowered = learn_round.lower(self.rounds.mesh, self.rounds.tasks, self.state)
        self.learn = lowered.compile()
        self.compiling_s = time.perf_counter() - started
        self.seconds: list[float] = []
        self.once()
        self.seconds.clear()

    def once(self) -> None:
        """One round."""
        started = time.perf_counter()
        self.state, _ = jax.block_until_ready(self.learn(self.rounds.tasks, self.state))
        self.seconds.append(time.perf_counter() - started)

    def row(self, size: int) -> dict[str, Any]:
        sizes: Any = self.learn.memory_analysis()
        return {
            "size": size,
            "step_ns": 1e9 * median(self.seconds) / self.steps,
            "compiling_s": self.compiling_s,
            "memory_bytes": sizes.temp_size_in_bytes + sizes.argument_size_in_bytes,
        }


def measure(name: str, sizes: Sequence[int], seeds: int) -> list[dict[str, Any]]:
    """All sizes in turn, round after round: the machine's moods meet all of them alike."""
    timed = [Timed(GROWTH[name][1](size), seeds) for size in sizes]
    for _ in range(ROUNDS):
        for each in timed:
            each.once()
    return [each.row(size) for each, size in zip(timed, sizes, strict=True)]


def law(name: str, rows: list[dict[str, Any]]) -> str:
    """How the cost grows, in a sentence: how often itself (flat), or faster than its size."""
    sizes, costs = (np.array([row[key] for row in rows]) for key in ("size", "step_ns"))
    if name == "side":
        return f"The dearest map costs {costs.max() / costs.min():.2f} times the cheapest."
    faster = (costs[1:] / costs[:-1]) / (sizes[1:] / sizes[:-1])
    return (
        f"From one size to the next the cost grows at most {faster.max():.2f} times as much as the "
        f"size; from first to last {costs[-1] / costs[0]:.1f} times, the size "
        f"{sizes[-1] / sizes[0]:.0f} times."
    )


def show(name: str, rows: list[dict[str, Any]]) -> None:
    """A table and its law."""
    print(f"\n| {GROWTH[name][0]} | ns per step | memory, MiB | compiling, s |")
    print("|---" * 4 + "|")
    for row in rows:
        print(
            f"| {row['size']:,} | {row['step_ns']:,.0f} | {row['memory_bytes'] / 2**20:,.0f} | "
            f"{row['compiling_s']:.1f} |"
        )
    print(f"\n{law(name, rows)}", flush=True)


def draw(documents: Sequence[dict[str, Any]]) -> None:
    """Cost and memory against each size, a line for every device."""
    figure = Figure(figsize=(10.0, 5.6), layout="constrained")
    axes = figure.subplots(2, len(GROWTH), sharex="col", sharey="row")
    for document, colour in zip(documents, ("#4477aa", "#ee9944", "#228833"), strict=False):
        for name, (above, below) in zip(GROWTH, axes.T, strict=True):
            rows = document["growth"].get(name, [])
            sizes = [row["size"] for row in rows]
            style = {"color": colour, "label": document["device"]}
            above.loglog(sizes, [row["step_ns"] for row in rows], "o-", **style)
            below.loglog(sizes, [row["memory_bytes"] / 2**20 for row in rows], "o-", **style)
            below.set_xlabel(GROWTH[name][0])
    axes[0, 0].set_ylabel("nanoseconds per step")
    axes[1, 0].set_ylabel("memory, MiB")
    axes[0, 0].legend()
    save_figure(figure, PICTURE)


def main() -> None:
    """Measure, write, print and draw."""
    device = jax.local_devices()[0]
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default=",".join(GROWTH))
    parser.add_argument("--few", action="store_true", help="first, middle and last size only")
    parser.add_argument(
        "--out", type=Path, default=RESULTS / f"training-growth-{device.platform}.json"
    )
    chosen = parser.parse_args()
    seeds = "one seed" if chosen.seeds == 1 else f"{chosen.seeds} seeds"
    kind = "CPU" if device.platform == "cpu" else device.device_kind
    found: dict[str, Any] = {"device": f"{kind}, {seeds}", "growth": {}}
    if chosen.only != ",".join(GROWTH) and chosen.out.exists():  # the rest stays as it was
        found = json.loads(chosen.out.read_text(encoding="utf-8"))
    for name in chosen.only.split(","):
        sizes = GROWTH[name][2]
        rows = measure(name, sizes[:: len(sizes) // 2] if chosen.few else sizes, chosen.seeds)
        jax.clear_caches()
        found["growth"][name] = rows
        chosen.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for name, rows in found["growth"].items():
        show(name, rows)
    print(f"\n{found['device']}. A plain matrix product: {matmul_gflops():,.0f} GFLOP/s.")
    draw([json.loads(each.read_text()) for each in sorted(RESULTS.glob("training-growth-*.json"))])


if __name__ == "__main__":
    main()
