"""The rows of a table in the scale of the paper, as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scrl.bench.tables import (
    BEST_BRANCH,
    PAPER_SCALE,
    PUBLISHED,
    PUBLISHED_SPLIT,
    Cell,
    Published,
    Table,
)
from scrl.problems import Problem
from scrl.statistics import Mean, is_lower, mean_of
from scrl.training.methods import find_method
from scrl.training.result import TrainingResult
from scrl.violation import signed_violation


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
    told: str
    """What the method is told of the rules."""
    budget: int | None
    """Environment steps of each seed, at most; none if rounds were counted instead."""
    last_satisfied: int | None
    """Seeds whose last policy, not the best one, keeps every rule; none if it is not known."""
    last_violation: Mean | None
    last_return: Mean | None
    bound: float | None
    """The proven bound of the return, in the same scale."""
    published: Published | None
    published_split: tuple[float, float] | None
    is_least_violation: bool
    """Whether it violates significantly less than every other method of the problem."""
    is_best_return: bool
    """Whether its return is significantly the best among the methods with the least violation."""


def rows_of(
    results: Sequence[tuple[Cell, TrainingResult]],
    problem_of: Callable[[Cell], Problem],
    *,
    is_budgeted: bool = True,
) -> list[Row]:
    """One row for each run, compared with the other runs of its problem."""
    by_cell = {cell: _Figures.of(result, problem_of(cell)) for cell, result in results}
    return [
        _row(cell, result, by_cell[cell], _rivals(cell, by_cell), is_budgeted=is_budgeted)
        for cell, result in results
    ]  # fmt: skip


@dataclass(frozen=True)
class _Figures:
    """The results of each seed, in the paper's scale."""

    violation: Float[np.ndarray, " seed"]
    return_: Float[np.ndarray, " seed"]
    steps: Float[np.ndarray, " seed"]
    equity: Float[np.ndarray, " seed"]
    adequacy: Float[np.ndarray, " seed"]

    @classmethod
    def of(cls, result: TrainingResult, problem: Problem) -> _Figures:
        found = [each.evaluation for each in result.seeds]
        names = problem.regions
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


def _row(
    cell: Cell, result: TrainingResult, own: _Figures, rivals: list[_Figures], *, is_budgeted: bool
) -> Row:
    is_least = bool(rivals) and all(is_lower(own.violation, each.violation) for each in rivals)
    everybody = [own, *rivals]
    good = [each for each in rivals if not _violates_more(each, everybody)]
    is_good = not _violates_more(own, everybody)
    is_best = is_good and bool(good) and all(is_lower(-own.return_, -each.return_) for each in good)
    known = [each.last for each in result.seeds if each.last is not None]
    last = known if len(known) == len(result.seeds) else None
    return Row(
        cell=cell,
        seeds=len(result.seeds),
        satisfied=result.satisfied,
        violation=mean_of(own.violation),
        return_=mean_of(own.return_),
        steps=mean_of(own.steps),
        split=(mean_of(own.equity), mean_of(own.adequacy)),
        told=_told(cell.method),
        budget=cell.budget if is_budgeted else None,
        last_satisfied=None if last is None else sum(each.is_satisfied for each in last),
        last_violation=None if last is None else _mean_of([each.cons_vio for each in last]),
        last_return=None if last is None else _mean_of([each.return_ for each in last]),
        bound=None if result.bound is None else result.bound / PAPER_SCALE,
        published=PUBLISHED.get((cell.problem, cell.method)),
        published_split=PUBLISHED_SPLIT.get((cell.problem, cell.method)),
        is_least_violation=is_least,
        is_best_return=is_best,
    )


def _told(method: str) -> str:
    """What a method is told of the rules, in words."""
    if method == BEST_BRANCH:
        return "each disjunct in turn"
    known = find_method(method)
    reading = "all" if known is None else known.reading
    words = {"all": "the rules", "every-atom": "every atom", "cost": "costs"}
    return words.get(reading, reading.replace("-", " "))


def _mean_of(values: Sequence[float]) -> Mean:
    return mean_of(np.array(values) / PAPER_SCALE)


def _violates_more(one: _Figures, everybody: list[_Figures]) -> bool:
    return any(is_lower(each.violation, one.violation) for each in everybody)


Bold = Callable[[str], str]


def markdown(table: Table, rows: Sequence[Row], note: str | None = None) -> str:
    """The table as Markdown, after the note if there is one."""
    head = _header(table)
    lines = [head, ["---"] * len(head)]
    lines += [_cells(table, row, bold=lambda text: f"**{text}**") for row in rows]
    above = f"**{note}**\n\n" if note else ""
    return above + "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def latex(table: Table, rows: Sequence[Row], note: str | None = None) -> str:
    """The table as LaTeX (needs booktabs), after the note if there is one."""
    head = _header(table)
    lines = [
        *([f"% {note}", r"\textbf{" + note + r"}\par"] if note else []),
        r"\begin{tabular}{" + "l" * 2 + "r" * (len(head) - 2) + "}",
        r"\toprule",
        _tex_line(head),
        r"\midrule",
    ]
    before = rows[0].cell.problem if rows else ""
    for row in rows:
        if row.cell.problem != before:
            lines.append(r"\midrule")
            before = row.cell.problem
        lines.append(_tex_line(_cells(table, row, bold=lambda text: rf"\textbf{{{text}}}")))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def as_csv(rows: Sequence[Row], note: str | None = None) -> str:
    """All numbers, unrounded, as CSV; the note is a column."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = [f"{name}_{part}" for name in _MEANS for part in Mean._fields]
    writer.writerow(
        ["problem", "method", "told", "budget", "seeds", "satisfied", "last_satisfied", *columns,
         "bound", "published_violation", "published_return", *(["note"] if note else [])]
    )  # fmt: skip
    for row in rows:
        figures = [value for mean in _means(row) for value in mean or [None] * len(Mean._fields)]
        published = [row.published.violation, row.published.return_] if row.published else ["", ""]
        writer.writerow(
            [row.cell.problem, row.cell.label, row.told, row.budget, row.seeds, row.satisfied,
             row.last_satisfied, *figures, row.bound, *published, *([note] if note else [])]
        )  # fmt: skip
    return out.getvalue()


_MEANS = ("violation", "return", "steps", "equity", "adequacy", "last_violation", "last_return")


def _means(row: Row) -> tuple[Mean | None, ...]:
    return (row.violation, row.return_, row.steps, *row.split, row.last_violation, row.last_return)


def _header(table: Table) -> list[str]:
    violation = ["equity", "adequacy"] if table.is_split else ["Cons.Vio", "95 %"]
    return [
        "problem", "method", "told", "budget", "satisfied", *violation, "return", "95 %", "bound",
        "steps", "last: satisfied", "last: vio", "last: return", "paper: vio", "paper: return",
    ]  # fmt: skip


def _cells(table: Table, row: Row, *, bold: Bold) -> list[str]:
    violation = [_mean(row.violation), _interval(row.violation)]
    published = _published(row.published)
    if table.is_split:
        violation = [_mean(each) for each in row.split]
        published[0] = "" if row.published_split is None else " / ".join(
            f"{each:g}" for each in row.published_split
        )  # fmt: skip
    elif row.is_least_violation:
        violation[0] = bold(violation[0])
    return_ = _mean(row.return_)
    return [
        row.cell.problem,
        row.cell.label,
        row.told,
        "" if row.budget is None else f"{row.budget:,}",
        f"{row.satisfied} of {row.seeds}",
        *violation,
        bold(return_) if row.is_best_return else return_,
        _interval(row.return_),
        "" if row.bound is None else f"{row.bound:.2f}",
        f"{row.steps.mean:,.0f}",
        "" if row.last_satisfied is None else f"{row.last_satisfied} of {row.seeds}",
        *("" if mean is None else _mean(mean) for mean in (row.last_violation, row.last_return)),
        *published,
    ]


def _mean(mean: Mean) -> str:
    return f"{mean.mean:.2f} ± {mean.std:.2f}"


def _interval(mean: Mean) -> str:
    return f"{mean.low:.2f} to {mean.high:.2f}"


def _published(found: Published | None) -> list[str]:
    if found is None:
        return ["", ""]
    pairs = [(found.violation, found.violation_std), (found.return_, found.return_std)]
    return [f"{mean:g}" + ("" if std is None else f" ± {std:g}") for mean, std in pairs]


def _tex_line(cells: Sequence[str]) -> str:
    escaped = [
        each.replace("%", r"\%").replace("_", r"\_").replace("±", r"$\pm$") for each in cells
    ]
    return " & ".join(escaped) + r" \\"
