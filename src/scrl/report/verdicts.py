"""What a difference between two runs means, in a sentence."""

from __future__ import annotations

from scrl.report.compared import Contrast, Pair, RunFigures
from scrl.report.numbers import amount, chance
from scrl.statistics import Difference


def sentence(pair: Pair, contrast: Contrast, unit: str) -> str:
    """The verdict on one quantity."""
    match contrast.quantity:
        case "return":
            return _return_sentence(pair, contrast)
        case "violation":
            return _violation_sentence(pair, contrast, unit)
        case "satisfied":
            return _satisfied_sentence(pair, contrast)


def _return_sentence(pair: Pair, contrast: Contrast) -> str:
    one, other, apart = _ordered(pair, contrast.difference)
    if apart.mean == 0.0 and apart.low == apart.high:
        return f"{one.label} and {other.label} return the same."
    is_cost = max(one.values["return"].max(), other.values["return"].max()) <= 0.0
    more = "is cheaper than" if is_cost else "returns more than"
    text = f"{one.label} {more} {other.label} by {_interval(apart)}; {_whether(contrast)}."
    if one.means["violation"].mean > other.means["violation"].mean:
        text = text[:-1] + f", but {one.label} breaks the rules by more."
    return text


def _violation_sentence(pair: Pair, contrast: Contrast, unit: str) -> str:
    if all(each.satisfied == len(each.seeds) for each in (pair.one, pair.other)):
        return "Neither violates any rule, in any seed."
    more, less, apart = _ordered(pair, contrast.difference)
    if apart.mean == 0.0 and apart.low == apart.high:
        return f"{more.label} and {less.label} violate the rules by the same amount."
    return (
        f"{less.label} violates the rules less than {more.label}, by {_interval(apart)} {unit}; "
        f"{_whether(contrast)}."
    )


def _satisfied_sentence(pair: Pair, contrast: Contrast) -> str:
    kept = [f"{each.satisfied} of {len(each.seeds)}" for each in (pair.one, pair.other)]
    text = (
        f"Every rule holds in {kept[0]} seeds of {pair.one.label}, {kept[1]} of {pair.other.label}"
    )
    if contrast.difference.mean == 0.0:
        return f"{text}."
    return f"{text}; {_whether(contrast)}."


def _ordered(pair: Pair, difference: Difference) -> tuple[RunFigures, RunFigures, Difference]:
    """The one with more first, and the difference turned so that it is positive."""
    if difference.mean >= 0.0:
        return pair.one, pair.other, difference
    turned = difference._replace(mean=-difference.mean, low=-difference.high, high=-difference.low)
    return pair.other, pair.one, turned


def _interval(apart: Difference) -> str:
    return f"{amount(apart.mean)} (95 %: {amount(apart.low)} to {amount(apart.high)})"


def _whether(contrast: Contrast) -> str:
    verdict = "is not chance" if contrast.is_real else "could be chance"
    return f"the difference {verdict} ({chance(contrast.p)})"
