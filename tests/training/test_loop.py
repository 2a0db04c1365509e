"""However a run is interrupted, it goes on and ends with the same bits."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import scrl
from scrl.errors import UnfinishedError
from scrl.problems import Problem
from scrl.runs.folder import RunError, RunFolder
from scrl.training import loop
from scrl.training.loop import InterruptedTrainingError
from scrl.training.progress import TrainingProgress
from scrl.training.result import TrainingResult

from .small import (
    ROUNDS,
    Stopped,
    assert_same_bits,
    contents,
    stop_after,
    train,
)


@pytest.mark.usefixtures("saves_every_round")
@pytest.mark.parametrize("name", ["ppo", "ddpg"])
@pytest.mark.parametrize("stop", [1, 3, 4, 7, ROUNDS])
def test_a_run_that_was_stopped_ends_with_the_same_bits(
    problem: Problem,
    tmp_path: Path,
    whole: Callable[[str], TrainingResult],
    name: str,
    stop: int,
) -> None:
    run = tmp_path / "run"
    with pytest.raises(Stopped):
        train(problem, name, run, watch=stop_after(stop))
    seen: list[int] = []
    result = scrl.resume(run, watch=lambda now: seen.append(now.rounds))
    assert isinstance(result, TrainingResult)
    assert seen == list(range(stop + 1, ROUNDS + 1))
    assert_same_bits(run, whole(name).run)
    assert result.env_steps == whole(name).env_steps


@pytest.mark.usefixtures("saves_every_round")
def test_what_happened_after_the_last_checkpoint_happens_again(
    problem: Problem,
    tmp_path: Path,
    whole: Callable[[str], TrainingResult],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = tmp_path / "run"

    def watch(now: TrainingProgress) -> None:
        if now.rounds == 2:
            monkeypatch.setattr(loop, "CHECKPOINT_EVERY_S", 1e9)
        stop_after(6)(now)

    with pytest.raises(Stopped):
        train(problem, "ppo", run, watch=watch)
    assert len(RunFolder.open(run).metrics()) == 2 * 6
    seen: list[int] = []
    scrl.resume(run, watch=lambda now: seen.append(now.rounds))
    assert seen[0] == 3
    assert_same_bits(run, whole("ppo").run)


@pytest.mark.usefixtures("saves_every_round")
def test_a_run_without_a_checkpoint_starts_again(
    problem: Problem, tmp_path: Path, whole: Callable[[str], TrainingResult]
) -> None:
    run = tmp_path / "run"
    with pytest.raises(Stopped):
        train(problem, "ppo", run, watch=stop_after(2))
    scrl.resume(run)
    assert_same_bits(run, whole("ppo").run)


@pytest.mark.parametrize("pressed", [1, 4, ROUNDS - 1])
def test_ctrl_c_ends_the_round_and_saves_it(
    problem: Problem, tmp_path: Path, whole: Callable[[str], TrainingResult], pressed: int
) -> None:
    before = signal.getsignal(signal.SIGINT)

    def watch(now: TrainingProgress) -> None:
        if now.rounds == pressed:
            os.kill(os.getpid(), signal.SIGINT)

    run = tmp_path / "run"
    with pytest.raises(InterruptedTrainingError, match="all is saved in") as stopped:
        train(problem, "ppo", run, watch=watch)
    assert stopped.value.run == run
    assert signal.getsignal(signal.SIGINT) is before
    mark = json.loads((run / "checkpoint" / "checkpoint.json").read_text())
    assert mark["iteration"] == pressed + 1
    scrl.resume(run)
    assert_same_bits(run, whole("ppo").run)


def test_ctrl_c_twice_does_not_wait_for_the_round(problem: Problem, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)

    def watch(now: TrainingProgress) -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match=r"nothing was saved yet, and .*run is removed"):
        train(problem, "ppo", tmp_path / "run", watch=watch)
    assert signal.getsignal(signal.SIGINT) is before
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("saves_every_round")
@pytest.mark.parametrize(
    ("trouble", "error", "message"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt, "it is saved up to iteration 2 in "),
        (
            OSError(errno.ENOSPC, "No space left on device", "metrics.jsonl"),
            UnfinishedError,
            r"metrics.jsonl: No space left on device\. Training has stopped; it is saved up to "
            r"iteration 2 in .*resume with `scrl train --resume '.*/my run'`",
        ),
    ],
)
def test_training_that_cannot_go_on_says_what_is_kept(
    problem: Problem,
    tmp_path: Path,
    trouble: BaseException,
    error: type[BaseException],
    message: str,
) -> None:
    def watch(now: TrainingProgress) -> None:
        if now.rounds == 2:
            raise trouble

    with pytest.raises(error, match=message):
        train(problem, "ppo", tmp_path / "my run", watch=watch)
    assert (tmp_path / "my run" / "checkpoint" / "checkpoint.json").is_file()


def test_a_finished_run_is_read_and_not_trained_again(
    copied: Path, whole: Callable[[str], TrainingResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrl.training.maps.DeviceRounds", None)
    before = contents(copied)
    found = scrl.resume(copied)
    assert found.seeds == whole("ppo").seeds
    assert found.wall_s == whole("ppo").wall_s
    assert found.run == copied
    assert contents(copied) == before


@pytest.mark.usefixtures("saves_every_round")
def test_a_damaged_checkpoint_gives_way_to_the_one_before_and_that_is_said(
    problem: Problem, tmp_path: Path, whole: Callable[[str], TrainingResult]
) -> None:
    run = tmp_path / "run"
    with pytest.raises(Stopped):
        train(problem, "ppo", run, watch=stop_after(3))
    states = sorted((run / "checkpoint").glob("*.eqx"))
    assert len(states) == 2
    shutil.copytree(run, tmp_path / "worse")
    states[1].write_bytes(states[1].read_bytes()[:-1])
    seen: list[int] = []
    with pytest.warns(UserWarning, match=r"damaged: .* checkpoint before it \(round 2\)"):
        scrl.resume(run, watch=lambda now: seen.append(now.rounds))
    assert seen == list(range(3, ROUNDS + 1))
    assert_same_bits(run, whole("ppo").run)
    for state in (tmp_path / "worse" / "checkpoint").glob("*.eqx"):
        state.write_bytes(state.read_bytes()[:-1])
    with pytest.raises(RunError, match=f"{states[1].name}: damaged: its checksum"):
        scrl.resume(tmp_path / "worse")
