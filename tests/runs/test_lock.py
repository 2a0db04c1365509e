"""A run folder has one writer at a time, and whoever comes second hears who that is."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from scrl.api import resume
from scrl.runs.folder import RunError, RunFolder
from scrl.runs.lock import LOCK

from .small import OLD, renewed

HOLDER = """
import os, sys, time
from scrl.runs.folder import RunFolder
with RunFolder.open(sys.argv[1]).writing():
    if sys.argv[2] == "forks" and os.fork() == 0:
        print("held", flush=True)
        time.sleep(60)
    if sys.argv[2] == "holds":
        print("held", flush=True)
    time.sleep(60)
"""


def test_the_second_writer_is_told_of_the_first(run: RunFolder) -> None:
    me = f"process {os.getpid()} on {platform.node()} \\(since 20"
    with run.writing():
        assert (run.path / LOCK).exists()
        with pytest.raises(RunError, match=f"{run.path}: {me}"), run.writing():
            pass
        with pytest.raises(RunError, match=me), RunFolder.open(run.path).writing():
            pass
    assert not (run.path / LOCK).exists()
    with RunFolder.open(run.path).writing():
        pass


@pytest.mark.parametrize("how", ["holds", "forks"])
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and kill")
def test_a_killed_writer_holds_nothing_not_even_by_its_children(run: RunFolder, how: str) -> None:
    command = [sys.executable, "-c", HOLDER, str(run.path), how]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(RunError, match=f"process {holder.pid} on "), run.writing():
                pass
            holder.kill()
            holder.wait()
            with run.writing():  # a child of the killed one still sleeps
                pass
        finally:
            with suppress(ProcessLookupError):
                os.killpg(holder.pid, signal.SIGKILL)
    assert not (run.path / LOCK).exists()


def test_what_a_kill_has_left_behind_means_nothing(run: RunFolder) -> None:
    (run.path / LOCK).write_text('{"pid": 1, "host": "here", "since": "long ago"}')
    with run.writing():
        pass
    with run.writing():
        for text in ("", "{", "[]", '{"pid": "x", "host": 1, "since": null}'):
            (run.path / LOCK).write_text(text)
            with pytest.raises(RunError, match="another process is writing"), run.writing():
                pass


def test_a_run_that_is_being_trained_is_not_resumed(tmp_path: Path) -> None:
    run = renewed(OLD / "trained", tmp_path / "run")
    (run / "result.json").unlink()
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with (
        RunFolder.open(run).writing(),
        pytest.raises(RunError, match="is writing to this run, and a run has one writer"),
    ):
        resume(run)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_folder_that_is_being_made_is_not_made_twice(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    made = RunFolder(tmp_path / "new", run.record, {})
    with made.writing(), pytest.raises(RunError, match="exists already and is not empty"):
        RunFolder.create(tmp_path / "new", None, run.record)
