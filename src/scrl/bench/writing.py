"""Rows -> Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

from scrl.bench.published import Published
from scrl.bench.rows import Row
from scrl.bench.tables import Table
from scrl.statistics import Mean

Bold = Callable[[str], str]


def markdown(table: Table, rows: Sequence[Row], note: str | None = None) -> str:
    """A table for the manual, under a note where there is one."""
    head = _header(table)
    lines = [head, ["---"] * len(head)]
    lines += [_cells(table, row, bold=lambda text: f"**{text}**") for row in rows]
    above = f"**{note}**\n\n" if note else ""
    return above + "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def latex(table: Table, rows: Sequence[Row], note: str | None = None) -> str:
    """A table for a paper (needs booktabs), after a note where there is one."""
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
    """Every number, unrounded; a note is a column of its own."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    means = ("violation", "return", "steps", "equity", "adequacy")
    columns = [f"{name}_{part}" for name in means for part in Mean._fields]
    writer.writerow(
        ["problem", "method", "seeds", "satisfied", *columns, "reference",
         "published_violation", "published_return", *(["note"] if note else [])]
    )  # fmt: skip
    for row in rows:
        figures = [value for mean in _means(row) for value in mean]
        published = [row.published.violation, row.published.return_] if row.published else ["", ""]
        writer.writerow(
            [row.cell.problem, row.cell.label, row.seeds, row.satisfied, *figures,
             "" if row.reference is None else row.reference, *published,
             *([note] if note else [])]
        )  # fmt: skip
    return out.getvalue()


def _means(row: Row) -> tuple[Mean, ...]:
    return (row.violation, row.return_, row.steps, *row.split)


def _header(table: Table) -> list[str]:
    violation = ["equity", "adequacy"] if table.is_split else ["Cons.Vio", "95 %"]
    return [
        "problem", "method", "satisfied", *violation, "return", "95 %", "best possible", "steps",
        "paper: vio", "paper: return",
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
        f"{row.satisfied} of {row.seeds}",
        *violation,
        bold(return_) if row.is_best_return else return_,
        _interval(row.return_),
        "" if row.reference is None else f"{row.reference:.2f}",
        f"{row.steps.mean:,.0f}",
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
