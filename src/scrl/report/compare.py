"""Is the difference between runs real? Seed against seed, with intervals and a plain sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from scrl.errors import ScrlError
from scrl.outcome import SeedResult, TrainingResult
from scrl.problems import difference_between
from scrl.report.compared import Comparison, Contrast, Pair, Quantity, RunFigures
from scrl.report.reading import RunView
from scrl.report.verdicts import sentence
from scrl.statistics import holm, mean_of, paired_difference, unpaired_difference

QUANTITIES: dict[Quantity, Callable[[SeedResult], float]] = {
    "return": lambda each: each.evaluation.return_,
    "violation": lambda each: each.evaluation.cons_vio,
    "satisfied": lambda each: float(each.is_satisfied),
}
"""What is compared, for each seed."""


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
    unit = first.problem.unit
    pairs = [_pair(figures[0], each) for each in figures[1:]]
    return Comparison(
        problem=first.problem.name,
        unit=unit,
        reference=_finished(first).reference,
        runs=tuple(figures),
        pairs=tuple(_adjusted(pairs, unit)),
    )


def _finished(view: RunView) -> TrainingResult:
    if view.result is None:
        path = view.folder.path
        raise ScrlError(
            f"{path}: this run is not finished; go on with {view.folder.going_on} first"
        )
    return view.result


def _figures(view: RunView, result: TrainingResult) -> RunFigures:
    seeds = sorted(result.seeds, key=lambda each: each.seed)
    values: dict[Quantity, np.ndarray] = {
        name: np.array([value(each) for each in seeds]) for name, value in QUANTITIES.items()
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
    """With several pairs, each p made larger; then everything said in words."""
    ps = [holm([pair.contrasts[k].p for pair in pairs]) for k in range(len(QUANTITIES))]
    least = holm([pair.p_least for pair in pairs])
    found = []
    for index, pair in enumerate(pairs):
        contrasts = [replace(each, p=ps[k][index]) for k, each in enumerate(pair.contrasts)]
        said = tuple(replace(each, sentence=sentence(pair, each, unit)) for each in contrasts)
        found.append(replace(pair, contrasts=said, p_least=least[index], pairs=len(pairs)))
    return found
