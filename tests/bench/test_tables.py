"""Which runs stand behind a table."""

from __future__ import annotations

import pytest

from scrl.bench import TABLES, cells_of, find_table
from scrl.bench.tables import PUBLISHED, PUBLISHED_SPLIT
from scrl.errors import ScrlError
from scrl.problems import builtin_names


def test_the_tables_hold_what_the_paper_prints() -> None:
    for name, count in [("table1", 34), ("table2", 8), ("table3", 8), ("table4", 4)]:
        cells = [(cell.problem, cell.method) for cell in cells_of(TABLES[name])]
        assert len(cells) == len(set(cells)) == count
        assert all(cell in PUBLISHED for cell in cells)
    assert {(cell.problem, cell.method) for cell in cells_of(TABLES["table2"])} == set(
        PUBLISHED_SPLIT
    )
    assert {name for name, _ in PUBLISHED} == set(builtin_names())


def test_our_own_tables_hold_the_runs_of_all_others() -> None:
    every = {cell.folder for cell in cells_of(TABLES["all"])}
    assert len(every) == 63
    for name in ("table1", "table2", "table3", "table4"):
        assert {cell.folder for cell in cells_of(TABLES[name])} <= every
    windy = [cell.folder for cell in cells_of(TABLES["wind"])]
    assert windy[0] == "wind-agri-situational-scrl"
    assert not every & set(windy)
    assert len(cells_of(TABLES["preset"])) == 7


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
