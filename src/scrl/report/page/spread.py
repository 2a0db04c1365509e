"""Seeds as dots on a line of gaps or returns, and the differences between runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scrl.report.compare import Comparison
from scrl.report.page.charts import nice
from scrl.report.reading import RunView
from scrl.report.words import amount, percent
from scrl.runs.result import SeedResult

MOST_DOTS = 120


@dataclass(frozen=True)
class Dot:
    """One seed."""

    at: float
    """The place of the dot, in percent of the line."""
    is_held: bool
    text: str


@dataclass(frozen=True)
class Track:
    """The seeds of one run."""

    label: str
    run: int
    dots: tuple[Dot, ...]
    about: str
    value: str


@dataclass(frozen=True)
class Spread:
    """All runs on one scale."""

    title: str
    tracks: tuple[Track, ...]
    ticks: tuple[tuple[float, str], ...]
    zero: float | None
    """The place of the bound, in percent of the line."""


@dataclass(frozen=True)
class Whisker:
    """A difference of returns with its interval, in percent of the line."""

    label: str
    low: float
    at: float
    high: float
    is_real: bool
    about: str


@dataclass(frozen=True)
class Whiskers:
    """The differences in return of the first run from the others."""

    first: str
    shown: tuple[Whisker, ...]
    zero: float
    """The place of 0, in percent of the line."""
    ticks: tuple[tuple[float, str], ...]


def spread_of(views: Sequence[RunView], bound: float | None) -> Spread | None:
    """Gaps if every seed has one, otherwise returns."""
    done = [(index, view.label, view.result) for index, view in enumerate(views) if view.result]
    if not done:
        return None
    gaps = [each.gap for _, _, result in done for each in result.seeds]
    is_gap = bound is not None and None not in gaps
    values = [[_value(each, is_gap) for each in result.seeds] for _, _, result in done]
    everything = np.concatenate(values)
    low, high = float(everything.min()), float(everything.max())
    if is_gap:
        low, high = min(low, 0.0), max(high, 0.005)
    room = 0.06 * (high - low) or 1.0
    low, high = low - room, high + room

    def at(value: float) -> float:
        return 100.0 * (value - low) / (high - low)

    show = percent if is_gap else amount
    tracks = []
    for (index, label, result), found in zip(done, values, strict=True):
        order = np.argsort(found)
        picked = order[np.unique(np.linspace(0, len(order) - 1, MOST_DOTS).round().astype(int))]
        seeds = [result.seeds[k] for k in picked]
        dots = tuple(
            Dot(at(_value(each, is_gap)), each.is_satisfied,
                f"seed {each.seed}: {show(_value(each, is_gap))}"
                + ("" if each.is_satisfied else ", breaks rules"))
            for each in seeds
        )  # fmt: skip
        middle, count = float(np.mean(found)), len(found)
        about = (
            f"{label}: {count} {'seed' if count == 1 else 'seeds'} from {show(min(found))} to "
            f"{show(max(found))}, {result.satisfied} of them keep every rule"
        )
        tracks.append(Track(label, index, dots, about, show(middle)))
    ticks = tuple((at(value), show(value)) for value in nice(low, high, 4))
    title = "Distance to the proven bound" if is_gap else "Return of every seed"
    return Spread(title, tuple(tracks), ticks, at(0.0) if is_gap else None)


def _value(each: SeedResult, is_gap: bool) -> float:
    return each.gap if is_gap and each.gap is not None else each.evaluation.return_


def whiskers_of(comparison: Comparison) -> Whiskers:
    """The differences in return of the first run from the others, on a scale that includes 0."""
    found = [(pair, pair.contrasts[0]) for pair in comparison.pairs]
    low = min(0.0, *(each.difference.low for _, each in found))
    high = max(0.0, *(each.difference.high for _, each in found))
    room = 0.08 * (high - low) or 1.0
    low, high = low - room, high + room

    def at(value: float) -> float:
        return 100.0 * (value - low) / (high - low)

    ticks = tuple((at(value), amount(value)) for value in nice(low, high, 4))
    shown = tuple(
        Whisker(
            pair.other.label, at(each.difference.low), at(each.difference.mean),
            at(each.difference.high), each.is_real, each.sentence,
        )
        for pair, each in found
    )  # fmt: skip
    return Whiskers(comparison.runs[0].label, shown, at(0.0), ticks)
