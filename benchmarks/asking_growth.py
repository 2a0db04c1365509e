"""How the time of a question and its gap grow with regions and with the size of the map.

`python -m benchmarks.asking_growth` prints a table and draws docs/images/asking-growth.png.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from scrl.planning.planner import Planner, planner
from scrl.problems import Problem, ProblemOptions
from scrl.problems.load import with_long_horizon
from scrl.report.figures import save_figure
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec

REGIONS = (3, 10, 30, 100)
SIDES = (50, 100, 200, 500)
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "asking-growth.png"


class Measured(NamedTuple):
    """One map and its question."""

    regions: int
    side: int
    is_satisfied: bool
    gap: float
    seconds: float
    """The second time that it is asked: nothing is compiled any more."""


def patchwork(regions: int, side: int) -> Problem:
    """As many regions as asked for: the cells that lie nearest to random places."""
    rng = np.random.default_rng(regions)
    places = rng.uniform(0, side, (regions, 2))
    cells = np.moveaxis(np.mgrid[0:side, 0:side], 0, -1) + 0.5
    distance = np.stack([np.square(cells - place).sum(axis=-1) for place in places])
    labels = 1 + distance.argmin(axis=0)
    labels[np.sqrt(distance.min(axis=0)) > 0.6 * side / np.sqrt(regions)] = 0
    spec = with_long_horizon(SweepSpec(from_labels(labels)))
    return Problem.create(spec, (), ProblemOptions(name=f"{regions} regions, {side} x {side}"))


def rules_for(world: Problem) -> list[str]:
    """Five rules with bounds above what full speed gives."""
    rng = np.random.default_rng(0)
    spec = world.world_spec
    full = spec.regions.sizes / spec.vehicle.max_speed * spec.vehicle.rate
    chosen = rng.choice(len(full), size=min(5, len(full)), replace=False)
    return [
        f"{spec.regions.names[index]} >= {full[index] * rng.uniform(1.2, 1.8):.0f}"
        for index in chosen
    ]


def measure(asking: Planner, regions: int, side: int) -> Measured:
    """Ask twice, and time the second time."""
    world = patchwork(regions, side)
    rules = rules_for(world)
    asking.ask(world, rules)
    started = time.perf_counter()
    answer = asking.ask(world, rules, seed=1)
    seconds = time.perf_counter() - started
    gap = float("nan") if answer.gap is None else answer.gap
    return Measured(regions, side, answer.is_satisfied, gap, seconds)


def draw(by_regions: list[Measured], by_side: list[Measured]) -> None:
    """Time and gap against both sizes."""
    figure = Figure(figsize=(9.0, 3.2), layout="constrained")
    for number, (rows, name) in enumerate([(by_regions, "regions"), (by_side, "side")], start=1):
        axes = figure.add_subplot(1, 2, number)
        sizes = [getattr(row, name) for row in rows]
        axes.loglog(sizes, [row.seconds for row in rows], "o-", color="#4477aa", label="seconds")
        axes.set_xlabel({"regions": "regions (50 x 50 cells)", "side": "cells a side"}[name])
        axes.set_ylabel("seconds per question")
        beside = axes.twinx()
        beside.semilogx(sizes, [100 * row.gap for row in rows], "s--", color="#ee9944")
        beside.set_ylabel("gap, % (dashed)")
    save_figure(figure, PICTURE)


def main() -> None:
    """Measure and print."""
    asking = planner()
    by_regions = [measure(asking, regions, 50) for regions in REGIONS]
    by_side = [measure(asking, 10, side) for side in SIDES]
    print("| regions | cells | satisfied | gap | seconds per question |")
    print("|---" * 5 + "|")
    for row in (*by_regions, *by_side):
        kept = "yes" if row.is_satisfied else "no"
        print(f"| {row.regions} | {row.side} x {row.side} | {kept} | {row.gap:.2%} | "
              f"{row.seconds:.2f} |")  # fmt: skip
    draw(by_regions, by_side)


if __name__ == "__main__":
    main()
