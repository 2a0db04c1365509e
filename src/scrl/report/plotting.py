"""`scrl.plot`: a picture of a problem, an answer or a training."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from matplotlib.figure import Figure

from scrl.errors import ScrlError
from scrl.outcome import TrainingResult
from scrl.prices import Answer
from scrl.problems import Problem
from scrl.report import curves
from scrl.report.allocation import draw_allocation
from scrl.report.figures import draw_bounds, draw_map, draw_received


@singledispatch
def plot(shown: Any) -> Figure:
    """A Matplotlib figure of a problem, of an answer of `ask`, or of a training.

    A problem is drawn with its map and the bounds that rules set on single regions; an answer with
    what each region receives and what its most driven plan gives out where; a training with its
    learning curves.
    """
    raise ScrlError(
        f"nothing to draw for {shown!r:.80}: scrl.plot takes a problem on a map, an answer of "
        "`ask`, or the result of `scrl.train`"
    )


@plot.register
def _(shown: TrainingResult) -> Figure:
    return curves.plot(shown)


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
