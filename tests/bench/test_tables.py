"""Which runs stand behind a table."""

from __future__ import annotations

import pytest

from scrl.bench import TABLES, Cell, Terms, cells_of, find_table
from scrl.bench.tables import ALL_OFF, BUDGET, PUBLISHED, PUBLISHED_SPLIT
from scrl.errors import ScrlError
from scrl.problems import builtin_names


def test_the_tables_hold_what_the_paper_prints() -> None:
    for name, count in [("table1", 34), ("table2", 8), ("table3", 8), ("table4", 4)]:
        cells = [(cell.problem, cell.method) for cell in cells_of(TABLES[name])]
        assert len(cells) == len(set(cells))
        assert len([cell for cell in cells if cell in PUBLISHED]) == count
    assert {(cell.problem, cell.method) for cell in cells_of(TABLES["table2"])} == set(
        PUBLISHED_SPLIT
    )
    assert {name for name, _ in PUBLISHED} == set(builtin_names())


def test_our_own_tables_hold_the_runs_of_all_others() -> None:
    every = {cell.folder for cell in cells_of(TABLES["all"])}
    assert len(every) == 91
    for name in ("table1", "table2", "table3", "table4"):
        assert {cell.folder for cell in cells_of(TABLES[name])} <= every
    terms = Terms(preset="paper", wind=0.1, steps=5_000)
    others = [cell.folder for cell in cells_of(TABLES["table4"], terms=terms)]
    assert others[1] == "preset-paper-wind-0.1-steps-5000-med-priority-scrl"
    assert not every & set(others)


def test_the_branches_share_the_budget_of_one_run() -> None:
    def parts(problem: str, steps: int | None = None) -> list[tuple[str, int]]:
        cell = Cell(problem, "best-branch", Terms(steps=steps))
        return [(run.method, run.budget) for run in cell.runs()]

    assert parts("agri-multi", 100) == [(f"dcrl-{k}", 25) for k in (1, 2, 3, 4)]
    assert parts("med-joint") == [("dcrl-1", BUDGET)]
    assert Cell("med-joint", "best-branch").runs() == (Cell("med-joint", "dcrl-1"),)


def test_the_ablation_changes_one_part_at_a_time() -> None:
    cells = cells_of(TABLES["ablation"], problems=["agri-joint"])
    changed = {cell.label: {key for key, _ in cell.changes} for cell in cells}
    assert changed.pop("scrl") == set()
    whole = {key: changed.pop(key) for key in ("all off", "the paper's settings")}
    assert whole["all off"] == set(ALL_OFF)
    assert max(map(len, changed.values())) <= 2
    assert len({frozenset(each) for each in changed.values()}) == len(changed) == 8
    assert cells[0].folder == "agri-joint-scrl"  # the same run as in the other tables
    assert cells[-1].folder == "agri-joint-the-papers-settings"


def test_dcrl_stands_for_as_many_methods_as_there_are_disjuncts() -> None:
    def methods(table: str, problem: str) -> list[str]:
        cells = cells_of(TABLES[table], problems=[problem], methods=["dcrl"])
        return [cell.method for cell in cells]

    assert methods("table1", "agri-situational") == ["dcrl-1", "dcrl-2"]
    assert methods("table1", "agri-joint") == ["dcrl-1"]
    assert methods("table3", "agri-multi") == ["dcrl-1", "dcrl-2", "dcrl-3", "dcrl-4"]


def test_a_part_of_a_table_may_be_asked_for_and_other_methods_added() -> None:
    cells = cells_of(TABLES["table1"], problems=["med-joint"], methods=["ppo-lagrangian", "scrl"])
    assert [cell.folder for cell in cells] == ["med-joint-ppo-lagrangian", "med-joint-scrl"]


def test_a_sweep_gives_every_combination_a_run_of_its_own() -> None:
    sweep = {"sharpness": (1, 2.5), "is_netted": (True,)}
    cells = cells_of(TABLES["table1"], problems=["med-joint"], methods=["scrl", "cal"], sweep=sweep)
    assert [cell.folder for cell in cells] == [
        "med-joint-scrl-sharpness=1-is_netted=True",
        "med-joint-scrl-sharpness=2.5-is_netted=True",
        "med-joint-cal-sharpness=1-is_netted=True",
        "med-joint-cal-sharpness=2.5-is_netted=True",
    ]
    assert cells[1].label == "scrl sharpness=2.5 is_netted=True"


@pytest.mark.parametrize(
    ("problems", "methods", "message"),
    [
        (["agri-multi"], None, "table1 has no task 'agri-multi'"),
        (["agri-jiont"], None, "did you mean 'agri-joint'"),
        (None, ["slcr"], "unknown method 'slcr'"),
    ],
)
def test_what_is_not_there_is_named(
    problems: list[str] | None, methods: list[str] | None, message: str
) -> None:
    with pytest.raises(ScrlError, match=message):
        cells_of(TABLES["table1"], problems=problems, methods=methods)


def test_an_unknown_table_is_named() -> None:
    with pytest.raises(ScrlError, match="unknown table 'table11': did you mean 'table1'"):
        find_table("table11")
