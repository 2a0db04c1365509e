"""Matplotlib figures of problems, runs and comparisons, without a display."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scrl.errors import ScrlError
from scrl.evaluation import Evaluation
from scrl.files import replacing
from scrl.opening import open_run
from scrl.planning import Answer
from scrl.problems import BaseProblem, Problem
from scrl.reference import Trade
from scrl.report.allocation import draw_allocation
from scrl.report.compare import Comparison
from scrl.report.reading import by_seed
from scrl.rules import AtomTable, reading_of
from scrl.training.result import TrainingResult
from scrl.worlds.sweep.regions import RegionMap, colour_of, region_colours

MOST_BARS = 40
PICTURE_SUFFIXES = (".png", ".svg", ".pdf")


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure to a file; its folder is created if needed."""
    if path.suffix not in PICTURE_SUFFIXES:
        raise ScrlError(f"{path}: a picture's name ends in {', '.join(PICTURE_SUFFIXES)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        figure.savefig(file, format=path.suffix[1:], dpi=150)
    return path


def overview(problem: Problem, result: Evaluation) -> Figure:
    """The map, and what each region received with the bounds of the rules."""
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
    """A cell well inside a region: of those farthest from its edge the nearest to its centre."""
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


def single_region_bounds(problem: BaseProblem) -> list[tuple[int, float, bool]]:
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
    """The fluid's return against the rule's bound; red where it cannot keep the rules."""
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
    axes.set_xlabel(f"{label}, {trade.unit} (dotted: as written; red: no fluid keeps it)")
    axes.set_ylabel("return of the fluid")
    axes.set_title(f"{trade.problem}, {trade.rule}: {trade.text}", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


MOST_KAPPAS = 8


def training_curves(result: TrainingResult) -> Figure:
    """The learning curves of a run: median and range over its seeds."""
    run = open_run(result.run)
    rows, problem = run.folder.metrics(), run.problem
    figure = Figure(figsize=(9.0, 7.0), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    _draw_return(top, rows, result)
    _draw_band(middle, by_seed(rows, "violation"), colour_of(3), "violation")
    middle.set_yscale("symlog", linthresh=1.0)
    middle.set_ylabel(f"violated by, {problem.unit}")
    _draw_kappas(bottom, rows, reading_of(problem.rules, run.folder.record.reading))
    bottom.set_xlabel("round")
    top.set_title(
        f"{result.problem}, {result.method}: {result.satisfied} of {len(result.seeds)} seeds keep "
        "every rule"
    )
    for axes in (top, middle, bottom):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_return(axes: Axes, rows: Sequence[dict[str, Any]], result: TrainingResult) -> None:
    returns = by_seed(rows, "return")
    _draw_band(axes, returns, colour_of(0), "return")
    if result.bound is not None:
        axes.axhline(result.bound, color="black", ls=":", lw=1, label="proven bound")
        # The scale is limited, since a policy that hardly moves costs a hundred times as much.
        lowest = max(float(np.nanmin(returns)), 3.0 * result.bound)
        axes.set_ylim(bottom=lowest)
    axes.set_ylabel("return")
    axes.legend(frameon=False)


def _draw_kappas(axes: Axes, rows: Sequence[dict[str, Any]], reading: AtomTable) -> None:
    for index, atom in enumerate(reading.atoms[:MOST_KAPPAS]):
        _draw_band(axes, by_seed(rows, f"kappa/{index}"), colour_of(index), atom.show())
    axes.set_ylabel("kappa")
    if reading.atoms:
        axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _draw_band(
    axes: Axes, curves: Float[np.ndarray, "seed round"], colour: str, label: str
) -> None:
    rounds = np.arange(1, curves.shape[1] + 1)
    axes.plot(rounds, np.nanmedian(curves, axis=0), color=colour, label=label)
    if len(curves) > 1:
        low, high = np.nanmin(curves, axis=0), np.nanmax(curves, axis=0)
        axes.fill_between(rounds, low, high, color=colour, alpha=0.2, lw=0)


def contrast_figure(found: Comparison) -> Figure:
    """Left the returns of all seeds, right the differences of the first run from the others."""
    figure = Figure(figsize=(10.0, 1.6 + 0.55 * len(found.runs)), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.2, 1.0])
    _draw_seeds(left, found)
    _draw_differences(right, found)
    for axes in (left, right):
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(left=False)
        axes.invert_yaxis()
    figure.suptitle(found.problem, fontsize=11)
    return figure


def _draw_seeds(axes: Axes, found: Comparison) -> None:
    for place, run in enumerate(found.runs):
        colour, values = colour_of(place), run.values["return"]
        is_kept = run.values["satisfied"] > 0
        height = np.full(len(values), float(place))
        axes.scatter(values[is_kept], height[is_kept], s=28, color=colour, alpha=0.6, lw=0)
        axes.scatter(values[~is_kept], height[~is_kept], s=28, facecolors="none", edgecolors=colour)
        axes.plot([run.means["return"].mean] * 2, [place - 0.3, place + 0.3], color="black", lw=2)
    if found.bound is not None:
        axes.axvline(found.bound, color="black", ls=":", lw=1)
    axes.set_yticks(range(len(found.runs)), [run.label for run in found.runs])
    dotted = "" if found.bound is None else "; dotted: the proven bound"
    axes.set_xlabel(f"return of every seed (hollow: breaks rules{dotted})")


def _draw_differences(axes: Axes, found: Comparison) -> None:
    axes.axvline(0.0, color="black", lw=1)
    for place, pair in enumerate(found.pairs):
        each = pair.contrasts[0]
        colour = colour_of(0) if each.is_real else "#999999"
        apart = each.difference
        axes.plot([apart.low, apart.high], [place, place], color=colour, lw=3)
        axes.plot(apart.mean, place, marker="o", color=colour)
    axes.set_yticks(
        range(len(found.pairs)), [f"against {pair.other.label}" for pair in found.pairs]
    )
    axes.margins(y=0.3)
    axes.set_xlabel(f"{found.runs[0].label} returns more by\n(95 %; grey: could be chance)")


@singledispatch
def plot(shown: Any) -> Figure:
    """A Matplotlib figure of a problem, of an answer of `ask`, or of a training.

    A problem is drawn with its map and the bounds that rules set on single regions; an answer with
    what each region receives and the heat map of its plan of the largest weight; a training result
    with its learning curves.
    """
    raise ScrlError(
        f"nothing to draw for {shown!r:.80}: scrl.plot takes a problem on a map, an answer of "
        "`ask`, or the result of `scrl.train`"
    )


@plot.register
def _(shown: TrainingResult) -> Figure:
    return training_curves(shown)


@plot.register
def _(shown: Problem) -> Figure:
    figure = Figure(figsize=(9.0, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.0, 1.25])
    draw_map(left, shown.world_spec.regions)
    draw_bounds(right, shown)
    low, high = right.get_xlim()
    right.set_xlim(min(0.0, low), high)
    figure.suptitle(shown.name)
    return figure


@plot.register
def _(shown: Answer) -> Figure:
    figure = Figure(figsize=(15.0, 4.0), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.0, 1.2, 1.7])
    draw_map(left, shown.problem.world_spec.regions)
    most_driven = max(shown.plans, key=lambda plan: plan.weight)
    draw_allocation(figure, middle, shown.problem, most_driven.policy)
    draw_received(right, shown.problem, shown.evaluation)
    figure.suptitle(f"{shown.problem.name}: return {shown.evaluation.return_:.2f}, {shown.status}")
    return figure
