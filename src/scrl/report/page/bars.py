"""Bars of what each region received, with the bounds of rules on that region alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scrl.problems import BaseProblem
from scrl.report.figures import single_region_bounds
from scrl.report.words import amount
from scrl.worlds.sweep.regions import colour_of

MOST_BARS = 40


@dataclass(frozen=True)
class RegionBar:
    """What a region received in one run."""

    label: str
    run: int
    received: str
    spread: str
    """The standard error as text, in a random world."""
    begin: float
    """Where the bar begins, in percent of the line: at 0, or at a negative value."""
    width: float


@dataclass(frozen=True)
class Bound:
    """A mark at a bound of a rule."""

    text: str
    at: float
    """The place of the mark, in percent of the line."""
    is_least: bool
    is_firm: bool
    """Whether the bound must hold; otherwise its rule has alternatives."""


@dataclass(frozen=True)
class RegionBars:
    """One region: a bar for each run, marks for its bounds."""

    name: str
    colour: str
    bars: tuple[RegionBar, ...]
    bounds: tuple[Bound, ...]
    unit: str = ""
    """The unit of the region, where units differ."""


@dataclass(frozen=True)
class Received:
    """The densities of a run with their standard errors."""

    label: str
    run: int
    density: Mapping[str, float]
    standard_error: Mapping[str, float]


@dataclass(frozen=True)
class BoundMark:
    """The scale that all bars share; 0 lies on it."""

    low: float
    high: float

    @classmethod
    def over(cls, values: Sequence[float]) -> BoundMark:
        """A scale with a margin beyond the largest value, and beyond the smallest if negative."""
        low, high = min([0.0, *values]), max([0.0, *values])
        room = 0.06 * (high - low) or 1.0
        return cls(low - room if low < 0.0 else 0.0, 0.0 if high == 0.0 > low else high + room)

    def at(self, value: float) -> float:
        """The place of a value on the line, in percent."""
        return 100.0 * (value - self.low) / (self.high - self.low)


def region_bars(problem: BaseProblem, received: Sequence[Received]) -> tuple[list[RegionBars], int]:
    """Bars of the regions, those in rules first, and how many are left out."""
    names = problem.regions
    bounds = single_region_bounds(problem)
    named = np.flatnonzero(np.abs(problem.atoms.coefficients).sum(axis=0) > 0).tolist()
    order = sorted(range(len(names)), key=lambda index: index not in set(named))
    shown = sorted(order[:MOST_BARS])
    units = {index: problem.unit_of([names[index]]) for index in shown}
    lines = {unit: _line_of(problem, received, units, unit) for unit in set(units.values())}
    firm = _firm_bounds(problem)
    found = [
        RegionBars(
            names[index],
            colour_of(index),
            tuple(_bar(each, names[index], lines[units[index]]) for each in received),
            tuple(
                Bound(
                    f"at {'least' if is_least else 'most'} {amount(bound)}",
                    lines[units[index]].at(bound),
                    is_least,
                    (region, bound, is_least) in firm,
                )
                for region, bound, is_least in dict.fromkeys(bounds)
                if region == index
            ),
            "" if problem.unit_of(names) == units[index] else units[index],
        )
        for index in shown
    ]
    return found, len(names) - len(shown)


def _line_of(
    problem: BaseProblem, received: Sequence[Received], units: Mapping[int, str], unit: str
) -> BoundMark:
    """The common scale of all regions with the same unit."""
    same = [index for index, counted in units.items() if counted == unit]
    amounts = [each.density[problem.regions[index]] for each in received for index in same]
    return BoundMark.over(
        [*amounts, *(bound for region, bound, _ in single_region_bounds(problem) if region in same)]
    )


def _bar(each: Received, name: str, line: BoundMark) -> RegionBar:
    error = each.standard_error.get(name, 0.0)
    spread = f"± {amount(2.0 * error)}" if error > 0 else ""
    value = each.density[name]
    begin, end = line.at(min(value, 0.0)), line.at(max(value, 0.0))
    return RegionBar(each.label, each.run, amount(value), spread, begin, end - begin)


def _firm_bounds(problem: BaseProblem) -> set[tuple[int, float, bool]]:
    """The bounds whose clause has no other atom."""
    table = problem.atoms
    alone = np.flatnonzero(table.members[table.members.sum(axis=1) == 1].sum(axis=0))
    found = set()
    for row, bound in zip(table.coefficients[alone], table.bounds[alone], strict=True):
        named = np.flatnonzero(row)
        if len(named) == 1:
            region = int(named[0])
            found.add((region, float(bound / row[region]), bool(row[region] < 0)))
    return found
