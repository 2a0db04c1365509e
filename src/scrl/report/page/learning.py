"""How runs learned: return, violation and kappa over the rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scrl.report.numbers import amount
from scrl.report.page.charts import Chart, Sketch, draw_chart
from scrl.report.reading import RunView
from scrl.report.series import Band, band_of
from scrl.rules import told

MOST_KAPPAS = 8
LONGEST_LABEL = 40


def learning_charts(views: Sequence[RunView], reference: float | None) -> list[Chart]:
    """Return and violation of all runs in one chart each, then the kappas of every run."""
    numbered = [(index, view) for index, view in enumerate(views) if view.rows]
    views = [view for _, view in numbered]
    if not views:
        return []
    mark = _settling(views[0].folder.record.settings) if len(views) == 1 else None
    charts = []
    for key, title in (("return", "Return"), ("violation", "Violated by")):
        bands = _bands(numbered, key)
        if bands and key == "return":
            charts.append(draw_chart(_return_sketch(title, bands, reference, mark)))
        elif bands:
            unit = views[0].problem.unit
            high = max(1.0, *(float(band.high.max()) for _, _, band in bands))
            charts.append(
                draw_chart(
                    Sketch(f"{title}, {unit}", bands, 0.0, high, mark=mark, is_stretched=True)
                )
            )
    kappas = (_kappa_chart(view, mark, is_alone=len(views) == 1) for view in views)
    return charts + [chart for chart in kappas if chart is not None]


def _bands(numbered: Sequence[tuple[int, RunView]], key: str) -> list[tuple[str, int, Band]]:
    """Each under the number, and so in the colour, that its run has on the whole page."""
    found = ((view.label, index, band_of(view.rows, key)) for index, view in numbered)
    return [(label, index, band) for label, index, band in found if band is not None]


def _return_sketch(
    title: str,
    bands: Sequence[tuple[str, int, Band]],
    reference: float | None,
    mark: tuple[float, str] | None,
) -> Sketch:
    """A policy that stands still costs a hundred times as much: it would hide all the rest."""
    lows = np.concatenate([band.low for _, _, band in bands])
    highs = np.concatenate([band.high for _, _, band in bands])
    low, high = float(np.quantile(lows, 0.03)), float(highs.max())
    level = None
    if reference is not None:
        low = max(low, 3.0 * reference) if reference < 0 else low
        high = max(high, reference)
        level = (reference, f"best possible {amount(reference)}")
    room = 0.06 * (high - low or 1.0)
    return Sketch(title, bands, low - room, high + room, level, mark)


def _kappa_chart(view: RunView, mark: tuple[float, str] | None, *, is_alone: bool) -> Chart | None:
    """What each atom costs a unit, as far as the method was told of it."""
    heard = told(view.problem.rules, view.folder.record.settings.get("told", "all"))
    bands = []
    for index, atom in enumerate(heard.atoms[:MOST_KAPPAS]):
        band = band_of(view.rows, f"kappa/{index}")
        if band is not None:
            text = atom.show()
            short = text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…"
            bands.append((short, index, band))
    if not bands:
        return None
    high = max(float(band.high.max()) for _, _, band in bands)
    title = "Kappa, the price of each bound" + ("" if is_alone else f": {view.label}")
    return draw_chart(Sketch(title, bands, 0.0, 1.05 * high or 1.0, mark=mark))


def _settling(settings: dict[str, Any]) -> tuple[float, str] | None:
    """Where learning ends: in the rounds after it only kappa moves."""
    rounds = settings.get("settings", {})
    learned, settle = rounds.get("iterations"), rounds.get("settle")
    if not isinstance(learned, int) or not settle:
        return None
    return float(learned), f"learning ends after round {learned:,}, then only kappa moves"
