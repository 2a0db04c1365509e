"""Curves as geometry: lines, bands and ticks of a small chart, and a table of its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scrl.report.numbers import amount
from scrl.report.series import Band

WIDTH, HEIGHT = 360.0, 210.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 8.0, 10.0, 26.0
TABLE_ROWS = 8

Scale = Callable[[Float[np.ndarray, "..."]], Float[np.ndarray, "..."]]


@dataclass(frozen=True)
class Curve:
    """One line with its band, in the colour of that number."""

    label: str
    colour: int
    line: str
    band: str | None


@dataclass(frozen=True)
class Chart:
    """A drawing, and the same in words and numbers."""

    title: str
    about: str
    """What can be seen, in a sentence: the text alternative."""
    curves: tuple[Curve, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    level: tuple[float, str] | None
    """A line across, with its name."""
    mark: tuple[float, str] | None
    """A line upwards, with its name."""
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    width, height = WIDTH, HEIGHT
    left, right, top, bottom = LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM


@dataclass(frozen=True)
class Sketch:
    """What a chart is drawn from."""

    title: str
    bands: Sequence[tuple[str, int, Band]]
    low: float
    high: float
    level: tuple[float, str] | None = None
    mark: tuple[float, str] | None = None
    is_stretched: bool = False
    """Whether large values are squeezed (asinh), so that small ones can be seen too."""


def draw_chart(sketch: Sketch) -> Chart:
    """Scales, ticks, lines."""
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
        x_ticks=tuple((float(across(np.array(at))), f"{at:,.0f}") for at in nice(first, last, 4)),
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
    line = _points(x, up(band.middle))
    is_range = bool((band.high > band.low).any())
    edge = _points(
        np.concatenate([x, x[::-1]]), np.concatenate([up(band.high), up(band.low)[::-1]])
    )
    return Curve(label, colour, f"M{line}", f"M{edge}z" if is_range else None)


def _points(x: Float[np.ndarray, " point"], y: Float[np.ndarray, " point"]) -> str:
    return "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))


def nice(low: float, high: float, most: int) -> list[float]:
    """Round numbers between the two: at most about so many."""
    rough = (high - low) / most
    size = 10.0 ** np.floor(np.log10(rough))
    step = next(size * factor for factor in (1.0, 2.0, 5.0, 10.0) if size * factor >= rough)
    first = np.ceil(low / step - 1e-9)
    return [float(step * k) for k in np.arange(first, np.floor(high / step + 1e-9) + 1)]


def _y_ticks(sketch: Sketch) -> list[float]:
    if not sketch.is_stretched:
        return nice(sketch.low, max(sketch.high, sketch.low + 1e-9), 4)
    powers = [0.0, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6, 1e7]
    return [at for at in powers if at <= sketch.high]


def _about(sketch: Sketch) -> str:
    told = [
        f"{label}: from {amount(float(band.middle[0]))} in round {band.rounds[0]:.0f} to "
        f"{amount(float(band.middle[-1]))} in round {band.rounds[-1]:.0f}"
        for label, _, band in sketch.bands
    ]
    lines = "".join(f". {line[1]}" for line in (sketch.level, sketch.mark) if line)
    return f"{sketch.title}, median of the seeds. {'; '.join(told)}{lines}."


def _table(sketch: Sketch) -> tuple[tuple[str, ...], ...]:
    """Some rounds in numbers."""
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
