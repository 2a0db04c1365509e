"""Numbers that are none stop a run, and the last good checkpoint is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scrl
from scrl.problems import Problem
from scrl.runs.folder import RunFolder
from scrl.training import devices
from scrl.training.loop import DivergedError
from scrl.training.result import TrainingResult

from .small import (
    train,
)


@pytest.mark.usefixtures("saves_every_round")
@pytest.mark.parametrize("field", ["loss", "return_", "kappa"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_divergence_names_round_and_seed_and_keeps_the_last_good_checkpoint(
    problem: Problem,
    tmp_path: Path,
    whole: Callable[[str], TrainingResult],
    field: str,
    value: float,
) -> None:
    run = tmp_path / "run"
    learn = devices.DeviceRounds.learn

    def spoiled(self: devices.DeviceRounds, state: Any) -> Any:
        state, metrics = learn(self, state)
        if state.iteration[1] == 3:
            numbers = getattr(metrics, field)
            metrics = metrics._replace(**{field: numbers.at[1].set(value)})
        return state, metrics

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices.DeviceRounds, "learn", spoiled)
        with pytest.raises(DivergedError, match=r"diverged in round 3 \(seed 8\)") as diverged:
            train(problem, "ppo", run, seeds=[4, 8])
    assert "learning_rate" in str(diverged.value)
    assert "The last good checkpoint, of round 2, is kept in" in str(diverged.value)
    assert str(run) in str(diverged.value)
    assert len(RunFolder.open(run).metrics()) == 2 * 2
    seen: list[int] = []
    result = scrl.resume(run, watch=lambda now: seen.append(now.rounds))
    assert seen[0] == 3
    assert [each.seed for each in result.seeds] == [4, 8]


def test_all_seeds_that_diverged_are_named(problem: Problem, tmp_path: Path, monkeypatch) -> None:
    def spoiled(self: devices.DeviceRounds, state: Any) -> Any:
        state, metrics = devices.learn_round(self.mesh, self.tasks, state)
        return state, metrics._replace(loss=metrics.loss * np.nan)

    monkeypatch.setattr(devices.DeviceRounds, "learn", spoiled)
    with pytest.raises(DivergedError, match=r"round 1 \(seed 0, 1\).* No checkpoint had been"):
        train(problem, "ppo", tmp_path / "run")
