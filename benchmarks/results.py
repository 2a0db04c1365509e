"""Runs of `scrl bench` -> the results in the manual.

`python -m benchmarks.results [FOLDER]` reads the run folders of the commands in `COMMANDS` (in
runs/bench, unless another folder is named). What each seed did goes into docs/results/seeds.csv;
commit, command, machine and settings into docs/results/runs.csv; the tables into docs/results.md
and docs/tables.md, between their marks, and as CSV and LaTeX beside them. Runs that are not
finished are named where their rows would be. `python -m benchmarks.results FOLDER ablation` writes
the ablation alone.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.best_plans import best_known
from benchmarks.marks import write
from scrl.bench import TABLES, Cell, Row, Terms, cells_of, run_bench
from scrl.bench.rows import as_csv, latex, markdown
from scrl.bench.tables import EQUAL, PAPER_SCALE, PUBLISHED
from scrl.reference.answer import gap_to
from scrl.runs.folder import RunFolder
from scrl.training.result import TrainingResult, read_result

DOCS = Path(__file__).parents[1] / "docs"
PAPER = Terms(preset="paper", steps=204_800)
TERMS = {"default": EQUAL, "paper": PAPER}
COMMANDS: dict[str, str] = {
    "default": "all",
    "paper": f"all --preset paper --steps {PAPER.steps}",
    "ablation": "ablation",
}
"""What `scrl bench` is called with for the runs that make up all tables."""
PAPERS = ("table1", "table2", "table3", "table4")
MORE = ("ppo-lagrangian", "sac-lagrangian", "scrl-min", "scrl")
"""Methods that the paper's main table does not hold, beside ours."""

Found = dict[Cell, tuple[RunFolder, TrainingResult]]


def main() -> None:
    """Read the runs, write data and pages."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/bench")
    if "ablation" in sys.argv[2:]:
        write(DOCS / "training.md", {"ablation": ablation(folder)})
        return
    found = read(folder)
    _write_csv(DOCS / "results" / "seeds.csv", _seeds(found))
    _write_csv(DOCS / "results" / "runs.csv", _runs(found))
    write(DOCS / "results.md", {
        **{name: summary(found, name) for name in TERMS}, "beside": beside(found),
    })  # fmt: skip
    tables = {
        name if terms == EQUAL else f"{name}-paper": _table(name, folder, terms)
        for terms in TERMS.values()
        for name in PAPERS
    }
    write(DOCS / "tables.md", {**tables, "more": _more(folder), "sources": sources(found)})


def read(folder: Path) -> Found:
    """Every finished run of our tables."""
    found: Found = {}
    for terms in TERMS.values():
        for cell in cells_of(TABLES["all"], terms=terms):
            for each in cell.runs():
                if (result := _result(folder, each)) is not None:
                    found[each] = result
    return found


def _result(folder: Path, cell: Cell) -> tuple[RunFolder, TrainingResult] | None:
    if not (folder / cell.folder / "result.json").exists():
        return None
    run = RunFolder.open(folder / cell.folder)
    result = read_result(run, run.problem())
    return None if result is None else (run, result)


def _finished(folder: Path, cells: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in cells if all(_result(folder, each) for each in cell.runs())]


def _seeds(found: Found) -> list[dict[str, Any]]:
    return [
        {
            "terms": cell.terms.prefix.rstrip("-"),
            "problem": cell.problem,
            "method": cell.label,
            "seed": each.seed,
            "return": f"{each.evaluation.return_:.4f}",
            "gap": "" if each.gap is None else f"{each.gap:.5f}",
            "cons_vio": f"{each.evaluation.cons_vio:.4f}",
            "steps": f"{each.evaluation.steps:.2f}",
            "satisfied": int(each.is_satisfied),
            "episodes": each.evaluation.episodes,
            "episodes_satisfied": each.evaluation.episodes_satisfied,
            **{name: f"{amount:.3f}" for name, amount in each.evaluation.density.items()},
        }
        for cell, (_, result) in found.items()
        for each in result.seeds
    ]


def _runs(found: Found) -> list[dict[str, Any]]:
    return [
        {
            "terms": cell.terms.prefix.rstrip("-"),
            "problem": cell.problem,
            "method": cell.label,
            "commit": run.record.commit,
            "command": re.sub(r" --out \S+", "", run.record.command),
            "device": run.record.device,
            "jax": run.record.jax,
            "env_steps": result.env_steps,
            "wall_s": f"{result.wall_s:.0f}",
            "settings": json.dumps(run.record.settings["settings"]),
        }
        for cell, (run, result) in found.items()
    ]


def _write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def summary(found: Found, name: str) -> str:
    """SCRL on the problems of a table: how many seeds keep the rules, and how near the best."""
    rows = [
        "| problem | satisfied | return | best plan known | gap to it | bound | gap to it |"
        " Cons.Vio | steps | last policy: satisfied |", "|---" * 10 + "|",
    ]  # fmt: skip
    best, terms = best_known(), TERMS[name]
    own = {cell: pair for cell, pair in found.items() if cell.method == "scrl"}
    own = {cell: pair for cell, pair in own.items() if cell.terms == terms}
    rows += [_summary_row(cell, result, *best[cell.problem]) for cell, (_, result) in own.items()]
    return (
        "\n".join(rows)
        + f"\n\nTen seeds each (0 to 9), `scrl bench {COMMANDS[name]}`; {sources(own)}"
    )


def _summary_row(cell: Cell, result: TrainingResult, best: float, bound: float) -> str:
    judged = [each.evaluation for each in result.seeds]

    def mean(name: str) -> float:
        return sum(getattr(each, name) for each in judged) / len(judged)

    kept = [each.return_ for each in judged if each.is_satisfied]
    gaps = [
        gap_to(known, sum(kept) / len(kept), is_bound=known == bound) if kept else None
        for known in (best, bound)
    ]
    last = sum(each.last is not None and each.last.is_satisfied for each in result.seeds)
    cells = [
        cell.problem, f"{result.satisfied} of {len(judged)}", f"{mean('return_'):.2f}",
        f"{best:.2f}", _percent(gaps[0]), f"{bound:.2f}", _percent(gaps[1]),
        f"{mean('cons_vio'):.2f}", f"{mean('steps'):,.0f}", f"{last} of {len(judged)}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _percent(gap: float | None) -> str:
    return "-" if gap is None else f"{gap:.1%}"


def beside(found: Found) -> str:
    """The published figures of SCRL, our run of the paper's settings, and the default ones."""
    rows = ["| problem | SCRL as published: vio / return | preset paper: vio / return (satisfied) |"
            " default: vio / return (satisfied) |", "|---|---|---|---|"]  # fmt: skip
    for name in TABLES["all"].problems:
        printed = PUBLISHED[name, "scrl"]
        ours = [_scaled(found[Cell(name, "scrl", terms)][1]) for terms in (PAPER, EQUAL)]
        cells = [name, f"{printed.violation:g} / {printed.return_:g}", *ours]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _scaled(result: TrainingResult) -> str:
    judged = [each.evaluation for each in result.seeds]
    violation = sum(each.cons_vio for each in judged) / len(judged) / PAPER_SCALE
    return_ = sum(each.return_ for each in judged) / len(judged) / PAPER_SCALE
    return f"{violation:.2f} / {return_:.2f} ({result.satisfied} of {len(judged)})"


def _table(name: str, folder: Path, terms: Terms) -> str:
    """A table of the paper, and its files beside the page."""
    table = TABLES[name]
    asked = cells_of(table, terms=terms)
    cells = _finished(folder, asked)
    missing: dict[str, list[str]] = {}
    for cell in asked:
        if cell not in cells:
            missing.setdefault(cell.method, []).append(cell.problem)
    rows = run_bench(table, cells, folder).rows
    results, name = DOCS / "results", f"{terms.prefix}{name}"
    (results / f"{name}.csv").write_text(as_csv(rows), encoding="utf-8")
    (results / f"{name}.tex").write_text(latex(table, rows), encoding="utf-8")
    left = [
        method if len(where) == len(table.problems) else f"{method} on {', '.join(where)}"
        for method, where in missing.items()
    ]
    note = f"\n\nNot run yet: {'; '.join(left)}." if missing else ""
    return markdown(table, rows).strip() + note


def ablation(folder: Path) -> str:
    """A row for each variant of SCRL, a column for each problem; "-" where no run is finished."""
    table = TABLES["ablation"]
    cells = _finished(folder, cells_of(table))
    rows = {(row.cell.problem, row.cell.name): row for row in run_bench(table, cells, folder).rows}
    (DOCS / "results" / "ablation.csv").write_text(as_csv(list(rows.values())), encoding="utf-8")
    lines = ["| | " + " | ".join(table.problems) + " |", "|---" * (1 + len(table.problems)) + "|"]
    for name, _ in table.variants:
        found = [rows.get((problem, name)) for problem in table.problems]
        lines.append(f"| {name} | " + " | ".join(map(_ablation_cell, found)) + " |")
    runs = {cell: RunFolder.open(folder / cell.folder).record for cell in cells}
    known = sorted({(record.commit, record.device) for record in runs.values()})
    origin = "; ".join(f"commit {commit}, {device}" for commit, device in known)
    return "\n".join(lines) + f"\n\nTen seeds each (0 to 9), `scrl bench ablation`; {origin}."


def _ablation_cell(row: Row | None) -> str:
    if row is None:
        return "-"
    return_ = f"{PAPER_SCALE * row.return_.mean:.2f} ± {PAPER_SCALE * row.return_.std:.2f}"
    return f"{return_} ({row.satisfied}, {row.last_satisfied})"


def _more(folder: Path) -> str:
    table = TABLES["all"]
    rows: Sequence[Row] = run_bench(table, _finished(folder, cells_of(table)), folder).rows
    (DOCS / "results" / "all.csv").write_text(as_csv(rows), encoding="utf-8")
    return markdown(table, [row for row in rows if row.cell.method in MORE]).strip()


def sources(found: Found) -> str:
    """Commits and machines behind the runs."""
    known = sorted({(run.record.commit, run.record.device) for run, _ in found.values()})
    return "; ".join(f"commit {commit}, {device}" for commit, device in known) + "."


if __name__ == "__main__":
    main()
