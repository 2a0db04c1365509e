"""Geometry of small charts (lines, bands, ticks) and tables of their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from scrl.report.reading import Band, RunView, band_of
from scrl.report.words import amount
from scrl.rules import reading_of

WIDTH, HEIGHT = 360.0, 210.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 8.0, 10.0, 26.0
TABLE_ROWS = 8

Scale = Callable[[Float[np.ndarray, "..."]], Float[np.ndarray, "..."]]


@dataclass(frozen=True)
class Curve:
    """One line with its band; its number selects the colour."""

    label: str
    colour: int
    line: str
    band: str | None


@dataclass(frozen=True)
class Chart:
    """A drawing with a text alternative and a table."""

    title: str
    about: str
    """The text alternative of the drawing."""
    curves: tuple[Curve, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    level: tuple[float, str] | None
    """A horizontal line with its name."""
    mark: tuple[float, str] | None
    """A vertical line with its name."""
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    width, height = WIDTH, HEIGHT
    left, right, top, bottom = LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM


@dataclass(frozen=True)
class Sketch:
    """The data of a chart."""

    title: str
    bands: Sequence[tuple[str, int, Band]]
    low: float
    high: float
    level: tuple[float, str] | None = None
    mark: tuple[float, str] | None = None
    is_stretched: bool = False
    """Whether the scale is asinh, which compresses large values."""


def draw_chart(sketch: Sketch) -> Chart:
    """Compute scales, ticks and lines of a chart."""
    first = min(float(band.rounds[0]) for _, _, band in sketch.bands)
    last = max(float(band.rounds[-1]) for _, _, band in sketch.bands)
    last = last if last > first else first + 1.0

    def across(rounds: Float[np.ndarray, ...]) -> Float[np.ndarray, ...]:
        return LEFT + (rounds - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    up = _upward(sketch)
    mark = sketch.mark
    return Chart(
        title=sketch.title,
        about=_about(sketch),
        curves=tuple(
            _curve(label, colour, band, across, up) for label, colour, band in sketch.bands
        ),
        x_ticks=tuple((float(across(np.array(at))), f"{at:,.0f}") for at in _rounds(first, last)),
        y_ticks=tuple((float(up(np.array(at))), amount(at)) for at in _y_ticks(sketch)),
        level=(float(up(np.array(sketch.level[0]))), sketch.level[1]) if sketch.level else None,
        mark=(float(across(np.array(mark[0]))), mark[1])
        if mark and first < mark[0] < last
        else None,
        columns=("round", *(label for label, _, _ in sketch.bands)),
        rows=_table(sketch),
    )


def _upward(sketch: Sketch) -> Scale:
    squeeze = np.arcsinh if sketch.is_stretched else np.asarray
    low, high = float(squeeze(sketch.low)), float(squeeze(sketch.high))
    high = high if high > low else low + 1.0

    def up(values: Float[np.ndarray, ...]) -> Float[np.ndarray, ...]:
        share = (squeeze(values) - low) / (high - low)
        return HEIGHT - BOTTOM - np.clip(share, 0.0, 1.0) * (HEIGHT - BOTTOM - TOP)

    return up


def _curve(label: str, colour: int, band: Band, across: Scale, up: Scale) -> Curve:
    x = across(band.rounds)
    line = points(x, up(band.middle))
    is_range = bool((band.high > band.low).any())
    edge = points(np.concatenate([x, x[::-1]]), np.concatenate([up(band.high), up(band.low)[::-1]]))
    return Curve(label, colour, f"M{line}", f"M{edge}z" if is_range else None)


def points(x: Float[np.ndarray, " point"], y: Float[np.ndarray, " point"]) -> str:
    """The points of a line as SVG path data, without its first letter."""
    return "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))


def nice(low: float, high: float, most: int) -> list[float]:
    """About this many round numbers between the two."""
    rough = (high - low) / most
    size = 10.0 ** np.floor(np.log10(rough))
    step = next(size * factor for factor in (1.0, 2.0, 5.0, 10.0) if size * factor >= rough)
    first = np.ceil(low / step - 1e-9)
    return [float(step * k) for k in np.arange(first, np.floor(high / step + 1e-9) + 1)]


def _rounds(first: float, last: float) -> list[float]:
    return [at for at in nice(first, last, 4) if at.is_integer()]


def _y_ticks(sketch: Sketch) -> list[float]:
    if not sketch.is_stretched:
        return nice(sketch.low, max(sketch.high, sketch.low + 1e-9), 4)
    powers = [0.0, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6, 1e7]
    return [at for at in powers if at <= sketch.high]


def _about(sketch: Sketch) -> str:
    curves = [
        f"{label}: from {amount(float(band.middle[0]))} in round {band.rounds[0]:.0f} to "
        f"{amount(float(band.middle[-1]))} in round {band.rounds[-1]:.0f}"
        for label, _, band in sketch.bands
    ]
    lines = "".join(f". {line[1]}" for line in (sketch.level, sketch.mark) if line)
    return f"{sketch.title}, median of the seeds. {'; '.join(curves)}{lines}."


def _table(sketch: Sketch) -> tuple[tuple[str, ...], ...]:
    """A table of the values in some rounds."""
    longest = max((band for _, _, band in sketch.bands), key=lambda band: len(band.rounds))
    picked = np.unique(np.linspace(0, len(longest.rounds) - 1, TABLE_ROWS).round().astype(int))
    rows = []
    for at in longest.rounds[picked]:
        cells = [f"{at:.0f}"]
        for _, _, band in sketch.bands:
            nearest = int(np.abs(band.rounds - at).argmin())
            is_there = band.rounds[0] - 1 <= at <= band.rounds[-1] + 1
            cells.append(amount(float(band.middle[nearest])) if is_there else "")
        rows.append(tuple(cells))
    return tuple(rows)


MOST_CURVES = 8
LONGEST_LABEL = 40


def learning_charts(views: Sequence[RunView], bound: float | None) -> list[Chart]:
    """Return and violation of all runs in one chart each, then amounts and kappas of every run."""
    numbered = [(index, view) for index, view in enumerate(views) if view.rows]
    views = [view for _, view in numbered]
    if not views:
        return []
    mark = _settling(views[0].folder.record.settings) if len(views) == 1 else None
    charts = []
    titles = {"return": "Return", "violation": "Violated by"}
    if not views[0].problem.rules.rules:
        del titles["violation"]
    for key, title in titles.items():
        bands = _bands(numbered, key)
        if bands and key == "return":
            charts.append(draw_chart(_return_sketch(title, bands, bound, mark)))
        elif bands:
            unit = views[0].problem.unit_of_rules()
            high = max(1.0, *(float(band.high.max()) for _, _, band in bands))
            charts.append(
                draw_chart(
                    Sketch(f"{title}, {unit}", bands, 0.0, high, mark=mark, is_stretched=True)
                )
            )
    is_alone = len(views) == 1
    amounts = (chart for view in views for chart in _amount_charts(view, mark, is_alone=is_alone))
    kappas = (_kappa_chart(view, mark, is_alone=is_alone) for view in views)
    return [*charts, *amounts, *(chart for chart in kappas if chart is not None)]


def _bands(numbered: Sequence[tuple[int, RunView]], key: str) -> list[tuple[str, int, Band]]:
    """The curves, each with the number (and colour) of its run on the page."""
    found = ((view.label, index, band_of(view.rows, key)) for index, view in numbered)
    return [(label, index, band) for label, index, band in found if band is not None]


def _return_sketch(
    title: str,
    bands: Sequence[tuple[str, int, Band]],
    bound: float | None,
    mark: tuple[float, str] | None,
) -> Sketch:
    """The chart of returns, with a limited scale: a policy that hardly moves would dominate it."""
    lows = np.concatenate([band.low for _, _, band in bands])
    highs = np.concatenate([band.high for _, _, band in bands])
    low, high = float(np.quantile(lows, 0.03)), float(highs.max())
    level = None
    if bound is not None:
        low = max(low, 3.0 * bound) if bound < 0 else low
        high = max(high, bound)
        level = (bound, f"proven bound {amount(bound)}")
    room = 0.06 * (high - low or 1.0)
    return Sketch(title, bands, low - room, high + room, level, mark)


def _amount_charts(
    view: RunView, mark: tuple[float, str] | None, *, is_alone: bool
) -> Iterator[Chart]:
    """What the regions that rules name received (without rules: all), in a chart for each unit."""
    problem = view.problem
    has_none = not problem.rules.rules
    named = (np.abs(problem.atoms.coefficients).sum(axis=0) > 0) | has_none
    regions = [name for name, is_named in zip(problem.regions, named, strict=True) if is_named]
    for unit in dict.fromkeys(problem.unit_of([name]) for name in regions):
        same = [name for name in regions if problem.unit_of([name]) == unit][:MOST_CURVES]
        found = [(name, band_of(view.rows, f"density/{name}")) for name in same]
        bands = [(name, at, band) for at, (name, band) in enumerate(found) if band is not None]
        if bands:
            low = min(0.0, *(float(band.low.min()) for _, _, band in bands))
            high = max(0.0, *(float(band.high.max()) for _, _, band in bands))
            room = 0.06 * (high - low or 1.0)
            title = f"Received, {unit}" + ("" if is_alone else f": {view.label}")
            edges = low - room if low < 0.0 else 0.0, high + room
            yield draw_chart(Sketch(title, bands, *edges, mark=mark))


def _kappa_chart(view: RunView, mark: tuple[float, str] | None, *, is_alone: bool) -> Chart | None:
    """The kappa of each atom in the reading of the method."""
    reading = reading_of(view.problem.rules, view.folder.record.reading)
    bands = []
    for index, atom in enumerate(reading.atoms[:MOST_CURVES]):
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
    """The round where learning ends and only kappa changes."""
    rounds = settings.get("settings", {})
    learned, settle = rounds.get("iterations"), rounds.get("settle")
    if not isinstance(learned, int) or not settle:
        return None
    return float(learned), f"learning ends after round {learned:,}, then only kappa moves"
