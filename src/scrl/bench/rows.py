"""Runs -> the rows of a table, in the paper's scale, with the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scrl.bench.published import PAPER_SCALE, PUBLISHED, PUBLISHED_SPLIT, Published
from scrl.bench.tables import Cell
from scrl.outcome import TrainingResult
from scrl.penalty import signed_violation
from scrl.problems import Problem
from scrl.statistics import Mean, is_lower, mean_of


@dataclass(frozen=True)
class Row:
    """A method on a problem: means over the seeds."""

    cell: Cell
    seeds: int
    satisfied: int
    violation: Mean
    return_: Mean
    steps: Mean
    split: tuple[Mean, Mean]
    """Violations of equity and of adequacy: of the equalities' atoms, and of all others."""
    reference: float | None
    """The best possible return, in the same scale."""
    published: Published | None
    published_split: tuple[float, float] | None
    is_least_violation: bool
    """Violates less than every other method of the problem, beyond chance."""
    is_best_return: bool
    """Among the methods that violate no more than any other: more return, beyond chance."""


def rows_of(
    results: Sequence[tuple[Cell, TrainingResult]], problem_of: Callable[[str], Problem]
) -> list[Row]:
    """One row for each run, compared with the other runs of its problem."""
    by_cell = {cell: _Figures.of(result, problem_of(cell.problem)) for cell, result in results}
    return [
        _row(cell, result, by_cell[cell], _rivals(cell, by_cell))
        for cell, result in results
    ]  # fmt: skip


@dataclass(frozen=True)
class _Figures:
    """What each seed did, in the paper's scale."""

    violation: Float[np.ndarray, " seed"]
    return_: Float[np.ndarray, " seed"]
    steps: Float[np.ndarray, " seed"]
    equity: Float[np.ndarray, " seed"]
    adequacy: Float[np.ndarray, " seed"]

    @classmethod
    def of(cls, result: TrainingResult, problem: Problem) -> _Figures:
        found = [each.evaluation for each in result.seeds]
        names = problem.world_spec.regions.names
        density = np.array([[each.density[name] for name in names] for each in found])
        atoms = problem.atoms
        over = np.maximum(signed_violation(atoms.coefficients, atoms.bounds, density), 0.0)
        is_equity = atoms.opposites != np.arange(len(atoms.atoms))
        return cls(
            np.array([each.cons_vio for each in found]) / PAPER_SCALE,
            np.array([each.return_ for each in found]) / PAPER_SCALE,
            np.array([each.steps for each in found]),
            over[:, is_equity].sum(axis=1) / PAPER_SCALE,
            over[:, ~is_equity].sum(axis=1) / PAPER_SCALE,
        )


def _rivals(cell: Cell, by_cell: dict[Cell, _Figures]) -> list[_Figures]:
    return [
        figures
        for other, figures in by_cell.items()
        if other.problem == cell.problem and other != cell
    ]


def _row(cell: Cell, result: TrainingResult, own: _Figures, rivals: list[_Figures]) -> Row:
    is_least = bool(rivals) and all(is_lower(own.violation, each.violation) for each in rivals)
    everybody = [own, *rivals]
    good = [each for each in rivals if not _violates_more(each, everybody)]
    is_good = not _violates_more(own, everybody)
    is_best = is_good and bool(good) and all(is_lower(-own.return_, -each.return_) for each in good)
    return Row(
        cell=cell,
        seeds=len(result.seeds),
        satisfied=result.satisfied,
        violation=mean_of(own.violation),
        return_=mean_of(own.return_),
        steps=mean_of(own.steps),
        split=(mean_of(own.equity), mean_of(own.adequacy)),
        reference=None if result.reference is None else result.reference / PAPER_SCALE,
        published=PUBLISHED.get((cell.problem, cell.method)),
        published_split=PUBLISHED_SPLIT.get((cell.problem, cell.method)),
        is_least_violation=is_least,
        is_best_return=is_best,
    )


def _violates_more(one: _Figures, everybody: list[_Figures]) -> bool:
    return any(is_lower(each.violation, one.violation) for each in everybody)
