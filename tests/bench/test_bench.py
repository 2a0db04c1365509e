"""A bench at a tiny budget: stopped, gone on with, and the same table in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scrl.bench import TABLES, BenchProgress, Terms, cells_of, run_bench
from scrl.errors import ScrlError
from scrl.runs.folder import RunFolder
from scrl.training.result import read_result

TABLE = TABLES["table4"]
CELLS = cells_of(TABLE, problems=["agri-priority"])
TINY = {"worlds": 2, "rollout_steps": 32, "iterations": 3, "settle": 0, "width": 4, "depth": 1}
FEW = {**TINY, "iterations": 1, "worlds": 1, "rollout_steps": 16, "depth": 0}
WRITTEN = [f"table4.{ending}" for ending in ("md", "csv", "tex")]


class Stopped(Exception):  # noqa: N818 (nothing is wrong)
    """What ends a bench in the middle here."""


def bench(
    out: Path,
    watch: Callable[[BenchProgress], None] | None = None,
    *,
    seeds: int = 2,
    settings: Mapping[str, Any] = TINY,
    is_quick: bool = False,
) -> dict[str, str]:
    """The written tables."""
    run_bench(TABLE, CELLS, out, watch=watch, seeds=seeds, settings=settings, is_quick=is_quick)
    return {name: (out / name).read_text() for name in WRITTEN}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    out = tmp_path_factory.mktemp("whole")
    return out, bench(out)


@pytest.mark.parametrize("stop", [(0, 1), (1, 2)])
def test_a_bench_that_was_stopped_ends_with_the_same_table(
    tmp_path: Path, whole: tuple[Path, dict[str, str]], stop: tuple[int, int]
) -> None:
    def watch(now: BenchProgress) -> None:
        if now.run is not None and (now.done, now.run.rounds) == stop:
            raise Stopped

    with pytest.raises(Stopped):
        bench(tmp_path, watch)
    assert not any((tmp_path / name).exists() for name in WRITTEN)
    assert bench(tmp_path) == whole[1]


def test_finished_runs_are_read_and_not_trained_again(
    whole: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrl.training.maps.DeviceRounds", None)
    out, written = whole
    seen: list[BenchProgress] = []
    assert bench(out, seen.append) == written
    assert [(now.done, now.in_all, now.run, now.left_s) for now in seen] == [
        (1, 2, None, None), (2, 2, None, None),
    ]  # fmt: skip


def test_a_quick_bench_says_so_in_its_files(whole: tuple[Path, dict[str, str]]) -> None:
    written = bench(whole[0], is_quick=True)
    assert written.keys() == whole[1].keys() == set(WRITTEN)
    assert all("(--quick)" in text for text in written.values())
    assert not any("(--quick)" in text for text in whole[1].values())


@pytest.mark.parametrize("options", [{"seeds": 3}, {"settings": TINY | {"width": 5}}])
def test_runs_with_other_seeds_or_settings_are_not_taken_for_these(
    whole: tuple[Path, dict[str, str]], options: dict[str, Any]
) -> None:
    with pytest.raises(ScrlError, match="holds a run with other seeds or settings"):
        bench(whole[0], **options)


def test_wind_a_preset_and_a_budget_hold_for_every_run(tmp_path: Path) -> None:
    terms = Terms(preset="paper", wind=0.1, steps=20)
    cells = cells_of(TABLE, problems=["agri-priority"], methods=["scrl", "ddpg"], terms=terms)
    small = {key: FEW[key] for key in ("worlds", "rollout_steps", "width", "depth")}
    small |= {"settle": 0, "buffer_size": 64, "batch_size": 8, "updates": 1, "episodes": 1}
    result = run_bench(TABLE, cells, tmp_path, seeds=1, settings=small)
    for cell, row in zip(cells, result.rows, strict=True):
        folder = RunFolder.open(tmp_path / cell.folder)
        assert folder.problem().world_spec.is_random
        assert folder.record.settings["learner"] == "ddpg"
        assert folder.record.settings["settings"]["budget"] == row.budget == 20
    assert [row.told for row in result.rows] == ["the rules", "nothing"]


def test_the_best_branch_is_the_best_of_its_runs_for_every_seed(tmp_path: Path) -> None:
    cells = cells_of(TABLES["table1"], problems=["agri-situational"], methods=["best-branch"])
    result = run_bench(TABLES["table1"], cells, tmp_path, seeds=2, settings=FEW)
    runs = [RunFolder.open(tmp_path / run.folder) for run in cells[0].runs()]
    assert [run.record.method for run in runs] == ["dcrl-1", "dcrl-2"]
    found = [read_result(run, run.problem()) for run in runs]
    least = [
        min(each.evaluation.cons_vio for each in same)
        for same in zip(*(each.seeds for each in found if each is not None), strict=True)
    ]
    assert result.rows[0].violation.mean == pytest.approx(np.mean(least) / 10.0)
    assert result.rows[0].cell == cells[0]


def test_cells_of_one_shape_run_side_by_side_and_give_a_row_each(tmp_path: Path) -> None:
    table = TABLES["table1"]
    cells = cells_of(table, problems=["agri-priority", "agri-joint"], methods=["dcrl", "scrl"])
    seen: list[BenchProgress] = []
    result = run_bench(table, cells, tmp_path, seeds=1, settings=FEW, at_once=8, watch=seen.append)
    assert [row.cell for row in result.rows] == cells
    # The three DCRL-k in one call, and the two SCRL in another.
    assert [len(now.cells) for now in seen if now.run is None] == [3, 2]
    assert [now.done for now in seen if now.run is None] == [3, 5]
    shares = [now.share for now in seen if now.run is not None]
    assert shares
    assert all(0.0 < share <= 1.0 for share in shares)


def test_a_watcher_hears_of_every_round_and_of_the_time_left(tmp_path: Path) -> None:
    seen: list[BenchProgress] = []
    bench(tmp_path, seen.append)
    assert [now.done for now in seen] == [0, 0, 0, 1, 1, 1, 1, 2]
    assert [now.run is None for now in seen] == [False, False, False, True] * 2
    assert all(now.left_s is not None and now.left_s >= 0 for now in seen)
    assert seen[-1].left_s == 0


def test_what_is_swept_decides_the_runs_and_names_the_rows(tmp_path: Path) -> None:
    cells = cells_of(
        TABLE, problems=["agri-priority"], methods=["scrl"], sweep={"inset": (0.25, 3.0)}
    )
    run_bench(TABLE, cells, tmp_path, seeds=2, settings=TINY | {"iterations": 1, "inset": 7.0})
    kept = [RunFolder.open(tmp_path / cell.folder).record.settings["settings"] for cell in cells]
    assert [settings["inset"] for settings in kept] == [0.25, 3.0]
    rows = (tmp_path / "table4.md").read_text().splitlines()[2:]
    assert [row.split(" | ")[1] for row in rows] == ["scrl inset=0.25", "scrl inset=3.0"]
