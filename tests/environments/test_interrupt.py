"""Ctrl-C in a terminal reaches all processes: the round ends, all is saved, nobody is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scrl.runs.folder import RunFolder

SCRIPT = """
import sys
import gymnasium
import scrl
from scrl.training.loop import InterruptedTrainingError

def make():
    return gymnasium.make("Pendulum-v1", disable_env_checker=True)

def watch(now):
    print("round", now.rounds, flush=True)

if __name__ == "__main__":
    settings = {"worlds": 2, "rollout_steps": 200, "iterations": 100000, "episodes": 2, "width": 4,
                "depth": 0, "epochs": 1, "minibatches": 1}
    try:
        scrl.train(make, labels=lambda seen: [seen[1] > 0], regions=["left"], rules="left >= 60",
                   processes=True, settings=settings, out=sys.argv[1], watch=watch)
    except InterruptedTrainingError as error:
        print(error)
        sys.exit(130)
"""


def processes_of(group: int) -> list[int]:
    """The living processes of a group, by what the system says of each."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, of_group = path.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(of_group) == group and state != "Z":
            found.append(int(path.parent.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ctrl_c_saves_and_leaves_nobody_behind(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    out = tmp_path / "run"
    started = subprocess.Popen(
        [sys.executable, str(script), str(out)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with started:
        assert started.stdout is not None
        assert started.stdout.readline() == "round 1\n"
        assert len(processes_of(started.pid)) >= 3
        os.killpg(started.pid, signal.SIGINT)
        rest = started.stdout.read()
    assert started.returncode == 130
    assert f"interrupted; all is saved in {out}" in rest
    for _ in range(100):
        if not processes_of(started.pid):
            break
        time.sleep(0.1)
    assert processes_of(started.pid) == []
    assert (out / "checkpoint" / "checkpoint.json").is_file()
    assert len(RunFolder.open(out).metrics()) >= 1
