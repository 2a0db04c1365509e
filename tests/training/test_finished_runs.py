"""What a training gives: a result as the contract asks for, metrics, the best policy."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import scrl
from scrl.problems import Problem
from scrl.runs.files import rounded
from scrl.runs.folder import RunFolder
from scrl.training.progress import TrainingProgress
from scrl.training.result import TrainingResult

from .small import (
    LEARNERS,
    LOOP,
    ROUNDS,
    Stopped,
    assert_same_bits,
    stop_after,
    train,
)


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_and_penalty_trains_and_says_what_the_contract_asks_for(
    whole: Callable[[str], TrainingResult], name: str
) -> None:
    result = whole(name)
    document = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert (document["problem"], document["method"]) == ("small", "scrl")
    assert [each["seed"] for each in document["seeds"]] == [0, 1]
    assert document["satisfied"] == sum(each["satisfied"] for each in document["seeds"])
    assert document["wall_s"] > 0
    assert {"gap_mean", "gap_worst", "env_steps"} <= document.keys()
    for each in document["seeds"]:
        assert {
            "return", "density", "density_se", "cons_vio", "satisfied", "rules", "episodes",
            "episodes_satisfied", "steps", "seed", "gap", "run",
        } <= each.keys()  # fmt: skip
        assert each["density"].keys() == {"S1", "S2"}
        assert each["satisfied"] is (each["gap"] is not None)
        if each["gap"] is not None:
            bound = document["bound"]
            assert each["gap"] == pytest.approx((bound - each["return"]) / abs(bound))
            assert each["gap"] >= 0
        assert each["run"] == str(result.run)
    folder = RunFolder.open(result.run)
    assert folder.record.settings["penalty"] == LEARNERS[name]["penalty"]
    assert folder.result() == rounded(document)


def test_every_round_of_every_seed_is_logged_and_every_step_counted(
    whole: Callable[[str], TrainingResult],
) -> None:
    result = whole("ppo")
    rows = RunFolder.open(result.run).metrics()
    assert [(row["iteration"], row["seed"]) for row in rows] == [
        (round_, seed) for round_ in range(1, ROUNDS + 1) for seed in (0, 1)
    ]
    # Learning: 4 rounds x 2 worlds x 32 steps x 2 seeds = 512; the rest is measured, and the first
    # drive of each seed at a throttle of 0.6 takes 20 steps.
    assert result.env_steps == 512 + sum(row["steps"] for row in rows) + 2 * 20
    # S2 <= 10 never holds: its kappa grows in every round.
    kappas = [row["kappa/0"] for row in rows if row["seed"] == 0]
    assert kappas == sorted(set(kappas))
    assert kappas[0] == 0.0


def test_steps_are_the_whole_budget_also_when_a_run_goes_on(
    problem: Problem, tmp_path: Path, saves_every_round: None
) -> None:
    options: dict[str, Any] = {"steps": 600, "settings": LOOP | LEARNERS["ppo"]["settings"]}
    result = train(problem, "ppo", tmp_path / "whole", **options)
    assert 2 * 500 < result.env_steps <= 2 * 600
    with pytest.raises(Stopped):
        train(problem, "ppo", tmp_path / "stopped", **options, watch=stop_after(7))
    scrl.resume(tmp_path / "stopped")
    assert_same_bits(tmp_path / "whole", tmp_path / "stopped")


def test_the_policy_handed_out_is_the_best_that_was_measured(
    whole: Callable[[str], TrainingResult],
) -> None:
    result = whole("ppo")
    rows = RunFolder.open(result.run).metrics()
    for each in result.seeds:
        kept = [row["return"] for row in rows if row["seed"] == each.seed and row["violation"] == 0]
        assert each.evaluation.return_ == pytest.approx(max(kept), rel=1e-5)
        assert each.is_satisfied


def test_a_watcher_sees_every_round(problem: Problem, tmp_path: Path) -> None:
    seen: list[TrainingProgress] = []
    result = train(problem, "ppo", tmp_path / "run", watch=seen.append)
    assert [now.rounds for now in seen] == list(range(1, ROUNDS + 1))
    assert {now.rounds_in_all for now in seen} == {ROUNDS}
    assert {now.run for now in seen} == {result.run}
    assert seen[-1].env_steps == result.env_steps
    assert seen[0].metrics.density.shape == (2, 2)


def test_without_out_a_run_gets_a_new_folder(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = {train(problem, "ppo", out=None).run for _ in range(2)}
    assert {run.parent for run in runs} == {Path("runs")}
    assert all(run.name.startswith("small-scrl-") for run in runs)
    assert len(runs) == 2


def test_a_thread_may_train_though_it_gets_no_signals(
    problem: Problem, tmp_path: Path, whole: Callable[[str], TrainingResult]
) -> None:
    worker = threading.Thread(target=train, args=(problem, "ppo", tmp_path / "run"))
    worker.start()
    worker.join()
    assert_same_bits(tmp_path / "run", whole("ppo").run)
