"""Fans: amounts along the path over many episodes, with the bounds of rules, and histograms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from scrl.errors import ScrlError
from scrl.evaluation import REPORT_SEED, RuleResult
from scrl.opening import on_map
from scrl.report.along import AmountsAlong, RuleRisk, amounts_along
from scrl.report.page.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, nice, points
from scrl.report.reading import RunView
from scrl.report.words import NEUTRAL, amount, percent
from scrl.rules import AtomTable
from scrl.rules.show import show_sum
from scrl.worlds.sweep.regions import colour_of

MOST_FANS = 12
MOST_RISKS = 6
MOST_BINS = 24
LONGEST_NAME = 40
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
TABLE_PLACES = 5
LOW = 100.0
"""The height of a histogram."""
REACH, FINAL_REACH = 1.5, 3.0
"""Bounds that would make a scale more than so many times as long are not drawn."""
MOST_BOUNDS = 6
"""Largest number of bounds in a picture."""


@dataclass(frozen=True)
class Quantity:
    """What a fan shows: the amount of a region, or a sum that a rule bounds."""

    name: str
    colour: str
    coefficients: Float[np.ndarray, " region"]
    bounds: tuple[QuantityBound, ...] = ()


@dataclass(frozen=True)
class QuantityBound:
    """A bound that a rule sets on a quantity."""

    value: float
    is_least: bool
    is_firm: bool
    """Whether it must hold; otherwise its rule has alternatives."""

    @property
    def text(self) -> str:
        return f"at {'least' if self.is_least else 'most'} {amount(self.value)}"


@dataclass(frozen=True)
class DrawnBound:
    """A line at a bound."""

    at: float
    is_firm: bool


@dataclass(frozen=True)
class FanPicture:
    """Median, 50 % and 90 % bands of an amount along the path."""

    about: str
    bands: tuple[str, str]
    """SVG path data of the bands with 90 % and 50 % of the episodes."""
    line: str
    bounds: tuple[DrawnBound, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    rows: tuple[tuple[str, ...], ...]

    width, height = WIDTH, HEIGHT
    left, right, top, bottom = LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM


@dataclass(frozen=True)
class Histogram:
    """How many episodes end with which amount."""

    about: str
    bars: str
    """SVG path data."""
    bounds: tuple[DrawnBound, ...]
    x_ticks: tuple[tuple[float, str], ...]
    rows: tuple[tuple[str, ...], ...]

    width, height = WIDTH, LOW
    left, right, top, bottom = LEFT, WIDTH - RIGHT, 6.0, LOW - BOTTOM


@dataclass(frozen=True)
class Fan:
    """One quantity in one run."""

    name: str
    colour: str
    fan: FanPicture
    histogram: Histogram
    kept: tuple[str, ...]
    """For each bound, the share of episodes that keep it, as text."""


@dataclass(frozen=True)
class RunFans:
    """The episodes of one run: which rules are at risk and where, and a fan for each quantity."""

    label: str
    run: int
    sentences: tuple[str, ...]
    fans: tuple[Fan, ...]


@dataclass(frozen=True)
class Fans:
    """The fans of all runs of a problem, with common scales."""

    episodes: str
    runs: tuple[RunFans, ...]
    left_out: int


def fans_of(views: Sequence[RunView]) -> Fans | None:
    """Drive the episodes that judged each run again; none without chance, rules or a policy."""
    problem = views[0].problem
    if not problem.is_random or not problem.atoms.atoms:
        return None
    driven = [
        (index, view, along)
        for index, view in enumerate(views)
        if (along := _along(view)) is not None
    ]
    if not driven:
        return None
    alongs = [along for _, _, along in driven]
    shown, left_out = _shown(quantities(problem.regions, alongs[0].table), alongs)
    scales = [Scales.of(each, alongs) for each in shown]
    runs = []
    for index, view, along in driven:
        fans = [
            _fan(each, along, scale, problem.unit)
            for each, scale in zip(shown, scales, strict=True)
        ]
        sentences = tuple(_sentences(view, along))
        runs.append(RunFans(view.label, index, sentences, tuple(fans)))
    return Fans(f"{len(alongs[0].amounts):,}", tuple(runs), left_out)


def _along(view: RunView) -> AmountsAlong | None:
    """None for a run without a result, map or policy; the section of the plan says which."""
    run = on_map(view.run)
    if run is None or view.result is None:
        return None
    try:
        return amounts_along(run.problem, run.drivers, seed=REPORT_SEED + view.result.best.seed)
    except ScrlError:
        return None


def quantities(names: Sequence[str], table: AtomTable) -> list[Quantity]:
    """The regions that rules name, and then the sums of regions that these bound."""
    sides = [
        (name, colour_of(names.index(name)), row)
        for name, row in zip(table.regions, np.eye(len(table.regions)), strict=True)
    ]
    seen: set[tuple[tuple[str, Fraction], ...]] = set()
    for atom, row in zip(table.atoms, table.coefficients, strict=True):
        terms = atom.coefficients
        if len(terms) == 1 or terms in seen:
            continue
        # The two halves of an equality bound the same sum.
        seen |= {terms, tuple((name, -value) for name, value in terms)}
        sign = -1 if atom.is_at_least else 1
        text = show_sum((name, sign * value) for name, value in terms)
        short = text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"
        sides.append((short, "var(--accent)", sign * row))
    return [Quantity(*each) for each in sides]


def bounded(quantity: Quantity, table: AtomTable) -> Quantity:
    """The quantity with the bounds of the atoms that are multiples of it, each once."""
    side = quantity.coefficients
    first = int(np.flatnonzero(side)[0])
    alone = table.members[table.members.sum(axis=1) == 1].sum(axis=0) > 0
    factors = table.coefficients[:, first] / side[first]
    is_multiple = (table.coefficients == factors[:, None] * side).all(axis=1) & (factors != 0.0)
    bounds = dict.fromkeys(
        QuantityBound(float(bound / factor), bool(factor < 0.0), bool(is_firm))
        for bound, factor, is_firm in zip(
            table.bounds[is_multiple], factors[is_multiple], alone[is_multiple], strict=True
        )
    )
    return replace(quantity, bounds=tuple(bounds)[:MOST_BOUNDS])


def _shown(known: Sequence[Quantity], alongs: Sequence[AmountsAlong]) -> tuple[list[Quantity], int]:
    """The quantities in their order; where there are too many, those of rules at risk first."""
    risk = np.zeros(len(alongs[0].table.regions))
    for along in alongs:
        for each in along.risks:
            is_named = along.table.coefficients[each.atom] != 0.0
            risk[is_named] = np.maximum(risk[is_named], each.share)
    at_risk = [float(risk[each.coefficients != 0.0].max()) for each in known]
    order = sorted(range(len(known)), key=lambda index: -at_risk[index])
    shown = [bounded(known[index], alongs[0].table) for index in sorted(order[:MOST_FANS])]
    return shown, len(known) - len(shown)


@dataclass(frozen=True)
class Scales:
    """What the axes of a quantity show in all runs: amounts along the path, and final ones."""

    along: tuple[float, float]
    final: tuple[float, float]

    @classmethod
    def of(cls, quantity: Quantity, alongs: Sequence[AmountsAlong]) -> Scales:
        sides = [along.amounts @ quantity.coefficients for along in alongs]
        bands = np.array([np.quantile(side, QUANTILES, axis=0) for side in sides])
        final = np.concatenate([side[:, -1] for side in sides])
        bounds = [bound.value for bound in quantity.bounds]
        return cls(
            _range(min(0.0, float(bands.min())), float(bands.max()), bounds, REACH),
            _range(float(final.min()), float(final.max()), bounds, FINAL_REACH),
        )


def _range(low: float, high: float, bounds: Sequence[float], reach: float) -> tuple[float, float]:
    """A range with a margin that contains the bounds within reach."""
    most = reach * (high - low)
    near = [each for each in bounds if high - most <= each <= low + most]
    low, high = min([low, *near]), max([high, *near])
    room = 0.04 * (high - low) or 0.5
    return (low - room if low else 0.0), high + room


def _fan(quantity: Quantity, along: AmountsAlong, scales: Scales, unit: str) -> Fan:
    side = along.amounts @ quantity.coefficients
    shares = [_share_within(bound, side[:, -1], along.tolerance) for bound in quantity.bounds]
    return Fan(
        quantity.name,
        quantity.colour,
        _fan_picture(quantity, along.progress, side, scales.along, unit),
        _histogram(quantity, side[:, -1], scales.final, f"{unit}{_kept_text(quantity, shares)}"),
        tuple(
            f"{bound.text}: {percent(share)}"
            for bound, share in zip(quantity.bounds, shares, strict=True)
        ),
    )


def _share_within(
    bound: QuantityBound, values: Float[np.ndarray, " episode"], tolerance: float
) -> float:
    over = bound.value - values if bound.is_least else values - bound.value
    return float((over <= tolerance).mean())


def _kept_text(quantity: Quantity, shares: Sequence[float]) -> str:
    kept = [
        f"{percent(share)} have {bound.text}"
        for bound, share in zip(quantity.bounds, shares, strict=True)
    ]
    return f"; {', '.join(kept)}" if kept else ""


def _fan_picture(
    quantity: Quantity,
    progress: Float[np.ndarray, " place"],
    side: Float[np.ndarray, "episode place"],
    scale: tuple[float, float],
    unit: str,
) -> FanPicture:
    levels = np.quantile(side, QUANTILES, axis=0)
    low, high = scale
    x = LEFT + progress * (WIDTH - LEFT - RIGHT)

    def up(values: Float[np.ndarray, ...]) -> Float[np.ndarray, ...]:
        share = np.clip((values - low) / (high - low), 0.0, 1.0)
        return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)

    def band(below: int, above: int) -> str:
        edge = np.concatenate([up(levels[above]), up(levels[below])[::-1]])
        return f"M{points(np.concatenate([x, x[::-1]]), edge)}z"

    end = [amount(value) for value in levels[:, -1].tolist()]
    picked = np.unique(np.linspace(0, len(progress) - 1, TABLE_PLACES).round().astype(int))
    return FanPicture(
        about=(
            f"{quantity.name} along the path, {unit}, in {len(side):,} episodes. At the end the "
            f"median is {end[2]}; 50 % of the episodes lie between {end[1]} and {end[3]}, 90 % "
            f"between {end[0]} and {end[4]}.{_bounds_text(quantity)}"
        ),
        bands=(band(0, 4), band(1, 3)),
        line=f"M{points(x, up(levels[2]))}",
        bounds=tuple(
            DrawnBound(float(up(np.array(each.value))), each.is_firm)
            for each in quantity.bounds
            if low <= each.value <= high
        ),
        x_ticks=tuple(
            (LEFT + share * (WIDTH - LEFT - RIGHT), f"{100 * share:.0f} %")
            for share in (0.0, 0.25, 0.5, 0.75, 1.0)
        ),
        y_ticks=tuple((float(up(np.array(at))), amount(at)) for at in nice(low, high, 5)),
        rows=tuple(
            (f"{100 * progress[at]:.0f} %", *(amount(value) for value in levels[:, at].tolist()))
            for at in picked
        ),
    )


def _bounds_text(quantity: Quantity) -> str:
    texts = [each.text for each in quantity.bounds]
    return f" Bounds: {', '.join(texts)}." if texts else ""


def _histogram(
    quantity: Quantity, final: Float[np.ndarray, " episode"], scale: tuple[float, float], said: str
) -> Histogram:
    """The bars; `said` is the unit and what else the text alternative says."""
    low, high = scale
    count, edges = np.histogram(final, MOST_BINS, scale)
    across = LEFT + (edges - low) / (high - low) * (WIDTH - LEFT - RIGHT)
    floor, room = Histogram.bottom, Histogram.bottom - Histogram.top
    bars = [
        f"M{begin + 0.5:.1f} {floor:.1f}H{end - 0.5:.1f}v{-room * number / count.max():.1f}"
        f"H{begin + 0.5:.1f}z"
        for begin, end, number in zip(across[:-1], across[1:], count.tolist(), strict=True)
        if number
    ]
    return Histogram(
        about=(
            f"{quantity.name} at the end of {len(final):,} episodes: from "
            f"{amount(float(final.min()))} to {amount(float(final.max()))} {said}."
        ),
        bars="".join(bars),
        bounds=tuple(
            DrawnBound(LEFT + (each.value - low) / (high - low) * (WIDTH - LEFT - RIGHT),
                       each.is_firm)
            for each in quantity.bounds if low <= each.value <= high
        ),
        x_ticks=tuple(
            (LEFT + (at - low) / (high - low) * (WIDTH - LEFT - RIGHT), amount(at))
            for at in nice(low, high, 5)
        ),
        rows=tuple(
            (f"{amount(begin)} to {amount(end)}", f"{number:,}")
            for begin, end, number in zip(
                edges[:-1].tolist(), edges[1:].tolist(), count.tolist(), strict=True
            )
            if number
        ),
    )  # fmt: skip


def _sentences(view: RunView, along: AmountsAlong) -> list[str]:
    """Which rule is at risk, and where on the path, the one broken most often first."""
    assert view.result is not None  # noqa: S101 (_along has looked)
    rules, unit = view.result.best.evaluation.rules, view.problem.unit
    risks = along.risks
    if not risks:
        closest = int(along.margins.argmin())
        least = along.margins[closest]
        return [
            f"No episode breaks a rule. The smallest margin is {_units(least, unit)}, of "
            f"{along.table.rules[closest]}."
        ]
    found = [
        risk_sentence(risk, along.table, rules[risk.rule], unit) for risk in risks[:MOST_RISKS]
    ]
    if (more := len(risks) - len(found)) > 0:
        found.append(f"Some episodes break {more} more rule{'' if more == 1 else 's'}.")
    if (kept := len(along.table.rules) - len(risks)) > 0:
        other = "the other rule" if kept == 1 else f"the other {kept} rules"
        found.append(f"No episode breaks {other}.")
    return found


def risk_sentence(risk: RuleRisk, table: AtomTable, rule: RuleResult, unit: str) -> str:
    """How many episodes break a rule, how many may, and where they differ from the others."""
    atom = table.atoms[risk.atom]
    asked = "it must hold on average" if rule.asked is None else f"asked: {rule.asked_text}"
    who = "they" if risk.failing == 1.0 else f"{percent(risk.failing)} of these"
    text = (
        f"{rule.name}: {percent(risk.share)} of the episodes break it ({asked}); {who} fail "
        f"{atom.show()}."
    )
    if risk.arising is None:
        return text
    if atom.is_at_least:
        verb = "fall behind"
    elif all(factor > 0 for _, factor in atom.coefficients):
        verb = "get ahead of"
    else:
        verb = "depart from"
    begin, end = f"{100 * risk.arising.begin:.0f}", f"{100 * risk.arising.end:.0f}"
    return (
        f"{text} They {verb} the others between {begin} % and {end} % of the path; at its end the "
        f"means differ by {_units(risk.arising.difference, unit)}."
    )


def _units(value: float, unit: str) -> str:
    return amount(value) if unit == NEUTRAL else f"{amount(value)} {unit}"
