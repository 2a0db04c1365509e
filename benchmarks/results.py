"""Runs of `scrl bench` -> the results in the manual.

`python -m benchmarks.results [FOLDER] [--only default|paper|ablation]` reads the run folders of the
commands in `COMMANDS` (in runs/bench, unless another folder is named). What each seed did goes into
docs/results/seeds.csv; commit, command, machine and settings into docs/results/runs.csv; the tables
into docs/results.md, docs/tables.md and docs/training.md, between their marks, and as CSV and LaTeX
beside them. Runs that are not finished are named where their rows would be. With `--only`, which
may be repeated, the other tables stay as they are.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from collections.abc import Mapping, Sequence
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
SEEDS, RUNS = DOCS / "results" / "seeds.csv", DOCS / "results" / "runs.csv"
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/bench"))
    parser.add_argument("--only", action="append", choices=COMMANDS)
    asked = parser.parse_args()
    names = asked.only or [*COMMANDS]
    for name in TERMS:
        if name in names:
            _write_terms(asked.folder, name)
    if "ablation" in names:
        write(DOCS / "training.md", {"ablation": ablation(asked.folder)})


def _write_terms(folder: Path, name: str) -> None:
    """All that is told of the runs on these terms."""
    terms, found = TERMS[name], read(folder, TERMS[name])
    _replace_rows(SEEDS, name, _seeds(found))
    _replace_rows(RUNS, name, _runs(found))
    write(DOCS / "results.md", {name: summary(found, name), "beside": beside()})
    suffix = "" if terms == EQUAL else f"-{name}"
    tables = {f"{table}{suffix}": _table(table, folder, terms) for table in PAPERS}
    if terms == EQUAL:
        tables["more"] = _more(folder)
    write(DOCS / "tables.md", {**tables, "sources": sources(_rows(RUNS))})


def read(folder: Path, terms: Terms) -> Found:
    """Every finished run of our tables on these terms."""
    cells = cells_of(TABLES["all"], terms=terms)
    results = {run: _result(folder, run) for cell in cells for run in cell.runs()}
    return {run: result for run, result in results.items() if result is not None}


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


def _replace_rows(path: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """Put the rows of these terms into a table, in place of those it has of them."""
    rows += [row for row in _rows(path) if _terms_of(row) != name]
    order = {cell.problem: place for place, cell in enumerate(cells_of(TABLES["all"]))}
    rows.sort(key=lambda row: (_terms_of(row) != "default", order[row["problem"]]))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _terms_of(row: dict[str, Any]) -> str:
    """Which terms a row is about; the parts of a best branch have a budget of their own."""
    return "paper" if row["terms"].startswith("preset-paper") else "default"


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
        + f"\n\nTen seeds each (0 to 9), `scrl bench {COMMANDS[name]}`; {sources(_runs(own))}"
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


def beside() -> str:
    """The published figures of SCRL, our run of the paper's settings, and the default ones."""
    rows = ["| problem | SCRL as published: vio / return | preset paper: vio / return (satisfied) |"
            " default: vio / return (satisfied) |", "|---|---|---|---|"]  # fmt: skip
    own = [row for row in _rows(SEEDS) if row["method"] == "scrl"]
    for problem in TABLES["all"].problems:
        printed = PUBLISHED[problem, "scrl"]
        ours = [
            _scaled([row for row in own if row["problem"] == problem and _terms_of(row) == name])
            for name in ("paper", "default")
        ]
        cells = [problem, f"{printed.violation:g} / {printed.return_:g}", *ours]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _scaled(rows: list[dict[str, str]]) -> str:
    if not rows:
        return "-"
    violation, return_ = (
        sum(float(row[name]) for row in rows) / len(rows) / PAPER_SCALE
        for name in ("cons_vio", "return")
    )
    kept = sum(row["satisfied"] == "1" for row in rows)
    return f"{violation:.2f} / {return_:.2f} ({kept} of {len(rows)})"


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


def sources(runs: Sequence[Mapping[str, str]]) -> str:
    """Commits and machines behind the runs."""
    known = sorted({(run["commit"], run["device"]) for run in runs})
    return "; ".join(f"commit {commit}, {device}" for commit, device in known) + "."


if __name__ == "__main__":
    main()
