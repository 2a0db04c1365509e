"""Pictures of problems and results, made with Matplotlib and no window."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scrl.errors import ScrlError
from scrl.evaluation import Evaluation
from scrl.files import replacing
from scrl.problems import Problem, Terms
from scrl.reference import Trade
from scrl.worlds.palette import colour_of, region_colours
from scrl.worlds.regions import RegionMap

MOST_BARS = 40
PICTURE_SUFFIXES = (".png", ".svg", ".pdf")


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a picture, making its folder if need be."""
    if path.suffix not in PICTURE_SUFFIXES:
        raise ScrlError(f"{path}: a picture's name ends in {', '.join(PICTURE_SUFFIXES)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        figure.savefig(file, format=path.suffix[1:], dpi=150)
    return path


def overview(problem: Problem, result: Evaluation) -> Figure:
    """The map beside what each region received and what the rules ask of it."""
    figure = Figure(figsize=(9.0, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.0, 1.25])
    draw_map(left, problem.world_spec.regions)
    draw_received(right, problem, result)
    left.set_title(problem.name)
    right.set_title(f"{result.policy}: return {result.return_:.2f}")
    return figure


def draw_map(axes: Axes, regions: RegionMap) -> None:
    """The regions in their colours, each with its name in its middle."""
    axes.imshow(region_colours(regions), interpolation="nearest")
    for name, mask in zip(regions.names, regions.masks, strict=True):
        row, column = inner_point(mask)
        axes.text(column, row, name, ha="center", va="center", color="white", weight="bold")
    axes.set_axis_off()


def inner_point(mask: np.ndarray) -> tuple[int, int]:
    """A cell well inside a region: of its deepest cells the one nearest to its middle."""
    from scipy.ndimage import distance_transform_cdt

    depth = np.asarray(distance_transform_cdt(np.pad(mask, 1), metric="chessboard"))[1:-1, 1:-1]
    deepest = np.argwhere(depth >= depth.max() - 1)
    middle = np.argwhere(mask).mean(axis=0)
    row, column = deepest[np.argmin(((deepest - middle) ** 2).sum(axis=1))]
    return int(row), int(column)


def draw_received(axes: Axes, problem: Problem, result: Evaluation) -> None:
    """A bar per region, with a mark at each bound that a rule sets on that region alone."""
    names = list(result.density)[:MOST_BARS]
    amounts = [result.density[name] for name in names]
    places = np.arange(len(names))
    axes.barh(places, amounts, color=[colour_of(index) for index in range(len(names))])
    draw_bounds(axes, problem)
    axes.set_xlabel(
        f"{result.unit} received (marks: bounds that rules name; the tip points inside)"
    )


def draw_bounds(axes: Axes, problem: Problem) -> None:
    """A line per region, with a mark at each bound that a rule sets on that region alone."""
    names = problem.regions[:MOST_BARS]
    for region, bound, is_least in single_region_bounds(problem):
        if region < len(names):
            axes.plot([bound, bound], [region - 0.4, region + 0.4], color="black", lw=2)
            axes.plot(bound, region, marker=">" if is_least else "<", color="black", ms=7)
    axes.set_yticks(np.arange(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel(f"{problem.unit} (marks: bounds that rules name; the tip points inside)")
    axes.spines[["top", "right"]].set_visible(False)


def single_region_bounds(problem: Terms) -> list[tuple[int, float, bool]]:
    """(region, bound, whether at least) of every atom that names one region only."""
    found = []
    table = problem.atoms
    for row, bound in zip(table.coefficients, table.bounds, strict=True):
        named = np.flatnonzero(row)
        if len(named) == 1:
            region = int(named[0])
            found.append((region, float(bound / row[region]), bool(row[region] < 0)))
    return found


def trade_figure(trade: Trade) -> Figure:
    """The best return against the rule's bound; red where the rules cannot be kept."""
    figure = Figure(figsize=(6.5, 4.0), layout="constrained")
    axes = figure.subplots()
    bounds = trade.bounds
    across = trade.shift if bounds is None else bounds
    is_impossible = np.isnan(trade.return_)
    axes.plot(across, trade.return_, marker="o", ms=3, color=colour_of(0))
    here = 0.0 if bounds is None or trade.bound is None else trade.bound
    axes.axvline(here, color="black", lw=1, ls=":")
    for place in across[is_impossible]:
        axes.axvline(place, color=colour_of(3), alpha=0.25, lw=4)
    label = "bounds loosened by" if bounds is None else "bound"
    axes.set_xlabel(f"{label}, {trade.unit} (dotted: as written; red: impossible)")
    axes.set_ylabel("best return")
    axes.set_title(f"{trade.problem}, {trade.rule}: {trade.text}", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
