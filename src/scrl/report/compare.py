"""Comparison of runs: paired seeds, intervals, tests, and a sentence for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from scrl.errors import ScrlError
from scrl.problems import difference_between
from scrl.report.reading import RunView
from scrl.report.words import amount, p_text
from scrl.runs.result import RunResult, SeedResult
from scrl.statistics import Difference, Mean, holm, mean_of, paired_difference, unpaired_difference

Quantity = Literal["return", "violation", "satisfied"]
CHANCE = 0.05
"""Significance level: a smaller p-value counts as a real difference."""


@dataclass(frozen=True)
class RunFigures:
    """One run: the means over its seeds."""

    label: str
    seeds: tuple[int, ...]
    values: dict[Quantity, Float[np.ndarray, " seed"]]
    means: dict[Quantity, Mean]
    satisfied: int


@dataclass(frozen=True)
class Contrast:
    """One quantity of the first run minus that of another."""

    quantity: Quantity
    difference: Difference
    p: float
    """The p-value, adjusted where several runs are compared with the first."""
    sentence: str

    @property
    def is_real(self) -> bool:
        return self.p < CHANCE


@dataclass(frozen=True)
class Pair:
    """The comparison of the first run with another."""

    one: RunFigures
    other: RunFigures
    is_paired: bool
    """Whether both runs have the same seeds, which are then compared in pairs."""
    contrasts: tuple[Contrast, ...]
    p_least: float
    """The smallest p-value that the number of seeds allows, adjusted for several pairs."""
    pairs: int = 1
    """Number of pairs in the comparison."""

    @property
    def too_few(self) -> str | None:
        """A sentence if there are too few seeds to show any difference."""
        if self.p_least < CHANCE:
            return None
        which = "both runs" if self.pairs == 1 else f"all {self.pairs + 1} runs"
        return (
            "So few seeds cannot show a difference, however large it is "
            f"({p_text(self.p_least)} is the least they can give): train at least "
            f"{fewest_seeds(self.pairs)} of the same seeds in {which}."
        )


def fewest_seeds(pairs: int) -> int:
    """The smallest number of seeds that allows a p-value below `CHANCE` in every pair.

    Two of the 2^n signings of n differences are the most extreme, and Holm's method multiplies the
    smallest p-value of m pairs by m, so n is the least number with m 2 / 2^n < `CHANCE`.
    """
    return math.floor(math.log2(2.0 * pairs / CHANCE)) + 1


@dataclass(frozen=True)
class Comparison:
    """Runs of one problem, each compared with the first."""

    problem: str
    unit: str
    bound: float | None
    runs: tuple[RunFigures, ...]
    pairs: tuple[Pair, ...]

    @property
    def is_paired(self) -> bool:
        """Whether all runs have the same seeds."""
        return all(pair.is_paired for pair in self.pairs)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "problem": self.problem,
            "unit": self.unit,
            "bound": self.bound,
            "runs": [
                {
                    "run": run.label,
                    "seeds": list(run.seeds),
                    "satisfied": run.satisfied,
                    "return": run.means["return"]._asdict(),
                    "violation": run.means["violation"]._asdict(),
                }
                for run in self.runs
            ],
            "pairs": [
                {
                    "one": pair.one.label,
                    "other": pair.other.label,
                    "is_paired": pair.is_paired,
                    "too_few_seeds": pair.too_few is not None,
                    **{
                        each.quantity: {
                            "difference": each.difference.mean,
                            "low": each.difference.low,
                            "high": each.difference.high,
                            "p": each.p,
                            "is_real": each.is_real,
                            "sentence": each.sentence,
                        }
                        for each in pair.contrasts
                    },
                }
                for pair in self.pairs
            ],
        }


def sentence(pair: Pair, contrast: Contrast, unit: str) -> str:
    """The result for one quantity, as a sentence."""
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
    """The two runs with the larger mean first, and the positive difference."""
    if difference.mean >= 0.0:
        return pair.one, pair.other, difference
    turned = difference._replace(mean=-difference.mean, low=-difference.high, high=-difference.low)
    return pair.other, pair.one, turned


def _interval(apart: Difference) -> str:
    return f"{amount(apart.mean)} (95 %: {amount(apart.low)} to {amount(apart.high)})"


def _whether(contrast: Contrast) -> str:
    verdict = "is not chance" if contrast.is_real else "could be chance"
    return f"the difference {verdict} ({p_text(contrast.p)})"


QUANTITIES: dict[Quantity, Callable[[SeedResult], float]] = {
    "return": lambda each: each.evaluation.return_,
    "violation": lambda each: each.evaluation.cons_vio,
    "satisfied": lambda each: float(each.is_satisfied),
}
"""The quantities that are compared, as functions of a seed's result."""


def compare(views: Sequence[RunView]) -> Comparison:
    """The first run against each of the others; all must be finished runs of one problem."""
    if len(views) < 2:
        raise ScrlError("one run alone cannot be compared: name two or more")
    first = views[0]
    figures = [_figures(view, _finished(view)) for view in views]
    for view in views[1:]:
        if parts := difference_between(first.problem, view.problem):
            raise ScrlError(
                f"{view.folder.path} solves another problem than {first.folder.path} (they differ "
                f"in: {', '.join(parts)}): only runs of the same problem can be compared; "
                "`scrl report` shows them beside each other"
            )
    unit = first.problem.unit_of_rules()
    pairs = [_pair(figures[0], each) for each in figures[1:]]
    return Comparison(
        problem=first.problem.name,
        unit=unit,
        bound=_finished(first).bound,
        runs=tuple(figures),
        pairs=tuple(_adjusted(pairs, unit)),
    )


def _finished(view: RunView) -> RunResult:
    if view.result is None:
        path = view.folder.path
        raise ScrlError(
            f"{path}: this run is not finished; resume with {view.folder.resume_command} first"
        )
    return view.result


def _figures(view: RunView, result: RunResult) -> RunFigures:
    seeds = sorted(result.seeds, key=lambda each: each.seed)
    values: dict[Quantity, np.ndarray] = {
        name: np.array([value(each) for each in seeds], float) for name, value in QUANTITIES.items()
    }
    return RunFigures(
        view.label,
        tuple(each.seed for each in seeds),
        values,
        {name: mean_of(values[name]) for name in QUANTITIES},
        result.satisfied,
    )


def _pair(one: RunFigures, other: RunFigures) -> Pair:
    is_paired = one.seeds == other.seeds
    test = paired_difference if is_paired else unpaired_difference
    contrasts = []
    for name in QUANTITIES:
        found = test(one.values[name], other.values[name])
        contrasts.append(Contrast(name, found, found.p, ""))
    return Pair(one, other, is_paired, tuple(contrasts), contrasts[0].difference.p_least)


def _adjusted(pairs: Sequence[Pair], unit: str) -> list[Pair]:
    """The pairs with adjusted p-values and their sentences."""
    ps = [holm([pair.contrasts[k].p for pair in pairs]) for k in range(len(QUANTITIES))]
    least = holm([pair.p_least for pair in pairs])
    found = []
    for index, pair in enumerate(pairs):
        contrasts = [replace(each, p=ps[k][index]) for k, each in enumerate(pair.contrasts)]
        said = tuple(replace(each, sentence=sentence(pair, each, unit)) for each in contrasts)
        found.append(replace(pair, contrasts=said, p_least=least[index], pairs=len(pairs)))
    return found
