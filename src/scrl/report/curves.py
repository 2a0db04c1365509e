"""How a run learned: return, violation and kappa over the rounds, all seeds in one picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scrl.outcome import TrainingResult
from scrl.report.series import by_seed
from scrl.rules import AtomTable, told
from scrl.runs import RunFolder
from scrl.worlds.palette import colour_of

MOST_KAPPAS = 8


def plot(result: TrainingResult) -> Figure:
    """The learning curves of a run: the median of its seeds, and the range of all of them."""
    folder = RunFolder.open(result.run)
    rows, terms = folder.metrics(), folder.terms()
    figure = Figure(figsize=(9.0, 7.0), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    _draw_return(top, rows, result)
    _draw_band(middle, by_seed(rows, "violation"), colour_of(3), "violation")
    middle.set_yscale("symlog", linthresh=1.0)
    middle.set_ylabel(f"violated by, {terms.unit}")
    _draw_kappas(bottom, rows, told(terms.rules, folder.record.settings.get("told", "all")))
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
    if result.reference is not None:
        axes.axhline(result.reference, color="black", ls=":", lw=1, label="best possible")
        # A policy that stands still costs a hundred times as much: it would hide all the rest.
        lowest = max(float(np.nanmin(returns)), 3.0 * result.reference)
        axes.set_ylim(bottom=lowest)
    axes.set_ylabel("return")
    axes.legend(frameon=False)


def _draw_kappas(axes: Axes, rows: Sequence[dict[str, Any]], heard: AtomTable) -> None:
    for index, atom in enumerate(heard.atoms[:MOST_KAPPAS]):
        _draw_band(axes, by_seed(rows, f"kappa/{index}"), colour_of(index), atom.show())
    axes.set_ylabel("kappa")
    if heard.atoms:
        axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _draw_band(
    axes: Axes, curves: Float[np.ndarray, "seed round"], colour: str, label: str
) -> None:
    rounds = np.arange(1, curves.shape[1] + 1)
    axes.plot(rounds, np.nanmedian(curves, axis=0), color=colour, label=label)
    if len(curves) > 1:
        low, high = np.nanmin(curves, axis=0), np.nanmax(curves, axis=0)
        axes.fill_between(rounds, low, high, color=colour, alpha=0.2, lw=0)
