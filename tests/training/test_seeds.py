"""Seeds: same bits for the same, others for another; folders in use are left alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import scrl
from scrl.errors import ScrlError
from scrl.problems import Problem
from scrl.runs.folder import RunError, RunFolder
from scrl.training.result import TrainingResult

from .small import (
    assert_same_bits,
    contents,
    leaves,
    train,
)


@pytest.mark.parametrize("name", ["ppo", "ddpg"])
def test_the_same_seed_gives_the_same_bits(
    problem: Problem, tmp_path: Path, whole: Callable[[str], TrainingResult], name: str
) -> None:
    again = train(problem, name, tmp_path / "again")
    assert_same_bits(again.run, whole(name).run)


def test_another_seed_learns_something_else(
    problem: Problem, tmp_path: Path, whole: Callable[[str], TrainingResult]
) -> None:
    other = train(problem, "ppo", tmp_path / "other", seed=5)
    assert [each.seed for each in other.seeds] == [5, 6]
    policies = [
        leaves(scrl.load_policy(run, seed))
        for run, seed in [(whole("ppo").run, 0), (whole("ppo").run, 1), (other.run, 5)]
    ]
    assert policies[0] != policies[1]
    assert policies[0] != policies[2]
    losses = {
        row["loss"]
        for run in (whole("ppo").run, other.run)
        for row in RunFolder.open(run).metrics()
        if row["iteration"] == 1
    }
    assert len(losses) == 4


def test_a_seed_learns_the_same_whatever_stands_beside_it(
    problem: Problem, tmp_path: Path, whole: Callable[[str], TrainingResult]
) -> None:
    swapped = train(problem, "ppo", tmp_path / "swapped", seeds=[1, 0])
    for one in (0, 1):
        rows, others = (
            [row for row in RunFolder.open(run).metrics() if row["seed"] == one]
            for run in (whole("ppo").run, swapped.run)
        )
        for row, other in zip(rows, others, strict=True):
            assert row == pytest.approx(other, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize(
    "seeds", [{"seeds": 0}, {"seeds": []}, {"seeds": [1, 1]}, {"seeds": [3, -1]}, {"seed": -1}]
)
def test_seeds_that_are_none_the_same_or_negative_are_refused(
    problem: Problem, tmp_path: Path, seeds: dict[str, Any]
) -> None:
    with pytest.raises(ScrlError, match="different whole numbers of at least 0"):
        train(problem, "ppo", tmp_path / "run", **seeds)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_not_empty_is_refused_and_left_as_it_is(
    problem: Problem, tmp_path: Path, copied: Path
) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "letter.txt").write_text("keep me")
    before = contents(tmp_path)
    with pytest.raises(RunError, match=r"choose another --out$"):
        train(problem, "ppo", tmp_path / "letters")
    with pytest.raises(RunError, match=r"or resume it with --resume .*copied$"):
        train(problem, "ppo", copied)
    assert contents(tmp_path) == before
