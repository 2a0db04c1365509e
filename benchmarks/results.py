"""Runs of `scrl bench` -> the results in the manual.

`python -m benchmarks.results [FOLDER]` reads the run folders of the commands in `COMMANDS` (in
runs/bench, unless another folder is named). What each seed did goes into docs/results/seeds.csv;
commit, command, machine and settings into docs/results/runs.csv; the tables into docs/results.md
and docs/tables.md, between their marks, and as CSV and LaTeX beside them.
`python -m benchmarks.results FOLDER ablation` writes the ablation alone.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.marks import write
from scrl.bench import TABLES, Cell, Row, Terms, cells_of, run_bench
from scrl.bench.rows import as_csv, latex, markdown
from scrl.bench.tables import EQUAL, PAPER_SCALE, PUBLISHED
from scrl.runs.folder import RunFolder
from scrl.training.result import TrainingResult, read_result

DOCS = Path(__file__).parents[1] / "docs"
WINDY = ("agri-situational", "agri-priority", "agri-joint")
COMMANDS: dict[str, str] = {
    "default": "all",
    "paper": "all --preset paper",
    "wind": f"all --methods scrl --tasks {','.join(WINDY)} --wind 0.1",
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
    write(DOCS / "training.md", {"ablation": ablation(folder)})
    if "ablation" in sys.argv[2:]:
        return
    found = read(folder)
    _write_csv(DOCS / "results" / "seeds.csv", _seeds(found))
    _write_csv(DOCS / "results" / "runs.csv", _runs(found))
    write(DOCS / "results.md", {
        **{name: summary(found, name) for name in ("default", "wind", "paper")},
        "beside": beside(found),
    })  # fmt: skip
    tables = {name: _table(name, folder) for name in PAPERS}
    in_the_papers_settings = {
        f"{name}-paper": _table(name, folder, Terms(preset="paper")) for name in PAPERS
    }
    write(DOCS / "tables.md", {
        **tables, **in_the_papers_settings, "more": _more(folder), "sources": sources(found),
    })  # fmt: skip


def read(folder: Path) -> Found:
    """Every run of our tables; one that is missing or not finished is an error."""
    found: Found = {}
    for name, command in COMMANDS.items():
        for cell in _runs_of(name):
            run = RunFolder.open(folder / cell.folder)
            result = read_result(run, run.problem())
            if result is None:
                raise SystemExit(f"{run.path}: not finished; run `scrl bench {command}`")
            found[cell] = (run, result)
    return found


def _runs_of(name: str, methods: Sequence[str] | None = None) -> list[Cell]:
    """The runs of one of the commands."""
    if name == "wind":
        cells = cells_of(TABLES["all"], methods=["scrl"], problems=WINDY, terms=Terms(wind=0.1))
    elif name == "ablation":
        cells = cells_of(TABLES["ablation"], methods=methods)
    else:
        preset = "paper" if name == "paper" else None
        cells = cells_of(TABLES["all"], methods=methods, terms=Terms(preset=preset))
    return [run for cell in cells for run in cell.runs()]


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
            "command": run.record.command,
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
    head = "| problem | satisfied | mean gap | worst gap | return | bound | Cons.Vio |"
    head += " steps | single episodes |"
    rows = [head, "|---" * 9 + "|"]
    own = {cell: found[cell] for cell in _runs_of(name, ["scrl"])}
    rows += [_summary_row(cell, result) for cell, (_, result) in own.items()]
    return (
        "\n".join(rows)
        + f"\n\nTen seeds each (0 to 9), `scrl bench {COMMANDS[name]}`; {sources(own)}"
    )


def _summary_row(cell: Cell, result: TrainingResult) -> str:
    judged = [each.evaluation for each in result.seeds]
    count = len(judged)

    def mean(name: str) -> float:
        return sum(getattr(each, name) for each in judged) / count

    alone = sum(each.episodes_satisfied for each in judged) / sum(each.episodes for each in judged)
    gaps = ["-" if gap is None else f"{gap:.1%}" for gap in (result.gap_mean, result.gap_worst)]
    best = "-" if result.bound is None else f"{result.bound:.2f}"
    cells = [
        cell.problem, f"{result.satisfied} of {count}", *gaps, f"{mean('return_'):.2f}", best,
        f"{mean('cons_vio'):.2f}", f"{mean('steps'):,.0f}", f"{alone:.0%}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def beside(found: Found) -> str:
    """The published figures of SCRL, our run of the paper's settings, and the default ones."""
    rows = ["| problem | SCRL as published: vio / return | preset paper: vio / return (satisfied) |"
            " default: vio / return (satisfied) |", "|---|---|---|---|"]  # fmt: skip
    for name in TABLES["all"].problems:
        printed = PUBLISHED[name, "scrl"]
        ours = [
            _scaled(found[Cell(name, "scrl", Terms(preset=preset))][1])
            for preset in ("paper", None)
        ]
        cells = [name, f"{printed.violation:g} / {printed.return_:g}", *ours]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _scaled(result: TrainingResult) -> str:
    judged = [each.evaluation for each in result.seeds]
    violation = sum(each.cons_vio for each in judged) / len(judged) / PAPER_SCALE
    return_ = sum(each.return_ for each in judged) / len(judged) / PAPER_SCALE
    return f"{violation:.2f} / {return_:.2f} ({result.satisfied} of {len(judged)})"


def _table(name: str, folder: Path, terms: Terms = EQUAL) -> str:
    """A table of the paper, and its files beside the page."""
    table = TABLES[name]
    rows = run_bench(table, cells_of(table, terms=terms), folder).rows
    results, name = DOCS / "results", f"{terms.prefix}{name}"
    (results / f"{name}.csv").write_text(as_csv(rows), encoding="utf-8")
    (results / f"{name}.tex").write_text(latex(table, rows), encoding="utf-8")
    return markdown(table, rows).strip()


def ablation(folder: Path) -> str:
    """A row for each variant of SCRL, a column for each problem; "-" where no run is finished."""
    table = TABLES["ablation"]
    cells = [
        cell for cell in cells_of(table) if (folder / cell.folder / "result.json").exists()
    ]  # fmt: skip
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
    rows: Sequence[Row] = run_bench(table, cells_of(table), folder).rows
    (DOCS / "results" / "all.csv").write_text(as_csv(rows), encoding="utf-8")
    return markdown(table, [row for row in rows if row.cell.method in MORE]).strip()


def sources(found: Found) -> str:
    """Commits and machines behind the runs."""
    known = sorted({(run.record.commit, run.record.device) for run, _ in found.values()})
    return "; ".join(f"commit {commit}, {device}" for commit, device in known) + "."


if __name__ == "__main__":
    main()
