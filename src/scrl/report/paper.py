"""The figures of the paper from the runs of a bench: maps, heat maps, equity and adequacy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from scrl.bench import BenchResult, Cell, Row
from scrl.opening import open_run
from scrl.policies import fixed_policy
from scrl.problems import load
from scrl.report.allocation import allocation_figure
from scrl.report.figures import draw_map
from scrl.worlds.sweep.regions import colour_of

HEATED = ("situational", "priority", "joint")
"""Tasks with heat maps: those of the paper, and the priority tasks."""


def paper_figures(result: BenchResult) -> Iterator[tuple[str, Figure]]:
    """Names and figures for the runs of this bench."""
    problems = list(dict.fromkeys(row.cell.problem for row in result.rows))
    for world in dict.fromkeys(name.partition("-")[0] for name in problems):
        named = next(name for name in problems if name.startswith(world))
        yield f"map-{world}", _map_figure(named)
    for row in result.rows:
        is_drawn = row.cell == Cell(row.cell.problem, "scrl")
        if is_drawn and row.cell.problem.endswith(HEATED):
            problem = load(row.cell.problem)
            learned = open_run(result.out / row.cell.folder).policy()
            policies: dict[str, Any] = {
                "full speed": fixed_policy("full-speed", problem),
                "scrl": learned,
            }
            yield f"heat-{row.cell.problem}", allocation_figure(problem, policies)
    if result.table.is_split:
        yield "equity-adequacy", _split_figure(result.rows)


def _map_figure(problem: str) -> Figure:
    figure = Figure(figsize=(4.2, 4.2), layout="constrained")
    axes = figure.subplots()
    draw_map(axes, load(problem).world_spec.regions)
    axes.set_title(problem.partition("-")[0])
    return figure


def _split_figure(rows: tuple[Row, ...]) -> Figure:
    """Two bars for each method on each task: the violations of equity and adequacy."""
    figure = Figure(figsize=(1.6 + 1.1 * len(rows), 3.6), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(rows))
    for index, (name, shift) in enumerate([("equity", -0.2), ("adequacy", 0.2)]):
        means = [row.split[index].mean for row in rows]
        spread = [
            [row.split[index].mean - row.split[index].low for row in rows],
            [row.split[index].high - row.split[index].mean for row in rows],
        ]
        axes.bar(
            places + shift, means, 0.4, yerr=spread, capsize=3, color=colour_of(index), label=name
        )
    axes.set_xticks(places, [f"{row.cell.problem}\n{row.cell.label}" for row in rows], fontsize=8)
    axes.set_ylabel("violated by (a tenth of the units)")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
