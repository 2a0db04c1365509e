"""The Ray engine against the local one: the same tables, whoever is killed.

What is compared with the local engine, or joins a running cluster, stands in this file: both are
there once.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import scrl.bench.engines.ray as engine
from scrl.bench import BenchProgress, Workers
from scrl.bench.engines import worker
from scrl.errors import ScrlError
from scrl.problems import load
from scrl.runs.files import sha256
from scrl.runs.folder import RunFolder
from scrl.training.config import configure
from scrl.training.loop import DivergedError
from scrl.training.maps import create_run

from ...runs.small import rewrite
from .small import (
    CELLS,
    ROUNDS,
    SEEDS,
    arguments,
    assert_same,
    assert_same_run,
    bench,
    children,
    environment,
)

ray = pytest.importorskip("ray")


class Watching:
    """Keeps what it is told, and does something at every round."""

    def __init__(self, at_round: Any = lambda now: None) -> None:
        self.seen: list[BenchProgress] = []
        self.said: list[str] = []
        self.at_round = at_round

    def __call__(self, now: BenchProgress) -> None:
        self.seen.append(now)
        if now.run is not None:
            self.at_round(now)

    def say(self, text: str) -> None:
        self.said.append(text)


def unfinished(out: Path, local: Path, cell: Any) -> Path:
    """A copy of a run of the local engine that only has to be evaluated."""
    shutil.copytree(local / cell.folder, out / cell.folder)
    (out / cell.folder / "result.json").unlink()
    return out / cell.folder


def spoil(run: Path) -> None:
    """One round less, and no number in the state is one."""
    mark = run / "checkpoint" / "checkpoint.json"
    document = json.loads(mark.read_text())
    state = mark.with_name(document["state"])
    leaves = []
    with state.open("rb") as file:
        while file.tell() < state.stat().st_size:
            leaf = np.load(file)
            leaves.append(np.full_like(leaf, np.nan) if leaf.dtype.kind == "f" else leaf)
    with state.open("wb") as file:
        for leaf in leaves:
            np.save(file, leaf)
    rewrite(mark, iteration=ROUNDS - 1, sha256=sha256(state))


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> dict[Path, int]:
    """The process that has each run, by its folder; all of them save every round."""
    found: dict[Path, int] = {}
    begin = engine._Head._begin

    def noting(head: Any, attempt: Any) -> None:
        found.update({job.path: int(attempt.who["process"]) for job in attempt.pack})
        begin(head, attempt)

    monkeypatch.setattr(engine._Head, "_begin", noting)
    monkeypatch.setattr("scrl.training.loop.CHECKPOINT_EVERY_S", -1.0)
    return found


def test_a_worker_that_is_killed_loses_no_run_and_doubles_none(
    two: Workers, local: Path, tmp_path: Path, workers: dict[Path, int]
) -> None:
    killed: list[Path] = []

    def kill(now: BenchProgress) -> None:
        assert now.run is not None
        is_saved = (now.run.run / "checkpoint" / "checkpoint.json").exists()
        if not killed and is_saved and now.run.rounds < ROUNDS - 20:
            killed.append(now.run.run)
            os.kill(workers[now.run.run], signal.SIGKILL)

    watching = Watching(kill)
    bench(tmp_path, watching, workers=two)
    assert_same(tmp_path, local)
    [text] = watching.said
    assert "was lost" in text
    assert "goes on from the last checkpoint (try 2 of 4)" in text
    # The second worker began where the first had saved, not anew.
    rounds = [now.run.rounds for now in watching.seen if now.run and now.run.run == killed[0]]
    assert rounds == sorted(rounds)
    # What was seen on the way is what a local bench shows.
    assert [now.done for now in watching.seen if now.run is None] == [1, 2]
    assert all(0.0 < now.share <= 1.0 for now in watching.seen)
    seen = [now.run for now in watching.seen if now.run is not None]
    assert {run.run for run in seen} == {tmp_path / cell.folder for cell in CELLS}
    assert all(run.metrics.return_.shape == (SEEDS,) for run in seen)
    assert watching.seen[-1].left_s == 0.0
    assert not ray.is_initialized()


def test_a_run_that_loses_all_its_workers_is_named_and_the_others_are_finished(
    two: Workers, local: Path, tmp_path: Path, workers: dict[Path, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    unlucky, other = (unfinished(tmp_path, local, cell) for cell in CELLS)
    begin = engine._Head._begin

    def killing(head: Any, attempt: Any) -> None:
        begin(head, attempt)
        if unlucky in workers:
            os.kill(workers.pop(unlucky), signal.SIGKILL)

    monkeypatch.setattr(engine._Head, "_begin", killing)
    monkeypatch.setattr(engine, "MOST_TRIES", 2)
    watching = Watching()
    with pytest.raises(engine.LostWorkerError, match=r"med-priority scrl: 2 workers were lost"):
        bench(tmp_path, watching, workers=two)
    assert [text.partition("(")[2] for text in watching.said] == ["try 2 of 2)"]
    assert_same_run(tmp_path, local, CELLS[1])
    assert other.exists()
    assert not (unlucky / "result.json").exists()
    assert not (tmp_path / "table4.md").exists()


def test_an_error_of_a_run_comes_home_and_the_others_are_finished(
    two: Workers, local: Path, tmp_path: Path
) -> None:
    bad, _ = (unfinished(tmp_path, local, cell) for cell in CELLS)
    spoil(bad)
    watching = Watching()
    with pytest.raises(DivergedError, match=f"diverged in round {ROUNDS} ") as diverged:
        bench(tmp_path, watching, workers=two)
    kept = f"The last good checkpoint, of round {ROUNDS - 1}, is kept in {bad};"
    assert kept in str(diverged.value)
    assert watching.said == []
    assert_same_run(tmp_path, local, CELLS[1])
    assert not (bad / "result.json").exists()


def test_another_scrl_on_a_worker_is_refused_before_anything_is_written(
    two: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "identity", lambda: {"scrl": "0.0.9"})
    with pytest.raises(ScrlError, match=r"another version: scrl 0\..*, here 0\.0\.9; install"):
        bench(tmp_path / "out", workers=two)
    assert not (tmp_path / "out").exists()


def test_a_cluster_that_was_joined_before_is_used_and_not_left(
    cluster: str, tmp_path: Path
) -> None:
    with ray.init(address=cluster, log_to_driver=False, logging_level="ERROR"):
        with pytest.raises(ScrlError, match="no machine of the cluster has 3 cores for a worker"):
            bench(tmp_path, workers=Workers(cores=3))
        assert ray.is_initialized()


def test_a_cluster_that_is_joined_by_its_address_is_left_running(
    cluster: str, local: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        arguments(tmp_path, "--tasks", "agri-priority", "--engine", "ray"),
        env=environment() | {"RAY_ADDRESS": cluster}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "100% agri-priority scrl (1 of 1 runs done) 0:00:00 left"
    assert_same_run(tmp_path, local, CELLS[1])
    with ray.init(address=cluster, log_to_driver=False, logging_level="ERROR"):
        assert ray.cluster_resources()["CPU"] == 2.0


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_ctrl_c_saves_leaves_nothing_behind_and_either_engine_goes_on(
    local: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    started = subprocess.Popen(
        arguments(out, "--engine", "ray", "--workers", "2"), env=environment(), text=True,
        start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    folders = [out / cell.folder for cell in CELLS]
    end = time.monotonic() + 120
    while started.poll() is None and time.monotonic() < end and not all(
        (folder / "run.json").exists() for folder in folders
    ):  # fmt: skip
        time.sleep(0.2)
    below = children(started.pid)
    assert len(below) > 4
    # Ctrl-C in a terminal goes to all processes of its group.
    os.killpg(started.pid, signal.SIGINT)
    _, said = started.communicate(timeout=120)
    assert started.returncode == 130, said
    assert "everything is saved. Resume with: the same command again" in said
    assert "Traceback" not in said
    # A process that has been told to end is still listed until the system has cleared it away.
    end = time.monotonic() + 10
    while (
        left := [pid for pid in below if Path(f"/proc/{pid}").exists()]
    ) and time.monotonic() < end:
        time.sleep(0.1)
    assert not left
    assert not list(Path("/tmp").glob(f"scrl-ray-{started.pid}-*"))  # noqa: S108
    stopped = [folder for folder in folders if not (folder / "result.json").exists()]
    assert stopped
    for folder in stopped:
        rounds = json.loads((folder / "checkpoint" / "checkpoint.json").read_text())["iteration"]
        assert 1 <= rounds <= ROUNDS
    bench(out, engine="local", workers=None)
    assert_same(out, local)


def test_a_run_remembers_the_device_of_the_worker_that_begins_it(tmp_path: Path) -> None:
    record = create_run(load("agri-joint"), configure(), (0,), tmp_path / "run").folder
    record.trained_on("abacus")
    assert RunFolder.open(tmp_path / "run").record.device == "abacus"
    worker._opened(tmp_path / "run")
    assert RunFolder.open(tmp_path / "run").record.device == jax.devices()[0].device_kind
