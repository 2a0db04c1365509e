"""The paper's remark that other methods are special cases of its own: here they take its steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scrl
from scrl.problems import Problem, ProblemOptions
from scrl.runs.folder import RunFolder
from scrl.worlds.sweep.regions import from_labels
from scrl.worlds.sweep.spec import SweepSpec

from .small import LOOP, REPLAY, SHORT

SMALL = LOOP | {"epochs": 1, "minibatches": 2, "depth": 0}
LEARNING = {"settle": 0}
"""Settling, in which only kappa moves, is compared where there is one atom."""


def problem(rule: str | tuple[str, ...]) -> Problem:
    spec = SweepSpec(from_labels(np.repeat([[1] * 4 + [2] * 4], 4, axis=0)))
    return Problem.create(spec, rule, ProblemOptions(name="small"))


def learned(of: Problem, method: str, out: Path, **settings: Any) -> list[dict[str, Any]]:
    """Everything that was logged."""
    run = scrl.train(of, method=method, seeds=2, settings=SMALL | settings, out=out).run
    return RunFolder.open(run).metrics()


def assert_same_steps(rows: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    for row, other in zip(rows, others, strict=True):
        assert row == pytest.approx(other, rel=1e-4, abs=1e-6)


@pytest.fixture(scope="module")
def one_atom(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What SCRL does under `S1 >= 30`."""
    return learned(problem("S1 >= 30"), "scrl", tmp_path_factory.mktemp("one") / "scrl")


@pytest.mark.parametrize("method", ["ppo-lagrangian", "dcrl-1", "scrl-min"])
def test_with_one_atom_these_methods_are_scrl(
    tmp_path: Path, one_atom: list[dict[str, Any]], method: str
) -> None:
    """d = 1, so that lambda is kappa and beta / d is beta."""
    assert max(row["kappa/0"] for row in one_atom) > 0
    assert_same_steps(learned(problem("S1 >= 30"), method, tmp_path / method), one_atom)


def test_with_one_atom_rcpo_is_scrl_with_a_slower_actor(tmp_path: Path) -> None:
    of = problem("S1 >= 30")
    assert_same_steps(
        learned(of, "rcpo", tmp_path / "rcpo", **LEARNING),
        learned(of, "scrl", tmp_path / "scrl", **LEARNING, actor_share=0.5),
    )


@pytest.mark.parametrize(("number", "disjunct"), [(1, "S2 <= 10"), (2, "S1 >= 30")])
def test_dcrl_is_scrl_on_one_disjunct(tmp_path: Path, number: int, disjunct: str) -> None:
    both = problem("if S2 > 10 then S1 >= 30")
    whole = learned(both, f"dcrl-{number}", tmp_path / "dcrl", **LEARNING)
    alone = learned(problem(disjunct), "scrl", tmp_path / "scrl", **LEARNING)
    for rows in (whole, alone):
        for row in rows:  # they are judged by other rules
            del row["violation"], row["best_violation"]
    assert_same_steps(whole, alone)


def test_what_is_not_told_is_neither_charged_nor_chosen_by(tmp_path: Path) -> None:
    """DDPG's best is the one with the best return, whatever it breaks."""
    settings = LOOP | REPLAY | SHORT
    result = scrl.train(
        problem("S1 >= 30"), method="ddpg", seeds=2, settings=settings, out=tmp_path / "run"
    )
    rows = RunFolder.open(result.run).metrics()
    assert not any(name.startswith("kappa") for row in rows for name in row)
    for each in result.seeds:
        assert each.last is not None
        returns = [row["return"] for row in rows if row["seed"] == each.seed]
        assert each.evaluation.return_ == pytest.approx(max(returns), rel=1e-5)


def test_without_rules_nothing_is_charged(tmp_path: Path) -> None:
    rows = learned(problem(()), "scrl", tmp_path / "run", **LEARNING)
    assert not any(name.startswith("kappa") for row in rows for name in row)
    assert all(row["violation"] == 0 for row in rows)


def test_more_atoms_than_a_learner_can_take_are_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    equalities = " and ".join(f"S1 == {times}*S2 within 1" for times in (1, 2, 3, 4))
    message = "'cpo' can be told at most 6 atoms, and the reading 'cost' of these rules has 8"
    with pytest.raises(scrl.ScrlError, match=message):
        learned(problem(equalities), "cpo", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_disjunct_that_is_not_there_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    with pytest.raises(scrl.ScrlError, match="has 2 disjuncts: there is no 3"):
        learned(problem("if S2 > 10 then S1 >= 30"), "dcrl-3", tmp_path / "run")
    assert not (tmp_path / "run").exists()
