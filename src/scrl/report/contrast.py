"""The picture of a comparison: every seed of every run, and the differences with intervals."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scrl.report.compared import Comparison
from scrl.worlds.palette import colour_of


def contrast_figure(found: Comparison) -> Figure:
    """Left the seeds' returns, right by how much the first run returns more than each other."""
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
    if found.reference is not None:
        axes.axvline(found.reference, color="black", ls=":", lw=1)
    axes.set_yticks(range(len(found.runs)), [run.label for run in found.runs])
    dotted = "" if found.reference is None else "; dotted: the best possible"
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
