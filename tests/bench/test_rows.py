"""Rows from made-up runs: scale, split, bold letters, and the three kinds of files."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np

from scrl.bench import TABLES, Cell, Row
from scrl.bench.bench import QUICK_NOTE
from scrl.bench.rows import as_csv, latex, markdown, rows_of
from scrl.evaluation import Evaluation
from scrl.problems import Problem, load
from scrl.runs.result import SeedResult
from scrl.training.result import TrainingResult
from scrl.violation import cons_vio


def run(method: str, returns: list[float], densities: list[list[float]]) -> TrainingResult:
    """A run of agri-joint whose seeds gave out these amounts."""
    atoms = load("agri-joint").atoms
    seeds = []
    for seed, (return_, density) in enumerate(zip(returns, densities, strict=True)):
        violated = float(cons_vio(atoms, np.array(density)))
        amounts = {f"S{number}": amount for number, amount in enumerate(density, start=1)}
        found = Evaluation(
            problem="agri-joint", policy=method, unit="units", return_=return_, density=amounts,
            density_se=dict.fromkeys(amounts, 0.0), cons_vio=violated, is_satisfied=violated == 0,
            rules=(), episodes=1, episodes_satisfied=0, episodes_truncated=0, steps=900.0,
        )  # fmt: skip
        seeds.append(SeedResult(seed, found, None))
    return TrainingResult("agri-joint", method, -26.24, tuple(seeds), 1.0, Path("run"), 0)


def problem_of(cell: Cell) -> Problem:
    return load(cell.problem)


KEPT = [300.0, 300.0, 600.0, 300.0, 0.0]
"""S1 + S4 = S3, and each has its 300."""
SHORT = [250.0, 300.0, 600.0, 300.0, 0.0]
"""S1 is 50 short; S3 is 50 - 6 too much."""


def rows() -> dict[str, Row]:
    results = {
        "scrl": run("scrl", [-27.0, -27.1, -27.2], [KEPT] * 3),
        "dcrl-1": run("dcrl-1", [-28.0, -28.1, -28.2], [KEPT] * 3),
        "ddpg": run("ddpg", [-21.0, -21.0, -21.0], [SHORT] * 3),
    }
    found = rows_of(
        [(Cell("agri-joint", name), each) for name, each in results.items()], problem_of
    )
    return {row.cell.method: row for row in found}


def test_figures_are_in_the_papers_scale() -> None:
    row = rows()["ddpg"]
    assert np.isclose(row.violation.mean, 9.4)
    assert np.isclose(row.return_.mean, -2.1)
    assert np.isclose(row.steps.mean, 900.0)
    assert np.isclose(row.bound or 0.0, -2.624)
    assert (row.satisfied, row.seeds) == (0, 3)
    assert [np.round(each.mean, 6) for each in row.split] == [4.4, 5.0]
    assert row.published is not None
    assert row.published.violation == 19.54


def test_the_best_return_counts_only_among_those_that_violate_least() -> None:
    found = rows()
    assert {name for name, row in found.items() if row.is_best_return} == {"scrl"}
    # Two methods share the smallest violation: neither has it alone.
    assert not any(row.is_least_violation for row in found.values())


def test_nothing_is_best_where_chance_decides() -> None:
    cells = [(Cell("agri-joint", name), run(name, [-27.0, -27.4], [KEPT] * 2)) for name in "ab"]
    assert not any(row.is_best_return for row in rows_of(cells, problem_of))
    alone = rows_of(cells[:1], problem_of)[0]
    assert not alone.is_best_return
    assert not alone.is_least_violation


def test_markdown_and_latex_hold_the_same_cells() -> None:
    found = list(rows().values())
    lines = markdown(TABLES["table1"], found).splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert lines[2].startswith("| agri-joint | scrl | the rules | 3,700,000 | 3 of 3 | 0.00 ± 0.00")
    assert "| 0.00 to 0.00 | **-2.71 ± 0.01** |" in lines[2]
    assert "| 4.31 ± 2.38 | -24.53 ± 5.07 |" in lines[2]
    text = latex(TABLES["table1"], found)
    assert text.startswith(r"\begin{tabular}{llrrrrrrrrrrrrrr}")
    assert r"\textbf{-2.71 $\pm$ 0.01}" in text
    assert "%" not in text.replace(r"\%", "")
    swept = replace(found[0], cell=replace(found[0].cell, swept=(("is_netted", True),)))
    assert r"agri-joint & scrl is\_netted=True & the rules & 3,700,000 & 3 of 3" in latex(
        TABLES["table1"], [swept]
    )
    split = markdown(TABLES["table2"], found).splitlines()
    assert "| 4.40 ± 0.00 | 5.00 ± 0.00 |" in split[4]
    assert "| 6.9 / 22.9 |" in split[4]


def test_csv_holds_every_number_unrounded() -> None:
    found = list(csv.DictReader(io.StringIO(as_csv(list(rows().values())))))
    assert [row["method"] for row in found] == ["scrl", "dcrl-1", "ddpg"]
    assert float(found[2]["violation_mean"]) == np.float64(94.0) / 10
    assert float(found[0]["return_mean"]) == np.mean(np.array([-27.0, -27.1, -27.2]) / 10)
    assert found[0]["published_return"] == "-24.53"


def test_a_quick_table_says_so_in_every_file() -> None:
    found = list(rows().values())
    assert markdown(TABLES["table1"], found, QUICK_NOTE).startswith(
        f"**{QUICK_NOTE}**\n\n| problem"
    )
    assert latex(TABLES["table1"], found, QUICK_NOTE).startswith(f"% {QUICK_NOTE}\n")
    table = csv.DictReader(io.StringIO(as_csv(found, QUICK_NOTE)))
    assert {row["note"] for row in table} == {QUICK_NOTE}
